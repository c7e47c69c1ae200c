//! What a reader must know of a group before its first number: holes, unfinished cells, failures, short prompts.
//! Rows that share a fact share a line, so that twenty methods do not make twenty lines.

use crate::chance;
use crate::group::Group;

/// Warnings of a group, most important first.
pub(crate) fn warnings(group: &Group) -> Vec<String> {
    let mut absent = Facts::default();
    let mut partial = Facts::default();
    let mut failed = Facts::default();
    let mut short = Facts::default();
    let mut noted = Facts::default();
    for budget in group.rows_of_budgets() {
        for label in group.methods_at(budget) {
            let row = match budget {
                Some(budget) => format!("{label} at {budget}"),
                None => label.to_owned(),
            };
            let state = RowState::new(group, label, budget);
            absent.add(&row, state.absent.join(", "));
            partial.add(&row, state.partial.join(", "));
            failed.add_count(&row, state.failed, state.samples);
            short.add_count(&row, state.short, state.samples);
            noted.add_count(&row, state.noted, state.samples);
        }
    }
    let mut lines = Vec::new();
    let single: Vec<&str> = group
        .tasks
        .iter()
        .filter(|task| group.expected_of(std::iter::once(*task)) < 2)
        .map(|task| task.name.as_str())
        .collect();
    if !single.is_empty() {
        lines.push(format!(
            "{}: fewer than two samples: too few samples for an interval of the task or of the average",
            single.join(", ")
        ));
    }
    let at_chance = chance::reached(group);
    if !at_chance.is_empty() {
        lines.push(format!(
            "at chance level: {}; the full cache's interval does not clear what one answer given to every prompt scores, so a score there need not come from the prompt",
            at_chance.join(", ")
        ));
    }
    lines.extend(absent.lines(|fact| format!("no cell for {fact}")));
    lines.extend(partial.lines(|fact| format!("unfinished: {fact}")));
    lines.extend(failed.lines(|fact| format!("{fact} samples failed and are in no score")));
    lines.extend(short.lines(|fact| {
        format!("{fact} prompts have a budget below the must-keep set (`short_prompts` applied)")
    }));
    lines.extend(
        noted.lines(|fact| format!("{fact} records carry a warning of their own (samples.csv)")),
    );
    lines
}

#[derive(Default)]
struct RowState {
    absent: Vec<String>,
    partial: Vec<String>,
    failed: usize,
    short: usize,
    noted: usize,
    samples: usize,
}

impl RowState {
    fn new(group: &Group, label: &str, budget: Option<&str>) -> RowState {
        let mut state = RowState::default();
        for task in &group.tasks {
            let Some(cell) = group.cell(label, budget, &task.name) else {
                state.absent.push(task.name.clone());
                continue;
            };
            if cell.expected == 0 {
                state.partial.push(format!("{} not run", task.name));
            } else if !cell.is_complete() {
                state
                    .partial
                    .push(format!("{} n={}/{}", task.name, cell.scored, cell.expected));
            }
            state.failed += cell.failed;
            state.short += cell.short_prompts;
            state.noted += cell.with_warnings;
            state.samples += cell.scored + cell.failed;
        }
        state
    }
}

/// Facts with the rows they hold for, in order of first appearance.
#[derive(Default)]
struct Facts(Vec<(String, Vec<String>)>);

impl Facts {
    fn add(&mut self, row: &str, fact: String) {
        if fact.is_empty() {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| *known == fact) {
            Some((_, rows)) => rows.push(row.to_owned()),
            None => self.0.push((fact, vec![row.to_owned()])),
        }
    }

    fn add_count(&mut self, row: &str, count: usize, of: usize) {
        if count > 0 {
            self.add(row, format!("{count} of {of}"));
        }
    }

    fn lines(self, sentence: impl Fn(&str) -> String) -> impl Iterator<Item = String> {
        self.0
            .into_iter()
            .map(move |(fact, rows)| format!("{}: {}", rows.join(", "), sentence(&fact)))
    }
}
