//! How far a profile over layers can be trusted: split halves and what noise hides.
//! Spearman 1904 and 1910, Brown 1910.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::Serialize;

use super::bootstrap::index_below;
use super::rank::{RankError, spearman};
use super::summary::column_means;

/// Agreement of two random halves of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SplitHalf {
    /// Mean over splits of the Spearman correlation between the halves' column means.
    pub split_half: f64,
    /// [`spearman_brown`] of it: the expected reliability of all samples together.
    pub spearman_brown: f64,
    /// Splits that had a correlation.
    pub splits: usize,
}

/// Reliability of twice as many samples from that of half of them: 2r / (1 + r).
///
/// The formula leaves the range of correlations below r = -1/3 and has a pole at -1; there -1 is
/// returned.
pub fn spearman_brown(half: f64) -> f64 {
    if half <= -1.0 {
        return -1.0;
    }
    (2.0 * half / (1.0 + half)).max(-1.0)
}

/// Split-half reliability of the column means of `samples`, `[samples][layers]`.
///
/// Each of `splits` draws halves the samples at random (an odd one goes to the second half).
/// Splits where a half has no order among its columns are left out.
///
/// # Errors
/// Below two samples, on rows of different lengths, below two columns, on NaN, or where no split
/// has a correlation.
pub fn split_half_reliability(
    samples: &[&[f64]],
    splits: usize,
    seed: u64,
) -> Result<SplitHalf, RankError> {
    if samples.len() < 2 {
        return Err(RankError::TooFewSamples {
            samples: samples.len(),
        });
    }
    if let Some(other) = samples.iter().find(|row| row.len() != samples[0].len()) {
        return Err(RankError::LengthMismatch {
            left: samples[0].len(),
            right: other.len(),
        });
    }
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let mut order: Vec<usize> = (0..samples.len()).collect();
    let (mut total, mut defined) = (0.0, 0);
    for _ in 0..splits {
        for end in (1..order.len()).rev() {
            order.swap(end, index_below(&mut generator, end + 1));
        }
        let (first, second) = order.split_at(order.len() / 2);
        match spearman(
            &column_means(samples, first),
            &column_means(samples, second),
        ) {
            Ok(rho) => {
                total += rho;
                defined += 1;
            }
            Err(RankError::Constant) => {}
            Err(error) => return Err(error),
        }
    }
    if defined == 0 {
        return Err(RankError::NoSplit { splits });
    }
    let split_half = total / defined as f64;
    Ok(SplitHalf {
        split_half,
        spearman_brown: spearman_brown(split_half),
        splits: defined,
    })
}

/// The correlation that two noiseless measurements would have: rho / sqrt(reliability x
/// reliability). Not clamped: estimates of reliability err, so the value may pass 1.
///
/// `None` where a reliability is not positive.
pub fn disattenuated(rho: f64, left_reliability: f64, right_reliability: f64) -> Option<f64> {
    let positive = left_reliability > 0.0 && right_reliability > 0.0;
    positive.then(|| rho / (left_reliability * right_reliability).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(samples: &[Vec<f64>]) -> Vec<&[f64]> {
        samples.iter().map(Vec::as_slice).collect()
    }

    /// One true profile plus noise of the given size that no two entries share.
    fn noisy(samples: usize, layers: usize, noise: f64) -> Vec<Vec<f64>> {
        let mut generator = ChaCha8Rng::seed_from_u64(9);
        let mut swing = || index_below(&mut generator, 2001) as f64 / 1000.0 - 1.0;
        (0..samples)
            .map(|_| {
                (0..layers)
                    .map(|layer| layer as f64 / layers as f64 + noise * swing())
                    .collect()
            })
            .collect()
    }

    #[test]
    fn equal_samples_agree_wholly_and_noise_agrees_less() {
        let clean = noisy(8, 20, 0.0);
        let clean = split_half_reliability(&rows(&clean), 50, 1).unwrap();
        assert_eq!((clean.split_half, clean.spearman_brown), (1.0, 1.0));
        assert_eq!(clean.splits, 50);
        let mild = split_half_reliability(&rows(&noisy(8, 20, 1.0)), 200, 1).unwrap();
        let wild = split_half_reliability(&rows(&noisy(8, 20, 30.0)), 200, 1).unwrap();
        assert!(0.5 < mild.split_half && mild.split_half < 0.99, "{mild:?}");
        assert!(wild.split_half < 0.4, "{wild:?}");
        assert!(mild.spearman_brown > mild.split_half);
    }

    #[test]
    fn two_samples_have_one_split() {
        let samples = [vec![1.0, 2.0, 3.0, 4.0], vec![1.0, 3.0, 2.0, 4.0]];
        let result = split_half_reliability(&rows(&samples), 7, 3).unwrap();
        let only = spearman(&samples[0], &samples[1]).unwrap();
        assert!((result.split_half - only).abs() < 1e-12, "{result:?}");
        assert_eq!(result.splits, 7);
    }

    #[test]
    fn the_correction_foretells_the_reliability_of_twice_the_samples() {
        // Half of 32 samples is 16: the corrected value of 16 is the plain value of 32.
        let all = noisy(32, 60, 2.0);
        let half = split_half_reliability(&rows(&all[..16]), 400, 5).unwrap();
        let whole = split_half_reliability(&rows(&all), 400, 5).unwrap();
        let off = (half.spearman_brown - whole.split_half).abs();
        assert!(off < 0.06, "{half:?} {whole:?}");
    }

    #[test]
    fn undefined_splits_are_left_out_and_counted() {
        // The second sample cancels the first or the third, but not the last: a third of the
        // splits has an order in both halves.
        let samples = [
            vec![1.0, 2.0],
            vec![2.0, 1.0],
            vec![1.0, 2.0],
            vec![1.0, 4.0],
        ];
        let result = split_half_reliability(&rows(&samples), 300, 0).unwrap();
        assert!((70..=130).contains(&result.splits), "{result:?}");
        assert_eq!(result.split_half, 1.0);
    }

    #[test]
    fn the_same_seed_gives_the_same_splits() {
        let samples = noisy(9, 12, 2.0);
        let once = split_half_reliability(&rows(&samples), 20, 4).unwrap();
        assert_eq!(
            once,
            split_half_reliability(&rows(&samples), 20, 4).unwrap()
        );
        assert_ne!(
            once,
            split_half_reliability(&rows(&samples), 20, 5).unwrap()
        );
    }

    #[test]
    fn bad_samples_are_errors() {
        let error = |samples: &[&[f64]], splits| split_half_reliability(samples, splits, 0);
        assert_eq!(
            error(&[&[1.0, 2.0]], 5),
            Err(RankError::TooFewSamples { samples: 1 })
        );
        assert_eq!(
            error(&[&[1.0, 2.0], &[1.0]], 5),
            Err(RankError::LengthMismatch { left: 2, right: 1 })
        );
        assert_eq!(error(&[&[1.0], &[1.0]], 5), Err(RankError::TooFew));
        assert!(matches!(
            error(&[&[1.0, f64::NAN], &[1.0, 2.0]], 5),
            Err(RankError::NotANumber { index: 1 })
        ));
        let flat: &[f64] = &[1.0, 1.0];
        assert_eq!(
            error(&[flat, flat], 5),
            Err(RankError::NoSplit { splits: 5 })
        );
        assert_eq!(
            error(&[&[1.0, 2.0], &[1.0, 2.0]], 0),
            Err(RankError::NoSplit { splits: 0 })
        );
    }

    #[test]
    fn corrections_by_hand() {
        assert_eq!(spearman_brown(0.5), 2.0 / 3.0);
        assert_eq!(spearman_brown(0.0), 0.0);
        assert_eq!(spearman_brown(-0.2), -0.4 / 0.8);
        assert_eq!(spearman_brown(-0.9), -1.0);
        assert_eq!(spearman_brown(-1.0), -1.0);
        let value = disattenuated(0.6, 0.9, 0.4).unwrap();
        assert!((value - 1.0).abs() < 1e-12, "{value}");
        assert!(disattenuated(0.9, 0.5, 0.5).unwrap() > 1.0);
        assert_eq!(disattenuated(0.6, 0.0, 0.4), None);
        assert_eq!(disattenuated(0.6, 0.5, -0.4), None);
        assert_eq!(disattenuated(0.6, f64::NAN, 0.4), None);
    }
}
