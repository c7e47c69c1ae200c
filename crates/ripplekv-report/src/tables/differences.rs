//! Every method against the baseline on the same samples: mean difference with its interval, and what lies behind the mean.
//! p values: sign-flip test, Holm's correction over the rows of one budget.

use crate::group::Group;
use crate::options::ReportOptions;
use crate::pairing::{Difference, rows_difference};
use crate::stats::{Interval, holm};
use crate::tables::{Block, Column, Table, Value};

pub(super) fn build(group: &Group, options: &ReportOptions) -> Option<Table> {
    let baseline = group.baseline(options)?;
    let blocks: Vec<Block> = group
        .budgets
        .iter()
        .map(|budget| Block {
            name: budget.text.clone(),
            rows: rows(group, &baseline, &budget.text, options),
        })
        .filter(|block| !block.rows.is_empty())
        .collect();
    if blocks.is_empty() {
        return None;
    }
    let columns = vec![
        Column::label("budget"),
        Column::label("method"),
        Column::number("difference"),
        Column::interval("95% interval"),
        Column::number("smallest n could show"),
        Column::number("p (Holm)"),
        Column::number("wins"),
        Column::number("ties"),
        Column::number("losses"),
        Column::number("correct to wrong"),
        Column::number("wrong to correct"),
        Column::label("worst task"),
        Column::interval("one task left out"),
        Column::number("n"),
        Column::label("in words"),
    ];
    Some(Table {
        title: format!("Difference from {baseline} in points: {}", group.title()),
        columns,
        blocks,
        notes: vec![
            format!("Method minus {baseline}, paired by sample, every task weighing the same. Interval: paired bootstrap inside each task. p: sign-flip test, Holm's correction over the methods of one budget."),
            crate::pairing::SMALLEST_NOTE.to_owned(),
            "A sample counts as correct from a score of 50. One task left out: smallest and greatest difference when one task is dropped.".to_owned(),
        ],
    })
}

fn rows(group: &Group, baseline: &str, budget: &str, options: &ReportOptions) -> Vec<Vec<Value>> {
    let found: Vec<(&str, Difference)> = group
        .methods_at(Some(budget))
        .into_iter()
        .filter(|label| *label != baseline)
        .filter_map(|label| {
            Some((
                label,
                rows_difference(group, label, baseline, budget, options)?,
            ))
        })
        .collect();
    let p_values: Vec<f64> = found
        .iter()
        .map(|(_, difference)| difference.p_value)
        .collect();
    found
        .iter()
        .zip(holm(&p_values))
        .map(|((label, difference), p_value)| {
            let expected = group.expected_of(group.averaged_tasks().into_iter());
            row(budget, label, difference, p_value, expected)
        })
        .collect()
}

fn row(
    budget: &str,
    label: &str,
    difference: &Difference,
    p_value: f64,
    expected: usize,
) -> Vec<Value> {
    vec![
        Value::Text(budget.to_owned()),
        Value::Text(label.to_owned()),
        Value::signed(difference.mean, 2),
        Value::interval(difference.interval, 2, true),
        Value::number(difference.smallest_detectable, 2),
        Value::number(Some(p_value), 4),
        Value::count(difference.wins),
        Value::count(difference.ties),
        Value::count(difference.losses),
        Value::count(difference.lost_answers),
        Value::count(difference.won_answers),
        difference
            .worst_task
            .as_ref()
            .map_or(Value::Empty, |(task, mean)| {
                Value::Text(format!("{task} {mean:+.2}"))
            }),
        Value::interval(
            difference
                .leave_one_out
                .map(|(low, high)| Interval { low, high }),
            2,
            true,
        ),
        if difference.pairs == expected {
            Value::count(expected)
        } else {
            Value::Text(format!("{}/{expected}", difference.pairs))
        },
        Value::text(difference.in_words(p_value)),
    ]
}
