//! How far two next-token distributions are apart, in nats.
//! Log-softmax over the whole vocabulary in f32, sums in f64 in one fixed order (design of RippleKV).

use thiserror::Error;

use super::exponential;

/// Partial sums of a divergence.
const LANES: usize = 8;

/// Why two distributions could not be compared.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DistributionError {
    /// No token at all.
    #[error("the distribution is empty")]
    Empty,
    /// Two vocabularies.
    #[error("the distributions have {left} and {right} entries")]
    LengthMismatch {
        /// Entries of the first.
        left: usize,
        /// Entries of the second.
        right: usize,
    },
    /// NaN or plus infinity; minus infinity (probability 0) is allowed.
    #[error("entry {index} of the distribution is NaN or plus infinity")]
    NotANumber {
        /// The first such entry.
        index: usize,
    },
    /// Every logit is minus infinity.
    #[error("the distribution gives every token probability 0")]
    NoMass,
}

/// Turns logits `[vocabulary]` into log-probabilities.
///
/// # Errors
/// On an empty slice, NaN, plus infinity, or nothing but minus infinity.
pub fn log_softmax(logits: &mut [f32]) -> Result<(), DistributionError> {
    pulp::Arch::new().dispatch(LogSoftmax(logits))
}

/// The same operations in wider registers; a closure in its place would be called and not inlined, and stay in narrow ones.
struct LogSoftmax<'a>(&'a mut [f32]);

impl pulp::WithSimd for LogSoftmax<'_> {
    type Output = Result<(), DistributionError>;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> Self::Output {
        log_softmax_here(self.0)
    }
}

#[inline(always)]
fn log_softmax_here(logits: &mut [f32]) -> Result<(), DistributionError> {
    let largest = largest(logits)?;
    if largest == f32::NEG_INFINITY {
        return Err(DistributionError::NoMass);
    }
    let log_sum = libm::log(exponential::sum(logits, largest)) as f32;
    for logit in logits {
        *logit = (*logit - largest) - log_sum;
    }
    Ok(())
}

/// The largest of `values`, and what [`check`] says of them, in one go.
#[inline(always)]
fn largest(values: &[f32]) -> Result<f32, DistributionError> {
    // one a lane, as vectors of the processor hold them
    let mut largest = [f32::NEG_INFINITY; LANES];
    let mut numbers = [!values.is_empty(); LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for values in whole {
        for ((largest, numbers), value) in largest.iter_mut().zip(&mut numbers).zip(values) {
            *largest = if *value > *largest { *value } else { *largest };
            *numbers &= is_number(*value);
        }
    }
    if !numbers
        .into_iter()
        .chain(rest.iter().copied().map(is_number))
        .all(|all| all)
    {
        check(values)?;
    }
    let rest = rest.iter().copied();
    Ok(largest
        .into_iter()
        .chain(rest)
        .fold(f32::NEG_INFINITY, f32::max))
}

/// KL(p || q) of two log-probability vectors `[vocabulary]`, at least 0.
///
/// Exactly 0 for equal inputs; infinite if q rules out what p allows. Rounding in the inputs can
/// bring the sum a little below 0, which is then taken as 0.
///
/// # Errors
/// On different or zero lengths, NaN or plus infinity.
pub fn kl_divergence(log_p: &[f32], log_q: &[f32]) -> Result<f64, DistributionError> {
    kl_divergence_from(&probabilities(log_p), log_p, log_q)
}

/// Probabilities of log-probabilities.
#[must_use]
pub fn probabilities(log_p: &[f32]) -> Vec<f64> {
    log_p.iter().map(|p| libm::exp(f64::from(*p))).collect()
}

/// [`kl_divergence`] where the [`probabilities`] of `log_p` are at hand, as they are when many are compared with one; `p` has
/// to be those.
///
/// # Errors
/// As [`kl_divergence`].
pub fn kl_divergence_from(
    p: &[f64],
    log_p: &[f32],
    log_q: &[f32],
) -> Result<f64, DistributionError> {
    pulp::Arch::new().dispatch(KlDivergence { p, log_p, log_q })
}

/// As [`LogSoftmax`].
struct KlDivergence<'a> {
    p: &'a [f64],
    log_p: &'a [f32],
    log_q: &'a [f32],
}

impl pulp::WithSimd for KlDivergence<'_> {
    type Output = Result<f64, DistributionError>;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> Self::Output {
        kl_divergence_here(self.p, self.log_p, self.log_q)
    }
}

#[inline(always)]
fn kl_divergence_here(p: &[f64], log_p: &[f32], log_q: &[f32]) -> Result<f64, DistributionError> {
    check_lengths(log_p.len(), log_q.len())?;
    check_lengths(log_p.len(), p.len())?;
    check(log_q)?;
    // sums beside each other, as vectors of the processor hold them
    let mut sums = [0.0; LANES];
    let (p, p_rest) = p.as_chunks::<LANES>();
    let (whole_log_p, log_p_rest) = log_p.as_chunks::<LANES>();
    let (log_q, log_q_rest) = log_q.as_chunks::<LANES>();
    let mut add = |p: &[f64], log_p: &[f32], log_q: &[f32]| {
        let terms = p.iter().zip(log_p.iter().zip(log_q));
        for (sum, (p, (log_p, log_q))) in sums.iter_mut().zip(terms) {
            *sum += weighted(*p, f64::from(*log_p), f64::from(*log_q));
        }
    };
    for ((p, log_p), log_q) in p.iter().zip(whole_log_p).zip(log_q) {
        add(p, log_p, log_q);
    }
    add(p_rest, log_p_rest, log_q_rest);
    let sum = sums.iter().sum::<f64>();
    if !sum.is_finite() {
        // a wrong entry of p is a wrong probability as well, and that makes a sum like this
        check(log_p)?;
    }
    Ok(sum.max(0.0))
}

/// Jensen-Shannon divergence of two log-probability vectors `[vocabulary]`, in [0, ln 2].
///
/// # Errors
/// As [`kl_divergence`].
pub fn jensen_shannon_divergence(log_p: &[f32], log_q: &[f32]) -> Result<f64, DistributionError> {
    check_pair(log_p, log_q)?;
    let sum: f64 = log_p
        .iter()
        .zip(log_q)
        .map(|(p, q)| {
            let (p, q) = (f64::from(*p), f64::from(*q));
            let (exp_p, exp_q) = (libm::exp(p), libm::exp(q));
            let middle = libm::log(0.5 * (exp_p + exp_q));
            0.5 * (weighted(exp_p, p, middle) + weighted(exp_q, q, middle))
        })
        .sum();
    Ok(sum.clamp(0.0, std::f64::consts::LN_2))
}

/// p (log p - log q), 0 where p is 0.
#[inline(always)]
fn weighted(p: f64, log_p: f64, log_q: f64) -> f64 {
    // worked out for every p, without a branch
    let term = p * (log_p - log_q);
    if p == 0.0 { 0.0 } else { term }
}

#[inline(always)]
fn check(values: &[f32]) -> Result<(), DistributionError> {
    if values.is_empty() {
        return Err(DistributionError::Empty);
    }
    // all of them at once; only a wrong one is looked for
    if values
        .iter()
        .fold(true, |all, value| all & is_number(*value))
    {
        return Ok(());
    }
    let index = values.iter().position(|value| !is_number(*value));
    Err(DistributionError::NotANumber {
        index: index.unwrap_or_default(),
    })
}

#[inline(always)]
fn is_number(value: f32) -> bool {
    value < f32::INFINITY
}

fn check_pair(left: &[f32], right: &[f32]) -> Result<(), DistributionError> {
    check_lengths(left.len(), right.len())?;
    check(left)?;
    check(right)
}

fn check_lengths(left: usize, right: usize) -> Result<(), DistributionError> {
    if left == right {
        return Ok(());
    }
    Err(DistributionError::LengthMismatch { left, right })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_probabilities(logits: &[f32]) -> Result<Vec<f32>, DistributionError> {
        let mut values = logits.to_vec();
        log_softmax(&mut values).map(|()| values)
    }

    fn logs(probabilities: &[f64]) -> Vec<f32> {
        probabilities.iter().map(|p| p.ln() as f32).collect()
    }

    #[test]
    fn kl_by_hand() {
        let value = kl_divergence(&logs(&[0.5, 0.5]), &logs(&[0.25, 0.75])).unwrap();
        let expected = 0.5 * 2_f64.ln() + 0.5 * (2.0_f64 / 3.0).ln();
        assert!((value - expected).abs() < 1e-7, "{value} {expected}");
    }

    #[test]
    fn equal_distributions_are_exactly_zero_apart() {
        let p = log_probabilities(&[0.3, -7.0, 2.5, f32::NEG_INFINITY]).unwrap();
        assert_eq!(kl_divergence(&p, &p), Ok(0.0));
        assert_eq!(jensen_shannon_divergence(&p, &p), Ok(0.0));
    }

    #[test]
    fn disjoint_distributions_reach_the_bounds() {
        let (p, q) = (logs(&[1.0, 0.0]), logs(&[0.0, 1.0]));
        assert_eq!(kl_divergence(&p, &q), Ok(f64::INFINITY));
        assert_eq!(
            jensen_shannon_divergence(&p, &q),
            Ok(std::f64::consts::LN_2)
        );
    }

    #[test]
    fn log_softmax_is_shift_invariant_and_sums_to_one() {
        let p = log_probabilities(&[1000.0, 1001.0, 999.0]).unwrap();
        let total: f64 = p.iter().map(|p| f64::from(*p).exp()).sum();
        assert!((total - 1.0).abs() < 1e-6);
        assert_eq!(p, log_probabilities(&[0.0, 1.0, -1.0]).unwrap());
    }

    #[test]
    fn bad_inputs_are_named() {
        assert_eq!(log_probabilities(&[]), Err(DistributionError::Empty));
        assert_eq!(
            log_probabilities(&[0.0, f32::NAN]),
            Err(DistributionError::NotANumber { index: 1 })
        );
        assert_eq!(
            log_probabilities(&[f32::NEG_INFINITY]),
            Err(DistributionError::NoMass)
        );
        for place in [0, 7, 8, 19] {
            for wrong in [f32::NAN, f32::INFINITY] {
                let good = log_probabilities(&[0.5; 20]).unwrap();
                let mut bad = good.clone();
                bad[place] = wrong;
                let error = DistributionError::NotANumber { index: place };
                assert_eq!(kl_divergence(&bad, &good), Err(error.clone()));
                assert_eq!(kl_divergence(&good, &bad), Err(error.clone()));
                assert_eq!(log_probabilities(&bad), Err(error));
            }
        }
        assert!(kl_divergence(&[], &[]).is_err());
        assert!(kl_divergence_from(&[0.5], &[-0.7, -0.7], &[-0.7, -0.7]).is_err());
        assert!(kl_divergence(&[0.0], &[0.0, 0.0]).is_err());
        assert!(jensen_shannon_divergence(&[f32::INFINITY], &[0.0]).is_err());
    }
}
