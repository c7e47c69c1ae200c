//! Share of the numbers in a prediction that are the right count.
//! Follows LongBench `metrics.py`, `count_score`.

use crate::metric::{Context, MetricError, MetricInfo, best_of};
use crate::numbers::share_of_numbers;

pub(crate) const INFO: MetricInfo = MetricInfo {
    name: "count",
    summary: "share of the prediction's numbers equal, as text, to the answer",
    source: "LongBench metrics.py count_score",
    range: (0.0, 1.0),
    correct_from: Some(1.0),
    needs_segmenter: false,
    needs_classes: false,
    score,
};

fn score(prediction: &str, answers: &[String], _context: &Context<'_>) -> Result<f64, MetricError> {
    Ok(best_of(answers, |answer| {
        share_of_numbers(prediction, answer)
    }))
}
