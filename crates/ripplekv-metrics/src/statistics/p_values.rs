//! P values of rank correlations along the layers, and their correction for several tests.
//! Circular shifts keep the smoothness of both sides, which a free permutation would destroy.

use super::rank::{RankError, centred_ranks};

/// Two-sided p value of Spearman's rho under circular shifts of `left`, in [1/L, 1].
///
/// The share of the L shifts (the identity is one of them) whose |rho| is at least the observed
/// one. Smooth curves over depth correlate by themselves; shifting keeps each curve's own shape.
///
/// # Errors
/// As [`spearman`](super::spearman).
pub fn circular_shift_p_value(left: &[f64], right: &[f64]) -> Result<f64, RankError> {
    let [left, right] = centred_ranks(left, right)?;
    // Shifting moves ranks and changes none, so both variances stay and the cross product decides.
    // Centred ranks are multiples of 1/2: the sums are exact and ties need no tolerance.
    let cross = |shift: usize| -> f64 {
        let shifted = left.iter().cycle().skip(shift);
        shifted.zip(&right).map(|(a, b)| a * b).sum::<f64>().abs()
    };
    let observed = cross(0);
    let as_large = (0..left.len())
        .filter(|shift| cross(*shift) >= observed)
        .count();
    Ok(as_large as f64 / left.len() as f64)
}

/// Holm's step-down correction of p values, in the order given (Holm 1979).
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|left, right| p_values[*left].total_cmp(&p_values[*right]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        let tests_left = (p_values.len() - rank) as f64;
        largest = largest.max((p_values[index] * tests_left).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_identity_of_a_single_peak_is_as_large() {
        let peak = [0.0, 1.0, 5.0, 2.0, 0.5, -1.0, -2.0];
        assert_eq!(circular_shift_p_value(&peak, &peak), Ok(1.0 / 7.0));
        let negative: Vec<f64> = peak.iter().map(|value| -value).collect();
        assert_eq!(circular_shift_p_value(&negative, &peak), Ok(1.0 / 7.0));
    }

    #[test]
    fn a_repeating_curve_proves_little() {
        // Period 3 in 12 layers: every third shift is the curve itself.
        let wave: Vec<f64> = (0..12).map(|layer| [0.3, 0.1, 0.2][layer % 3]).collect();
        assert_eq!(circular_shift_p_value(&wave, &wave), Ok(4.0 / 12.0));
    }

    #[test]
    fn no_order_is_an_error() {
        assert_eq!(
            circular_shift_p_value(&[1.0, 1.0], &[1.0, 2.0]),
            Err(RankError::Constant)
        );
        assert!(circular_shift_p_value(&[1.0, 2.0], &[1.0]).is_err());
    }

    #[test]
    fn holm_is_the_textbook_correction() {
        // R 4.3, p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (ours, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((ours - expected).abs() < 1e-15, "{adjusted:?}");
        }
        assert_eq!(holm(&[0.6, 0.9]), [1.0, 1.0]);
        assert_eq!(holm(&[]), [0.0; 0]);
    }
}
