//! How much any allocation could gain: with D_l(B) = a_l B^-p the best split's total damage over the uniform one's is
//! mean(a^(1/(p+1)))^(p+1) / mean(a) (`research/allocation-methods.md` 3). p comes from the slope of total damage over budgets.

use ripplekv_metrics::statistics::{Bootstrap, predicted_allocation_ratio};
use ripplekv_runner::damage::StoredDamage;
use ripplekv_runner::profile::PREDICTED_EXPONENTS;

use super::allocation::AllocationBlock;
use super::measure::{Matrix, Measure};
use super::{Estimate, ends};

/// From this ratio on an allocation cannot help.
pub(crate) const HOPELESS_ABOVE: f64 = 0.98;

/// The predicted best ratio at one budget.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prediction {
    pub(crate) budget: String,
    pub(crate) samples: usize,
    /// p of D ~ B^-p over the measured budgets; `None` where it could not be measured or is not positive.
    pub(crate) exponent: Option<Estimate>,
    /// (p, ratio): one pair where p was measured, else one for each usual p.
    pub(crate) ratios: Vec<(f64, f64)>,
    /// Joint KL of the oracle's allocation over uniform's.
    pub(crate) measured: Option<Estimate>,
}

impl Prediction {
    /// Whether every ratio says that allocation cannot help.
    pub(crate) fn is_hopeless(&self) -> bool {
        !self.ratios.is_empty() && self.ratios.iter().all(|(_, ratio)| *ratio > HOPELESS_ABOVE)
    }
}

/// One row a budget that has single-layer damage.
pub(super) fn rows(
    damage: &StoredDamage,
    budgets: &[String],
    allocations: &[AllocationBlock],
    bootstrap: &Bootstrap,
) -> Vec<Prediction> {
    let exponent = exponent(damage, budgets, bootstrap);
    budgets
        .iter()
        .filter_map(|budget| {
            let matrix = Measure::SingleLayer.matrix(damage, budget);
            if matrix.rows.is_empty() {
                return None;
            }
            let mean = matrix.mean();
            let exponents = match exponent {
                Some(exponent) => vec![exponent.value],
                None => PREDICTED_EXPONENTS.to_vec(),
            };
            Some(Prediction {
                budget: budget.clone(),
                samples: matrix.rows.len(),
                exponent,
                ratios: exponents
                    .into_iter()
                    .filter_map(|p| Some((p, predicted_allocation_ratio(&mean, p)?)))
                    .collect(),
                measured: allocations
                    .iter()
                    .find(|block| block.budget == *budget)
                    .and_then(|block| block.oracle_ratio),
            })
        })
        .collect()
}

/// -slope of log total damage over log kept entries, on samples that have every budget.
fn exponent(damage: &StoredDamage, budgets: &[String], bootstrap: &Bootstrap) -> Option<Estimate> {
    let measured: Vec<&String> = budgets
        .iter()
        .filter(|budget| !Measure::SingleLayer.matrix(damage, budget).rows.is_empty())
        .collect();
    // [sample][budget]: kept entries and total damage.
    let samples: Vec<Vec<(f64, f64)>> = damage
        .samples
        .iter()
        .filter(|sample| sample.dropped.is_none())
        .filter_map(|sample| {
            measured
                .iter()
                .map(|budget| {
                    let layers = sample.budgets.get(*budget)?;
                    let kept: u64 = layers
                        .layer_tokens
                        .iter()
                        .map(|kept| u64::from(*kept))
                        .sum();
                    let is_whole = !layers.layer_tokens.is_empty() && !layers.kl.is_empty();
                    is_whole.then(|| (kept as f64, layers.kl.iter().sum()))
                })
                .collect()
        })
        .collect();
    if measured.len() < 2 || samples.is_empty() {
        return None;
    }
    let matrix = |pick: fn(&(f64, f64)) -> f64| Matrix {
        rows: samples
            .iter()
            .map(|budgets| budgets.iter().map(pick).collect())
            .collect(),
    };
    let (kept, total) = (matrix(|pair| pair.0), matrix(|pair| pair.1));
    let interval = bootstrap
        .statistic(&[samples.len()], |indices| {
            slope(&kept.means(&indices[0]), &total.means(&indices[0])).map(|slope| -slope)
        })
        .ok()?;
    (interval.estimate > 0.0).then(|| Estimate {
        value: interval.estimate,
        interval: ends(Some(interval), samples.len()),
    })
}

/// Least-squares slope of ln y over ln x; `None` unless all are positive and the x differ.
fn slope(x: &[f64], y: &[f64]) -> Option<f64> {
    if x.iter().chain(y).any(|value| *value <= 0.0) {
        return None;
    }
    let count = x.len() as f64;
    let logs = |values: &[f64]| -> Vec<f64> { values.iter().map(|value| value.ln()).collect() };
    let (x, y) = (logs(x), logs(y));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(&x), mean(&y));
    let (mut cross, mut square) = (0.0, 0.0);
    for (x, y) in x.iter().zip(&y) {
        cross += (x - x_mean) * (y - y_mean);
        square += (x - x_mean).powi(2);
    }
    (square > 0.0).then(|| cross / square)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_of_a_power_law_is_its_exponent() {
        let x = [10.0, 20.0, 40.0];
        let y = [8.0, 4.0, 2.0];
        assert!((slope(&x, &y).unwrap() + 1.0).abs() < 1e-12);
        assert_eq!(slope(&[2.0, 2.0], &[1.0, 3.0]), None);
        assert_eq!(slope(&[1.0, 2.0], &[1.0, 0.0]), None);
    }
}
