//! From sample scores to task scores and averages: what stands around the metrics.
//! Follows LongBench `eval.py` (`scorer`, `scorer_e`) and, for the averages, the papers.

use serde::Serialize;

use crate::python::{numpy_mean, numpy_round_2, round_2};

/// Names of the LongBench-E buckets, by the record's `length`: below 4000, below 8000, the rest.
pub const LENGTH_BUCKETS: [&str; 3] = ["0-4k", "4-8k", "8k+"];

/// One LongBench-E bucket of a task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BucketScore {
    /// One of [`LENGTH_BUCKETS`].
    pub bucket: &'static str,
    /// How many samples fell into it.
    pub samples: usize,
    /// 0 to 100, two decimals; `None` for an empty bucket, where the official code writes NaN.
    pub score: Option<f64>,
}

/// The part of a prediction that trec, triviaqa, samsum and lsht score.
///
/// Leading newlines go, then everything from the first newline on; nothing else is stripped,
/// so a carriage return or a blank first line stays.
pub fn first_line(prediction: &str) -> &str {
    let text = prediction.trim_start_matches('\n');
    text.split_once('\n').map_or(text, |(line, _)| line)
}

/// A task's score, 0 to 100 with two decimals, from its sample scores in file order.
///
/// `None` without samples, where the official code divides by zero.
pub fn task_score(scores: &[f64]) -> Option<f64> {
    let total = scores.iter().fold(0.0, |sum, score| sum + score);
    (!scores.is_empty()).then(|| round_2(100.0 * total / scores.len() as f64))
}

/// The three LongBench-E scores of a task from (score, record length) pairs in file order.
///
/// Each bucket is averaged and rounded as numpy does it, which is not how [`task_score`] rounds.
pub fn length_bucket_scores(samples: impl IntoIterator<Item = (f64, u64)>) -> [BucketScore; 3] {
    let mut buckets: [Vec<f64>; 3] = Default::default();
    for (score, length) in samples {
        let index = match length {
            0..4000 => 0,
            4000..8000 => 1,
            _ => 2,
        };
        buckets[index].push(score);
    }
    [0, 1, 2].map(|index| BucketScore {
        bucket: LENGTH_BUCKETS[index],
        samples: buckets[index].len(),
        score: numpy_mean(&buckets[index]).map(|mean| numpy_round_2(100.0 * mean)),
    })
}

/// The average of KV-cache papers: the mean of the 16 rounded English and code task scores,
/// unweighted, rounded to two decimals.
pub fn sixteen_task_average(task_scores: &[f64; 16]) -> f64 {
    round_2(task_scores.iter().fold(0.0, |sum, score| sum + score) / 16.0)
}

/// LongBench's own leaderboard average: the mean of the categories' means, rounded once.
///
/// One slice of rounded task scores per category; `None` if there is no category or an empty one.
pub fn category_average(categories: &[&[f64]]) -> Option<f64> {
    if categories.is_empty() || categories.iter().any(|category| category.is_empty()) {
        return None;
    }
    let total: f64 = categories
        .iter()
        .map(|scores| scores.iter().sum::<f64>() / scores.len() as f64)
        .sum();
    Some(round_2(total / categories.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_line_strips_newlines_only() {
        assert_eq!(first_line("\n\nParis\nLyon"), "Paris");
        assert_eq!(first_line(" \nParis"), " ");
        assert_eq!(first_line("\r\nParis"), "\r");
        assert_eq!(first_line("\n\n"), "");
        assert_eq!(first_line(""), "");
    }

    #[test]
    fn task_score_rounds_once_at_the_end() {
        assert_eq!(task_score(&[0.123456, 0.123456, 0.5]), Some(24.9));
        assert_eq!(task_score(&[1.0, 0.0, 0.0]), Some(33.33));
        assert_eq!(task_score(&[]), None);
    }

    #[test]
    fn buckets_split_at_4000_and_8000() {
        let [short, middle, long] =
            length_bucket_scores([(1.0, 3999), (0.0, 3999), (0.5, 4000), (1.0, 7999)]);
        assert_eq!((short.samples, short.score), (2, Some(50.0)));
        assert_eq!((middle.samples, middle.score), (2, Some(75.0)));
        assert_eq!((long.samples, long.score), (0, None));
    }

    #[test]
    fn averages_differ_when_categories_differ_in_size() {
        let mut scores = [50.0; 16];
        scores[15] = 34.0;
        assert_eq!(sixteen_task_average(&scores), 49.0);
        assert_eq!(
            category_average(&[&[50.0, 50.0], &[34.0], &[50.0]]),
            Some(44.67)
        );
        assert_eq!(category_average(&[&[50.0], &[]]), None);
        assert_eq!(category_average(&[]), None);
    }
}
