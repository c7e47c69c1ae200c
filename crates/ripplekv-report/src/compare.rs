//! Two selections of stored results, paired by sample inside each task, said in words.
//! A difference is called detectable when its 95% interval leaves out zero and the sign-flip test gives p of at most 0.05.

use std::path::PathBuf;

use serde::Serialize;

use crate::error::ReportError;
use crate::group::{Group, groups, query_name};
use crate::metric::Metric;
use crate::options::ReportOptions;
use crate::pairing::{Difference, TaskPairs, difference};
use crate::protocol::comparable;
use crate::read::read_results;
use crate::stats::{Interval, holm};

/// Greatest p of a detectable difference.
const SIGNIFICANCE: f64 = 0.05;

/// One side of a comparison: a results folder, and which of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The results folder.
    pub folder: PathBuf,
    /// Label of a method; `None` takes every method.
    pub method: Option<String>,
    /// Budget; `None` takes every budget.
    pub budget: Option<String>,
}

impl Selection {
    /// Reads `FOLDER`, `FOLDER:METHOD` or `FOLDER:METHOD@BUDGET`, such as `results/quickstart:snapkv@10%`.
    pub fn parse(text: &str) -> Selection {
        // A drive letter or a folder with a colon is kept whole where it exists as it stands.
        let whole = PathBuf::from(text);
        if whole.is_dir() {
            return Selection {
                folder: whole,
                method: None,
                budget: None,
            };
        }
        let (folder, row) = match text.rsplit_once(':') {
            Some((folder, row)) => (folder, Some(row)),
            None => (text, None),
        };
        let (method, budget) = match row.and_then(|row| row.rsplit_once('@')) {
            Some((method, budget)) => (Some(method), Some(budget)),
            None => (row, None),
        };
        let filled = |part: Option<&str>| part.filter(|part| !part.is_empty()).map(str::to_owned);
        Selection {
            folder: PathBuf::from(folder),
            method: filled(method),
            budget: filled(budget),
        }
    }
}

impl std::fmt::Display for Selection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.folder.display())?;
        if let Some(method) = &self.method {
            write!(formatter, ":{method}")?;
        }
        if let Some(budget) = &self.budget {
            write!(formatter, "@{budget}")?;
        }
        Ok(())
    }
}

/// One task of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskComparison {
    /// The task.
    pub task: String,
    /// Left minus right, points.
    pub difference: f64,
    /// Its 95% interval; `None` below two pairs.
    pub interval: Option<Interval>,
    /// p of the sign-flip test.
    pub p_value: f64,
    /// Samples where left is better.
    pub wins: usize,
    /// Samples where both are equal.
    pub ties: usize,
    /// Samples where right is better.
    pub losses: usize,
    /// Whether the task alone shows a difference.
    pub detectable: bool,
}

/// One row of each side, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Model.
    pub model: String,
    /// Query mode.
    pub query: &'static str,
    /// Name of the left row in the sentence.
    pub left: String,
    /// Name of the right row in the sentence.
    pub right: String,
    /// Left minus right, points; every task weighs the same.
    pub difference: f64,
    /// Its 95% interval; `None` where a task has fewer than two pairs.
    pub interval: Option<Interval>,
    /// p of the sign-flip test.
    pub p_value: f64,
    /// The same after Holm's correction over all comparisons made together.
    pub p_value_holm: f64,
    /// Samples where left is better.
    pub wins: usize,
    /// Samples where both are equal.
    pub ties: usize,
    /// Samples where right is better.
    pub losses: usize,
    /// Paired samples.
    pub n: usize,
    /// Each task.
    pub tasks: Vec<TaskComparison>,
    /// The verdict in words.
    pub sentence: String,
}

/// Compares two selections. Rows are paired where model, query mode and protocol agree: the same method and budget
/// in two folders, or the two named methods at each budget they share (a method without budgets meets every budget).
///
/// # Errors
/// When a folder cannot be read, a side selects nothing, or no sample is shared.
pub fn compare(
    left: &Selection,
    right: &Selection,
    options: &ReportOptions,
) -> Result<Vec<Comparison>, ReportError> {
    let left_groups = groups(&read_results(std::slice::from_ref(&left.folder))?, options);
    let right_groups = groups(&read_results(std::slice::from_ref(&right.folder))?, options);
    check_not_empty(left, &left_groups)?;
    check_not_empty(right, &right_groups)?;
    let mut comparisons = Vec::new();
    for one in &left_groups {
        for other in &right_groups {
            if (&one.model, one.query) == (&other.model, other.query) {
                compare_groups((left, one), (right, other), options, &mut comparisons);
            }
        }
    }
    if comparisons.is_empty() {
        return Err(ReportError::NothingShared {
            left: left.to_string(),
            right: right.to_string(),
        });
    }
    let p_values: Vec<f64> = comparisons.iter().map(|one| one.p_value).collect();
    for (comparison, corrected) in comparisons.iter_mut().zip(holm(&p_values)) {
        comparison.p_value_holm = corrected;
    }
    Ok(comparisons)
}

type Row<'a> = (&'a str, Option<&'a str>);

fn selected_rows<'a>(selection: &Selection, group: &'a Group) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for budget in group.rows_of_budgets() {
        if selection.budget.is_some() && budget != selection.budget.as_deref() {
            continue;
        }
        for label in group.methods_at(budget) {
            let wanted = selection
                .method
                .as_deref()
                .is_none_or(|method| method == label);
            let scored = group.row(label, budget).iter().any(|cell| cell.scored > 0);
            if wanted && scored {
                rows.push((label, budget));
            }
        }
    }
    rows
}

fn check_not_empty(selection: &Selection, groups: &[Group]) -> Result<(), ReportError> {
    if groups
        .iter()
        .any(|group| !selected_rows(selection, group).is_empty())
    {
        return Ok(());
    }
    let mut known: Vec<String> = Vec::new();
    for group in groups {
        for budget in group.rows_of_budgets() {
            for label in group.methods_at(budget) {
                let name = row_name(label, budget);
                if !known.contains(&name) {
                    known.push(name);
                }
            }
        }
    }
    Err(ReportError::EmptySelection {
        selection: selection.to_string(),
        hint: if known.is_empty() {
            "`ripplekv run SPEC` fills a results folder".to_owned()
        } else {
            format!("the folder has {}", known.join(", "))
        },
    })
}

fn row_name(label: &str, budget: Option<&str>) -> String {
    budget.map_or_else(|| label.to_owned(), |budget| format!("{label}@{budget}"))
}

fn compare_groups(
    (left, left_group): (&Selection, &Group),
    (right, right_group): (&Selection, &Group),
    options: &ReportOptions,
    comparisons: &mut Vec<Comparison>,
) {
    let by_name = left.method.is_none() || right.method.is_none();
    for (label, budget) in selected_rows(left, left_group) {
        for (other_label, other_budget) in selected_rows(right, right_group) {
            let same_budget = budget == other_budget
                || left.budget.is_some() && right.budget.is_some()
                || !by_name && (budget.is_none() || other_budget.is_none());
            let same_label = !by_name || label == other_label;
            let same_row =
                left.folder == right.folder && (label, budget) == (other_label, other_budget);
            if !same_budget || !same_label || same_row {
                continue;
            }
            let pairs: Vec<TaskPairs> = left_group
                .averaged_tasks()
                .into_iter()
                .filter_map(|task| {
                    let cell = left_group.cell(label, budget, &task.name)?;
                    let other = right_group.cell(other_label, other_budget, &task.name)?;
                    comparable(&cell.cell, &other.cell)
                        .then(|| TaskPairs::new(Metric::Score, cell, other))?
                })
                .collect();
            let Some(found) = difference(Metric::Score, &pairs, options) else {
                continue;
            };
            let names = names((left, label, budget), (right, other_label, other_budget));
            let tasks = pairs
                .iter()
                .filter_map(|pairs| task_comparison(pairs, options))
                .collect();
            comparisons.push(comparison(left_group, names, &found, tasks));
        }
    }
}

/// What the two sides and their common ground are called.
struct Names {
    left: String,
    right: String,
    /// ` at 10%` where both have that budget.
    at: String,
}

fn names(
    (left, label, budget): (&Selection, &str, Option<&str>),
    (right, other_label, other_budget): (&Selection, &str, Option<&str>),
) -> Names {
    let at = |budget: Option<&str>| budget.map_or(String::new(), |budget| format!(" at {budget}"));
    let (own, common) = if budget == other_budget {
        ((String::new(), String::new()), at(budget))
    } else {
        ((at(budget), at(other_budget)), String::new())
    };
    let place = |selection: &Selection| {
        if left.folder == right.folder {
            String::new()
        } else {
            format!(" of {}", selection.folder.display())
        }
    };
    Names {
        left: format!("{label}{}{}", own.0, place(left)),
        right: format!("{other_label}{}{}", own.1, place(right)),
        at: common,
    }
}

fn task_comparison(pairs: &TaskPairs, options: &ReportOptions) -> Option<TaskComparison> {
    let one = TaskPairs {
        task: pairs.task.clone(),
        left: pairs.left.clone(),
        right: pairs.right.clone(),
    };
    let found = difference(Metric::Score, &[one], options)?;
    Some(TaskComparison {
        task: pairs.task.clone(),
        difference: found.mean,
        interval: found.interval,
        p_value: found.p_value,
        wins: found.wins,
        ties: found.ties,
        losses: found.losses,
        detectable: is_detectable(found.interval, found.p_value),
    })
}

fn is_detectable(interval: Option<Interval>, p_value: f64) -> bool {
    interval.is_some_and(|ends| ends.low > 0.0 || ends.high < 0.0) && p_value <= SIGNIFICANCE
}

fn comparison(
    group: &Group,
    names: Names,
    found: &Difference,
    tasks: Vec<TaskComparison>,
) -> Comparison {
    let sentence = sentence(&names, found, &tasks);
    Comparison {
        model: group.model.clone(),
        query: query_name(group.query),
        left: names.left,
        right: names.right,
        difference: found.mean,
        interval: found.interval,
        p_value: found.p_value,
        p_value_holm: found.p_value,
        wins: found.wins,
        ties: found.ties,
        losses: found.losses,
        n: found.pairs,
        tasks,
        sentence,
    }
}

fn sentence(names: &Names, found: &Difference, tasks: &[TaskComparison]) -> String {
    let Names { left, right, at } = names;
    let count = match tasks.len() {
        1 => "1 task".to_owned(),
        many => format!("{many} tasks"),
    };
    let base = format!("n = {}, {count}", with_commas(found.pairs));
    let points = |value: f64| format!("{:.1}", if value.abs() < 0.05 { 0.0 } else { value });
    let verdict = |ground: String| {
        if is_detectable(found.interval, found.p_value) {
            let side = if found.mean > 0.0 { "above" } else { "below" };
            let size = points(found.mean.abs());
            format!("{left} is {size} points {side} {right}{at} ({ground})")
        } else {
            let size = points(found.mean);
            format!(
                "no detectable difference between {left} and {right}{at} ({size} points, {ground})"
            )
        }
    };
    let Some(ends) = found.interval else {
        return format!(
            "{left} and {right}{at} differ by {} points on {base}: too few samples for an interval.",
            points(found.mean)
        );
    };
    let mut text = verdict(format!(
        "95% interval {} to {}, {base}",
        points(ends.low),
        points(ends.high)
    ));
    if tasks.len() > 1 {
        let quiet = tasks.iter().filter(|task| !task.detectable).count();
        text.push_str(&format!(
            "; no detectable difference on {quiet} of {} tasks",
            tasks.len()
        ));
    }
    text.push('.');
    text
}

fn with_commas(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_read_as_they_print() {
        for text in [
            "results/a",
            "results/a:snapkv",
            "results/a:snapkv@10%",
            "results/a:ripplekv(r=2,gamma=4)@512",
        ] {
            assert_eq!(Selection::parse(text).to_string(), text);
        }
        let selection = Selection::parse("results/a:snapkv@10%");
        assert_eq!(selection.folder, PathBuf::from("results/a"));
        assert_eq!(selection.method.as_deref(), Some("snapkv"));
        assert_eq!(selection.budget.as_deref(), Some("10%"));
    }

    #[test]
    fn large_numbers_have_commas() {
        assert_eq!(with_commas(7), "7");
        assert_eq!(with_commas(1150), "1,150");
        assert_eq!(with_commas(1_234_567), "1,234,567");
    }
}
