//! Every method against the baseline on the same samples: mean difference with its interval, and what lies behind the mean.
//! p values: sign-flip test, Holm's correction over the rows of one budget.

use rayon::prelude::*;
use ripplekv_metrics::statistics::{Flips, holm};

use crate::group::Group;
use crate::metric::{KL_NOTE, Metric};
use crate::options::ReportOptions;
use crate::pairing::{CORRECT_NOTE, Difference, rows_difference};
use crate::stats::Interval;
use crate::tables::{Block, Column, Table, Value};

pub(super) fn build(group: &Group, metric: Metric, options: &ReportOptions) -> Option<Table> {
    let baseline = group.baseline(metric, options)?;
    let blocks: Vec<Block> = group
        .budgets
        .iter()
        .map(|budget| Block {
            name: budget.text.clone(),
            rows: rows(group, metric, baseline, &budget.text, options),
        })
        .filter(|block| !block.rows.is_empty())
        .collect();
    if blocks.is_empty() {
        return None;
    }
    let mut columns = vec![
        Column::label("budget"),
        Column::label("method"),
        Column::number("difference"),
        Column::interval("95% interval"),
        Column::number("smallest n could show"),
        Column::number("p (Holm)"),
        Column::number("wins"),
        Column::number("ties"),
        Column::number("losses"),
    ];
    if metric == Metric::Score {
        columns.push(Column::number("correct to wrong"));
        columns.push(Column::number("wrong to correct"));
    }
    columns.extend([
        Column::label("worst task"),
        Column::interval("one task left out"),
        Column::number("n"),
        Column::label("in words"),
    ]);
    let mut notes = vec![
        format!(
            "Method minus {baseline}, paired by sample, every task weighing the same. Interval: paired bootstrap inside each task. p: sign-flip test, Holm's correction over the methods of one budget."
        ),
        crate::pairing::SMALLEST_NOTE.to_owned(),
    ];
    let left_out = "One task left out: smallest and greatest difference when one task is dropped.";
    match metric {
        Metric::Score => notes.push(format!("{CORRECT_NOTE} {left_out}")),
        Metric::AnswerKl => notes.extend([
            format!("{KL_NOTE} A negative difference is nearer; wins are samples where the method is nearer."),
            left_out.to_owned(),
        ]),
    }
    let what = match metric {
        Metric::Score => "Difference",
        Metric::AnswerKl => "Difference of KL",
    };
    Some(Table {
        title: format!(
            "{what} from {baseline} in {}: {}",
            metric.unit(),
            group.title()
        ),
        columns,
        blocks,
        notes,
    })
}

fn rows(
    group: &Group,
    metric: Metric,
    baseline: &str,
    budget: &str,
    options: &ReportOptions,
) -> Vec<Vec<Value>> {
    let found: Vec<(&str, Difference)> = group
        .methods_at(Some(budget))
        .into_par_iter()
        .filter(|label| *label != baseline)
        .filter_map(|label| {
            Some((
                label,
                rows_difference(group, metric, (label, baseline), budget, options)?,
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
            row(
                group,
                metric,
                &Compared {
                    budget,
                    label,
                    baseline,
                    difference,
                    p_value,
                },
            )
        })
        .collect()
}

/// One method against the baseline.
struct Compared<'a> {
    budget: &'a str,
    label: &'a str,
    baseline: &'a str,
    difference: &'a Difference,
    /// After Holm's correction.
    p_value: f64,
}

fn row(group: &Group, metric: Metric, compared: &Compared<'_>) -> Vec<Value> {
    let Compared {
        budget,
        label,
        baseline,
        difference,
        p_value,
    } = *compared;
    let expected = group.expected_in_average(metric);
    let decimals = group.decimals(metric, Some(budget));
    let mut values = vec![
        Value::text(budget),
        Value::text(label),
        Value::signed(difference.mean, decimals),
        Value::interval(difference.interval, decimals, true),
        Value::number(difference.smallest_detectable, decimals),
        Value::number(Some(p_value), 4),
        Value::count(difference.wins),
        Value::count(difference.ties),
        Value::count(difference.losses),
    ];
    if metric == Metric::Score {
        let count = |count: fn(Flips) -> usize| {
            difference
                .flips
                .map_or(Value::Empty, |flips| Value::count(count(flips)))
        };
        values.push(count(|flips| flips.correct_to_wrong));
        values.push(count(|flips| flips.wrong_to_correct));
    }
    let worst = difference.worst_task.as_ref();
    let left_out = difference.leave_one_out;
    values.extend([
        worst.map_or(Value::Empty, |(task, mean)| {
            Value::Text(format!("{task} {mean:+.decimals$}"))
        }),
        Value::interval(
            left_out.map(|(low, high)| Interval { low, high }),
            decimals,
            true,
        ),
        if difference.pairs == expected {
            Value::count(expected)
        } else {
            Value::Text(format!("{}/{expected}", difference.pairs))
        },
        Value::text(difference.sentence(metric, (label, baseline), decimals, p_value)),
    ]);
    values
}
