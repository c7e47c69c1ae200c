//! Rank correlations, divergences, quantiles and allocation against numpy 2.4.6 and scipy 1.17.1.

use ripplekv_metrics::statistics::{
    circular_shift_p_value, jensen_shannon_divergence, kendall_tau_b, kl_divergence, log_softmax,
    mid_ranks, predicted_allocation_ratio, quantile, smallest_detectable_difference, spearman,
};
use serde::Deserialize;

use crate::support::fixture;

#[derive(Deserialize)]
struct Statistics {
    ranks: Vec<(Vec<f64>, Vec<f64>)>,
    correlations: Vec<Correlation>,
    divergences: Vec<Divergence>,
    quantiles: Vec<(Vec<f64>, Vec<Quantile>)>,
    shifts: Vec<(Vec<f64>, Vec<f64>, f64)>,
    allocations: Vec<(Vec<f64>, f64, f64)>,
    detectable: Vec<(Vec<f64>, f64)>,
}

/// q and its quantile.
type Quantile = (f64, f64);

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
        let [left, right] = [&case.left, &case.right].map(|logits| {
            let mut values = logits.clone();
            log_softmax(&mut values).unwrap();
            values
        });
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

#[test]
fn quantiles_equal_numpy() {
    let expected: Statistics = fixture("statistics.json");
    for (values, quantiles) in &expected.quantiles {
        for (q, expected) in quantiles {
            let value = quantile(values, *q).unwrap();
            assert!((value - expected).abs() < 1e-12, "{q}: {value} {expected}");
        }
    }
}

#[test]
fn circular_shifts_equal_scipy_on_rolled_values() {
    let expected: Statistics = fixture("statistics.json");
    assert!(expected.shifts.iter().any(|(_, _, share)| *share > 0.3));
    for (left, right, share) in &expected.shifts {
        assert_eq!(circular_shift_p_value(left, right), Ok(*share));
    }
}

/// scipy minimises the total damage over all splits of the budget; ours is the closed form.
#[test]
fn the_predicted_ratio_is_the_minimum_that_scipy_finds() {
    let expected: Statistics = fixture("statistics.json");
    assert!(
        expected
            .allocations
            .iter()
            .any(|(_, _, least)| *least < 0.5)
    );
    for (damage, exponent, least) in &expected.allocations {
        let ratio = predicted_allocation_ratio(damage, *exponent).unwrap();
        assert!((ratio - least).abs() < 1e-9, "{ratio} {least}");
    }
}

/// Ours rounds the two normal percentiles to six digits.
#[test]
fn detectable_differences_equal_scipy() {
    let expected: Statistics = fixture("statistics.json");
    for (values, expected) in &expected.detectable {
        let value = smallest_detectable_difference(values).unwrap();
        assert!((value / expected - 1.0).abs() < 1e-6, "{value} {expected}");
    }
}
