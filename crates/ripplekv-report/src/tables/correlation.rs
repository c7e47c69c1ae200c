//! Every signal against measured damage, and in words what each rank correlation establishes.

use crate::evidence::{CorrelationBlock, CorrelationRow, Evidence, Outcome, verdict};
use crate::stats::Interval;
use crate::tables::{Block, Column, Table, Value};

pub(super) fn build(evidence: &Evidence) -> Option<Table> {
    if evidence.correlations.is_empty() {
        return None;
    }
    let columns = vec![
        Column::label("budget"),
        Column::label("damage").spare(),
        Column::label("signal"),
        Column::number("rho"),
        Column::interval("95% interval"),
        Column::number("tau-b").spare(),
        Column::number("p (shift)").spare(),
        Column::number("p (Holm)").spare(),
        Column::number("sensitivity minus signal"),
        Column::interval("its 95% interval"),
        Column::number("reliability of signal").spare(),
        Column::number("reliability of damage").spare(),
        Column::number("rho disattenuated").spare(),
        Column::number("n profile").spare(),
        Column::number("n damage").spare(),
        Column::number("layers").spare(),
        Column::label("in words").spare(),
    ];
    let blocks = evidence
        .correlations
        .iter()
        .map(|block| Block {
            name: format!("{}, {}", block.budget, block.measure.name()),
            rows: block.rows.iter().map(|known| row(known, block)).collect(),
        })
        .collect();
    Some(Table {
        title: format!("Rank correlation of signals with measured damage: {}", evidence.model),
        columns,
        blocks,
        notes: vec![
            "rho: Spearman with mid-ranks over layers. Interval: two-level bootstrap over profile samples and damage samples; resampling adds noise of its own, so intervals lean towards 0. Differences come from the same resamples. Both say how sure the ranking of these layers is, not how another model's layers would rank.".to_owned(),
            "p (shift): share of circular shifts over depth with as large a rho; it cannot fall below one over the number of layers. p (Holm): corrected over the signals of a block. A rho counts as established when its interval leaves out 0 and p (shift) is at most 0.05 (with some 30 layers p (Holm) cannot be that small, so of the signals beside sensitivity it is a hint); a difference in favour of sensitivity when its interval leaves out 0.".to_owned(),
            "Reliability: two random halves of the samples against each other, corrected to all samples (Spearman-Brown); formulas of the layer's place have 1. Disattenuated: rho over the root of both reliabilities; it may pass 1.".to_owned(),
            "random: mean and 2.5th to 97.5th percentile of 100 random profiles. oracle: the ceiling, what a signal without noise could reach on this damage (root of its reliability, from one half of the samples against the other). KL undone by restoring the layer: joint KL of the uniform allocation less the KL that remains when this layer alone is whole.".to_owned(),
        ],
    })
}

fn row(row: &CorrelationRow, block: &CorrelationBlock) -> Vec<Value> {
    let mut values = vec![
        Value::text(block.budget.clone()),
        Value::text(block.measure.name()),
        Value::text(row.signal),
    ];
    let empty = |count: usize| std::iter::repeat_n(Value::Empty, count);
    match &row.outcome {
        Outcome::Undefined(_) => {
            values.push(Value::text("undefined"));
            values.extend(empty(7));
            values.push(Value::number(block.damage_reliability, 2));
            values.push(Value::Empty);
        }
        Outcome::Ranked {
            rho,
            tau,
            p,
            p_holm,
            sensitivity_above,
            reliability,
            disattenuated,
            ..
        } => {
            values.extend(Value::estimate(Some(*rho), 2, false));
            values.push(Value::number(*tau, 2));
            values.push(Value::number(*p, 3));
            values.push(Value::number(*p_holm, 3));
            values.extend(Value::estimate(*sensitivity_above, 2, true));
            values.push(Value::number(*reliability, 2));
            values.push(Value::number(block.damage_reliability, 2));
            values.push(Value::number(*disattenuated, 2));
        }
        Outcome::Random {
            mean, low, high, ..
        } => {
            values.push(Value::number(Some(*mean), 2));
            let ends = Interval {
                low: *low,
                high: *high,
            };
            values.push(Value::interval(Some(ends), 2, false));
            values.extend(empty(6));
            values.push(Value::number(block.damage_reliability, 2));
            values.push(Value::Empty);
        }
        Outcome::Oracle { rho, .. } => {
            values.extend(Value::estimate(Some(*rho), 2, false));
            values.extend(empty(6));
            values.push(Value::number(block.damage_reliability, 2));
            values.push(Value::Empty);
        }
    }
    values.push(Value::count(block.profile_samples));
    values.push(Value::count(block.damage_samples));
    values.push(Value::count(block.layers));
    values.push(Value::text(verdict(row)));
    values
}
