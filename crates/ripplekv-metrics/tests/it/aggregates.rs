//! Rounding, task scores and LongBench-E buckets against Python and numpy.

use ripplekv_metrics::python::{numpy_round_2, round_2};
use ripplekv_metrics::{length_bucket_scores, task_score};
use serde::Deserialize;

use crate::support::fixture;

#[derive(Deserialize)]
struct Aggregates {
    python_round: Vec<(f64, f64)>,
    numpy_round: Vec<(f64, f64)>,
    tasks: Vec<(Vec<f64>, f64)>,
    buckets: Vec<Buckets>,
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
