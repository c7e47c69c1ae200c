//! ROUGE-1 for users who ask; LongBench itself uses ROUGE-L.
//! Follows the Python package `rouge` 1.0.1, `Rouge(metrics=["rouge-1"])`, with 0 where it raises.

use crate::metric::{Context, MetricError, MetricInfo, best_of};
use crate::rouge::rouge_1;

pub(crate) const INFO: MetricInfo = MetricInfo {
    name: "rouge-1",
    summary: "ROUGE-1 F over distinct words",
    source: "rouge 1.0.1 rouge_n with n = 1",
    range: (0.0, 1.0),
    correct_from: None,
    needs_segmenter: false,
    needs_classes: false,
    score,
};

fn score(prediction: &str, answers: &[String], _context: &Context<'_>) -> Result<f64, MetricError> {
    Ok(best_of(answers, |answer| rouge_1(prediction, answer)))
}
