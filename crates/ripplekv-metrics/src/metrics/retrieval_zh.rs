//! Share of the numbers in a prediction that name the right paragraph, Chinese.
//! Follows LongBench `metrics.py`, `retrieval_zh_score`.

use crate::metric::{Context, MetricError, MetricInfo};
use crate::numbers::best_share_of_labelled;

pub(crate) const INFO: MetricInfo = MetricInfo {
    name: "retrieval-zh",
    summary: "share of the prediction's numbers equal to the answer's \"段落\" number",
    source: "LongBench metrics.py retrieval_zh_score",
    range: (0.0, 1.0),
    correct_from: Some(1.0),
    needs_segmenter: false,
    needs_classes: false,
    score,
};

const LABEL: &str = "段落";

fn score(prediction: &str, answers: &[String], _context: &Context<'_>) -> Result<f64, MetricError> {
    best_share_of_labelled(INFO.name, LABEL, prediction, answers)
}
