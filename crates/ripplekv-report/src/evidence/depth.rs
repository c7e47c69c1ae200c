//! Whether damage rises or falls all the way with depth. Monotone is rejected when one rise and one fall, found on one half
//! of the samples, are both confirmed by an interval on the other half: what was searched for is not tested on itself.

use ripplekv_metrics::statistics::{Bootstrap, spearman};

use super::measure::Matrix;
use super::{Estimate, LEAST_SAMPLES, ends};

/// Damage over depth at one budget.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DepthRow {
    pub(crate) budget: String,
    pub(crate) samples: usize,
    /// Spearman's rho of damage with depth.
    pub(crate) rho: Option<Estimate>,
    /// How often the differences of neighbouring layers change sign.
    pub(crate) sign_changes: usize,
    /// Differences of neighbouring layers that are not zero.
    pub(crate) differences: usize,
    /// Greatest rise and greatest fall from a layer to a deeper one; `None` with too few samples or layers.
    pub(crate) steps: Option<(Step, Step)>,
}

/// A change of damage between two layers, found on one half of the samples and measured on the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) change: Estimate,
}

impl DepthRow {
    /// Whether monotone damage is rejected.
    pub(crate) fn is_not_monotone(&self) -> bool {
        self.steps
            .is_some_and(|(rise, fall)| rise.change.is_above_zero() && fall.change.is_below_zero())
    }
}

/// `None` for a single layer.
pub(super) fn row(budget: &str, damage: &Matrix, bootstrap: &Bootstrap) -> Option<DepthRow> {
    let mean = damage.mean();
    let depth: Vec<f64> = (0..mean.len()).map(|layer| layer as f64).collect();
    if mean.len() < 2 {
        return None;
    }
    let samples = damage.rows.len();
    let rho = bootstrap
        .statistic(&[samples], |indices| {
            spearman(&depth, &damage.means(&indices[0])).ok()
        })
        .ok();
    let signs: Vec<bool> = mean
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .filter(|difference| *difference != 0.0)
        .map(|difference| difference > 0.0)
        .collect();
    Some(DepthRow {
        budget: budget.to_owned(),
        samples,
        rho: rho.map(|rho| Estimate {
            value: rho.estimate,
            interval: ends(Some(rho), samples),
        }),
        sign_changes: signs.windows(2).filter(|pair| pair[0] != pair[1]).count(),
        differences: signs.len(),
        steps: steps(damage, bootstrap),
    })
}

fn steps(damage: &Matrix, bootstrap: &Bootstrap) -> Option<(Step, Step)> {
    let half = |wanted: usize| -> Vec<usize> {
        (0..damage.rows.len())
            .filter(|index| index % 2 == wanted)
            .collect()
    };
    let (search, test) = (half(0), half(1));
    if test.len() < LEAST_SAMPLES {
        return None;
    }
    let found = damage.means(&search);
    let mut pairs =
        (0..found.len()).flat_map(|from| (from + 1..found.len()).map(move |to| (from, to)));
    let first = pairs.next()?;
    let change = |pair: (usize, usize)| found[pair.1] - found[pair.0];
    let (rise, fall) = pairs.fold((first, first), |(rise, fall), pair| {
        (
            if change(pair) > change(rise) {
                pair
            } else {
                rise
            },
            if change(pair) < change(fall) {
                pair
            } else {
                fall
            },
        )
    });
    let measured = |(from, to): (usize, usize)| {
        let changes: Vec<f64> = test
            .iter()
            .map(|index| damage.rows[*index][to] - damage.rows[*index][from])
            .collect();
        let interval = bootstrap.mean(&[&changes]).ok()?;
        Some(Step {
            from,
            to,
            change: Estimate {
                value: interval.estimate,
                interval: ends(Some(interval), test.len()),
            },
        })
    };
    Some((measured(rise)?, measured(fall)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bootstrap() -> Bootstrap {
        Bootstrap {
            resamples: 200,
            ..Bootstrap::default()
        }
    }

    fn matrix(curve: &[f64], samples: usize) -> Matrix {
        let rows = (0..samples).map(|sample| {
            let level = 1.0 + 0.01 * sample as f64;
            curve.iter().map(|value| value * level).collect()
        });
        Matrix {
            rows: rows.collect(),
        }
    }

    #[test]
    fn a_peak_in_the_middle_is_not_monotone_and_a_slope_is() {
        let peaked = row("10%", &matrix(&[1.0, 2.0, 5.0, 3.0, 1.0], 12), &bootstrap()).unwrap();
        assert!(peaked.is_not_monotone());
        assert_eq!((peaked.sign_changes, peaked.differences), (1, 4));
        let (rise, fall) = peaked.steps.unwrap();
        assert_eq!((rise.from, rise.to, fall.from, fall.to), (0, 2, 2, 4));
        let falling = row("10%", &matrix(&[5.0, 4.0, 2.0, 1.0], 12), &bootstrap()).unwrap();
        assert!(!falling.is_not_monotone());
        assert_eq!(
            (falling.sign_changes, falling.rho.unwrap().value),
            (0, -1.0)
        );
        assert_eq!(
            row("10%", &matrix(&[1.0, 2.0, 1.0], 3), &bootstrap())
                .unwrap()
                .steps,
            None
        );
    }
}
