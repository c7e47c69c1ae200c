//! What a program that never reads the prompt would score: one fixed answer for every sample of a task.
//! A model whose score does not clear it shows nothing about its cache on that task.

use std::collections::BTreeMap;

use crate::metric::{Context, MetricError, MetricInfo, score};

/// How many references are tried, the most frequent first: a majority class is among them.
const CANDIDATES: usize = 4;

/// What a sample asks of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// References.
    pub answers: &'a [String],
    /// Classes of a classification task, else empty.
    pub all_classes: &'a [String],
}

/// The fixed answer that scores best.
#[derive(Debug, Clone, PartialEq)]
pub struct FixedAnswer {
    /// The answer.
    pub answer: String,
    /// Its mean score over the other samples.
    pub score: f64,
}

/// The best of the task's four most frequent first references, given to every sample. The sample that a reference was
/// taken from does not count, or few samples would look easy.
///
/// `None` below two samples or without references.
///
/// # Errors
/// As [`score`].
pub fn best_fixed_answer(
    metric: &MetricInfo,
    samples: &[Asked<'_>],
    context: &Context<'_>,
) -> Result<Option<FixedAnswer>, MetricError> {
    if samples.len() < 2 {
        return Ok(None);
    }
    let mut best: Option<FixedAnswer> = None;
    for (answer, source) in candidates(samples) {
        let mut total = 0.0;
        for (place, sample) in samples.iter().enumerate() {
            if place != source {
                let context = Context {
                    all_classes: sample.all_classes,
                    ..*context
                };
                total += score(metric, answer, sample.answers, &context)?;
            }
        }
        let mean = total / (samples.len() - 1) as f64;
        if best.as_ref().is_none_or(|best| mean > best.score) {
            best = Some(FixedAnswer {
                answer: answer.to_owned(),
                score: mean,
            });
        }
    }
    Ok(best)
}

/// First references with a sample each was taken from; equally frequent ones in the order of the samples.
fn candidates<'a>(samples: &[Asked<'a>]) -> Vec<(&'a str, usize)> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (place, sample) in samples.iter().enumerate() {
        if let Some(answer) = sample.answers.first() {
            counts.entry(answer).or_insert((0, place)).0 += 1;
        }
    }
    let mut ordered: Vec<(&str, (usize, usize))> = counts.into_iter().collect();
    ordered.sort_by_key(|(_, (count, place))| (std::cmp::Reverse(*count), *place));
    ordered.truncate(CANDIDATES);
    ordered
        .into_iter()
        .map(|(answer, (_, place))| (answer, place))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find_metric;

    fn best(metric: &str, answers: &[&str], classes: &[&str]) -> Option<FixedAnswer> {
        let classes: Vec<String> = classes.iter().map(ToString::to_string).collect();
        let answers: Vec<Vec<String>> = answers
            .iter()
            .map(|answer| vec![(*answer).to_owned()])
            .collect();
        let samples: Vec<Asked<'_>> = answers
            .iter()
            .map(|answers| Asked {
                answers,
                all_classes: &classes,
            })
            .collect();
        best_fixed_answer(find_metric(metric).unwrap(), &samples, &Context::default()).unwrap()
    }

    #[test]
    fn a_majority_class_scores_its_share_of_the_other_samples() {
        let answers = ["cat", "dog", "cat", "bird", "cat"];
        let found = best("classification", &answers, &["cat", "dog", "bird"]).unwrap();
        assert_eq!((found.answer.as_str(), found.score), ("cat", 0.5));
    }

    #[test]
    fn answers_that_never_repeat_score_nothing() {
        let answers = ["Paragraph 3", "Paragraph 8", "Paragraph 5"];
        assert_eq!(best("retrieval", &answers, &[]).unwrap().score, 0.0);
        // Words that all references share count for F1.
        let found = best("qa-f1", &["blue tin", "red tin", "old tin"], &[]).unwrap();
        assert_eq!(found.score, 0.5);
    }

    #[test]
    fn a_rare_reference_is_not_tried_after_four_frequent_ones() {
        let answers = ["a", "b", "c", "d", "e", "a", "b", "c", "d"];
        let samples: Vec<Vec<String>> = answers
            .iter()
            .map(|answer| vec![(*answer).to_owned()])
            .collect();
        let asked: Vec<Asked<'_>> = samples
            .iter()
            .map(|answers| Asked {
                answers,
                all_classes: &[],
            })
            .collect();
        let tried: Vec<&str> = candidates(&asked)
            .iter()
            .map(|(answer, _)| *answer)
            .collect();
        assert_eq!(tried, ["a", "b", "c", "d"]);
    }

    #[test]
    fn one_sample_says_nothing_and_absent_references_neither() {
        assert_eq!(best("qa-f1", &["alone"], &[]), None);
        let none = Asked {
            answers: &[],
            all_classes: &[],
        };
        let metric = find_metric("qa-f1").unwrap();
        let found = best_fixed_answer(metric, &[none, none], &Context::default());
        assert_eq!(found, Ok(None));
    }
}
