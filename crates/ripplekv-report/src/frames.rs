//! The two frames of a report (polars): `cells`, one row a cell, and `samples`, one row a record. Their columns are stable.
//! Parquet would be one more writer beside [`csv_bytes`]; the frames stay as they are.

use std::collections::BTreeMap;

use polars::prelude::{AnyValue, Column, DataFrame, NamedFrom, PlSmallStr, Series};
use ripplekv_runner::cell::CellKey;
use ripplekv_runner::engine::Finish;

use crate::error::ReportError;
use crate::group::{Group, query_name};
use crate::read::{CellSamples, Sample};
use crate::summary::{CellSummary, kept_entries};

/// A documented column of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Its name; never changes its meaning.
    pub name: &'static str,
    /// What it holds, with its unit.
    pub about: &'static str,
}

const fn column(name: &'static str, about: &'static str) -> ColumnInfo {
    ColumnInfo { name, about }
}

/// Columns of `cells`, in order.
pub const CELL_COLUMNS: &[ColumnInfo] = &[
    column("cell", "key of the cell"),
    column(
        "table",
        "table it stands in: one model, query mode and protocol",
    ),
    column("model", "short name of the model"),
    column("task", "task"),
    column("category", "category of the task"),
    column("method", "name of the method"),
    column("label", "label in tables"),
    column(
        "budget",
        "budget as in the spec; empty for methods without one",
    ),
    column("query", "aware or agnostic"),
    column("n", "scored samples"),
    column(
        "expected",
        "samples that any cell of the table has for the task",
    ),
    column("failed", "failed samples; they are in no mean of scores"),
    column(
        "score",
        "100 x mean score, two decimals (LongBench's rounding)",
    ),
    column("stderr", "standard error of the score, points"),
    column("ci_low", "lower end of the 95% bootstrap interval, points"),
    column("ci_high", "upper end of the 95% bootstrap interval, points"),
    column(
        "score_percent_of_full",
        "score in percent of the full cache's score on the task",
    ),
    column(
        "answer_kl",
        "mean KL from the full cache over its own answers, nats; empty where it was not measured",
    ),
    column(
        "kept_entries",
        "mean kept prompt entries per layer and KV head",
    ),
    column(
        "kept_percent",
        "mean share of the prompt's entries kept, percent",
    ),
    column("cache_bytes", "mean bytes of the compressed cache"),
    column("prompt_tokens", "mean prompt tokens"),
    column("output_tokens", "mean generated tokens"),
    column(
        "prefill_ms",
        "mean milliseconds of the prefill shared by all cells of a prompt",
    ),
    column("compress_ms", "mean milliseconds to select and gather"),
    column("decode_ms", "mean milliseconds to decode"),
    column(
        "peak_rss_bytes",
        "greatest resident memory of the process so far, bytes",
    ),
    column(
        "short_prompts",
        "samples whose budget was below the must-keep set",
    ),
    column("with_warnings", "samples that carry a warning"),
];

/// Columns of `samples`, in order.
pub const SAMPLE_COLUMNS: &[ColumnInfo] = &[
    column("cell", "key of the cell"),
    column("table", "table it stands in"),
    column("model", "short name of the model"),
    column("task", "task"),
    column("label", "label of the method in tables"),
    column("budget", "budget as in the spec"),
    column("query", "aware or agnostic"),
    column("sample", "id of the sample"),
    column("index", "place in the task's file, from 0"),
    column("score", "score in 0..1; empty for a failed sample"),
    column(
        "score_levenshtein",
        "code only: the python-Levenshtein flavour",
    ),
    column(
        "edit_similarity",
        "normalised Levenshtein similarity to the nearest reference",
    ),
    column(
        "answer_kl",
        "mean KL from the full cache over its own answer, nats; empty where it was not measured",
    ),
    column("prompt_tokens", "prompt tokens"),
    column("removed_tokens", "tokens that middle truncation removed"),
    column(
        "budget_entries",
        "entries per KV head over all layers that the budget allows",
    ),
    column(
        "kept_entries",
        "kept prompt entries per layer and KV head, mean over layers",
    ),
    column("cache_bytes", "bytes of the compressed cache"),
    column("must_keep_tokens", "must-keep tokens that were used"),
    column(
        "short_prompt",
        "true when the budget was below the must-keep set",
    ),
    column("output_tokens", "generated tokens"),
    column("finish", "stop or length"),
    column("prefill_ms", "milliseconds of the shared prefill"),
    column("compress_ms", "milliseconds to select and gather"),
    column("decode_ms", "milliseconds to decode"),
    column("prompt_hash", "hash of the prompt's token ids"),
    column("kept_hash", "hash of the kept indices"),
    column("output", "generated text"),
    column("warnings", "warnings, separated by semicolons"),
    column("error", "why the sample failed"),
];

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
    frame.add(|row| Some(row.sample.record.must_keep_tokens));
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

/// A frame as CSV: empty for missing values, floats in their shortest exact form.
pub(crate) fn csv_bytes(name: &str, frame: &DataFrame) -> Result<Vec<u8>, ReportError> {
    let failed = |source| ReportError::Csv {
        name: name.to_owned(),
        source,
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let names = frame.get_column_names();
    writer
        .write_record(names.iter().map(|name| name.as_str()))
        .map_err(failed)?;
    for index in 0..frame.height() {
        for column in frame.columns() {
            let text = match column.get(index) {
                Ok(AnyValue::Null) | Err(_) => String::new(),
                Ok(AnyValue::String(text)) => text.to_owned(),
                Ok(AnyValue::StringOwned(text)) => text.to_string(),
                Ok(AnyValue::Float64(value)) => value.to_string(),
                Ok(other) => other.to_string(),
            };
            writer.write_field(text).map_err(failed)?;
        }
        writer.write_record(None::<&[u8]>).map_err(failed)?;
    }
    writer
        .into_inner()
        .map_err(|error| failed(error.into_error().into()))
}
