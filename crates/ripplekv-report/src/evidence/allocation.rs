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

/// Signals with several draws (`random-0`, `random-1`, ...), which are shown as their mean.
const DRAWN: [&str; 2] = ["random", "permuted"];

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
    /// Mean share of the kept entries that lie in other layers than under uniform.
    pub(crate) moved: Option<f64>,
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
        .map(with_draws_as_one)
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
            let moved: Vec<f64> = damage
                .joint
                .iter()
                .filter_map(|sample| sample.moved.get(budget))
                .filter_map(|moved| with_draws_as_one(moved).get(name).copied())
                .collect();
            Some(AllocationRow {
                moved: (!moved.is_empty()).then(|| moved.iter().sum::<f64>() / moved.len() as f64),
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

/// The signal whose numbered draw this is.
fn drawn(name: &str) -> Option<&'static str> {
    DRAWN.into_iter().find(|signal| {
        name.strip_prefix(signal)
            .is_some_and(|rest| rest.starts_with('-'))
    })
}

/// The mean over the draws of a signal in place of the draws.
fn with_draws_as_one(allocations: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let mut draws: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut all = BTreeMap::new();
    for (name, value) in allocations {
        match drawn(name) {
            Some(signal) => draws.entry(signal).or_default().push(*value),
            None => {
                all.insert(name.clone(), *value);
            }
        }
    }
    for (signal, values) in draws {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        all.insert(format!("{signal} (mean of {} draws)", values.len()), mean);
    }
    all
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
                    other == info.name
                        || (DRAWN.contains(&info.name) && other.starts_with(info.name))
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
        Some(Estimate { interval: None, .. }) => Some("too few samples for an interval"),
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
