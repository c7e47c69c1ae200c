//! The main table in the layout of KV-cache papers: blocks by budget, rows by method, tasks grouped by category.
//! `full` (and any other method without a budget) stands once, above all blocks.

use crate::group::{Group, GroupTask};
use crate::metric::{Better, KL_NOTE, Metric};
use crate::options::ReportOptions;
use crate::summary::{CellSummary, mean};
use crate::tables::{Block, Column, MEAN, Mark, Table, Value, Width};

pub(super) fn build(group: &Group, _options: &ReportOptions) -> Option<Table> {
    if !group.cells.values().any(|cell| cell.scored > 0) {
        return None;
    }
    let mut columns = vec![Column::label("budget"), Column::label("method")];
    for (category, tasks) in group.categories() {
        for task in &tasks {
            columns.push(Column {
                group: category.to_owned(),
                width: Width::Apart,
                ..Column::ranked(&task.name, Better::Greater)
            });
        }
        if tasks.len() > 1 {
            columns.push(Column {
                group: category.to_owned(),
                ..Column::ranked(MEAN, Better::Greater)
            });
        }
    }
    let title = group.average_title(Metric::Score);
    columns.push(Column::ranked(&title, Better::Greater));
    columns.push(Column {
        width: Width::Spare,
        ..Column::interval("95% interval")
    });
    if group.has(Metric::AnswerKl) {
        let better = Metric::AnswerKl.better();
        columns.push(Column::ranked(Metric::AnswerKl.name(), better));
    }
    columns.push(Column::number("n"));
    columns.push(Column::number("kept entries"));
    columns.push(Column::number("bytes"));

    let blocks: Vec<Block> = group
        .rows_of_budgets()
        .map(|budget| Block {
            name: budget.unwrap_or_default().to_owned(),
            rows: group
                .methods_at(budget)
                .into_iter()
                .map(|label| row(group, label, budget))
                .collect(),
        })
        .filter(|block| !block.rows.is_empty())
        .collect();
    let mut table = Table {
        title: format!("Score by method and budget: {}", group.title()),
        columns,
        blocks,
        notes: notes(group),
    };
    table.rank();
    Some(table)
}

fn row(group: &Group, label: &str, budget: Option<&str>) -> Vec<Value> {
    let mut values = vec![
        Value::Text(budget.unwrap_or("-").to_owned()),
        Value::Text(label.to_owned()),
    ];
    for (_, tasks) in group.categories() {
        for task in &tasks {
            values.push(task_value(group.cell(label, budget, &task.name)));
        }
        if tasks.len() > 1 {
            values.push(mean_value(group, Metric::Score, (label, budget), &tasks));
        }
    }
    let average = group.average(Metric::Score, label, budget);
    let of = |metric| mean_value(group, metric, (label, budget), &group.tasks_with(metric));
    values.push(of(Metric::Score));
    values.push(Value::interval(
        average.and_then(|average| average.interval),
        2,
        false,
    ));
    if group.has(Metric::AnswerKl) {
        values.push(of(Metric::AnswerKl));
    }
    let cells = group.row(label, budget);
    values.push(count_value(group, &cells));
    values.push(Value::number(
        mean(cells.iter().filter_map(|cell| cell.kept_entries)),
        1,
    ));
    values.push(
        mean(cells.iter().filter_map(|cell| cell.cache_bytes)).map_or(Value::Empty, Value::Bytes),
    );
    values
}

fn task_value(cell: Option<&CellSummary>) -> Value {
    let Some(cell) = cell else {
        return Value::Empty;
    };
    if cell.expected == 0 {
        return Value::Text("not run".to_owned());
    }
    let note = (!cell.is_complete()).then(|| format!("n={}/{}", cell.scored, cell.expected));
    match cell.score {
        Some(value) => Value::Number {
            value,
            decimals: 2,
            signed: false,
            mark: Mark::None,
            note,
        },
        None => note.map_or(Value::Empty, Value::Text),
    }
}

fn mean_value(
    group: &Group,
    metric: Metric,
    (label, budget): (&str, Option<&str>),
    tasks: &[&GroupTask],
) -> Value {
    match group.mean_of_tasks(metric, label, budget, tasks) {
        Some((value, complete)) => Value::Number {
            value,
            decimals: group.decimals(metric, budget),
            signed: false,
            mark: Mark::None,
            note: (!complete).then(|| "partial".to_owned()),
        },
        None if group.is_unfinished(label, budget, tasks) => Value::Text("unfinished".to_owned()),
        None => Value::Empty,
    }
}

fn count_value(group: &Group, cells: &[&CellSummary]) -> Value {
    let scored: usize = cells.iter().map(|cell| cell.scored).sum();
    let expected = group.expected_samples();
    if scored == expected {
        Value::count(scored)
    } else {
        Value::Text(format!("{scored}/{expected}"))
    }
}

fn notes(group: &Group) -> Vec<String> {
    let mut notes = vec![
        "Scores are 0 to 100, rounded as LongBench does; the average is the mean of the rounded task scores.".to_owned(),
        "95% interval: percentile bootstrap over samples, inside each task. Kept entries (per layer and KV head) and bytes (of the whole compressed cache) are means over the tasks.".to_owned(),
    ];
    if group.averaged_tasks().len() < group.tasks.len() {
        notes.push("The average is over the sixteen tasks of the KV-cache papers; other tasks are shown beside them.".to_owned());
    }
    if group.has(Metric::AnswerKl) {
        let tasks = group.tasks_with(Metric::AnswerKl).len();
        let samples = group.expected_in_average(Metric::AnswerKl);
        notes.push(format!(
            "{KL_NOTE} The column is the mean of the task means: {tasks} of {} tasks, {samples} of {} samples.",
            group.averaged_tasks().len(),
            group.expected_in_average(Metric::Score)
        ));
    }
    notes
}
