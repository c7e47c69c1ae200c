//! Joint damage (all layers compressed at once) of each allocation, paired by sample, and its regret:
//! (D_signal - D_oracle) / (D_uniform - D_oracle), given only where the denominator's interval leaves out zero.

use std::collections::BTreeMap;

use ripplekv_metrics::statistics::Bootstrap;
use ripplekv_runner::damage::{SIGNALS, StoredDamage};

use super::{Estimate, ends};

/// The allocation that gives every layer the same.
pub(crate) const UNIFORM: &str = "uniform";
/// The allocation by damage of the other half of the samples.
pub(crate) const ORACLE: &str = "oracle";

/// Start of the names of random allocations, which are shown as one.
const RANDOM: &str = "random-";

/// Joint damage at one budget.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AllocationBlock {
    pub(crate) budget: String,
    /// Samples that have every allocation.
    pub(crate) samples: usize,
    /// Samples left out because an allocation is missing.
    pub(crate) incomplete: usize,
    /// D_uniform - D_oracle; `None` where one of them was not measured.
    pub(crate) room: Option<Estimate>,
    /// D_oracle / D_uniform.
    pub(crate) oracle_ratio: Option<Estimate>,
    pub(crate) rows: Vec<AllocationRow>,
}

/// One allocation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AllocationRow {
    pub(crate) name: String,
    /// Mean joint KL in nats.
    pub(crate) joint: Estimate,
    /// Joint KL minus that of uniform; `None` for uniform itself.
    pub(crate) from_uniform: Option<Estimate>,
    pub(crate) regret: Regret,
}

/// Regret of one allocation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Regret {
    /// 0 is the oracle, 1 is uniform.
    Known(Estimate),
    /// Why there is none.
    Unknown(&'static str),
}

/// Joint damage at every budget that has it.
pub(super) fn blocks(
    damage: &StoredDamage,
    budgets: &[String],
    bootstrap: &Bootstrap,
) -> Vec<AllocationBlock> {
    budgets
        .iter()
        .filter_map(|budget| block(damage, budget, bootstrap))
        .collect()
}

fn block(damage: &StoredDamage, budget: &str, bootstrap: &Bootstrap) -> Option<AllocationBlock> {
    let measured: Vec<BTreeMap<String, f64>> = damage
        .joint
        .iter()
        .filter_map(|sample| sample.budgets.get(budget))
        .filter(|allocations| !allocations.is_empty())
        .map(with_random_as_one)
        .collect();
    let names = names(&measured);
    let complete: Vec<&BTreeMap<String, f64>> = measured
        .iter()
        .filter(|allocations| names.iter().all(|name| allocations.contains_key(name)))
        .collect();
    if complete.is_empty() {
        return None;
    }
    let column = |name: &str| -> Option<Vec<f64>> {
        complete
            .iter()
            .map(|sample| sample.get(name).copied())
            .collect()
    };
    let over = Over {
        bootstrap,
        samples: complete.len(),
    };
    let (uniform, oracle) = (column(UNIFORM), column(ORACLE));
    let room = uniform
        .as_ref()
        .zip(oracle.as_ref())
        .and_then(|(uniform, oracle)| over.difference(uniform, oracle));
    let reason = no_regret(room, &uniform, &oracle);
    let rows = names
        .iter()
        .filter_map(|name| {
            let values = column(name)?;
            let regret = match (reason, &uniform, &oracle) {
                (None, Some(uniform), Some(oracle)) => over
                    .regret(&values, uniform, oracle)
                    .map_or(Regret::Unknown("undefined"), Regret::Known),
                (reason, _, _) => Regret::Unknown(reason.unwrap_or("undefined")),
            };
            Some(AllocationRow {
                joint: over.mean(&values)?,
                from_uniform: uniform
                    .as_ref()
                    .filter(|_| name != UNIFORM)
                    .and_then(|uniform| over.difference(&values, uniform)),
                regret,
                name: name.clone(),
            })
        })
        .collect();
    Some(AllocationBlock {
        budget: budget.to_owned(),
        samples: complete.len(),
        incomplete: measured.len() - complete.len(),
        room,
        oracle_ratio: uniform
            .as_ref()
            .zip(oracle.as_ref())
            .and_then(|(uniform, oracle)| over.ratio(oracle, uniform)),
        rows,
    })
}

/// The mean over random draws in place of the draws.
fn with_random_as_one(allocations: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let (draws, mut others): (BTreeMap<&String, f64>, BTreeMap<String, f64>) = (
        allocations
            .iter()
            .filter(|(name, _)| name.starts_with(RANDOM))
            .map(|(name, value)| (name, *value))
            .collect(),
        allocations
            .iter()
            .filter(|(name, _)| !name.starts_with(RANDOM))
            .map(|(name, value)| (name.clone(), *value))
            .collect(),
    );
    if !draws.is_empty() {
        let mean = draws.values().sum::<f64>() / draws.len() as f64;
        others.insert(format!("random (mean of {} draws)", draws.len()), mean);
    }
    others
}

/// Every allocation: uniform, oracle, then the signals in table order, then others by name.
fn names(measured: &[BTreeMap<String, f64>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in measured.iter().flat_map(BTreeMap::keys) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    let place = |name: &String| match name.as_str() {
        UNIFORM => 0,
        ORACLE => 1,
        other => {
            2 + SIGNALS
                .iter()
                .position(|info| {
                    other == info.name || (info.name == "random" && other.starts_with(info.name))
                })
                .unwrap_or(SIGNALS.len())
        }
    };
    names.sort_by(|left, right| (place(left), left).cmp(&(place(right), right)));
    names
}

fn no_regret(
    room: Option<Estimate>,
    uniform: &Option<Vec<f64>>,
    oracle: &Option<Vec<f64>>,
) -> Option<&'static str> {
    match room {
        None if uniform.is_none() => Some("uniform was not measured"),
        None if oracle.is_none() => Some("the oracle was not measured"),
        Some(room) if room.is_above_zero() => None,
        Some(room) if room.is_below_zero() => Some("the oracle is worse than uniform"),
        Some(Estimate { interval: None, .. }) => Some("fewer than two samples, so no interval"),
        _ => Some("the oracle is not distinguishable from uniform"),
    }
}

/// Statistics over the samples of a block. The seed makes all of them use the same resamples.
struct Over<'a> {
    bootstrap: &'a Bootstrap,
    samples: usize,
}

impl Over<'_> {
    fn statistic(&self, compute: impl Fn(&[usize]) -> Option<f64>) -> Option<Estimate> {
        let interval = self
            .bootstrap
            .statistic(&[self.samples], |indices| compute(&indices[0]))
            .ok()?;
        Some(Estimate {
            value: interval.estimate,
            interval: ends(Some(interval), self.samples),
        })
    }

    fn mean(&self, values: &[f64]) -> Option<Estimate> {
        self.statistic(|chosen| Some(mean_of(values, chosen)))
    }

    fn difference(&self, left: &[f64], right: &[f64]) -> Option<Estimate> {
        self.statistic(|chosen| Some(mean_of(left, chosen) - mean_of(right, chosen)))
    }

    fn ratio(&self, above: &[f64], below: &[f64]) -> Option<Estimate> {
        self.statistic(|chosen| {
            let below = mean_of(below, chosen);
            (below > 0.0).then(|| mean_of(above, chosen) / below)
        })
    }

    fn regret(&self, signal: &[f64], uniform: &[f64], oracle: &[f64]) -> Option<Estimate> {
        self.statistic(|chosen| {
            let oracle = mean_of(oracle, chosen);
            let room = mean_of(uniform, chosen) - oracle;
            (room != 0.0).then(|| (mean_of(signal, chosen) - oracle) / room)
        })
    }
}

fn mean_of(values: &[f64], chosen: &[usize]) -> f64 {
    chosen.iter().map(|index| values[*index]).sum::<f64>() / chosen.len() as f64
}
