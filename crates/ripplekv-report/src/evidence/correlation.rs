//! How well each signal ranks the layers by measured damage: Spearman's rho with a two-level bootstrap (profile samples x
//! damage samples), Kendall's tau-b, circular-shift p, reliabilities, and the difference from sensitivity on the same resamples.

use ripplekv_metrics::statistics::{
    Bootstrap, RankError, circular_shift_p_value, disattenuated, holm, kendall_tau_b, quantile,
    spearman, spearman_brown, split_half_reliability,
};
use ripplekv_runner::damage::StoredDamage;
use ripplekv_runner::profile::ProfileDocument;

use super::measure::{MEASURES, Matrix, Measure};
use super::signals::{self, RANDOM_DRAWS, Values};
use super::{Estimate, ends};

/// The signal that the others are compared with.
pub(crate) const SENSITIVITY: &str = "sensitivity";

/// Random splits behind a reliability.
const SPLITS: usize = 200;

/// One measure at one budget: every signal against it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CorrelationBlock {
    pub(crate) measure: Measure,
    pub(crate) budget: String,
    pub(crate) layers: usize,
    pub(crate) profile_samples: usize,
    pub(crate) damage_samples: usize,
    /// Split-half reliability of the damage, corrected to all samples.
    pub(crate) damage_reliability: Option<f64>,
    pub(crate) rows: Vec<CorrelationRow>,
}

/// One signal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CorrelationRow {
    pub(crate) signal: &'static str,
    pub(crate) outcome: Outcome,
}

/// What came of ranking one signal against one damage.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// No rank correlation exists; why, in words.
    Undefined(String),
    /// A signal with one value a layer.
    Ranked {
        rho: Estimate,
        tau: Option<f64>,
        p: Option<f64>,
        p_holm: Option<f64>,
        /// rho of sensitivity minus rho of this signal; `None` for sensitivity itself.
        sensitivity_above: Option<Estimate>,
        /// Split-half reliability of the signal, corrected to all samples; 1 for formulas of the layer's place.
        reliability: Option<f64>,
        disattenuated: Option<f64>,
        /// Share of the resamples on which rho does not exist.
        undefined_share: f64,
    },
    /// Many random profiles.
    Random {
        mean: f64,
        /// 2.5th to 97.5th percentile of the draws.
        low: f64,
        high: f64,
        /// Draws whose rho is below that of sensitivity.
        below_sensitivity: usize,
    },
    /// Damage on one half of the samples against the other half.
    Oracle {
        half: f64,
        /// The most that a signal without noise could reach on all samples: the root of the reliability that
        /// Spearman-Brown gives.
        rho: Estimate,
    },
}

impl CorrelationBlock {
    pub(crate) fn row(&self, signal: &str) -> Option<&CorrelationRow> {
        self.rows.iter().find(|row| row.signal == signal)
    }
}

/// Every measure that has samples, at every budget.
pub(super) fn blocks(
    profile: &ProfileDocument,
    damage: &StoredDamage,
    budgets: &[String],
    bootstrap: &Bootstrap,
) -> Vec<CorrelationBlock> {
    let signals = signals::all(profile, damage.head.recipe.seed);
    let reliabilities: Vec<Option<f64>> = signals
        .iter()
        .map(|(_, values)| match values {
            Values::Samples(matrix) => reliability(matrix, bootstrap.seed),
            _ => Some(1.0),
        })
        .collect();
    let mut blocks = Vec::new();
    for measure in MEASURES {
        for budget in budgets {
            let matrix = measure.matrix(damage, budget);
            if !matrix.rows.is_empty() {
                let signals = Signals {
                    all: &signals,
                    reliabilities: &reliabilities,
                    profile_samples: profile.samples.len(),
                };
                blocks.push(block(measure, budget, &matrix, &signals, bootstrap));
            }
        }
    }
    blocks
}

struct Signals<'a> {
    all: &'a [(&'static str, Values)],
    reliabilities: &'a [Option<f64>],
    profile_samples: usize,
}

/// Reliability of the column means over all samples; `None` where halves have no order or there are too few samples.
fn reliability(matrix: &Matrix, seed: u64) -> Option<f64> {
    split_half_reliability(&matrix.slices(), SPLITS, seed)
        .ok()
        .map(|split| split.spearman_brown)
}

fn block(
    measure: Measure,
    budget: &str,
    damage: &Matrix,
    signals: &Signals<'_>,
    bootstrap: &Bootstrap,
) -> CorrelationBlock {
    let mean = damage.mean();
    let damage_reliability = reliability(damage, bootstrap.seed);
    let resampled = resampled(damage, signals, bootstrap);
    let tested: Vec<(usize, f64)> = signals
        .all
        .iter()
        .enumerate()
        .filter_map(|(place, (_, values))| {
            let p = circular_shift_p_value(&values.mean()?, &mean).ok()?;
            Some((place, p))
        })
        .collect();
    let raw: Vec<f64> = tested.iter().map(|(_, p)| *p).collect();
    let adjusted = holm(&raw);
    let p_of = |place: usize| {
        let index = tested.iter().position(|(tested, _)| *tested == place)?;
        Some((raw[index], adjusted[index]))
    };
    let rows = signals
        .all
        .iter()
        .enumerate()
        .map(|(place, (signal, values))| {
            let outcome = match values {
                Values::Random(draws) => {
                    random(draws, &mean, resampled.rho_of_sensitivity(signals))
                }
                Values::Oracle => oracle(damage, &resampled, place),
                Values::Samples(_) | Values::Place(_) => {
                    let value = values.mean().unwrap_or_default();
                    match spearman(&value, &mean) {
                        Err(error) => Outcome::Undefined(in_words(&error, measure, &mean)),
                        Ok(rho) => Outcome::Ranked {
                            rho: Estimate {
                                value: rho,
                                interval: resampled.rho[place].and_then(|known| known.interval),
                            },
                            tau: kendall_tau_b(&value, &mean).ok(),
                            p: p_of(place).map(|both| both.0),
                            p_holm: p_of(place).map(|both| both.1),
                            sensitivity_above: resampled.difference(place, signal),
                            reliability: signals.reliabilities[place],
                            disattenuated: signals.reliabilities[place]
                                .zip(damage_reliability)
                                .and_then(|(left, right)| disattenuated(rho, left, right)),
                            undefined_share: resampled.undefined[place],
                        },
                    }
                }
            };
            CorrelationRow { signal, outcome }
        })
        .collect();
    CorrelationBlock {
        measure,
        budget: budget.to_owned(),
        layers: mean.len(),
        profile_samples: signals.profile_samples,
        damage_samples: damage.rows.len(),
        damage_reliability,
        rows,
    }
}

/// Intervals that all come from the same resamples, by the signal's place.
struct Resampled {
    rho: Vec<Option<Estimate>>,
    above: Vec<Option<Estimate>>,
    undefined: Vec<f64>,
}

impl Resampled {
    fn difference(&self, place: usize, signal: &str) -> Option<Estimate> {
        self.above[place].filter(|_| signal != SENSITIVITY)
    }

    fn rho_of_sensitivity(&self, signals: &Signals<'_>) -> Option<f64> {
        let place = signals
            .all
            .iter()
            .position(|(name, _)| *name == SENSITIVITY)?;
        self.rho[place].map(|rho| rho.value)
    }
}

fn resampled(damage: &Matrix, signals: &Signals<'_>, bootstrap: &Bootstrap) -> Resampled {
    let count = signals.all.len();
    let sensitivity = signals
        .all
        .iter()
        .position(|(name, _)| *name == SENSITIVITY);
    let rows = damage.slices();
    let intervals = bootstrap.two_level(
        signals.profile_samples,
        rows.len(),
        2 * count,
        |profile, chosen| {
            let mean = damage.means(chosen);
            let mut values: Vec<Option<f64>> = signals
                .all
                .iter()
                .map(|(_, values)| match values {
                    Values::Samples(matrix) => spearman(&matrix.means(profile), &mean).ok(),
                    Values::Place(place) => spearman(place, &mean).ok(),
                    Values::Random(_) => None,
                    Values::Oracle => between_halves(damage, chosen)
                        .map(|half| spearman_brown(half).max(0.0).sqrt()),
                })
                .collect();
            let base = sensitivity.and_then(|place| values[place]);
            let above: Vec<Option<f64>> = values.iter().map(|rho| Some(base? - (*rho)?)).collect();
            values.extend(above);
            values
        },
    );
    // An error means that there is nothing to resample: then no statistic has an interval.
    let intervals = intervals.unwrap_or_else(|_| vec![None; 2 * count]);
    let estimate = |place: usize, signal: usize| {
        let interval = intervals[place]?;
        // One profile sample says nothing on how another would rank the layers; places need none.
        let smallest = match &signals.all[signal].1 {
            Values::Samples(_) => signals.profile_samples.min(rows.len()),
            _ if place >= count => signals.profile_samples.min(rows.len()),
            _ => rows.len(),
        };
        Some(Estimate {
            value: interval.estimate,
            interval: ends(Some(interval), smallest),
        })
    };
    Resampled {
        rho: (0..count).map(|place| estimate(place, place)).collect(),
        above: (0..count)
            .map(|place| estimate(count + place, place))
            .collect(),
        undefined: (0..count)
            .map(|place| {
                intervals[place].map_or(0.0, |interval| {
                    interval.undefined as f64 / bootstrap.resamples as f64
                })
            })
            .collect(),
    }
}

/// Spearman's rho between the two halves of the chosen samples. The halves are fixed (every second sample, in the order of
/// task and sample), so that no sample stands on both sides of a resample.
fn between_halves(damage: &Matrix, chosen: &[usize]) -> Option<f64> {
    let half = |wanted: usize| -> Vec<usize> {
        chosen
            .iter()
            .copied()
            .filter(|index| index % 2 == wanted)
            .collect()
    };
    let (even, odd) = (half(0), half(1));
    if even.is_empty() || odd.is_empty() {
        return None;
    }
    spearman(&damage.means(&even), &damage.means(&odd)).ok()
}

fn oracle(damage: &Matrix, resampled: &Resampled, place: usize) -> Outcome {
    let all: Vec<usize> = (0..damage.rows.len()).collect();
    match (between_halves(damage, &all), resampled.rho[place]) {
        (Some(half), Some(rho)) => Outcome::Oracle { half, rho },
        _ if damage.rows.len() < 2 => Outcome::Undefined("one sample has no halves".to_owned()),
        _ => Outcome::Undefined("a half has the same damage on every layer".to_owned()),
    }
}

fn random(draws: &[Vec<f64>], damage: &[f64], sensitivity: Option<f64>) -> Outcome {
    let rhos: Vec<f64> = draws
        .iter()
        .filter_map(|draw| spearman(draw, damage).ok())
        .collect();
    match (quantile(&rhos, 0.025), quantile(&rhos, 0.975)) {
        (Some(low), Some(high)) => Outcome::Random {
            mean: rhos.iter().sum::<f64>() / rhos.len() as f64,
            low,
            high,
            below_sensitivity: sensitivity
                .map_or(0, |known| rhos.iter().filter(|rho| **rho < known).count()),
        },
        _ => Outcome::Undefined(format!(
            "none of {RANDOM_DRAWS} draws has a rank correlation with this damage"
        )),
    }
}

fn in_words(error: &RankError, measure: Measure, damage: &[f64]) -> String {
    match (error, damage.first()) {
        (RankError::Constant, Some(first)) if damage.iter().all(|value| value == first) => {
            format!(
                "undefined: the {} is {first} on every layer",
                measure.name()
            )
        }
        (RankError::Constant, _) => "undefined: the signal is the same on every layer".to_owned(),
        (RankError::TooFew, _) => "undefined: a single layer has no order".to_owned(),
        (other, _) => format!("undefined: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use ripplekv_runner::damage::{SIGNALS, SignalSource};

    use super::*;

    #[test]
    fn the_first_signal_is_sensitivity_and_two_sources_are_single() {
        assert_eq!(SIGNALS[0].name, SENSITIVITY);
        for source in [SignalSource::Random, SignalSource::Oracle] {
            let of_source = SIGNALS.iter().filter(|info| info.source == source);
            assert_eq!(of_source.count(), 1);
        }
    }
}
