//! A swept method as a grid: rows r, columns gamma, one block a budget; averages and their paired differences from uniform
//! budgets, with intervals. No cell is marked as best: a grid read for its best cell is a choice on test tasks.

use ripplekv_metrics::statistics::holm;

use crate::group::Group;
use crate::metric::{KL_NOTE, Metric};
use crate::options::ReportOptions;
use crate::pairing::{Difference, ESTABLISHED, rows_difference};
use crate::sweep::{Sweep, ascending, sweeps};
use crate::tables::{Block, Column, Table, Value};

pub(super) fn build(group: &Group, metric: Metric, options: &ReportOptions) -> Option<Table> {
    let sweeps = sweeps(group);
    let gammas = ascending(sweeps.iter().flat_map(|sweep| &sweep.gamma));
    let mut columns = vec![
        Column::label("budget"),
        Column::label("method"),
        Column::label("value"),
        Column::number("r"),
    ];
    columns.extend(
        gammas
            .iter()
            .map(|gamma| Column::number(&format!("gamma {gamma}"))),
    );
    let mut blocks = Vec::new();
    let mut notes = vec![format!(
        "Value {}: {} of each setting ({}), with its 95% bootstrap interval over samples inside each task. Value minus: the setting less the reference of the same budget, paired by sample, with its 95% interval. No setting was chosen by this table. n = {}.",
        metric.name(),
        group.average_title(metric),
        metric.scale(),
        group.expected_in_average(metric)
    )];
    if metric == Metric::AnswerKl {
        notes.push(KL_NOTE.to_owned());
    }
    for budget in &group.budgets {
        let mut rows = Vec::new();
        for sweep in &sweeps {
            let grid = Grid {
                group,
                metric,
                sweep,
                budget: &budget.text,
                gammas: &gammas,
            };
            rows.extend(grid.mean_rows());
            let differences = grid.differences(options);
            rows.extend(grid.difference_rows(&differences));
            notes.extend(grid.established(&differences));
            notes.extend(grid.widest(options));
        }
        if !rows.is_empty() {
            blocks.push(Block {
                name: budget.text.clone(),
                rows,
            });
        }
    }
    (!blocks.is_empty()).then(|| Table {
        title: format!(
            "Ablation of r and gamma by {}: {}",
            metric.name(),
            group.title()
        ),
        columns,
        blocks,
        notes,
    })
}

/// One sweep at one budget.
struct Grid<'a> {
    group: &'a Group,
    metric: Metric,
    sweep: &'a Sweep,
    budget: &'a str,
    gammas: &'a [String],
}

/// Label of a setting and its difference from the reference.
type Compared<'a> = (&'a str, Difference);

impl Grid<'_> {
    fn decimals(&self) -> usize {
        self.group.decimals(self.metric, Some(self.budget))
    }

    /// Uniform budgets with the sweep's scorer where they were run; `None` stands for r = 1 of the same gamma.
    fn uniform(&self) -> Option<&str> {
        let label = self.group.label_of(self.sweep.scorer()?)?;
        let is_run = !self.group.row(label, Some(self.budget)).is_empty();
        is_run.then_some(label)
    }

    fn reference_name(&self) -> &str {
        self.uniform().unwrap_or("r = 1")
    }

    fn mean_rows(&self) -> Vec<Vec<Value>> {
        self.rows(self.metric.name(), |label| {
            let average = self.group.average(self.metric, label, Some(self.budget))?;
            Some(Value::with_interval(
                average.value,
                average.interval,
                self.decimals(),
                false,
            ))
        })
    }

    /// Every setting but the reference itself against the reference.
    fn differences(&self, options: &ReportOptions) -> Vec<Compared<'_>> {
        let settings = self.sweep.settings();
        settings
            .filter_map(|(_, gamma, label)| {
                let reference = match self.uniform() {
                    Some(uniform) => uniform,
                    None => self.sweep.label("1", gamma)?,
                };
                if label == reference {
                    return None;
                }
                let found = rows_difference(
                    self.group,
                    self.metric,
                    (label, reference),
                    self.budget,
                    options,
                );
                Some((label, found?))
            })
            .collect()
    }

    fn difference_rows(&self, differences: &[Compared<'_>]) -> Vec<Vec<Value>> {
        self.rows(&format!("minus {}", self.reference_name()), |label| {
            let (_, found) = differences.iter().find(|(known, _)| *known == label)?;
            Some(Value::with_interval(
                found.mean,
                found.interval,
                self.decimals(),
                true,
            ))
        })
    }

    /// One row an r; rows without a number are left out.
    fn rows(&self, name: &str, value: impl Fn(&str) -> Option<Value>) -> Vec<Vec<Value>> {
        let rows = self.sweep.r.iter().map(|r| {
            let mut row = vec![
                Value::text(self.budget),
                Value::text(self.sweep.name.clone()),
                Value::text(name),
                Value::text(r.clone()),
            ];
            row.extend(self.gammas.iter().map(|gamma| {
                let label = self.sweep.label(r, gamma);
                label.and_then(&value).unwrap_or(Value::Empty)
            }));
            row
        });
        rows.filter(|row| {
            row.iter()
                .any(|value| matches!(value, Value::Number { .. }))
        })
        .collect()
    }

    /// How many settings are established as better or worse than the reference.
    fn established(&self, differences: &[Compared<'_>]) -> Option<String> {
        let p_values: Vec<f64> = differences.iter().map(|(_, found)| found.p_value).collect();
        let (mut better, mut worse) = (0, 0);
        for ((_, found), p_value) in differences.iter().zip(holm(&p_values)) {
            if found.in_words(p_value) == ESTABLISHED {
                let is_better = self.metric.better().oriented(found.mean) > 0.0;
                *(if is_better { &mut better } else { &mut worse }) += 1;
            }
        }
        (!differences.is_empty()).then(|| {
            format!(
                "{} of {} against {} at {}: {better} established as better, {worse} as worse, of {} settings (sign-flip test, Holm's correction over the grid).",
                self.metric.name(),
                self.sweep.name,
                self.reference_name(),
                self.budget,
                differences.len()
            )
        })
    }

    /// What the grid's widest difference could be told by.
    fn widest(&self, options: &ReportOptions) -> Option<String> {
        let mut known: Vec<(f64, &str)> = self
            .sweep
            .settings()
            .filter_map(|(_, _, label)| {
                let average = self.group.average(self.metric, label, Some(self.budget))?;
                Some((average.value, label))
            })
            .collect();
        known.sort_by(|left, right| left.0.total_cmp(&right.0));
        let (low, high) = (known.first()?.1, known.last()?.1);
        if low == high {
            return None;
        }
        let difference =
            rows_difference(self.group, self.metric, (high, low), self.budget, options)?;
        let decimals = self.decimals();
        let size = difference.size(decimals)?;
        let smallest = difference.smallest_detectable?;
        let words = if difference.mean.abs() < smallest {
            "it cannot be tested at this n"
        } else {
            "picked as the widest of the grid, so its interval is too narrow"
        };
        Some(format!(
            "Widest difference of {} at {}: {high} over {low} by {size} {}, n = {}; smallest that n could show: {smallest:.decimals$}: {words}.",
            self.sweep.name,
            self.budget,
            self.metric.unit(),
            difference.pairs
        ))
    }
}
