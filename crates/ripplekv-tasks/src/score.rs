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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::find_task;

    fn scored(task: &str, prediction: &str, answer: &str, classes: Option<&[String]>) -> f64 {
        let task = find_task(task).unwrap();
        let answers = [answer.to_owned()];
        score_record(task, prediction, &answers, classes, &Context::default()).unwrap()
    }

    #[test]
    fn first_line_tasks_and_no_others_are_cut() {
        for task in crate::TASKS {
            let wanted = if task.first_line { "a" } else { "\na\nb" };
            assert_eq!(postprocess(task, "\na\nb"), wanted, "{task}");
        }
        let cut: Vec<_> = crate::TASKS
            .iter()
            .filter(|task| task.first_line && task.config_key == task.name)
            .map(|task| task.name)
            .collect();
        assert_eq!(cut, ["trec", "triviaqa", "samsum", "lsht", "ticket_class"]);
    }

    #[test]
    fn only_newlines_are_stripped_in_front() {
        let trec = find_task("trec").unwrap();
        assert_eq!(postprocess(trec, " \nParis"), " ");
        assert_eq!(postprocess(trec, "\r\nX"), "\r");
    }

    #[test]
    fn scores_go_through_the_tasks_metric() {
        assert_eq!(scored("triviaqa", " \nParis", "Paris", None), 0.0);
        assert_eq!(scored("qasper", " \nParis", "Paris", None), 1.0);
        assert_eq!(scored("passage_count", "17.0", "17", None), 0.5);
        assert_eq!(
            scored("paragraph_find", "Paragraph 7", "Paragraph 7", None),
            1.0
        );
        let classes = ["Comet".to_owned(), "Tulip".to_owned()];
        assert_eq!(
            scored("ticket_class", " Tulip\nComet", "Tulip", Some(&classes)),
            1.0
        );
        assert_eq!(
            scored("ticket_class", " Tulip Comet", "Tulip", Some(&classes)),
            0.5
        );
    }

    #[test]
    fn classification_without_classes_is_an_error() {
        let trec = find_task("trec").unwrap();
        let answers = ["x".to_owned()];
        assert!(score_record(trec, "x", &answers, None, &Context::default()).is_err());
    }
}
