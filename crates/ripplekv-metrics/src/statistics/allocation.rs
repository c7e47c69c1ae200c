//! What a better split of one budget over the layers could gain at best.
//! Damage of layer l at budget B is taken as a_l B^-p; the least sum under a fixed total has B_l
//! proportional to a_l^(1/(p+1)) (Lagrange).

/// The least total damage over the uniform split's: mean(a^(1/(p+1)))^(p+1) / mean(a), in (0, 1].
///
/// `damage` is a_l of every layer, or any multiple of it, such as the damage of each layer at one
/// equal budget; `exponent` is p. A value near 1 says that no allocation can help much. Negative
/// damage counts as 0.
///
/// `None` without a positive value, with one that is not finite, or with an exponent that is
/// negative or not finite.
pub fn predicted_allocation_ratio(damage: &[f64], exponent: f64) -> Option<f64> {
    let usable = exponent >= 0.0 && exponent.is_finite();
    if !usable || damage.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let largest = damage.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return None;
    }
    // The ratio does not change with scale; by the largest value, no power runs out of range.
    let count = damage.len() as f64;
    let scaled = || damage.iter().map(|value| value.max(0.0) / largest);
    let mean = scaled().sum::<f64>() / count;
    let roots = scaled().map(|value| libm::pow(value, 1.0 / (exponent + 1.0)));
    let mean_root = roots.sum::<f64>() / count;
    Some((libm::pow(mean_root, exponent + 1.0) / mean).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_by_hand() {
        // Two layers, one harmless: all goes to the other, twice the budget, 1/2 of the damage.
        assert_eq!(predicted_allocation_ratio(&[3.0, 0.0], 1.0), Some(0.5));
        // (1 + 2)^2 / 4 over 5/2.
        let ratio = predicted_allocation_ratio(&[1.0, 4.0], 1.0).unwrap();
        assert!((ratio - 0.9).abs() < 1e-15, "{ratio}");
        assert_eq!(predicted_allocation_ratio(&[7.0; 5], 2.0), Some(1.0));
        assert_eq!(predicted_allocation_ratio(&[1.0, 4.0], 0.0), Some(1.0));
    }

    #[test]
    fn negative_damage_counts_as_none_and_nonsense_gives_nothing() {
        assert_eq!(
            predicted_allocation_ratio(&[3.0, -2.0], 1.0),
            predicted_allocation_ratio(&[3.0, 0.0], 1.0)
        );
        assert_eq!(predicted_allocation_ratio(&[0.0, -1.0], 1.0), None);
        assert_eq!(predicted_allocation_ratio(&[], 1.0), None);
        assert_eq!(predicted_allocation_ratio(&[1.0, f64::NAN], 1.0), None);
        assert_eq!(predicted_allocation_ratio(&[1.0], -0.5), None);
        assert_eq!(predicted_allocation_ratio(&[1.0], f64::NAN), None);
        // Tiny divergences must not underflow.
        let ratio = predicted_allocation_ratio(&[1e-300, 4e-300], 1.0).unwrap();
        assert!((ratio - 0.9).abs() < 1e-12, "{ratio}");
    }
}
