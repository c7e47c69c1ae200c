//! From a decoded answer to its score: first-line rule, metric, most over the answers.
//! Follows LongBench's `eval.py` (`scorer`).

use ripplekv_metrics::{Context, MetricError, MetricInfo, find_metric, first_line, score};

use crate::task::TaskInfo;

impl TaskInfo {
    /// The metric's own table row.
    pub fn metric_info(&self) -> &'static MetricInfo {
        find_metric(self.metric)
            .unwrap_or_else(|| unreachable!("a test holds every row's metric to be known"))
    }
}

/// What of a prediction is scored: all of it, or on trec, triviaqa, samsum, lsht (and tasks like
/// them) the first line after leading newlines.
pub fn postprocess<'a>(task: &TaskInfo, prediction: &'a str) -> &'a str {
    if task.first_line {
        first_line(prediction)
    } else {
        prediction
    }
}

/// The score of one prediction, from 0 to 1: post-processed, then the most over the answers.
/// `all_classes` are the record's; `context` gives the segmenter and the kind of code similarity.
pub fn score_record(
    task: &TaskInfo,
    prediction: &str,
    answers: &[String],
    all_classes: Option<&[String]>,
    context: &Context<'_>,
) -> Result<f64, MetricError> {
    let context = Context {
        all_classes: all_classes.unwrap_or_default(),
        ..*context
    };
    score(
        task.metric_info(),
        postprocess(task, prediction),
        answers,
        &context,
    )
}
