//! Bootstrap over two independent sets of samples at once, for many statistics together.
//! A profile's samples and a damage study's samples are both draws; a correlation between the two
//! means varies with both.

use super::bootstrap::{Bootstrap, BootstrapError, Interval};

impl Bootstrap {
    /// Intervals of `statistics` statistics of two independent sets of `first` and `second` samples.
    ///
    /// `compute` gets one index list of each set, first the identity, then each resample (drawn
    /// with replacement, the set's size kept), and gives every statistic. All of them come from
    /// the same resamples, so a difference of two statistics is a paired one if `compute` gives it
    /// too. The result has one entry a statistic: `None` where it is undefined (`None` or NaN) on
    /// the samples as they are or on every resample.
    ///
    /// # Errors
    /// On an empty set (as stratum 0 or 1) or settings out of range.
    pub fn two_level(
        &self,
        first: usize,
        second: usize,
        statistics: usize,
        compute: impl Fn(&[usize], &[usize]) -> Vec<Option<f64>>,
    ) -> Result<Vec<Option<Interval>>, BootstrapError> {
        self.check(&[first, second])?;
        let defined = |lists: &[Vec<usize>]| {
            let mut values = compute(&lists[0], &lists[1]);
            values.resize(statistics, None);
            values
                .into_iter()
                .map(|value| value.filter(|value| !value.is_nan()))
        };
        let mut lists: Vec<Vec<usize>> = vec![(0..first).collect(), (0..second).collect()];
        let estimates: Vec<Option<f64>> = defined(&lists).collect();
        let mut resampled: Vec<Vec<f64>> = vec![Vec::new(); statistics];
        self.resample(&mut lists, |lists| {
            for (values, value) in resampled.iter_mut().zip(defined(lists)) {
                values.extend(value);
            }
        });
        Ok(estimates
            .into_iter()
            .zip(resampled)
            .map(|(estimate, values)| self.interval(estimate?, values))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{column_means, spearman};

    fn settings(resamples: usize) -> Bootstrap {
        Bootstrap {
            resamples,
            ..Bootstrap::default()
        }
    }

    fn mean(values: &[f64], indices: &[usize]) -> f64 {
        indices.iter().map(|index| values[*index]).sum::<f64>() / indices.len() as f64
    }

    #[test]
    fn both_sets_are_resampled_and_differences_are_paired() {
        let one: Vec<f64> = (0..200).map(|index| f64::from(index % 2)).collect();
        let flat = [0.25; 50];
        let intervals = settings(4000)
            .two_level(200, 50, 4, |first, second| {
                let (left, right) = (mean(&one, first), mean(&flat, second));
                // The third shares the resample of the first, so it cannot vary.
                vec![
                    Some(left - right),
                    Some(right),
                    Some(left - (left + 1.0)),
                    Some(mean(&one[..50], second)),
                ]
            })
            .unwrap();
        let ends = |index: usize| {
            intervals[index]
                .map(|i| (i.estimate, i.low, i.high))
                .unwrap()
        };
        // Standard error of the mean of 200 halves: 0.0354.
        let (estimate, low, high) = ends(0);
        assert_eq!(estimate, 0.25);
        assert!(
            (high - low - 2.0 * 1.96 * 0.0354).abs() < 0.012,
            "{low} {high}"
        );
        assert_eq!(ends(1), (0.25, 0.25, 0.25));
        let (_, low, high) = ends(2);
        assert!((low + 1.0).abs() < 1e-12 && (high + 1.0).abs() < 1e-12);
        let (_, low, high) = ends(3);
        assert!(high - low > 0.2, "the second set is resampled too");
    }

    #[test]
    fn a_correlation_of_two_means_has_a_wider_interval_than_with_one_set_fixed() {
        let samples = |salt: u64| -> Vec<Vec<f64>> {
            (0..12_u64)
                .map(|row| {
                    (0..10_u64)
                        .map(|layer| {
                            layer as f64 + ((row * 7 + layer * 13 + salt * row) % 11) as f64 * 2.0
                        })
                        .collect()
                })
                .collect()
        };
        let (left, right) = (samples(3), samples(5));
        let left: Vec<&[f64]> = left.iter().map(Vec::as_slice).collect();
        let right: Vec<&[f64]> = right.iter().map(Vec::as_slice).collect();
        let all: Vec<usize> = (0..12).collect();
        let rho = |first: &[usize], second: &[usize]| {
            spearman(&column_means(&left, first), &column_means(&right, second)).ok()
        };
        let intervals = settings(2000)
            .two_level(12, 12, 2, |first, second| {
                vec![rho(first, second), rho(&all, second)]
            })
            .unwrap();
        let width = |index: usize| intervals[index].map(|i| i.high - i.low).unwrap();
        assert_eq!(intervals[0].unwrap().estimate, rho(&all, &all).unwrap());
        assert!(width(0) > width(1) && width(1) > 0.0, "{intervals:?}");
    }

    #[test]
    fn undefined_statistics_have_no_interval_and_leave_the_others_alone() {
        let identity = [0, 1, 2];
        let intervals = settings(500)
            .two_level(3, 3, 5, |first, _| {
                vec![
                    Some(first[0] as f64),
                    None,
                    Some(f64::NAN),
                    (first == identity).then_some(1.0).filter(|_| false),
                    (first != identity).then_some(2.0),
                ]
            })
            .unwrap();
        assert!(intervals[0].is_some_and(|interval| interval.undefined == 0));
        assert_eq!(intervals[1..], [None; 4]);
        let partly = settings(500)
            .two_level(3, 1, 1, |first, _| vec![(first[0] == 0).then_some(1.0)])
            .unwrap();
        let undefined = partly[0].unwrap().undefined as f64;
        assert!((undefined / 500.0 - 2.0 / 3.0).abs() < 0.08, "{undefined}");
    }

    #[test]
    fn empty_sets_and_bad_settings_are_errors() {
        let one = |_: &[usize], _: &[usize]| vec![Some(1.0)];
        assert_eq!(
            settings(5).two_level(3, 0, 1, one),
            Err(BootstrapError::EmptyStratum { stratum: 1 })
        );
        assert!(settings(0).two_level(3, 3, 1, one).is_err());
    }
}
