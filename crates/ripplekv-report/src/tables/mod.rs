//! Tables as data: what is in them is decided here, how they look in [`crate::render`].
//! To add a table: one file with a `build` function, one line in [`TABLES`].

mod ablation;
mod correlation;
mod differences;
mod efficiency;
mod main_table;
mod profile;
mod regret;
mod signal_ablation;
#[cfg(test)]
mod tests;

pub(crate) use signal_ablation::compared_allocators;

use crate::evidence::{Estimate, Evidence};
use crate::group::Group;
use crate::metric::{Better, Metric};
use crate::options::ReportOptions;

/// One table of a report.
pub struct TableInfo {
    /// File name without its end, unique and stable.
    pub name: &'static str,
    /// One line on what it shows.
    pub about: &'static str,
    /// Makes it; `None` where there is nothing to show.
    pub(crate) build: Build,
}

/// What a table is about.
pub(crate) enum Build {
    /// The scores of one group of cells.
    Group(fn(&Group, &ReportOptions) -> Option<Table>),
    /// The layers of one model.
    Layers(fn(&Evidence) -> Option<Table>),
}

/// Every table, in the order of the report.
pub const TABLES: &[TableInfo] = &[
    TableInfo {
        name: "main",
        about: "score of every method on every task, in blocks by budget",
        build: Build::Group(main_table::build),
    },
    TableInfo {
        name: "differences",
        about: "paired differences of every method from the baseline, with intervals",
        build: Build::Group(|group, options| differences::build(group, Metric::Score, options)),
    },
    TableInfo {
        name: "differences-kl",
        about: "paired differences of every method's KL from a method with budgets, with intervals",
        build: Build::Group(|group, options| differences::build(group, Metric::AnswerKl, options)),
    },
    TableInfo {
        name: "efficiency",
        about: "kept entries, bytes and times of every method",
        build: Build::Group(efficiency::build),
    },
    TableInfo {
        name: "ablation",
        about: "average score of a swept method and its difference from uniform budgets, r by gamma, in blocks by budget",
        build: Build::Group(|group, options| ablation::build(group, Metric::Score, options)),
    },
    TableInfo {
        name: "ablation-kl",
        about: "mean KL of a swept method and its difference from uniform budgets, r by gamma, in blocks by budget",
        build: Build::Group(|group, options| ablation::build(group, Metric::AnswerKl, options)),
    },
    TableInfo {
        name: "signal-ablation",
        about: "ripplekv with other allocators at equal budgets, difference from ripplekv",
        build: Build::Group(|group, options| signal_ablation::build(group, Metric::Score, options)),
    },
    TableInfo {
        name: "signal-ablation-kl",
        about: "KL of ripplekv with other allocators at equal budgets, difference from ripplekv",
        build: Build::Group(|group, options| {
            signal_ablation::build(group, Metric::AnswerKl, options)
        }),
    },
    TableInfo {
        name: "profile",
        about: "sensitivity and the other measured signals of every layer",
        build: Build::Layers(profile::build),
    },
    TableInfo {
        name: "correlation",
        about: "rank correlation of every signal with measured damage, and what it establishes",
        build: Build::Layers(correlation::build),
    },
    TableInfo {
        name: "regret",
        about: "joint damage of every allocation, and its regret against the oracle",
        build: Build::Layers(regret::build),
    },
];

/// Name of the column that holds a category's mean.
pub(crate) const MEAN: &str = "mean";

/// Rank of a number within its column and block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mark {
    #[default]
    None,
    Best,
    Second,
}

/// One value of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Empty,
    Text(String),
    /// Name of a row of published values: the whole row is shown in grey and never ranked.
    Published(String),
    Number {
        value: f64,
        decimals: usize,
        /// Always with a sign, for differences.
        signed: bool,
        mark: Mark,
        /// Such as `n=10/24`.
        note: Option<String>,
    },
    Bytes(f64),
    Interval {
        low: f64,
        high: f64,
        decimals: usize,
        signed: bool,
    },
}

impl Value {
    pub(crate) fn number(value: Option<f64>, decimals: usize) -> Value {
        value.map_or(Value::Empty, |value| Value::Number {
            value,
            decimals,
            signed: false,
            mark: Mark::None,
            note: None,
        })
    }

    /// A number with its interval written beside it.
    pub(crate) fn with_interval(
        value: f64,
        ends: Option<crate::stats::Interval>,
        decimals: usize,
        signed: bool,
    ) -> Value {
        Value::Number {
            value,
            decimals,
            signed,
            mark: Mark::None,
            note: ends.map(|ends| format!("({:.decimals$} to {:.decimals$})", ends.low, ends.high)),
        }
    }

    /// A number that always carries its sign.
    pub(crate) fn signed(value: f64, decimals: usize) -> Value {
        Value::Number {
            value,
            decimals,
            signed: true,
            mark: Mark::None,
            note: None,
        }
    }

    pub(crate) fn interval(
        ends: Option<crate::stats::Interval>,
        decimals: usize,
        signed: bool,
    ) -> Value {
        ends.map_or(Value::Empty, |ends| Value::Interval {
            low: ends.low,
            high: ends.high,
            decimals,
            signed,
        })
    }

    /// A number and its interval, for two columns.
    pub(crate) fn estimate(
        estimate: Option<Estimate>,
        decimals: usize,
        signed: bool,
    ) -> [Value; 2] {
        let number = match estimate {
            Some(estimate) if signed => Value::signed(estimate.value, decimals),
            other => Value::number(other.map(|known| known.value), decimals),
        };
        let ends = estimate.and_then(|known| known.interval);
        [number, Value::interval(ends, decimals, signed)]
    }

    pub(crate) fn text(text: impl Into<String>) -> Value {
        Value::Text(text.into())
    }

    pub(crate) fn count(value: usize) -> Value {
        Value::number(Some(value as f64), 0)
    }
}

/// What a narrow terminal does with a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// Always shown.
    Kept,
    /// Left out where the rest is still too wide.
    Spare,
    /// Moved into a second table.
    Apart,
}

/// One column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// Line above the name, such as the category; may be empty.
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) left: bool,
    /// What becomes of it on a narrow terminal.
    pub(crate) width: Width,
    /// Which end is better: best and second are marked within each block; `None` without ranks.
    pub(crate) ranked: Option<Better>,
    /// Holds intervals: two columns in CSV.
    pub(crate) is_pair: bool,
    /// Holds the intervals of the column before it: LaTeX writes both into one cell.
    pub(crate) of_previous: bool,
}

impl Column {
    pub(crate) fn label(name: &str) -> Column {
        Column {
            left: true,
            ..Column::number(name)
        }
    }

    pub(crate) fn number(name: &str) -> Column {
        Column {
            group: String::new(),
            name: name.to_owned(),
            left: false,
            width: Width::Kept,
            ranked: None,
            is_pair: false,
            of_previous: false,
        }
    }

    pub(crate) fn interval(name: &str) -> Column {
        Column {
            is_pair: true,
            ..Column::number(name)
        }
    }

    /// Left out where a terminal is too narrow.
    pub(crate) fn spare(self) -> Column {
        Column {
            width: Width::Spare,
            ..self
        }
    }

    pub(crate) fn ranked(name: &str, better: Better) -> Column {
        Column {
            ranked: Some(better),
            ..Column::number(name)
        }
    }
}

/// Rows that belong together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Block {
    /// Such as `budget 10%`; empty for rows without a budget.
    pub(crate) name: String,
    pub(crate) rows: Vec<Vec<Value>>,
}

/// A table, ready for any renderer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) notes: Vec<String>,
}

impl Table {
    /// Marks the best and the second value of every ranked column in every block with a budget.
    /// Rows with an unfinished value (a note or a text in a ranked column) and columns with a single value are not
    /// ranked: a mark beside an unfinished score would claim more than is known.
    pub(crate) fn rank(&mut self) {
        let ranked: Vec<Option<Better>> = self.columns.iter().map(|column| column.ranked).collect();
        let is_finished = |row: &&mut Vec<Value>| {
            row.iter().zip(&ranked).all(|(value, ranked)| {
                ranked.is_none()
                    || !matches!(value, Value::Text(_) | Value::Number { note: Some(_), .. })
            }) && !is_published(row)
        };
        for block in self
            .blocks
            .iter_mut()
            .filter(|block| !block.name.is_empty())
        {
            let mut rows: Vec<&mut Vec<Value>> =
                block.rows.iter_mut().filter(is_finished).collect();
            for (index, better) in ranked.iter().enumerate() {
                if let Some(better) = better {
                    rank_column(&mut rows, index, *better);
                }
            }
        }
    }

    /// Whether published values stand in it.
    pub(crate) fn has_published(&self) -> bool {
        let rows = self.blocks.iter().flat_map(|block| &block.rows);
        rows.into_iter().any(|row| is_published(row))
    }

    /// The same table with some of its columns.
    pub(crate) fn picked(&self, keep: impl Fn(&Column) -> bool) -> Table {
        let keep: Vec<bool> = self.columns.iter().map(keep).collect();
        let pick = |row: &Vec<Value>| {
            row.iter()
                .zip(&keep)
                .filter(|(_, keep)| **keep)
                .map(|(value, _)| value.clone())
                .collect()
        };
        Table {
            title: self.title.clone(),
            columns: self
                .columns
                .iter()
                .zip(&keep)
                .filter(|(_, keep)| **keep)
                .map(|(column, _)| column.clone())
                .collect(),
            blocks: self
                .blocks
                .iter()
                .map(|block| Block {
                    name: block.name.clone(),
                    rows: block.rows.iter().map(pick).collect(),
                })
                .collect(),
            notes: self.notes.clone(),
        }
    }
}

/// Whether a row's values are others' published ones.
pub(crate) fn is_published(row: &[Value]) -> bool {
    row.iter().any(|value| matches!(value, Value::Published(_)))
}

fn rank_column(rows: &mut [&mut Vec<Value>], index: usize, better: Better) {
    let ranked = |value: &Value| match value {
        Value::Number { value, .. } => Some(better.oriented(*value)),
        _ => None,
    };
    let mut values: Vec<f64> = rows
        .iter()
        .filter_map(|row| ranked(row.get(index)?))
        .collect();
    if values.len() < 2 {
        return;
    }
    values.sort_by(|left, right| right.total_cmp(left));
    values.dedup();
    if values.len() < 2 {
        return;
    }
    for row in rows {
        if let Some(Value::Number { value, mark, .. }) = row.get_mut(index) {
            let value = better.oriented(*value);
            if value == values[0] {
                *mark = Mark::Best;
            } else if value == values[1] {
                *mark = Mark::Second;
            }
        }
    }
}
