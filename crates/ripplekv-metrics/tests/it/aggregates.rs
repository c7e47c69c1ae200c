//! Rounding, task scores and LongBench-E buckets against Python and numpy.

use ripplekv_metrics::python::{numpy_mean, numpy_round_2, round_2};
use ripplekv_metrics::{length_bucket_scores, task_score};
use serde::Deserialize;

use crate::support::fixture;

#[derive(Deserialize)]
struct Aggregates {
    python_round: Vec<(f64, f64)>,
    numpy_round: Vec<(f64, f64)>,
    tasks: Vec<(Vec<f64>, f64)>,
    buckets: Vec<Buckets>,
    means: Vec<(Vec<f64>, f64)>,
}

#[derive(Deserialize)]
struct Buckets {
    samples: Vec<(f64, u64)>,
    scores: [Option<f64>; 3],
}

#[test]
fn both_roundings_are_exact_and_differ() {
    let expected: Aggregates = fixture("aggregates.json");
    for (value, rounded) in &expected.python_round {
        assert_eq!(round_2(*value), *rounded, "{value}");
    }
    for (value, rounded) in &expected.numpy_round {
        assert_eq!(numpy_round_2(*value), *rounded, "{value}");
    }
    assert_ne!(expected.python_round, expected.numpy_round);
}

#[test]
fn task_scores_are_exact() {
    let expected: Aggregates = fixture("aggregates.json");
    for (scores, rounded) in &expected.tasks {
        assert_eq!(task_score(scores), Some(*rounded));
    }
}

#[test]
fn bucket_scores_are_exact() {
    let expected: Aggregates = fixture("aggregates.json");
    for case in &expected.buckets {
        let ours = length_bucket_scores(case.samples.iter().copied());
        assert_eq!(ours.map(|bucket| bucket.score), case.scores);
        let samples: usize = ours.iter().map(|bucket| bucket.samples).sum();
        assert_eq!(samples, case.samples.len());
    }
}

#[test]
fn means_add_up_in_the_order_of_numpy() {
    let expected: Aggregates = fixture("aggregates.json");
    for (values, mean) in &expected.means {
        assert_eq!(numpy_mean(values), Some(*mean), "{} values", values.len());
    }
}

#[test]
fn some_bucket_tells_the_two_roundings_apart() {
    let expected: Aggregates = fixture("aggregates.json");
    let differs = expected.buckets.iter().any(|case| {
        let scores: Vec<f64> = case.samples.iter().map(|(score, _)| *score).collect();
        let mean = numpy_mean(&scores).unwrap();
        round_2(100.0 * mean) != numpy_round_2(100.0 * mean)
    });
    assert!(differs);
}
