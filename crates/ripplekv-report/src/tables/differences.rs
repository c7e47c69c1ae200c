//! Every method against the baseline on the same samples: mean difference with its interval, and what lies behind the mean.
//! p values: sign-flip test, Holm's correction over the rows of one budget.

use crate::group::Group;
use crate::options::ReportOptions;
use crate::pairing::{Difference, TaskPairs, difference};
use crate::stats::holm;
use crate::tables::{Block, Column, Mark, Table, Value};

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
        Column::number("p (Holm)"),
        Column::number("wins"),
        Column::number("ties"),
        Column::number("losses"),
        Column::number("correct to wrong"),
        Column::number("wrong to correct"),
        Column::label("worst task"),
        Column::interval("one task left out"),
        Column::number("n"),
    ];
    Some(Table {
        title: format!("Difference from {baseline} in points: {}", group.title()),
        columns,
        blocks,
        notes: vec![
            format!("Method minus {baseline}, paired by sample, every task weighing the same. Interval: paired bootstrap inside each task. p: sign-flip test, Holm's correction over the methods of one budget."),
            "A sample counts as correct from a score of 50. One task left out: smallest and greatest difference when one task is dropped.".to_owned(),
        ],
    })
}

fn rows(group: &Group, baseline: &str, budget: &str, options: &ReportOptions) -> Vec<Vec<Value>> {
    let found: Vec<(&str, Difference)> = group
        .methods_at(Some(budget))
        .into_iter()
        .filter(|label| *label != baseline)
        .filter_map(|label| Some((label, against(group, label, baseline, budget, options)?)))
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

fn against(
    group: &Group,
    label: &str,
    baseline: &str,
    budget: &str,
    options: &ReportOptions,
) -> Option<Difference> {
    let pairs: Vec<TaskPairs> = group
        .averaged_tasks()
        .into_iter()
        .filter_map(|task| {
            let left = group.cell(label, Some(budget), &task.name)?;
            let right = group
                .cell(baseline, Some(budget), &task.name)
                .or_else(|| group.cell(baseline, None, &task.name))?;
            TaskPairs::new(left, right)
        })
        .collect();
    difference(&pairs, options)
}

fn row(
    budget: &str,
    label: &str,
    difference: &Difference,
    p_value: f64,
    expected: usize,
) -> Vec<Value> {
    let interval = |ends: Option<(f64, f64)>| {
        ends.map_or(Value::Empty, |(low, high)| Value::Interval {
            low,
            high,
            signed: true,
        })
    };
    vec![
        Value::Text(budget.to_owned()),
        Value::Text(label.to_owned()),
        Value::Number {
            value: difference.mean,
            decimals: 2,
            signed: true,
            mark: Mark::None,
            note: None,
        },
        interval(difference.interval.map(|ends| (ends.low, ends.high))),
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
        interval(difference.leave_one_out),
        if difference.pairs == expected {
            Value::count(expected)
        } else {
            Value::Text(format!("{}/{expected}", difference.pairs))
        },
    ]
}
