//! Percentile bootstrap, stratified, seeded.
//! Efron 1979; percentiles by linear interpolation, as `numpy.percentile` does by default.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::Serialize;
use thiserror::Error;

use super::summary::quantile_of_sorted;

/// How to resample. Equal settings give equal intervals on every platform.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bootstrap {
    /// Number of resamples, at least 1.
    pub resamples: usize,
    /// Share of the resamples inside the interval, between 0 and 1.
    pub confidence: f64,
    /// Seed of the ChaCha8 generator.
    pub seed: u64,
}

/// A statistic with its percentile interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The statistic of the data as they are.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Share of the resamples inside.
    pub confidence: f64,
    /// Resamples on which the statistic does not exist; they are left out.
    pub undefined: usize,
}

/// Why no interval could be given.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum BootstrapError {
    /// A stratum without samples, or no stratum.
    #[error("stratum {stratum} has no samples")]
    EmptyStratum {
        /// Index of the stratum.
        stratum: usize,
    },
    /// The two sides of a comparison do not pair up.
    #[error("stratum {stratum} pairs {left} samples with {right}")]
    LengthMismatch {
        /// Index of the stratum.
        stratum: usize,
        /// Samples of the first side.
        left: usize,
        /// Samples of the second side.
        right: usize,
    },
    /// Settings outside their range.
    #[error(
        "resamples must be at least 1 and confidence between 0 and 1, not {resamples} and {confidence}"
    )]
    Settings {
        /// As given.
        resamples: usize,
        /// As given.
        confidence: f64,
    },
    /// The statistic does not exist on the data, or on no resample.
    #[error("the statistic is undefined on these samples")]
    Undefined,
}

impl Default for Bootstrap {
    /// 10,000 resamples, 95%, seed 0.
    fn default() -> Self {
        Self {
            resamples: 10_000,
            confidence: 0.95,
            seed: 0,
        }
    }
}

impl Bootstrap {
    /// The interval of the mean of the strata's means; one stratum gives the plain mean.
    ///
    /// Each stratum is resampled within itself and keeps its size.
    ///
    /// # Errors
    /// On an empty stratum or settings out of range.
    pub fn mean(&self, strata: &[&[f64]]) -> Result<Interval, BootstrapError> {
        let sizes: Vec<_> = strata.iter().map(|values| values.len()).collect();
        self.statistic(&sizes, |indices| {
            let mut total = 0.0;
            for (values, indices) in strata.iter().zip(indices) {
                let sum: f64 = indices.iter().map(|index| values[*index]).sum();
                total += sum / indices.len() as f64;
            }
            Some(total / strata.len() as f64)
        })
    }

    /// The interval of any statistic of resampled indices.
    ///
    /// `sizes` holds the number of samples of each stratum; `statistic` gets one index list per
    /// stratum, first the identity, then each resample. Resampling several levels at once
    /// (samples and layers) is passing each level as a stratum.
    ///
    /// # Errors
    /// On an empty stratum, settings out of range, or a statistic that is never defined.
    pub fn statistic(
        &self,
        sizes: &[usize],
        mut statistic: impl FnMut(&[Vec<usize>]) -> Option<f64>,
    ) -> Result<Interval, BootstrapError> {
        self.check(sizes)?;
        let mut defined =
            |indices: &[Vec<usize>]| statistic(indices).filter(|value| !value.is_nan());
        let mut indices: Vec<Vec<usize>> = sizes.iter().map(|size| (0..*size).collect()).collect();
        let estimate = defined(&indices).ok_or(BootstrapError::Undefined)?;

        let mut values = Vec::with_capacity(self.resamples);
        self.resample(&mut indices, |indices| values.extend(defined(indices)));
        self.interval(estimate, values)
            .ok_or(BootstrapError::Undefined)
    }

    /// Fills the index lists with each resample in turn; every list keeps its size.
    pub(super) fn resample(
        &self,
        indices: &mut [Vec<usize>],
        mut visit: impl FnMut(&[Vec<usize>]),
    ) {
        let mut generator = ChaCha8Rng::seed_from_u64(self.seed);
        for _ in 0..self.resamples {
            for indices in indices.iter_mut() {
                let size = indices.len();
                for index in indices {
                    *index = index_below(&mut generator, size);
                }
            }
            visit(indices);
        }
    }

    /// The percentile interval of the resamples' defined values; `None` if there are none.
    pub(super) fn interval(&self, estimate: f64, mut values: Vec<f64>) -> Option<Interval> {
        if values.is_empty() {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let tail = (1.0 - self.confidence) / 2.0;
        Some(Interval {
            estimate,
            low: quantile_of_sorted(&values, tail),
            high: quantile_of_sorted(&values, 1.0 - tail),
            confidence: self.confidence,
            undefined: self.resamples - values.len(),
        })
    }

    pub(super) fn check(&self, sizes: &[usize]) -> Result<(), BootstrapError> {
        let confidence_ok = self.confidence > 0.0 && self.confidence < 1.0;
        if self.resamples == 0 || !confidence_ok {
            return Err(BootstrapError::Settings {
                resamples: self.resamples,
                confidence: self.confidence,
            });
        }
        let empty = sizes.iter().position(|size| *size == 0);
        match empty.or(sizes.is_empty().then_some(0)) {
            Some(stratum) => Err(BootstrapError::EmptyStratum { stratum }),
            None => Ok(()),
        }
    }
}

/// A uniform index below `bound`, without bias (Lemire 2019). Written here so that stored
/// intervals do not depend on a library's choice of algorithm.
pub(super) fn index_below(generator: &mut ChaCha8Rng, bound: usize) -> usize {
    let bound = bound as u64;
    let threshold = bound.wrapping_neg() % bound;
    loop {
        let product = u128::from(generator.next_u64()) * u128::from(bound);
        if product as u64 >= threshold {
            return (product >> 64) as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_interval_and_another_seed_another() {
        let values: Vec<f64> = (0..40).map(|index| f64::from(index % 7)).collect();
        let bootstrap = Bootstrap {
            resamples: 500,
            ..Bootstrap::default()
        };
        let first = bootstrap.mean(&[&values]).unwrap();
        assert_eq!(first, bootstrap.mean(&[&values]).unwrap());
        let other = Bootstrap {
            seed: 1,
            ..bootstrap
        };
        assert_ne!(first, other.mean(&[&values]).unwrap());
        assert!(first.low < first.estimate && first.estimate < first.high);
    }

    #[test]
    fn the_interval_of_a_mean_is_near_the_normal_one() {
        let values: Vec<f64> = (0..400).map(|index| f64::from(index % 2)).collect();
        let interval = Bootstrap::default().mean(&[&values]).unwrap();
        // Standard error 0.025; 1.96 of them on each side.
        assert!((interval.low - 0.451).abs() < 0.006, "{interval:?}");
        assert!((interval.high - 0.549).abs() < 0.006, "{interval:?}");
    }

    #[test]
    fn strata_are_never_mixed() {
        // Constant strata cannot vary when each is resampled within itself.
        let interval = Bootstrap::default().mean(&[&[0.0; 5], &[1.0; 50]]).unwrap();
        assert_eq!((interval.low, interval.high), (0.5, 0.5));
        let pooled = [[0.0; 5].as_slice(), &[1.0; 50]].concat();
        let interval = Bootstrap::default().mean(&[&pooled]).unwrap();
        assert!(interval.low < interval.high);
    }

    #[test]
    fn undefined_resamples_are_counted() {
        let values = [1.0, 2.0, 3.0];
        let bootstrap = Bootstrap {
            resamples: 1000,
            ..Bootstrap::default()
        };
        let interval = bootstrap
            .statistic(&[3], |indices| {
                let drawn: Vec<f64> = indices[0].iter().map(|index| values[*index]).collect();
                super::super::spearman(&drawn, &drawn).ok()
            })
            .unwrap();
        // All three equal: 3 of 27.
        assert!((interval.undefined as f64 / 1000.0 - 1.0 / 9.0).abs() < 0.03);
        assert_eq!(interval.low, 1.0);
    }

    #[test]
    fn bad_settings_are_errors() {
        let bootstrap = Bootstrap::default();
        assert_eq!(
            bootstrap.mean(&[&[1.0], &[]]),
            Err(BootstrapError::EmptyStratum { stratum: 1 })
        );
        assert_eq!(
            bootstrap.mean(&[]),
            Err(BootstrapError::EmptyStratum { stratum: 0 })
        );
        assert!(
            Bootstrap {
                resamples: 0,
                ..bootstrap
            }
            .mean(&[&[1.0]])
            .is_err()
        );
        assert!(
            Bootstrap {
                confidence: 1.0,
                ..bootstrap
            }
            .mean(&[&[1.0]])
            .is_err()
        );
        assert_eq!(
            bootstrap.statistic(&[2], |_| None),
            Err(BootstrapError::Undefined)
        );
    }
}
