//! ROUGE-L as LongBench scores summaries.
//! Follows LongBench `metrics.py`, `rouge_score`, over the Python package `rouge` 1.0.1.

use crate::metric::{Context, MetricError, MetricInfo, best_of};
use crate::rouge::{WALK_LIMIT_STEPS, rouge_l};

pub(crate) const INFO: MetricInfo = MetricInfo {
    name: "rouge-l",
    summary: "summary-level ROUGE-L F over sets of words, sentences end at \".\"",
    source: "LongBench metrics.py rouge_score, rouge 1.0.1",
    range: (0.0, 1.0),
    correct_from: None,
    needs_segmenter: false,
    needs_classes: false,
    score,
};

fn score(prediction: &str, answers: &[String], _context: &Context<'_>) -> Result<f64, MetricError> {
    Ok(best_of(answers, |answer| {
        rouge_l(prediction, answer, WALK_LIMIT_STEPS)
    }))
}
