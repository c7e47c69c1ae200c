//! The same scorer under other allocators at equal budgets: what is lost when sensitivity is replaced.

use crate::group::Group;
use crate::options::ReportOptions;
use crate::pairing::{Difference, SMALLEST_NOTE, rows_difference};
use crate::stats::holm;
use crate::tables::{Block, Column, Table, Value};

/// Method that the others are measured against.
const REFERENCE: &str = "ripplekv";
const REFERENCE_ALLOCATOR: &str = "ripple";

pub(super) fn build(group: &Group, options: &ReportOptions) -> Option<Table> {
    let reference = reference(group)?;
    let scorer = parameter(group, &reference, "scorer")?;
    let others: Vec<(&str, String)> = group
        .budgeted_methods()
        .into_iter()
        .filter(|label| parameter(group, label, "scorer").as_deref() == Some(&scorer))
        .filter_map(|label| Some((label, parameter(group, label, "allocator")?)))
        .filter(|(_, allocator)| allocator != REFERENCE_ALLOCATOR)
        .collect();
    let blocks: Vec<Block> = group
        .budgets
        .iter()
        .map(|budget| Block {
            name: budget.text.clone(),
            rows: rows(group, &reference, &others, &budget.text, options),
        })
        .filter(|block| !block.rows.is_empty())
        .collect();
    if blocks.is_empty() {
        return None;
    }
    Some(Table {
        title: format!("Other allocators than {reference}'s: {}", group.title()),
        columns: vec![
            Column::label("budget"),
            Column::label("method"),
            Column::label("allocator"),
            Column::number(&format!("minus {reference}")),
            Column::interval("95% interval"),
            Column::number("smallest n could show"),
            Column::number("p (Holm)"),
            Column::number("n"),
            Column::label("in words"),
        ],
        blocks,
        notes: vec![
            format!(
                "Average score in points minus that of {reference}, scorer {scorer} in all rows, paired by sample, every task weighing the same. Negative: {reference} is better. Interval: paired bootstrap inside each task. p: sign-flip test, Holm's correction over the rows of one budget."
            ),
            SMALLEST_NOTE.to_owned(),
        ],
    })
}

/// The method's plain setting where it was run, else its first one.
fn reference(group: &Group) -> Option<String> {
    let settings: Vec<&str> = group
        .budgeted_methods()
        .into_iter()
        .filter(|label| {
            group
                .cells
                .iter()
                .any(|((known, _, _), cell)| known == label && cell.cell.method.name == REFERENCE)
        })
        .filter(|label| {
            parameter(group, label, "allocator").as_deref() == Some(REFERENCE_ALLOCATOR)
        })
        .collect();
    settings
        .iter()
        .find(|label| **label == REFERENCE)
        .or(settings.first())
        .map(|label| (*label).to_owned())
}

fn parameter(group: &Group, label: &str, key: &str) -> Option<String> {
    let (_, cell) = group
        .cells
        .iter()
        .find(|((known, _, _), _)| known == label)?;
    let value = cell.cell.method.params.get(key)?;
    value.as_str().map(str::to_owned)
}

fn rows(
    group: &Group,
    reference: &str,
    others: &[(&str, String)],
    budget: &str,
    options: &ReportOptions,
) -> Vec<Vec<Value>> {
    let found: Vec<(&str, &String, Difference)> = others
        .iter()
        .filter_map(|(label, allocator)| {
            let difference = rows_difference(group, label, reference, budget, options)?;
            Some((*label, allocator, difference))
        })
        .collect();
    let p_values: Vec<f64> = found.iter().map(|row| row.2.p_value).collect();
    found
        .iter()
        .zip(holm(&p_values))
        .map(|((label, allocator, difference), p_value)| {
            vec![
                Value::text(budget),
                Value::text(*label),
                Value::text((*allocator).clone()),
                Value::signed(difference.mean, 2),
                Value::interval(difference.interval, 2, true),
                Value::number(difference.smallest_detectable, 2),
                Value::number(Some(p_value), 4),
                Value::count(difference.pairs),
                Value::text(difference.in_words(p_value)),
            ]
        })
        .collect()
}
