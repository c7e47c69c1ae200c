//! What a metric is: its table entry, the context it reads and the errors it can give.
//! The maximum over answers follows LongBench `eval.py`, `scorer`.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::METRICS;
use crate::jieba::Segmenter;

/// Which of the two programs behind `fuzzywuzzy.fuzz.ratio` a code score follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeSimilarity {
    /// Python's `difflib`: what a clean install of LongBench's requirements uses.
    #[default]
    Difflib,
    /// `python-Levenshtein`'s indel ratio: used by fuzzywuzzy when it is installed.
    Levenshtein,
}

/// What a metric may read besides the prediction and the answers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context<'a> {
    /// The record's `all_classes`, in its order; empty where the record has none.
    pub all_classes: &'a [String],
    /// Needed by the Chinese F1 and ROUGE only.
    pub segmenter: Option<&'a Segmenter>,
    /// Read by `code-similarity` only.
    pub code: CodeSimilarity,
}

/// Scores one prediction against all answers of a record.
///
/// Returns the largest of 0 and the scores of the single answers.
pub type ScoreFn = fn(&str, &[String], &Context<'_>) -> Result<f64, MetricError>;

/// One line of [`METRICS`].
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MetricInfo {
    /// Kebab-case, unique.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// The reference function and package version this follows.
    pub source: &'static str,
    /// Smallest and largest value.
    pub range: (f64, f64),
    /// From which score on a sample counts as correct when answers that flip are counted: half of the words for F1, the
    /// whole score where an answer is right or wrong (class, paragraph, count, line of code), `None` for summaries, which
    /// are neither.
    pub correct_from: Option<f64>,
    /// Whether [`Context::segmenter`] must be given.
    pub needs_segmenter: bool,
    /// Whether [`Context::all_classes`] must be given.
    pub needs_classes: bool,
    /// The function itself; call it through [`score`].
    #[serde(skip)]
    pub score: ScoreFn,
}

/// Why a prediction could not be scored: always the record or the setup, never the prediction.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MetricError {
    /// A Chinese metric was called without a segmenter.
    #[error("metric `{metric}` needs the Chinese segmenter\nhint: `ripplekv fetch jieba`")]
    MissingSegmenter {
        /// Name of the metric.
        metric: &'static str,
    },
    /// Classification was called for a record without classes.
    #[error("metric `{metric}` needs the record's `all_classes`, which is empty or null")]
    MissingClasses {
        /// Name of the metric.
        metric: &'static str,
    },
    /// A retrieval answer does not say which paragraph is meant; the official code crashes here.
    #[error("metric `{metric}`: answer `{answer}` holds no `{label}` followed by a number")]
    AnswerWithoutNumber {
        /// Name of the metric.
        metric: &'static str,
        /// The words expected before the number.
        label: &'static str,
        /// The answer as given.
        answer: String,
    },
}

/// The metric called `name`, or `None`.
pub fn find_metric(name: &str) -> Option<&'static MetricInfo> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// Scores `prediction` against `answers`: the maximum over answers, starting at 0.
///
/// The prediction is taken as it is; tasks that use only its first line call
/// [`first_line`](crate::first_line) before.
///
/// # Errors
/// If the context lacks what the metric needs, or an answer has not the form it needs.
pub fn score(
    metric: &MetricInfo,
    prediction: &str,
    answers: &[String],
    context: &Context<'_>,
) -> Result<f64, MetricError> {
    if metric.needs_segmenter && context.segmenter.is_none() {
        return Err(MetricError::MissingSegmenter {
            metric: metric.name,
        });
    }
    if metric.needs_classes && context.all_classes.is_empty() {
        return Err(MetricError::MissingClasses {
            metric: metric.name,
        });
    }
    (metric.score)(prediction, answers, context)
}

/// The maximum over answers as `eval.py` takes it: it starts at 0.
pub(crate) fn best_of(answers: &[String], mut one: impl FnMut(&str) -> f64) -> f64 {
    answers
        .iter()
        .fold(0.0, |best, answer| f64::max(best, one(answer)))
}

/// The segmenter, or the error that [`score`] gives when it is absent.
pub(crate) fn segmenter<'a>(
    context: &Context<'a>,
    metric: &'static str,
) -> Result<&'a Segmenter, MetricError> {
    context
        .segmenter
        .ok_or(MetricError::MissingSegmenter { metric })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_kebab_case_and_found() {
        let mut seen = BTreeSet::new();
        for metric in METRICS {
            let parts_ok = metric.name.split('-').all(|part| {
                !part.is_empty()
                    && part
                        .bytes()
                        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            });
            assert!(parts_ok, "{} is not kebab-case", metric.name);
            assert!(seen.insert(metric.name), "{} is there twice", metric.name);
            assert_eq!(find_metric(metric.name).unwrap().name, metric.name);
            let (low, high) = metric.range;
            assert!(
                metric
                    .correct_from
                    .is_none_or(|from| low < from && from <= high)
            );
        }
        assert_eq!(METRICS.len(), 11);
        assert!(find_metric("bleu").is_none());
    }

    #[test]
    fn every_entry_is_documented() {
        for metric in METRICS {
            for text in [metric.summary, metric.source] {
                assert!(text.len() > 10, "{}: `{text}`", metric.name);
                assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
            }
            assert_eq!(metric.range.0, 0.0);
            assert!(metric.range.1 <= 1.0);
        }
    }

    #[test]
    fn each_metric_has_its_own_file_named_after_it() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/metrics");
        for metric in METRICS {
            let file = format!("{folder}/{}.rs", metric.name.replace('-', "_"));
            assert!(std::path::Path::new(&file).exists(), "{file} is missing");
        }
    }

    #[test]
    fn what_an_entry_says_it_needs_is_what_it_needs() {
        let answers = ["Paragraph 1 段落1".to_string()];
        let classes = ["Paragraph 1 段落1".to_string()];
        for metric in METRICS {
            let bare = score(metric, "1", &answers, &Context::default());
            let with_classes = Context {
                all_classes: &classes,
                ..Context::default()
            };
            if metric.needs_segmenter {
                let missing = MetricError::MissingSegmenter {
                    metric: metric.name,
                };
                assert_eq!(
                    score(metric, "1", &answers, &with_classes),
                    Err(missing.clone())
                );
                assert_eq!((metric.score)("1", &answers, &with_classes), Err(missing));
            } else if metric.needs_classes {
                let missing = MetricError::MissingClasses {
                    metric: metric.name,
                };
                assert_eq!(bare, Err(missing));
                assert!(score(metric, "1", &answers, &with_classes).is_ok());
            } else {
                assert!(bare.is_ok(), "{}", metric.name);
            }
        }
    }

    #[test]
    fn no_answers_score_zero() {
        for metric in METRICS.iter().filter(|metric| !metric.needs_segmenter) {
            let classes = ["a".to_string()];
            let context = Context {
                all_classes: &classes,
                ..Context::default()
            };
            assert_eq!(score(metric, "a", &[], &context), Ok(0.0));
        }
    }

    #[test]
    fn code_similarity_reads_the_names_of_the_spec() {
        let parsed: CodeSimilarity = serde_json::from_str("\"levenshtein\"").unwrap();
        assert_eq!(parsed, CodeSimilarity::Levenshtein);
        assert!(serde_json::from_str::<CodeSimilarity>("\"rapidfuzz\"").is_err());
    }
}
