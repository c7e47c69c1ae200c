//! The main table in the layout of KV-cache papers: blocks by budget, rows by method, tasks grouped by category.
//! `full` (and any other method without a budget) stands once, above all blocks; published values stand below ours.

use crate::chance;
use crate::group::{Group, GroupTask};
use crate::metric::{Better, KL_NOTE, Metric};
use crate::options::ReportOptions;
use crate::references::{Published, Reference, ReferenceRow, published};
use crate::summary::{CellSummary, mean};
use crate::tables::{Block, Column, MEAN, Mark, Table, Value, Width};

/// Column of a published row: how far ours is from it.
const GAP: &str = "ours minus published";

/// What a row without a single sample says instead of an average.
const NOT_RUN: &str = "specified, not run";

pub(super) fn build(group: &Group, options: &ReportOptions) -> Option<Table> {
    if !group.cells.values().any(|cell| cell.scored > 0) {
        return None;
    }
    let rows = Rows {
        group,
        options,
        published: published(group),
    };
    let blocks: Vec<Block> = group
        .rows_of_budgets()
        .map(|budget| Block {
            name: budget.unwrap_or_default().to_owned(),
            rows: rows.block(budget),
        })
        .filter(|block| !block.rows.is_empty())
        .collect();
    let mut table = Table {
        title: format!("Score by method and budget: {}", group.title()),
        columns: rows.columns(),
        blocks,
        notes: Vec::new(),
    };
    table.notes = notes(group, &rows.published, table.has_published());
    if !table.has_published() {
        table = table.picked(|column| column.name != GAP);
    }
    table.rank();
    Some(table)
}

/// What the rows are made from.
struct Rows<'a> {
    group: &'a Group,
    options: &'a ReportOptions,
    published: Published,
}

impl Rows<'_> {
    fn columns(&self) -> Vec<Column> {
        let mut columns = vec![Column::label("budget"), Column::label("method")];
        for (category, tasks) in self.group.categories() {
            for task in &tasks {
                let column = Column {
                    group: category.to_owned(),
                    width: Width::Apart,
                    ..Column::ranked(&task.name, Better::Greater)
                };
                self.add(&mut columns, column);
            }
            if tasks.len() > 1 {
                let column = Column {
                    group: category.to_owned(),
                    ..Column::ranked(MEAN, Better::Greater)
                };
                self.add(&mut columns, column);
            }
        }
        let title = self.group.average_title(Metric::Score);
        columns.push(Column::ranked(&title, Better::Greater));
        columns.push(Column {
            width: Width::Spare,
            ..Column::interval("95% interval")
        });
        if self.group.has(Metric::AnswerKl) {
            let better = Metric::AnswerKl.better();
            columns.push(Column::ranked(Metric::AnswerKl.name(), better));
        }
        columns.push(Column::number(GAP));
        columns.push(Column::number("n"));
        columns.push(Column::number("kept entries"));
        columns.push(Column::number("bytes"));
        columns
    }

    /// A column, and one for its intervals where they are wanted.
    fn add(&self, columns: &mut Vec<Column>, column: Column) {
        let interval = Column {
            group: column.group.clone(),
            width: column.width,
            of_previous: true,
            // Several categories have a mean; their intervals need names of their own in CSV.
            ..Column::interval(&match column.name.as_str() {
                MEAN => format!("{} {MEAN} 95%", column.group),
                name => format!("{name} 95%"),
            })
        };
        columns.push(column);
        if self.options.intervals {
            columns.push(interval);
        }
    }

    /// Each method's row, below it what others published for the same.
    fn block(&self, budget: Option<&str>) -> Vec<Vec<Value>> {
        let mut rows = Vec::new();
        for label in self.group.methods_at(budget) {
            rows.push(self.row(label, budget));
            let average = self.group.average(Metric::Score, label, budget);
            // Another setting of the method is not the published one.
            let is_plain = self
                .group
                .row(label, budget)
                .iter()
                .all(|cell| cell.cell.method.name == label);
            if let Some(average) = average.filter(|_| is_plain) {
                let found = self.published.rows(label, budget);
                rows.extend(
                    found.map(|(reference, row)| self.published_row(reference, row, average.value)),
                );
            }
        }
        rows
    }

    fn row(&self, label: &str, budget: Option<&str>) -> Vec<Value> {
        let group = self.group;
        let mut values = vec![
            Value::Text(budget.unwrap_or("-").to_owned()),
            Value::Text(label.to_owned()),
        ];
        for (_, tasks) in group.categories() {
            for task in &tasks {
                let cell = group.cell(label, budget, &task.name);
                values.push(task_value(cell));
                if self.options.intervals {
                    values.push(Value::interval(
                        cell.and_then(|cell| cell.interval),
                        2,
                        false,
                    ));
                }
            }
            if tasks.len() > 1 {
                let mean = mean_value(group, Metric::Score, (label, budget), &tasks);
                let is_known = matches!(mean, Value::Number { .. });
                values.push(mean);
                if self.options.intervals {
                    let ends = group.interval(Metric::Score, (label, budget), &tasks, self.options);
                    values.push(Value::interval(ends.filter(|_| is_known), 2, false));
                }
            }
        }
        let cells = group.row(label, budget);
        let average = group.average(Metric::Score, label, budget);
        let of = |metric| mean_value(group, metric, (label, budget), &group.tasks_with(metric));
        values.push(if cells.iter().all(|cell| cell.scored + cell.failed == 0) {
            Value::text(NOT_RUN)
        } else {
            of(Metric::Score)
        });
        values.push(Value::interval(
            average.and_then(|average| average.interval),
            2,
            false,
        ));
        if group.has(Metric::AnswerKl) {
            values.push(of(Metric::AnswerKl));
        }
        values.push(Value::Empty);
        values.push(count_value(group, &cells));
        values.push(Value::number(
            mean(cells.iter().filter_map(|cell| cell.kept_entries)),
            1,
        ));
        values.push(
            mean(cells.iter().filter_map(|cell| cell.cache_bytes))
                .map_or(Value::Empty, Value::Bytes),
        );
        values
    }

    fn published_row(&self, reference: &Reference, row: &ReferenceRow, ours: f64) -> Vec<Value> {
        let value = |names: &[String], values: &[f64], wanted: &str| {
            let place = names.iter().position(|name| name == wanted);
            Value::number(place.and_then(|place| values.get(place).copied()), 2)
        };
        let mut values = vec![
            Value::Text(row.budget.clone().unwrap_or("-".to_owned())),
            Value::Published(format!("{}, published", row.method)),
        ];
        for (category, tasks) in self.group.categories() {
            for task in &tasks {
                values.push(value(&reference.tasks, &row.scores, &task.name));
                values.extend(self.options.intervals.then_some(Value::Empty));
            }
            if tasks.len() > 1 {
                values.push(value(&reference.categories, &row.categories, category));
                values.extend(self.options.intervals.then_some(Value::Empty));
            }
        }
        values.push(Value::number(Some(row.average), 2));
        values.push(Value::Empty);
        values.extend(self.group.has(Metric::AnswerKl).then_some(Value::Empty));
        values.push(Value::signed(ours - row.average, 2));
        values.push(reference.samples.map_or(Value::Empty, Value::count));
        values.extend([Value::Empty, Value::Empty]);
        values
    }
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

fn notes(group: &Group, published: &Published, is_beside: bool) -> Vec<String> {
    let mut notes = vec![
        "Scores are 0 to 100, rounded as LongBench does; the average is the mean of the rounded task scores.".to_owned(),
        "95% interval: percentile bootstrap over samples, inside each task. Kept entries (per layer and KV head) and bytes (of the whole compressed cache) are means over the tasks.".to_owned(),
    ];
    notes.extend(samples_note(group));
    let at_chance = chance::reached(group);
    if !at_chance.is_empty() {
        notes.push(format!("At chance level: {}.", at_chance.join(", ")));
    }
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
    if is_beside {
        let sources = published.beside.iter();
        let sources: Vec<String> = sources
            .map(|reference| {
                format!(
                    "{} ({})",
                    reference.source,
                    reference.notes.trim_end_matches('.')
                )
            })
            .collect();
        notes.push(format!(
            "Published: values of others for the same model, query mode, chat template, cut and tasks, in grey: {}.",
            sources.join("; ")
        ));
    }
    if !published.elsewhere.is_empty() {
        let sources = published
            .elsewhere
            .iter()
            .map(|reference| reference.source.as_str());
        notes.push(format!(
            "Published for this model under another protocol, or one that is not stated, or over other tasks, and so not shown: {}.",
            sources.collect::<Vec<_>>().join("; ")
        ));
    }
    notes
}

/// How many samples each task has.
fn samples_note(group: &Group) -> Option<String> {
    let counts: Vec<(&str, usize)> = group
        .tasks
        .iter()
        .map(|task| (task.name.as_str(), group.expected_of(std::iter::once(task))))
        .collect();
    let (_, first) = *counts.first()?;
    Some(if counts.iter().all(|(_, count)| *count == first) {
        format!("n of each task: {first}.")
    } else {
        let each: Vec<String> = counts
            .iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        format!("n of each task: {}.", each.join(", "))
    })
}
