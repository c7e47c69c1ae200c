//! The two frames of a report (polars): `cells`, one row a cell, and `samples`, one row a record. Their columns are stable.

mod columns;
mod csv;
mod parquet;

use std::collections::BTreeMap;

use polars::prelude::{Column, DataFrame, NamedFrom, PlSmallStr, Series};
use ripplekv_runner::cell::CellKey;
use ripplekv_runner::engine::Finish;

use crate::error::ReportError;
use crate::group::{Group, query_name};
use crate::read::{CellSamples, Sample};
use crate::summary::{CellSummary, kept_entries};

pub use columns::{CELL_COLUMNS, ColumnInfo, ColumnKind, SAMPLE_COLUMNS};
pub(crate) use csv::csv_bytes;
pub(crate) use parquet::parquet_bytes;

/// Builds one frame row by row source; keeps names and lengths in step with the documented columns.
struct Builder<'a, Row> {
    rows: &'a [Row],
    names: std::slice::Iter<'static, ColumnInfo>,
    columns: Vec<Column>,
}

impl<'a, Row> Builder<'a, Row> {
    fn new(rows: &'a [Row], columns: &'static [ColumnInfo]) -> Self {
        Builder {
            rows,
            names: columns.iter(),
            columns: Vec::new(),
        }
    }

    /// Adds the next documented column.
    fn add<Value>(&mut self, value: impl Fn(&'a Row) -> Value)
    where
        Series: NamedFrom<Vec<Value>, [Value]>,
    {
        let values: Vec<Value> = self.rows.iter().map(value).collect();
        let name = self.names.next().map_or("unnamed", |info| info.name);
        let series = Series::new(PlSmallStr::from_static(name), values);
        self.columns.push(series.into());
    }
}

impl<Row> Builder<'_, Row> {
    fn finish(self, frame: &'static str) -> Result<DataFrame, ReportError> {
        debug_assert_eq!(self.names.len(), 0, "every documented column is filled");
        DataFrame::new(self.rows.len(), self.columns)
            .map_err(|source| ReportError::Frame { frame, source })
    }
}

/// One row a cell, in table order.
pub(crate) fn cells_frame(groups: &[Group]) -> Result<DataFrame, ReportError> {
    let rows: Vec<(&Group, &CellSummary)> = groups
        .iter()
        .flat_map(|group| {
            group
                .ordered_cells()
                .into_iter()
                .map(move |cell| (group, cell))
        })
        .collect();
    let mut frame = Builder::new(&rows, CELL_COLUMNS);
    frame.add(|(_, cell)| Some(cell.cell.key.to_string()));
    frame.add(|(group, _)| Some(group.slug.clone()));
    frame.add(|(_, cell)| Some(cell.cell.model.clone()));
    frame.add(|(_, cell)| Some(cell.cell.task.clone()));
    frame.add(|(_, cell)| Some(cell.category.clone()));
    frame.add(|(_, cell)| Some(cell.cell.method.name.clone()));
    frame.add(|(_, cell)| Some(cell.label.clone()));
    frame.add(|(_, cell)| cell.cell.budget.clone());
    frame.add(|(group, _)| Some(query_name(group.query).to_owned()));
    frame.add(|(_, cell)| Some(cell.scored as u64));
    frame.add(|(_, cell)| Some(cell.expected as u64));
    frame.add(|(_, cell)| Some(cell.failed as u64));
    frame.add(|(_, cell)| cell.score);
    frame.add(|(_, cell)| cell.standard_error);
    frame.add(|(_, cell)| cell.interval.map(|interval| interval.low));
    frame.add(|(_, cell)| cell.interval.map(|interval| interval.high));
    frame.add(|(_, cell)| cell.score_percent_of_full);
    frame.add(|(_, cell)| cell.answer_kl);
    frame.add(|(_, cell)| cell.kept_entries);
    frame.add(|(_, cell)| cell.kept_percent);
    frame.add(|(_, cell)| cell.cache_bytes);
    frame.add(|(_, cell)| cell.prompt_tokens);
    frame.add(|(_, cell)| cell.output_tokens);
    frame.add(|(_, cell)| cell.prefill_ms);
    frame.add(|(_, cell)| cell.compress_ms);
    frame.add(|(_, cell)| cell.decode_ms);
    frame.add(|(_, cell)| cell.peak_rss_bytes);
    frame.add(|(_, cell)| Some(cell.short_prompts as u64));
    frame.add(|(_, cell)| Some(cell.with_warnings as u64));
    let chance = |group: &Group, cell: &CellSummary| {
        let task = group.tasks.iter().find(|task| task.name == cell.cell.task);
        task.and_then(|task| task.chance.clone())
    };
    frame.add(|(group, cell)| chance(group, cell).map(|chance| chance.score));
    frame.add(|(group, cell)| chance(group, cell).and_then(|chance| chance.is_reached));
    frame.finish("cells")
}

/// A record with its place in the report.
struct SampleRow<'a> {
    group: &'a Group,
    summary: &'a CellSummary,
    sample: &'a Sample,
}

/// One row a record: cells in table order, samples in file order.
pub(crate) fn samples_frame(
    groups: &[Group],
    cells: &[CellSamples],
) -> Result<DataFrame, ReportError> {
    let by_key: BTreeMap<&CellKey, &CellSamples> =
        cells.iter().map(|data| (&data.cell.key, data)).collect();
    let mut rows = Vec::new();
    for group in groups {
        for summary in group.ordered_cells() {
            let samples = by_key.get(&summary.cell.key).map(|data| &data.samples);
            rows.extend(samples.into_iter().flatten().map(|sample| SampleRow {
                group,
                summary,
                sample,
            }));
        }
    }
    let mut frame = Builder::new(&rows, SAMPLE_COLUMNS);
    frame.add(|row| Some(row.summary.cell.key.to_string()));
    frame.add(|row| Some(row.group.slug.clone()));
    frame.add(|row| Some(row.summary.cell.model.clone()));
    frame.add(|row| Some(row.summary.cell.task.clone()));
    frame.add(|row| Some(row.summary.label.clone()));
    frame.add(|row| row.summary.cell.budget.clone());
    frame.add(|row| Some(query_name(row.group.query).to_owned()));
    frame.add(|row| Some(row.sample.record.sample.clone()));
    frame.add(|row| Some(row.sample.record.index));
    frame.add(|row| row.sample.record.score);
    frame.add(|row| row.sample.record.score_levenshtein);
    frame.add(|row| row.sample.record.edit_similarity);
    frame.add(|row| row.sample.record.answer_kl);
    frame.add(|row| Some(row.sample.record.prompt_tokens));
    frame.add(|row| Some(row.sample.record.removed_tokens));
    frame.add(|row| row.sample.record.budget_entries);
    frame.add(|row| kept_entries(row.sample));
    frame.add(|row| Some(row.sample.record.cache_bytes));
    frame.add(|row| Some(u64::from(row.sample.record.must_keep_tokens)));
    frame.add(|row| Some(row.sample.record.short_prompt));
    frame.add(|row| Some(row.sample.record.output_tokens));
    frame.add(|row| row.sample.record.finish.map(finish_name));
    frame.add(|row| row.sample.timing.as_ref().map(|timing| timing.prefill_ms));
    frame.add(|row| row.sample.timing.as_ref().map(|timing| timing.compress_ms));
    frame.add(|row| row.sample.timing.as_ref().map(|timing| timing.decode_ms));
    frame.add(|row| Some(row.sample.record.prompt_hash.clone()));
    frame.add(|row| Some(row.sample.record.kept_hash.clone()));
    frame.add(|row| Some(row.sample.record.output.clone()));
    frame.add(|row| Some(row.sample.record.warnings.join("; ")));
    frame.add(|row| row.sample.record.error.clone());
    frame.finish("samples")
}

fn finish_name(finish: Finish) -> String {
    match finish {
        Finish::Stop => "stop".to_owned(),
        Finish::Length => "length".to_owned(),
    }
}
