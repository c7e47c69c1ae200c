//! Rank correlation with ties: Spearman's rho and Kendall's tau-b.
//! Checked against `scipy.stats.spearmanr` and `kendalltau` (scipy 1.17.1).

use thiserror::Error;

/// Why no correlation exists.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RankError {
    /// The sides differ in length.
    #[error("{left} values against {right}")]
    LengthMismatch {
        /// Values of the first side.
        left: usize,
        /// Values of the second side.
        right: usize,
    },
    /// Fewer than two pairs.
    #[error("a rank correlation needs at least two pairs")]
    TooFew,
    /// All values of a side are equal, so there is no order to correlate.
    #[error("all values of one side are equal")]
    Constant,
    /// NaN has no rank.
    #[error("value {index} is NaN")]
    NotANumber {
        /// The first such index in its side.
        index: usize,
    },
    /// One sample cannot be halved.
    #[error("halves need at least two samples, not {samples}")]
    TooFewSamples {
        /// Samples given.
        samples: usize,
    },
    /// In every split a half had no order.
    #[error("none of {splits} splits of the samples has a rank correlation")]
    NoSplit {
        /// Splits asked for.
        splits: usize,
    },
}

/// Ranks from 1; equal values share the mean of their ranks. NaN has no meaningful rank.
pub fn mid_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for group in order.chunk_by(|a, b| values[*a] == values[*b]) {
        // First and last rank of the group add up to an integer, so the half is exact.
        let rank = (2 * before + 1 + group.len()) as f64 / 2.0;
        for index in group {
            ranks[*index] = rank;
        }
        before += group.len();
    }
    ranks
}

/// Spearman's rho in [-1, 1]: Pearson's correlation of the mid-ranks.
///
/// # Errors
/// On different lengths, fewer than two pairs, NaN, or a side without any order.
pub fn spearman(left: &[f64], right: &[f64]) -> Result<f64, RankError> {
    let [left, right] = centred_ranks(left, right)?;
    let (mut cross, mut left_square, mut right_square) = (0.0, 0.0, 0.0);
    for (a, b) in left.iter().zip(&right) {
        cross += a * b;
        left_square += a * a;
        right_square += b * b;
    }
    Ok((cross / (left_square * right_square).sqrt()).clamp(-1.0, 1.0))
}

/// Mid-ranks minus their mean, multiples of 1/2, of two sides that have a correlation.
pub(super) fn centred_ranks(left: &[f64], right: &[f64]) -> Result<[Vec<f64>; 2], RankError> {
    check(left, right)?;
    // The mean rank is the same on both sides, ties or not.
    let mean = (left.len() + 1) as f64 / 2.0;
    let sides = [left, right].map(|side| {
        let ranks = mid_ranks(side);
        ranks.iter().map(|rank| rank - mean).collect::<Vec<_>>()
    });
    if sides
        .iter()
        .any(|side| side.iter().all(|rank| *rank == 0.0))
    {
        return Err(RankError::Constant);
    }
    Ok(sides)
}

/// Kendall's tau-b in [-1, 1]; quadratic in the number of pairs.
///
/// # Errors
/// As [`spearman`].
pub fn kendall_tau_b(left: &[f64], right: &[f64]) -> Result<f64, RankError> {
    check(left, right)?;
    let (mut balance, mut left_untied, mut right_untied) = (0_i64, 0_u64, 0_u64);
    for i in 0..left.len() {
        for j in 0..i {
            let a = sign(left[i], left[j]);
            let b = sign(right[i], right[j]);
            balance += a * b;
            left_untied += a.unsigned_abs();
            right_untied += b.unsigned_abs();
        }
    }
    if left_untied == 0 || right_untied == 0 {
        return Err(RankError::Constant);
    }
    let scale = (left_untied as f64 * right_untied as f64).sqrt();
    Ok((balance as f64 / scale).clamp(-1.0, 1.0))
}

fn sign(a: f64, b: f64) -> i64 {
    i64::from(a > b) - i64::from(a < b)
}

fn check(left: &[f64], right: &[f64]) -> Result<(), RankError> {
    if left.len() != right.len() {
        return Err(RankError::LengthMismatch {
            left: left.len(),
            right: right.len(),
        });
    }
    if left.len() < 2 {
        return Err(RankError::TooFew);
    }
    for side in [left, right] {
        if let Some(index) = side.iter().position(|value| value.is_nan()) {
            return Err(RankError::NotANumber { index });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_share_their_middle_rank() {
        assert_eq!(
            mid_ranks(&[3.0, 1.0, 3.0, 2.0, 3.0]),
            [4.0, 1.0, 4.0, 2.0, 4.0]
        );
        assert_eq!(mid_ranks(&[-0.0, 0.0]), [1.5, 1.5]);
        assert_eq!(mid_ranks(&[]), [0.0; 0]);
    }

    #[test]
    fn order_and_reversed_order_are_the_ends() {
        let up = [1.0, 2.0, 3.0, 10.0];
        let down = [4.0, 3.0, 2.0, -1.0];
        assert_eq!(spearman(&up, &up), Ok(1.0));
        assert_eq!(spearman(&up, &down), Ok(-1.0));
        assert_eq!(kendall_tau_b(&up, &down), Ok(-1.0));
    }

    #[test]
    fn no_order_is_an_error_not_a_number() {
        assert_eq!(spearman(&[1.0, 1.0], &[1.0, 2.0]), Err(RankError::Constant));
        assert_eq!(
            kendall_tau_b(&[1.0, 2.0], &[1.0, 1.0]),
            Err(RankError::Constant)
        );
        assert_eq!(spearman(&[1.0], &[1.0]), Err(RankError::TooFew));
        assert_eq!(
            spearman(&[1.0, f64::NAN], &[1.0, 2.0]),
            Err(RankError::NotANumber { index: 1 })
        );
        assert!(kendall_tau_b(&[1.0, 2.0], &[1.0]).is_err());
    }
}
