//! Two methods on the same samples: difference, interval, sign-flip test, wins and losses, and what lies behind the mean.
//! Fisher's randomisation test with random sign flips; p counts the observed flip (Phipson 2010).

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::Serialize;

use super::bootstrap::{Bootstrap, BootstrapError, Interval};
use super::summary::{detectable, leave_one_out, standard_error};

/// What the samples say about the first side minus the second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairedComparison {
    /// Mean of the strata's mean differences, with its bootstrap interval.
    pub difference: Interval,
    /// Two-sided p value of the sign-flip test, in (0, 1].
    pub p_value: f64,
    /// Samples where the first side is larger.
    pub wins: usize,
    /// Samples where both are equal.
    pub ties: usize,
    /// Samples where the second side is larger.
    pub losses: usize,
    /// Mean difference of each stratum, in the order given.
    pub stratum_differences: Vec<f64>,
    /// Least and greatest difference when one stratum is left out; `None` with a single one.
    pub leave_one_out: Option<(f64, f64)>,
    /// True difference that so many samples would have shown (two-sided 5%, power 80%), the strata taken as independent;
    /// `None` where one has fewer than two samples.
    pub smallest_detectable: Option<f64>,
}

impl PairedComparison {
    /// Number of pairs.
    pub fn samples(&self) -> usize {
        self.wins + self.ties + self.losses
    }
}

/// Answers that are correct on one side only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Flips {
    /// Correct before, not after.
    pub correct_to_wrong: usize,
    /// Not correct before, correct after.
    pub wrong_to_correct: usize,
}

/// Counts the pairs of scores that cross `correct_from` between `before` and `after`; pairs go by place, a longer side's
/// rest is not counted.
pub fn flips(before: &[f64], after: &[f64], correct_from: f64) -> Flips {
    let mut flips = Flips::default();
    for (before, after) in before.iter().zip(after) {
        match (*before >= correct_from, *after >= correct_from) {
            (true, false) => flips.correct_to_wrong += 1,
            (false, true) => flips.wrong_to_correct += 1,
            _ => {}
        }
    }
    flips
}

/// Relative slack with which a flipped difference counts as large as the observed one, so that
/// the order of summation cannot decide.
const SLACK: f64 = 1e-12;

/// Compares two sides sample by sample; strata (tasks, say) weigh the same and are never mixed.
///
/// # Errors
/// If a stratum is empty, the sides do not pair up, or the settings are out of range.
pub fn compare_paired(
    left: &[&[f64]],
    right: &[&[f64]],
    bootstrap: &Bootstrap,
) -> Result<PairedComparison, BootstrapError> {
    let differences = differences(left, right)?;
    let strata: Vec<&[f64]> = differences.iter().map(Vec::as_slice).collect();
    let difference = bootstrap.mean(&strata)?;
    let count = |holds: fn(f64) -> bool| {
        let all = differences.iter().flatten();
        all.filter(|difference| holds(**difference)).count()
    };
    let stratum_differences: Vec<f64> = strata.iter().map(|values| mean(values)).collect();
    Ok(PairedComparison {
        leave_one_out: leave_one_out(&stratum_differences),
        smallest_detectable: smallest_detectable(&strata),
        stratum_differences,
        difference,
        p_value: sign_flip_p(&differences, difference.estimate, bootstrap),
        wins: count(|difference| difference > 0.0),
        ties: count(|difference| difference == 0.0),
        losses: count(|difference| difference < 0.0),
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard errors of independent strata add up as squares in the mean over strata.
fn smallest_detectable(strata: &[&[f64]]) -> Option<f64> {
    let mut squares = 0.0;
    for differences in strata {
        squares += standard_error(differences)?.powi(2);
    }
    Some(detectable(squares.sqrt() / strata.len() as f64))
}

fn differences(left: &[&[f64]], right: &[&[f64]]) -> Result<Vec<Vec<f64>>, BootstrapError> {
    if left.len() != right.len() {
        let stratum = left.len().min(right.len());
        let size = |side: &[&[f64]]| side.get(stratum).map_or(0, |values| values.len());
        return Err(BootstrapError::LengthMismatch {
            stratum,
            left: size(left),
            right: size(right),
        });
    }
    let pairs = left.iter().zip(right).enumerate();
    pairs
        .map(|(stratum, (a, b))| {
            if a.len() != b.len() {
                return Err(BootstrapError::LengthMismatch {
                    stratum,
                    left: a.len(),
                    right: b.len(),
                });
            }
            Ok(a.iter().zip(*b).map(|(a, b)| a - b).collect())
        })
        .collect()
}

fn sign_flip_p(differences: &[Vec<f64>], observed: f64, settings: &Bootstrap) -> f64 {
    // Another stream than the interval's, from the same seed.
    let mut generator = ChaCha8Rng::seed_from_u64(settings.seed);
    generator.set_stream(1);
    let least = observed.abs() * (1.0 - SLACK);
    let mut as_large = 0;
    for _ in 0..settings.resamples {
        let mut total = 0.0;
        for originals in differences {
            let mut sum = 0.0;
            for originals in originals.chunks(64) {
                let bits = generator.next_u64();
                for (place, original) in originals.iter().enumerate() {
                    let negative = bits >> place & 1 == 1;
                    sum += if negative { -original } else { *original };
                }
            }
            total += sum / originals.len() as f64;
        }
        let mean = total / differences.len() as f64;
        as_large += usize::from(mean.abs() >= least);
    }
    (as_large + 1) as f64 / (settings.resamples + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clear_difference_is_small_p_and_off_zero() {
        let left: Vec<f64> = (0..30).map(|index| 1.0 + f64::from(index % 3)).collect();
        let right: Vec<f64> = left.iter().map(|value| value - 0.5).collect();
        let result = compare_paired(&[&left], &[&right], &Bootstrap::default()).unwrap();
        assert_eq!((result.wins, result.ties, result.losses), (30, 0, 0));
        assert!(result.p_value < 0.001 && result.difference.low > 0.0);
    }

    #[test]
    fn p_equals_the_exact_one_for_few_samples() {
        // Differences 1, 2, 3: |sum| >= 6 for 2 of 8 sign patterns.
        let result =
            compare_paired(&[&[1.0, 2.0, 3.0]], &[&[0.0; 3]], &Bootstrap::default()).unwrap();
        assert!((result.p_value - 0.25).abs() < 0.02, "{}", result.p_value);
    }

    #[test]
    fn equal_sides_never_differ() {
        let side = [0.25, 0.5, 1.0];
        let result = compare_paired(&[&side], &[&side], &Bootstrap::default()).unwrap();
        assert_eq!((result.ties, result.p_value), (3, 1.0));
        assert_eq!((result.difference.low, result.difference.high), (0.0, 0.0));
    }

    #[test]
    fn strata_weigh_the_same() {
        let result = compare_paired(
            &[&[1.0], &[0.0; 9]],
            &[&[0.0], &[0.0; 9]],
            &Bootstrap::default(),
        );
        assert_eq!(result.unwrap().difference.estimate, 0.5);
    }

    #[test]
    fn what_lies_behind_the_mean_is_told() {
        let (left, right) = ([[3.0, 1.0], [0.0, 0.0], [2.0, 8.0]], [[0.0; 2]; 3]);
        let left: Vec<&[f64]> = left.iter().map(|values| &values[..]).collect();
        let right: Vec<&[f64]> = right.iter().map(|values| &values[..]).collect();
        let result = compare_paired(&left, &right, &Bootstrap::default()).unwrap();
        assert_eq!(result.stratum_differences, [2.0, 0.0, 5.0]);
        assert_eq!(result.leave_one_out, Some((1.0, 3.5)));
        assert_eq!(result.samples(), 6);
        // Standard errors 1, 0 and 3: the root of 10 over three strata.
        let smallest = result.smallest_detectable.unwrap();
        assert!((smallest - 2.801585 * 10.0_f64.sqrt() / 3.0).abs() < 1e-12);
        let one = compare_paired(
            &[&[1.0], &[2.0, 3.0]],
            &[&[0.0], &[0.0; 2]],
            &Bootstrap::default(),
        );
        assert_eq!(one.unwrap().smallest_detectable, None);
    }

    #[test]
    fn flips_cross_the_line_in_either_direction() {
        let before = [0.5, 0.4, 1.0, 0.0, 0.9];
        let after = [0.4, 0.5, 1.0, 0.1, 0.0];
        assert_eq!(
            flips(&before, &after, 0.5),
            Flips {
                correct_to_wrong: 2,
                wrong_to_correct: 1
            }
        );
        assert_eq!(flips(&before, &before, 0.5), Flips::default());
    }

    #[test]
    fn sides_that_do_not_pair_up_are_errors() {
        let bootstrap = Bootstrap::default();
        assert!(compare_paired(&[&[1.0]], &[&[1.0, 2.0]], &bootstrap).is_err());
        assert!(compare_paired(&[&[1.0]], &[], &bootstrap).is_err());
        assert!(compare_paired(&[], &[], &bootstrap).is_err());
    }
}
