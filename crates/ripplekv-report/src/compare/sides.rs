//! Which rows of both sides meet, and their pairs.

use std::collections::{BTreeMap, BTreeSet};

use ripplekv_runner::cell::{Cell, CellKey, Query};

use super::selection::{CompareFilter, Selection};
use super::words::Names;
use super::{Compared, Side, task_comparisons};
use crate::error::ReportError;
use crate::group::{Group, groups, query_name};
use crate::metric::Metric;
use crate::options::ReportOptions;
use crate::pairing::{TaskPairs, difference};
use crate::protocol::{same_answer_kl, told_apart};
use crate::read::{Results, model_hashes};
use crate::summary::CellSummary;

/// Decimals of points in a sentence.
const POINT_DECIMALS: usize = 1;

type Row<'a> = (&'a str, Option<&'a str>);

/// Tasks whose rows met but ask different questions on the two sides.
#[derive(Debug, Default)]
pub(super) struct Apart {
    /// Settings in which they differ, by model, query mode and task.
    asked: BTreeMap<(String, Query, String), BTreeSet<String>>,
    /// Tasks that were compared all the same, in another protocol that both sides have.
    compared: BTreeSet<(String, Query, String)>,
}

impl Apart {
    fn note(&mut self, cell: &Cell, settings: &Result<Vec<String>, Vec<String>>) {
        let key = (cell.model.clone(), cell.query, cell.task.clone());
        match settings {
            Ok(_) => {
                self.compared.insert(key);
            }
            Err(asked) => self
                .asked
                .entry(key)
                .or_default()
                .extend(asked.iter().cloned()),
        }
    }

    /// One sentence for the tasks that differ in the same settings.
    fn sentences(&self) -> Vec<String> {
        let mut tasks: BTreeMap<(&str, Query, Vec<&str>), Vec<&str>> = BTreeMap::new();
        for (key, asked) in &self.asked {
            if !self.compared.contains(key) {
                let (model, query, task) = key;
                let settings = asked.iter().map(String::as_str).collect();
                let known = tasks.entry((model, *query, settings)).or_default();
                known.push(task);
            }
        }
        let sentence = |((model, query, settings), tasks): (_, Vec<&str>)| {
            let settings: Vec<&str> = settings;
            format!(
                "{model}, query {}: {} not compared: the sides differ in {}",
                query_name(query),
                tasks.join(", "),
                settings.join(", ")
            )
        };
        tasks.into_iter().map(sentence).collect()
    }
}

/// One side with what its folder holds.
pub(super) struct Selected<'a> {
    pub(super) selection: &'a Selection,
    filter: &'a CompareFilter,
    results: &'a Results,
    pub(super) groups: Vec<Group>,
    /// Answers by cell and sample.
    answers: BTreeMap<(&'a CellKey, &'a str), &'a str>,
}

impl<'a> Selected<'a> {
    pub(super) fn new(
        selection: &'a Selection,
        results: &'a Results,
        filter: &'a CompareFilter,
        options: &ReportOptions,
    ) -> Result<Selected<'a>, ReportError> {
        let mut groups = groups(results, options);
        groups.retain(|group| filter.query.is_none_or(|query| query == group.query));
        let answers = results.cells.iter().flat_map(|data| {
            let records = data.samples.iter().map(|sample| &sample.record);
            records.map(|record| ((&data.cell.key, &*record.sample), &*record.output))
        });
        let selected = Selected {
            selection,
            filter,
            results,
            groups,
            answers: answers.collect(),
        };
        let is_empty = |group| selected.rows(group).is_empty();
        if selected.groups.iter().all(is_empty) {
            return Err(selected.empty());
        }
        Ok(selected)
    }

    /// Rows of a group that the side selects and that have a scored sample.
    fn rows<'g>(&self, group: &'g Group) -> Vec<Row<'g>> {
        let Selection { method, budget, .. } = self.selection;
        let mut rows = Vec::new();
        for known in group.rows_of_budgets() {
            let is_wanted = budget.is_none() || known == budget.as_deref();
            if !is_wanted || !self.filter.passes(known) {
                continue;
            }
            for label in group.methods_at(known) {
                let is_wanted = method.as_deref().is_none_or(|method| method == label);
                if is_wanted && group.row(label, known).iter().any(|cell| cell.scored > 0) {
                    rows.push((label, known));
                }
            }
        }
        rows
    }

    fn empty(&self) -> ReportError {
        let mut known: Vec<String> = Vec::new();
        for group in &self.groups {
            for budget in group.rows_of_budgets() {
                for label in group.methods_at(budget) {
                    let name = budget
                        .map_or_else(|| label.to_owned(), |budget| format!("{label}@{budget}"));
                    if !known.contains(&name) {
                        known.push(name);
                    }
                }
            }
        }
        let hint = if known.is_empty() {
            match self.filter.query.filter(|_| !self.results.cells.is_empty()) {
                Some(query) => format!("the folder has no cell of query {}", query_name(query)),
                None => "`ripplekv run SPEC` fills a results folder".to_owned(),
            }
        } else {
            format!("the folder has {}", known.join(", "))
        };
        ReportError::EmptySelection {
            selection: self.selection.to_string(),
            hint,
        }
    }
}

fn is_same_folder(left: &Selection, right: &Selection) -> bool {
    let whole = |selection: &Selection| selection.folder.canonicalize().ok();
    left.folder == right.folder || (whole(left).is_some() && whole(left) == whole(right))
}

/// Both sides.
pub(super) struct Pair<'a> {
    pub(super) left: Selected<'a>,
    pub(super) right: Selected<'a>,
    is_one_folder: bool,
}

impl<'a> Pair<'a> {
    pub(super) fn new(left: Selected<'a>, right: Selected<'a>) -> Pair<'a> {
        Pair {
            is_one_folder: is_same_folder(left.selection, right.selection),
            left,
            right,
        }
    }

    /// Whether the two rows are meant to meet.
    fn meet(&self, (label, budget): Row<'_>, (other_label, other_budget): Row<'_>) -> bool {
        let (left, right) = (self.left.selection, self.right.selection);
        let by_name = left.method.is_none() || right.method.is_none();
        let is_same_budget = budget == other_budget
            || left.budget.is_some() && right.budget.is_some()
            || (!by_name || self.is_one_folder) && (budget.is_none() || other_budget.is_none());
        let is_same_row = (label, budget) == (other_label, other_budget);
        let fits = match (by_name, self.is_one_folder) {
            (false, _) => true,
            (true, false) => label == other_label,
            // Neither names a method: nothing says which rows are meant.
            (true, true) => left.method.is_some() || right.method.is_some(),
        };
        is_same_budget && fits && !(self.is_one_folder && is_same_row)
    }

    pub(super) fn compare_groups(
        &self,
        one: &Group,
        other: &Group,
        options: &ReportOptions,
        (found, apart): (&mut Vec<Compared>, &mut Apart),
    ) {
        for row in self.left.rows(one) {
            for other_row in self.right.rows(other) {
                if !self.meet(row, other_row) {
                    continue;
                }
                let cells: Vec<_> = one
                    .averaged_tasks()
                    .into_iter()
                    .filter_map(|task| {
                        let cell = one.cell(row.0, row.1, &task.name)?;
                        let other_cell = other.cell(other_row.0, other_row.1, &task.name)?;
                        let settings = told_apart(&cell.cell, &other_cell.cell);
                        apart.note(&cell.cell, &settings);
                        Some((cell, other_cell, settings.ok()?))
                    })
                    .collect();
                for metric in Metric::ALL {
                    found.extend(self.compare_rows(metric, (one, row, other_row), &cells, options));
                }
            }
        }
    }

    fn compare_rows(
        &self,
        metric: Metric,
        (group, row, other_row): (&Group, Row<'_>, Row<'_>),
        cells: &[(&CellSummary, &CellSummary, Vec<String>)],
        options: &ReportOptions,
    ) -> Option<Compared> {
        // A KL is a distance from the full cache: beside a row that has the whole cache it says nothing new.
        let is_kl = metric == Metric::AnswerKl;
        if is_kl && (row.1.is_none() || other_row.1.is_none()) {
            return None;
        }
        let mut pairs = Vec::new();
        let mut settings: Vec<String> = Vec::new();
        let mut same_answers = 0;
        for (cell, other, differences) in cells {
            if is_kl && !same_answer_kl(&cell.cell, &other.cell) {
                continue;
            }
            let Some(of_task) = TaskPairs::new(metric, cell, other) else {
                continue;
            };
            same_answers += self.same_answers(metric, cell, other);
            pairs.push(of_task);
            for difference in differences {
                if !settings.contains(difference) {
                    settings.push(difference.clone());
                }
            }
        }
        let found = difference(metric, &pairs, options)?;
        let side = |selected: &Selected<'_>, (label, budget): Row<'_>| Side {
            folder: selected.selection.folder.display().to_string(),
            method: label.to_owned(),
            budget: budget.map(str::to_owned),
        };
        Some(Compared {
            metric,
            model: group.model.clone(),
            query: query_name(group.query),
            left: side(&self.left, row),
            right: side(&self.right, other_row),
            names: self.names(row, other_row),
            decimals: match metric {
                Metric::Score => POINT_DECIMALS,
                Metric::AnswerKl => group.decimals(metric, row.1),
            },
            tasks: task_comparisons(metric, &pairs, options),
            p_value_holm: found.p_value,
            found,
            settings,
            same_answers,
        })
    }

    /// Pairs of the metric whose answers are the same text.
    fn same_answers(&self, metric: Metric, cell: &CellSummary, other: &CellSummary) -> usize {
        let is_known = |cell: &CellSummary, wanted: &str| {
            let mut known = cell.values(metric).iter();
            known.any(|(sample, _)| sample == wanted)
        };
        cell.values(metric)
            .iter()
            .filter(|(sample, _)| is_known(other, sample))
            .filter(|(sample, _)| {
                let answer = self.left.answers.get(&(&cell.cell.key, sample.as_str()));
                let same = self.right.answers.get(&(&other.cell.key, sample.as_str()));
                answer.is_some() && answer == same
            })
            .count()
    }

    fn names(&self, (label, budget): Row<'_>, (other_label, other_budget): Row<'_>) -> Names {
        let at =
            |budget: Option<&str>| budget.map_or(String::new(), |budget| format!(" at {budget}"));
        let (own, common) = if budget == other_budget {
            ((String::new(), String::new()), at(budget))
        } else {
            ((at(budget), at(other_budget)), String::new())
        };
        let place = |selected: &Selected<'_>| match self.is_one_folder {
            true => String::new(),
            false => format!(" of {}", selected.selection.folder.display()),
        };
        Names {
            left: format!("{label}{}{}", own.0, place(&self.left)),
            right: format!("{other_label}{}{}", own.1, place(&self.right)),
            at: common,
        }
    }

    pub(super) fn nothing_shared(&self, apart: &Apart) -> ReportError {
        let (left, right) = (self.left.selection, self.right.selection);
        let names_none = left.method.is_none() && right.method.is_none();
        let apart = apart.sentences();
        ReportError::NothingShared {
            left: left.to_string(),
            right: right.to_string(),
            hint: if self.is_one_folder && names_none {
                let folder = left.folder.display();
                format!(
                    "within one folder name a method: `ripplekv compare {folder}:ripplekv {folder}:snapkv`"
                )
            } else if !apart.is_empty() {
                apart.join("; ")
            } else if self.is_one_folder && left.method == right.method {
                let (folder, method) = (left.folder.display(), left.method.as_deref());
                let method = method.unwrap_or_default();
                format!(
                    "a row is not compared with itself; name another method or two budgets: `ripplekv compare {folder}:{method}@10% :{method}@30%`"
                )
            } else {
                "`ripplekv report` of both folders together shows what each has".to_owned()
            },
        }
    }

    /// Tasks that only one of two folders has, of the models and query modes that both have.
    fn one_sided(&self) -> Vec<String> {
        let tasks = |selected: &Selected<'_>, like: &Group| -> Vec<String> {
            let groups = selected.groups.iter();
            let alike =
                groups.filter(|group| (&group.model, group.query) == (&like.model, like.query));
            let cells = alike.flat_map(|group| group.cells.values());
            let scored = cells.filter(|cell| cell.scored > 0);
            scored.map(|cell| cell.cell.task.clone()).collect()
        };
        let mut sentences = Vec::new();
        for (one, other) in [(&self.left, &self.right), (&self.right, &self.left)] {
            for group in &one.groups {
                let known = tasks(other, group);
                let names = group.averaged_tasks().into_iter().map(|task| &task.name);
                let alone: Vec<&str> = names
                    .filter(|name| tasks(one, group).contains(name) && !known.contains(name))
                    .map(String::as_str)
                    .collect();
                if !known.is_empty() && !alone.is_empty() {
                    sentences.push(format!(
                        "{}: {} not compared: only {} has results",
                        group.title(),
                        alone.join(", "),
                        one.selection.folder.display()
                    ));
                }
            }
        }
        sentences
    }

    /// What the folders and the compared rows need said, each once.
    pub(super) fn warnings(&self, found: &[Compared], apart: &Apart) -> Vec<String> {
        let mut warnings: Vec<String> = Vec::new();
        let mut add = |text: String| {
            if !warnings.contains(&text) {
                warnings.push(text);
            }
        };
        for selected in [&self.left, &self.right] {
            let place = match self.is_one_folder {
                true => String::new(),
                false => format!("{}: ", selected.selection.folder.display()),
            };
            for text in &selected.results.warnings {
                add(text.clone());
            }
            for group in &selected.groups {
                for text in &group.warnings {
                    add(format!("{place}{}: {text}", group.title()));
                }
            }
        }
        for text in apart.sentences() {
            add(text);
        }
        for text in self.one_sided() {
            add(text);
        }
        for compared in found {
            let hashes = |selected: &Selected<'_>| {
                let manifests = selected.results.manifests.iter();
                manifests
                    .filter_map(|manifest| model_hashes(manifest, &compared.model))
                    .next()
            };
            if let (Some(one), Some(other)) = (hashes(&self.left), hashes(&self.right))
                && one != other
            {
                add(format!(
                    "`{}` has other weights, another tokenizer or another number format in the two folders: the differences are also those of two models",
                    compared.model
                ));
            }
            if !compared.settings.is_empty() {
                add(format!(
                    "the sides differ in {}: the differences are also due to that",
                    compared.settings.join(", ")
                ));
            }
        }
        warnings
    }
}
