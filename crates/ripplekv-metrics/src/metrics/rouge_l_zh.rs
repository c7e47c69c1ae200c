//! ROUGE-L over Chinese words joined by blanks.
//! Follows LongBench `metrics.py`, `rouge_zh_score`.

use crate::metric::{Context, MetricError, MetricInfo, best_of, segmenter};
use crate::rouge::{WALK_LIMIT_STEPS_ZH, rouge_l};

pub(crate) const INFO: MetricInfo = MetricInfo {
    name: "rouge-l-zh",
    summary: "rouge-l over jieba's words; only an ASCII \".\" ends a sentence",
    source: "LongBench metrics.py rouge_zh_score, rouge 1.0.1, jieba 0.42.1",
    range: (0.0, 1.0),
    correct_from: None,
    needs_segmenter: true,
    needs_classes: false,
    score,
};

fn score(prediction: &str, answers: &[String], context: &Context<'_>) -> Result<f64, MetricError> {
    let segmenter = segmenter(context, INFO.name)?;
    let prediction = segmenter.cut(prediction).join(" ");
    Ok(best_of(answers, |answer| {
        let answer = segmenter.cut(answer).join(" ");
        rouge_l(&prediction, &answer, WALK_LIMIT_STEPS_ZH)
    }))
}
