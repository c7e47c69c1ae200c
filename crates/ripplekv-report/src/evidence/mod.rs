//! What a profile and measured damage say about the layers of one model: pure functions from stored documents to rows.
//! `../../design.md` 5 "Damage / Correlation" and `research/allocation-methods.md` 4 are followed. Tables and figures only format.

mod allocation;
mod correlation;
mod depth;
mod measure;
mod prediction;
mod read;
mod signals;
#[cfg(test)]
pub(crate) mod tests;
mod words;

use std::collections::BTreeMap;

use ripplekv_metrics::statistics::Bootstrap;
use ripplekv_runner::damage::StoredDamage;
use ripplekv_runner::profile::ProfileDocument;

use crate::budget::Budget;
use crate::files::slug;
use crate::options::ReportOptions;
use crate::stats::Interval;

pub(crate) use allocation::{AllocationBlock, Regret};
pub(crate) use correlation::{CorrelationBlock, CorrelationRow, Outcome, SENSITIVITY};
pub(crate) use depth::DepthRow;
pub(crate) use measure::Measure;
pub(crate) use prediction::Prediction;
pub use read::StoredEvidence;
pub(crate) use read::{EvidenceReader, has_evidence};
pub(crate) use words::{decimals, prediction_sentence, verdict};

/// Most bootstrap resamples behind an interval of this module; each one ranks every signal.
const RESAMPLES: usize = 2_000;

/// A number with its 95% interval where there is one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    /// `None` below [`LEAST_SAMPLES`].
    pub(crate) interval: Option<Interval>,
}

impl Estimate {
    /// Whether the interval leaves out zero on the upper side.
    pub(crate) fn is_above_zero(&self) -> bool {
        self.interval.is_some_and(|ends| ends.low > 0.0)
    }

    /// Whether the interval leaves out zero on the lower side.
    pub(crate) fn is_below_zero(&self) -> bool {
        self.interval.is_some_and(|ends| ends.high < 0.0)
    }
}

/// Mean and band of one layer's damage at one budget.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DamageCurve {
    pub(crate) budget: String,
    /// Damaged samples behind it.
    pub(crate) samples: usize,
    /// KL with only this layer compressed, one entry a layer.
    pub(crate) layers: Vec<Estimate>,
}

/// Everything a report says about one model's layers.
pub(crate) struct Evidence {
    pub(crate) model: String,
    /// File-name part, unique in a report.
    pub(crate) slug: String,
    pub(crate) profile: Option<ProfileDocument>,
    pub(crate) curves: Vec<DamageCurve>,
    pub(crate) correlations: Vec<CorrelationBlock>,
    pub(crate) allocations: Vec<AllocationBlock>,
    pub(crate) predictions: Vec<Prediction>,
    pub(crate) depth: Vec<DepthRow>,
    /// What is established and what is not, in sentences.
    pub(crate) findings: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

impl Evidence {
    /// One line that says what the section is.
    pub(crate) fn title(&self) -> String {
        format!("{}, layer by layer", self.model)
    }

    /// Sensitivity against this measure at this budget.
    pub(crate) fn correlation(&self, measure: Measure, budget: &str) -> Option<&CorrelationBlock> {
        self.correlations
            .iter()
            .find(|block| block.measure == measure && block.budget == budget)
    }
}

/// Analyses every model that has a profile or damage, in name order.
pub(crate) fn analyse(
    stored: &BTreeMap<String, StoredEvidence>,
    options: &ReportOptions,
) -> Vec<Evidence> {
    stored
        .iter()
        .filter(|(_, stored)| stored.profile.is_some() || stored.damage.is_some())
        .map(|(model, stored)| analyse_model(model, stored, options))
        .collect()
}

fn analyse_model(model: &str, stored: &StoredEvidence, options: &ReportOptions) -> Evidence {
    let bootstrap = Bootstrap {
        resamples: options.bootstrap_resamples.clamp(1, RESAMPLES),
        confidence: 0.95,
        seed: options.seed,
    };
    let mut evidence = Evidence {
        model: model.to_owned(),
        slug: format!("{}-layers", slug(model)),
        profile: stored.profile.clone(),
        curves: Vec::new(),
        correlations: Vec::new(),
        allocations: Vec::new(),
        predictions: Vec::new(),
        depth: Vec::new(),
        findings: Vec::new(),
        warnings: Vec::new(),
    };
    if let Some(damage) = &stored.damage {
        let budgets = budgets(damage);
        evidence.warnings = measure::warnings(damage);
        for budget in &budgets {
            let matrix = Measure::SingleLayer.matrix(damage, budget);
            if !matrix.rows.is_empty() {
                evidence
                    .curves
                    .push(measure::curve(budget, &matrix, &bootstrap));
                evidence
                    .depth
                    .extend(depth::row(budget, &matrix, &bootstrap));
            }
        }
        if let Some(profile) = &stored.profile {
            evidence.correlations = correlation::blocks(profile, damage, &budgets, &bootstrap);
        }
        evidence.allocations = allocation::blocks(damage, &budgets, &bootstrap);
        evidence.predictions =
            prediction::rows(damage, &budgets, &evidence.allocations, &bootstrap);
    }
    evidence.findings = words::findings(&evidence);
    evidence
}

/// Budgets that were measured, from small to large.
fn budgets(damage: &StoredDamage) -> Vec<String> {
    let mut budgets: Vec<Budget> = Vec::new();
    let single = damage
        .samples
        .iter()
        .flat_map(|sample| sample.budgets.keys());
    let joint = damage.joint.iter().flat_map(|sample| sample.budgets.keys());
    for text in single.chain(joint) {
        if !budgets.iter().any(|known| known.text == *text) {
            budgets.push(Budget::parse(text));
        }
    }
    budgets.sort_by(Budget::order);
    budgets.into_iter().map(|budget| budget.text).collect()
}

/// Samples without which there is no interval and no verdict: percentiles of fewer hold far less often than they say.
pub(crate) const LEAST_SAMPLES: usize = 6;

/// The interval as reports show it; none of fewer than [`LEAST_SAMPLES`].
fn ends(
    interval: Option<ripplekv_metrics::statistics::Interval>,
    samples: usize,
) -> Option<Interval> {
    interval
        .filter(|_| samples >= LEAST_SAMPLES)
        .map(|interval| Interval {
            low: interval.low,
            high: interval.high,
        })
}
