//! Rank correlations and divergences against scipy.

use ripplekv_metrics::statistics::{
    jensen_shannon_divergence, kendall_tau_b, kl_divergence, log_softmax, mid_ranks, spearman,
};
use serde::Deserialize;

use crate::support::fixture;

#[derive(Deserialize)]
struct Statistics {
    ranks: Vec<(Vec<f64>, Vec<f64>)>,
    correlations: Vec<Correlation>,
    divergences: Vec<Divergence>,
}

#[derive(Deserialize)]
struct Correlation {
    left: Vec<f64>,
    right: Vec<f64>,
    spearman: f64,
    kendall: f64,
}

#[derive(Deserialize)]
struct Divergence {
    left: Vec<f32>,
    right: Vec<f32>,
    kl: f64,
    js: f64,
}

#[test]
fn mid_ranks_equal_scipy() {
    let expected: Statistics = fixture("statistics.json");
    for (values, ranks) in &expected.ranks {
        assert_eq!(mid_ranks(values), *ranks);
    }
}

#[test]
fn correlations_equal_scipy() {
    let expected: Statistics = fixture("statistics.json");
    assert!(expected.correlations.len() >= 10);
    for case in &expected.correlations {
        let rho = spearman(&case.left, &case.right).unwrap();
        let tau = kendall_tau_b(&case.left, &case.right).unwrap();
        assert!(
            (rho - case.spearman).abs() < 1e-12,
            "{rho} {}",
            case.spearman
        );
        assert!((tau - case.kendall).abs() < 1e-12, "{tau} {}", case.kendall);
    }
}

/// scipy computes in f64 from the logits; ours rounds the log-probabilities to f32 first, which
/// costs up to a few f32 steps of a logarithm.
#[test]
fn divergences_equal_scipy_within_f32() {
    let expected: Statistics = fixture("statistics.json");
    for case in &expected.divergences {
        let left = log_softmax(&case.left).unwrap();
        let right = log_softmax(&case.right).unwrap();
        let kl = kl_divergence(&left, &right).unwrap();
        let js = jensen_shannon_divergence(&left, &right).unwrap();
        let tolerance = |value: f64| 1e-6 + 1e-6 * value;
        assert!(
            (kl - case.kl).abs() < tolerance(case.kl),
            "{kl} {}",
            case.kl
        );
        assert!(
            (js - case.js).abs() < tolerance(case.js),
            "{js} {}",
            case.js
        );
    }
}
