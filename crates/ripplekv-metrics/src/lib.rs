//! Scores and statistics of RippleKV: text in, numbers out, no file or network access.
//! Follows THUDM/LongBench `metrics.py` and `eval.py` (2e00731) to the last bit.
//!
//! ```
//! use ripplekv_metrics::{Context, find_metric, first_line, score, task_score};
//!
//! let metric = find_metric("qa-f1").expect("a name of the table");
//! let answers = vec!["Lake Garda".to_string()];
//! let value = score(metric, first_line("\nThe Lake Garda\nand more"), &answers, &Context::default())?;
//! assert_eq!(value, 1.0);
//! assert_eq!(task_score(&[value, 0.0, 0.0]), Some(33.33));
//! # Ok::<(), ripplekv_metrics::MetricError>(())
//! ```
//!
//! What is where:
//! - [`METRICS`], [`score`]: one prediction against its answers, a value in `[0, 1]`;
//! - [`first_line`], [`task_score`], [`length_bucket_scores`], [`sixteen_task_average`],
//!   [`category_average`]: what `eval.py` does around the metrics;
//! - [`best_fixed_answer`]: what one answer for all samples scores, the level that says whether a task tests anything;
//! - [`jieba`]: Chinese segmentation equal to Python jieba 0.42.1, from data passed in;
//! - [`python`]: Python's whitespace, word characters, digits, lower case and rounding;
//! - [`statistics`]: KL and JS, rank correlation, seeded bootstrap, paired comparison.
//!
//! To add a metric: write `src/metrics/<name>.rs` with a `pub(super) const INFO: MetricInfo`
//! and its `score` function, name the module in `src/metrics/mod.rs`, and add one line to
//! [`METRICS`] below. The lint tests of the table and `ripplekv ls` follow from it.

mod aggregate;
mod difflib;
mod fixed_answer;
mod fuzz;
mod indel;
pub mod jieba;
mod metric;
mod metrics;
mod numbers;
pub mod python;
mod rouge;
pub mod statistics;
mod token_f1;

pub use aggregate::{
    BucketScore, LENGTH_BUCKETS, category_average, first_line, length_bucket_scores,
    sixteen_task_average, task_score,
};
pub use fixed_answer::{Asked, FixedAnswer, best_fixed_answer};
pub use metric::{CodeSimilarity, Context, MetricError, MetricInfo, ScoreFn, find_metric, score};

/// Every metric, in the order `ripplekv ls` prints them.
pub const METRICS: &[MetricInfo] = &[
    metrics::QA_F1,
    metrics::QA_F1_ZH,
    metrics::ROUGE_L,
    metrics::ROUGE_L_ZH,
    metrics::ROUGE_1,
    metrics::ROUGE_2,
    metrics::CLASSIFICATION,
    metrics::RETRIEVAL,
    metrics::RETRIEVAL_ZH,
    metrics::COUNT,
    metrics::CODE_SIMILARITY,
];
