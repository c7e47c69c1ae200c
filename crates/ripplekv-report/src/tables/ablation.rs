//! A swept method as a grid: rows r, columns gamma, one block a budget; averages with their intervals.
//! No cell is marked as best: a grid read for its best cell is a choice on test tasks.

use crate::group::Group;
use crate::options::ReportOptions;
use crate::pairing::rows_difference;
use crate::sweep::{Sweep, sweeps};
use crate::tables::{Block, Column, Mark, Table, Value};

pub(super) fn build(group: &Group, options: &ReportOptions) -> Option<Table> {
    let sweeps = sweeps(group);
    let mut gammas: Vec<String> = sweeps
        .iter()
        .flat_map(|sweep| sweep.gamma.clone())
        .collect();
    gammas.sort_by(|left, right| {
        let number = |text: &str| text.parse::<f64>().unwrap_or(f64::INFINITY);
        number(left).total_cmp(&number(right))
    });
    gammas.dedup();
    let mut columns = vec![
        Column::label("budget"),
        Column::label("method"),
        Column::number("r"),
    ];
    columns.extend(
        gammas
            .iter()
            .map(|gamma| Column::number(&format!("gamma {gamma}"))),
    );
    let mut blocks = Vec::new();
    let mut notes = vec![format!(
        "{} of each setting, 0 to 100, with its 95% bootstrap interval over samples inside each task. No setting was chosen by this table.",
        capitalised(&group.average_title())
    )];
    for budget in &group.budgets {
        let mut rows = Vec::new();
        for sweep in &sweeps {
            rows.extend(rows_of(group, sweep, &budget.text, &gammas));
            notes.extend(widest(group, sweep, &budget.text, options));
        }
        if !rows.is_empty() {
            blocks.push(Block {
                name: budget.text.clone(),
                rows,
            });
        }
    }
    (!blocks.is_empty()).then(|| Table {
        title: format!("Ablation of r and gamma: {}", group.title()),
        columns,
        blocks,
        notes,
    })
}

fn rows_of(group: &Group, sweep: &Sweep, budget: &str, gammas: &[String]) -> Vec<Vec<Value>> {
    let rows = sweep.r.iter().map(|r| {
        let scores: Vec<Value> = gammas
            .iter()
            .map(|gamma| {
                let average = sweep
                    .label(r, gamma)
                    .and_then(|label| group.average(label, Some(budget)));
                average.map_or(Value::Empty, |average| Value::Number {
                    value: average.score,
                    decimals: 2,
                    signed: false,
                    mark: Mark::None,
                    note: average
                        .interval
                        .map(|ends| format!("({:.2} to {:.2})", ends.low, ends.high)),
                })
            })
            .collect();
        let mut row = vec![
            Value::text(budget),
            Value::text(sweep.name.clone()),
            Value::text(r.clone()),
        ];
        row.extend(scores);
        row
    });
    rows.filter(|row| {
        row.iter()
            .any(|value| matches!(value, Value::Number { .. }))
    })
    .collect()
}

/// What the grid's widest difference could be told by.
fn widest(group: &Group, sweep: &Sweep, budget: &str, options: &ReportOptions) -> Option<String> {
    let mut scored: Vec<(f64, &str)> = sweep
        .labels()
        .filter_map(|label| Some((group.average(label, Some(budget))?.score, label)))
        .collect();
    scored.sort_by(|left, right| left.0.total_cmp(&right.0));
    let (low, high) = (scored.first()?, scored.last()?);
    if low.1 == high.1 {
        return None;
    }
    let difference = rows_difference(group, high.1, low.1, budget, options)?;
    let ends = difference.interval?;
    let smallest = difference.smallest_detectable?;
    let words = if difference.mean.abs() < smallest {
        "it cannot be tested at this n"
    } else {
        "picked as the widest of the grid, so its interval is too narrow"
    };
    Some(format!(
        "Widest difference of {} at {budget}: {} over {} by {:.2} points (95% {:.2} to {:.2}, n = {}; smallest that n could show: {smallest:.2}): {words}.",
        sweep.name, high.1, low.1, difference.mean, ends.low, ends.high, difference.pairs
    ))
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map(|first| first.to_uppercase().chain(characters).collect())
        .unwrap_or_default()
}
