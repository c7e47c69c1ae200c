//! What may stand in one table: one model, one query mode, one protocol. Cells of different groups are never averaged together.
//! Orders tasks, methods and budgets once for every table and figure.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use ripplekv_runner::cell::{Cell, Query};
use serde_json::Value;

use crate::averages::RowAverage;
use crate::budget::Budget;
use crate::chance::{self, Chance};
use crate::files::slug;
use crate::metric::Metric;
use crate::options::ReportOptions;
use crate::order::{method_order, order_labels, order_tasks, unique_labels};
use crate::protocol::{note, table_protocols};
use crate::read::{CellSamples, Results};
use crate::summary::CellSummary;

/// Name of the method that compresses nothing.
pub(crate) const FULL: &str = "full";

/// Name of the method that a KL is compared with where the caller chose none: uniform budgets, the usual scorer.
const SNAPKV: &str = "snapkv";

/// A task of a group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupTask {
    pub(crate) name: String,
    pub(crate) category: String,
    pub(crate) in_average: bool,
    /// Name of its metric; `None` for tasks that the caller does not know.
    pub(crate) metric: Option<String>,
    /// What chance scores on it, and whether the full cache clears that.
    pub(crate) chance: Option<Chance>,
}

/// How the prompts of a group were made, where published values must agree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PromptMaking {
    /// `auto`, `on` or `off`.
    pub(crate) chat_template: Option<String>,
    /// Tokens from which prompts were cut in the middle.
    pub(crate) max_context: Option<u64>,
    /// Whether that happened to any.
    pub(crate) is_cut: bool,
}

/// Cells that may be compared and averaged.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) model: String,
    pub(crate) query: Query,
    /// File-name part, unique in a report.
    pub(crate) slug: String,
    /// What sets it apart from other groups of the same model and query mode; empty where there are none.
    pub(crate) protocol_note: String,
    pub(crate) prompts: PromptMaking,
    pub(crate) tasks: Vec<GroupTask>,
    /// Labels in table order, `full` and other budget-free methods first.
    pub(crate) methods: Vec<String>,
    pub(crate) budgets: Vec<Budget>,
    /// By (label, budget text, task).
    pub(crate) cells: BTreeMap<(String, Option<String>, String), CellSummary>,
    /// By (metric, label, budget text); only rows that are finished and have the metric on every averaged task.
    pub(crate) averages: BTreeMap<(Metric, String, Option<String>), RowAverage>,
    pub(crate) warnings: Vec<String>,
}

impl Group {
    pub(crate) fn cell(
        &self,
        label: &str,
        budget: Option<&str>,
        task: &str,
    ) -> Option<&CellSummary> {
        self.cells
            .get(&(label.to_owned(), budget.map(str::to_owned), task.to_owned()))
    }

    /// Cells of one row in task order.
    pub(crate) fn row(&self, label: &str, budget: Option<&str>) -> Vec<&CellSummary> {
        self.tasks
            .iter()
            .filter_map(|task| self.cell(label, budget, &task.name))
            .collect()
    }

    /// Samples that a complete row has.
    pub(crate) fn expected_samples(&self) -> usize {
        self.expected_of(self.tasks.iter())
    }

    /// Samples that a complete row has in these tasks.
    pub(crate) fn expected_of<'a>(&self, tasks: impl Iterator<Item = &'a GroupTask>) -> usize {
        tasks
            .filter_map(|task| {
                let any = self
                    .cells
                    .values()
                    .find(|cell| cell.cell.task == task.name)?;
                Some(any.expected)
            })
            .sum()
    }

    /// Every cell by task, then budget, then method.
    pub(crate) fn ordered_cells(&self) -> Vec<&CellSummary> {
        let mut cells = Vec::new();
        for task in &self.tasks {
            for budget in self.rows_of_budgets() {
                let labels = self.methods.iter();
                cells.extend(labels.filter_map(|label| self.cell(label, budget, &task.name)));
            }
        }
        cells
    }

    /// No budget (`full`) first, then every budget from small to large.
    pub(crate) fn rows_of_budgets(&self) -> impl Iterator<Item = Option<&str>> {
        std::iter::once(None).chain(self.budgets.iter().map(|budget| Some(&*budget.text)))
    }

    /// Labels that have cells at this budget, in table order.
    pub(crate) fn methods_at(&self, budget: Option<&str>) -> Vec<&str> {
        self.methods
            .iter()
            .map(String::as_str)
            .filter(|label| !self.row(label, budget).is_empty())
            .collect()
    }

    /// Labels that have a cell at some budget, in table order.
    pub(crate) fn budgeted_methods(&self) -> Vec<&str> {
        let has_budget = |label: &&str| {
            self.cells
                .keys()
                .any(|(known, budget, _)| known == label && budget.is_some())
        };
        self.methods
            .iter()
            .map(String::as_str)
            .filter(has_budget)
            .collect()
    }

    /// Whether samples that the row should have are not stored yet in one of these tasks.
    pub(crate) fn is_unfinished(
        &self,
        label: &str,
        budget: Option<&str>,
        tasks: &[&GroupTask],
    ) -> bool {
        tasks
            .iter()
            .filter_map(|task| self.cell(label, budget, &task.name))
            .any(CellSummary::is_unfinished)
    }

    /// Categories in task order with their tasks.
    pub(crate) fn categories(&self) -> Vec<(&str, Vec<&GroupTask>)> {
        let mut categories: Vec<(&str, Vec<&GroupTask>)> = Vec::new();
        for task in &self.tasks {
            match categories
                .iter_mut()
                .find(|(name, _)| *name == task.category)
            {
                Some((_, tasks)) => tasks.push(task),
                None => categories.push((&task.category, vec![task])),
            }
        }
        categories
    }

    /// `full` where it was run.
    pub(crate) fn full_label(&self) -> Option<&str> {
        self.methods
            .iter()
            .find(|label| {
                self.cells.iter().any(|((known, budget, _), cell)| {
                    known == *label && budget.is_none() && cell.cell.method.name == FULL
                })
            })
            .map(String::as_str)
    }

    /// Label that differences are measured against: the caller's choice where the group has it, else `full`.
    /// A KL is a distance from `full` already, so its baseline is the choice where that has budgets, else the plain
    /// `snapkv`, else the first method with budgets.
    pub(crate) fn baseline(&self, metric: Metric, options: &ReportOptions) -> Option<&str> {
        let chosen = |label: &&str| Some(*label) == options.baseline.as_deref();
        match metric {
            Metric::Score => {
                let mut labels = self.methods.iter().map(String::as_str);
                labels.find(chosen).or_else(|| self.full_label())
            }
            Metric::AnswerKl => {
                let labels = self.budgeted_methods();
                let found = labels.iter().find(|label| chosen(label)).copied();
                found
                    .or_else(|| self.label_of(SNAPKV))
                    .or(labels.first().copied())
            }
        }
    }

    /// First label with budgets of a method of this name.
    pub(crate) fn label_of(&self, name: &str) -> Option<&str> {
        self.budgeted_methods().into_iter().find(|label| {
            self.cells
                .iter()
                .any(|((known, _, _), cell)| known == label && cell.cell.method.name == name)
        })
    }

    /// One line that says what the group is.
    pub(crate) fn title(&self) -> String {
        let mut title = format!("{}, query {}", self.model, query_name(self.query));
        if !self.protocol_note.is_empty() {
            title.push_str(", ");
            title.push_str(&self.protocol_note);
        }
        title
    }
}

pub(crate) fn query_name(query: Query) -> &'static str {
    match query {
        Query::Aware => "aware",
        Query::Agnostic => "agnostic",
    }
}

/// Splits results into groups, in the order of model name, query mode and protocol.
pub(crate) fn groups(results: &Results, options: &ReportOptions) -> Vec<Group> {
    let cells: Vec<&Cell> = results.cells.iter().map(|data| &data.cell).collect();
    let mut parts: BTreeMap<(String, Query, String), Vec<&CellSamples>> = BTreeMap::new();
    for (data, protocol) in results.cells.iter().zip(table_protocols(&cells)) {
        let cell = &data.cell;
        parts
            .entry((cell.model.clone(), cell.query, protocol))
            .or_default()
            .push(data);
    }
    let order = method_order(&results.manifests);
    let keys: Vec<&(String, Query, String)> = parts.keys().collect();
    let mut used = BTreeSet::new();
    parts
        .iter()
        .map(|(key, cells)| {
            let siblings: Vec<&str> = keys
                .iter()
                .filter(|other| other.0 == key.0 && other.1 == key.1)
                .map(|other| other.2.as_str())
                .collect();
            let protocol_note = note(&key.2, &siblings);
            let base = slug(&format!("{}-{}", key.0, query_name(key.1)));
            let mut name = base.clone();
            let mut number = 2;
            while !used.insert(name.clone()) {
                name = format!("{base}-{number}");
                number += 1;
            }
            let prompts = prompt_making(cells, &results.manifests);
            let mut group = build(key, name, cells, &order, options);
            group.protocol_note = protocol_note;
            group.prompts = prompts;
            group
        })
        .collect()
}

fn build(
    key: &(String, Query, String),
    slug: String,
    cells: &[&CellSamples],
    order: &[String],
    options: &ReportOptions,
) -> Group {
    let mut warnings = Vec::new();
    let labels = unique_labels(cells, &mut warnings);
    let mut expected: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for data in cells {
        let ids = expected.entry(&data.cell.task).or_default();
        match &data.selected {
            Some(selected) => ids.extend(selected.iter().map(String::as_str)),
            // An older manifest does not say: what any cell has is all that is known.
            None => ids.extend(
                data.samples
                    .iter()
                    .map(|sample| sample.record.sample.as_str()),
            ),
        }
    }
    let tasks = order_tasks(expected.keys().copied(), options);
    // Every cell is resampled by itself and from the same seed, so the order of work changes nothing.
    let summaries: BTreeMap<_, _> = cells
        .par_iter()
        .zip(&labels)
        .map(|(data, label)| {
            let cell = &data.cell;
            let task = tasks.iter().find(|task| task.name == cell.task);
            let count = expected.get(cell.task.as_str()).map_or(0, BTreeSet::len);
            let summary = CellSummary::new(data, label.clone(), task, count, options);
            let key = (label.clone(), cell.budget.clone(), cell.task.clone());
            (key, summary)
        })
        .collect();
    let mut budgets: Vec<Budget> = Vec::new();
    for budget in cells.iter().filter_map(|data| data.cell.budget.as_deref()) {
        if !budgets.iter().any(|known| known.text == budget) {
            budgets.push(Budget::parse(budget));
        }
    }
    budgets.sort_by(Budget::order);
    let mut group = Group {
        model: key.0.clone(),
        query: key.1,
        slug,
        protocol_note: String::new(),
        prompts: PromptMaking::default(),
        tasks,
        methods: order_labels(cells, &labels, order),
        budgets,
        cells: summaries,
        averages: BTreeMap::new(),
        warnings,
    };
    fill_percent_of_full(&mut group);
    chance::fill(&mut group, cells);
    group.fill_averages(options);
    let state = crate::state::warnings(&group);
    group.warnings.extend(state);
    group
}

fn prompt_making(cells: &[&CellSamples], manifests: &[Value]) -> PromptMaking {
    let Some(cell) = cells.first().map(|data| &data.cell) else {
        return PromptMaking::default();
    };
    let told = cell.protocol.get("max_context").and_then(Value::as_u64);
    // `auto` is the model's own number, which the manifests hold.
    let mut resolved: Vec<u64> = manifests
        .iter()
        .filter_map(|manifest| manifest.get("max_context")?.get(&cell.model)?.as_u64())
        .collect();
    resolved.dedup();
    let resolved = Some(resolved).filter(|known| known.len() == 1);
    let samples = cells.iter().flat_map(|data| &data.samples);
    PromptMaking {
        chat_template: cell
            .protocol
            .get("chat_template")
            .and_then(Value::as_str)
            .map(str::to_owned),
        max_context: told.or_else(|| resolved.map(|known| known[0])),
        is_cut: samples
            .into_iter()
            .any(|sample| sample.record.removed_tokens > 0),
    }
}

fn fill_percent_of_full(group: &mut Group) {
    let Some(full) = group.full_label().map(str::to_owned) else {
        return;
    };
    let scores: BTreeMap<String, f64> = group
        .tasks
        .iter()
        .filter_map(|task| {
            let score = group.cell(&full, None, &task.name)?.score?;
            Some((task.name.clone(), score))
        })
        .collect();
    for ((_, _, task), cell) in &mut group.cells {
        if let (Some(score), Some(full)) = (cell.score, scores.get(task))
            && *full > 0.0
        {
            cell.score_percent_of_full = Some(100.0 * score / full);
        }
    }
}
