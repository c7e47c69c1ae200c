//! The four measures of a layer's damage as matrices of samples and layers. Greater is always worse.

use ripplekv_metrics::statistics::{Bootstrap, column_means};
use ripplekv_runner::damage::{LayerDamage, StoredDamage};

use super::{DamageCurve, Estimate, ends};

/// How the damage of a layer is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// KL with only this layer compressed: the primary measure.
    SingleLayer,
    /// How far KL falls when this layer is restored in a compressed whole.
    Restored,
    /// Change of the reference answer's likelihood.
    ReferenceNll,
    /// Drop of the task score.
    ScoreDrop,
}

/// Every measure, the primary one first.
pub(crate) const MEASURES: [Measure; 4] = [
    Measure::SingleLayer,
    Measure::Restored,
    Measure::ReferenceNll,
    Measure::ScoreDrop,
];

/// One measure at one budget.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Matrix {
    /// `[sample][layer]`.
    pub(crate) rows: Vec<Vec<f64>>,
}

impl Matrix {
    pub(crate) fn slices(&self) -> Vec<&[f64]> {
        self.rows.iter().map(Vec::as_slice).collect()
    }

    /// Mean over the samples at `indices`, `[layer]`.
    pub(crate) fn means(&self, indices: &[usize]) -> Vec<f64> {
        column_means(&self.slices(), indices)
    }

    /// Mean over all samples, `[layer]`.
    pub(crate) fn mean(&self) -> Vec<f64> {
        let all: Vec<usize> = (0..self.rows.len()).collect();
        self.means(&all)
    }
}

impl Measure {
    /// Name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Measure::SingleLayer => "KL, layer compressed alone",
            Measure::Restored => "KL undone by restoring the layer",
            Measure::ReferenceNll => "NLL change of the reference answer",
            Measure::ScoreDrop => "task score drop",
        }
    }

    /// Samples that were measured at this budget. They stand in the order of task and sample.
    pub(crate) fn matrix(self, damage: &StoredDamage, budget: &str) -> Matrix {
        let rows = damage
            .samples
            .iter()
            .filter(|sample| sample.dropped.is_none())
            .filter_map(|sample| sample.budgets.get(budget))
            .map(|layers| self.values(layers))
            .filter(|values| !values.is_empty())
            .collect();
        Matrix { rows }
    }

    fn values(self, damage: &LayerDamage) -> Vec<f64> {
        match self {
            Measure::SingleLayer => damage.kl.clone(),
            // What restoring a layer undoes is the joint KL of the sample less what remains. The joint KL is the same for
            // all layers, so it moves no rank, and it is left out: samples without a joint line count too.
            Measure::Restored => damage
                .leave_in_kl
                .iter()
                .map(|remaining| -remaining)
                .collect(),
            Measure::ReferenceNll => damage.reference_nll_change.clone(),
            Measure::ScoreDrop => damage.score_drop.clone(),
        }
    }
}

/// Mean damage of each layer with its bootstrap band over samples.
pub(super) fn curve(budget: &str, matrix: &Matrix, bootstrap: &Bootstrap) -> DamageCurve {
    let samples = matrix.rows.len();
    let layers = matrix
        .mean()
        .into_iter()
        .enumerate()
        .map(|(layer, value)| {
            let values: Vec<f64> = matrix.rows.iter().map(|row| row[layer]).collect();
            Estimate {
                value,
                interval: ends(bootstrap.mean(&[&values]).ok(), samples),
            }
        })
        .collect();
    DamageCurve {
        budget: budget.to_owned(),
        samples,
        layers,
    }
}

/// What a reader must know of the measured samples.
pub(super) fn warnings(damage: &StoredDamage) -> Vec<String> {
    let mut lines = Vec::new();
    let (measured, selected) = (damage.samples.len(), damage.head.selected.len());
    if measured < selected {
        lines.push(format!(
            "damage: {measured} of {selected} selected samples are measured so far"
        ));
    }
    let dropped = damage
        .samples
        .iter()
        .filter(|sample| sample.dropped.is_some());
    let dropped = dropped.count();
    if dropped > 0 {
        lines.push(format!(
            "damage: {dropped} of {measured} samples were dropped and count nowhere"
        ));
    }
    let warned = damage
        .samples
        .iter()
        .filter(|sample| !sample.warnings.is_empty());
    let warned = warned.count();
    if warned > 0 {
        lines.push(format!(
            "damage: {warned} of {measured} samples carry a warning of their own (samples.jsonl)"
        ));
    }
    lines
}
