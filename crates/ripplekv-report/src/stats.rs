//! The statistics of a report, all from `ripplekv_metrics::statistics`; here stand only the choices: 95%, strata are tasks.
//! No interval is given where a task has fewer than two samples: a bootstrap of one sample has no width.

use ripplekv_metrics::statistics::{Bootstrap, PairedComparison, compare_paired};

use crate::options::ReportOptions;

/// Ends of a 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

fn bootstrap(options: &ReportOptions) -> Bootstrap {
    Bootstrap {
        resamples: options.bootstrap_resamples,
        confidence: 0.95,
        seed: options.seed,
    }
}

/// Interval of the mean of the groups' means, resampled inside each group.
pub(crate) fn mean_interval(groups: &[Vec<f64>], options: &ReportOptions) -> Option<Interval> {
    if groups.is_empty() || groups.iter().any(|values| values.len() < 2) {
        return None;
    }
    let strata: Vec<&[f64]> = groups.iter().map(Vec::as_slice).collect();
    let interval = bootstrap(options).mean(&strata).ok()?;
    Some(Interval {
        low: interval.low,
        high: interval.high,
    })
}

/// First side minus second side, paired within each group; `None` where nothing pairs up.
pub(crate) fn paired(
    left: &[Vec<f64>],
    right: &[Vec<f64>],
    options: &ReportOptions,
) -> Option<PairedComparison> {
    let left: Vec<&[f64]> = left.iter().map(Vec::as_slice).collect();
    let right: Vec<&[f64]> = right.iter().map(Vec::as_slice).collect();
    compare_paired(&left, &right, &bootstrap(options)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_has_no_interval() {
        let options = ReportOptions::default();
        assert_eq!(mean_interval(&[vec![50.0]], &options), None);
        assert!(mean_interval(&[vec![50.0, 70.0]], &options).is_some());
    }
}
