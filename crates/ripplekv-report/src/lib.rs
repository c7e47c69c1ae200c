//! Reports of RippleKV: stored records in; tables, figures and comparisons out. Reads results, never writes them.
//!
//! ```no_run
//! use std::path::{Path, PathBuf};
//! use ripplekv_report::{ReportOptions, write_report};
//!
//! let folders = [PathBuf::from("results/quickstart")];
//! let summary = write_report(&folders, Path::new("reports/quickstart"), &ReportOptions::default())?;
//! println!("{}", summary.terminal);
//! # Ok::<(), ripplekv_report::ReportError>(())
//! ```
//!
//! What is where:
//! - [`read_results`]: the union of results folders, with everything unsound named and left out;
//! - [`write_report`]: frames, tables, figures, `report.md` and the HTML pages;
//! - [`compare`]: two selections, paired by sample, in words;
//! - [`CELL_COLUMNS`], [`SAMPLE_COLUMNS`]: the stable columns of `cells.csv` and `samples.csv`.
//!
//! What profiles and damage say about layers is computed in `src/evidence/`; tables and figures only format it.
//!
//! To add a table, do: one file in `src/tables/`, one line in [`TABLES`].
//! To add published values, do: one file in `experiments/reference/`, one line in [`REFERENCES`].
//! To add a figure, do: one file in `src/figures/`, one line in [`FIGURES`].
//! To add a table format, do: one file in `src/render/`, one line in `write_tables` of `src/report.rs`.

mod averages;
mod budget;
mod chance;
mod compare;
mod error;
mod evidence;
mod figures;
mod files;
mod frames;
mod group;
mod html;
mod kl_findings;
#[cfg(test)]
mod made_up;
mod metric;
mod options;
mod order;
mod pairing;
mod protocol;
mod read;
mod references;
mod render;
mod report;
mod shown;
mod state;
mod stats;
mod summary;
mod sweep;
mod tables;

pub use compare::{
    CompareFilter, Comparison, Comparisons, Selection, Side, TaskComparison, WorstTask, compare,
};
pub use error::ReportError;
pub use evidence::StoredEvidence;
pub use figures::{FIGURES, FigureInfo};
pub use frames::{CELL_COLUMNS, ColumnInfo, ColumnKind, SAMPLE_COLUMNS};
pub use options::{ReportOptions, TaskLabel};
pub use read::{CellSamples, Results, Sample, read_results};
pub use references::{
    ChatTemplate, MaxContext, REFERENCES, Reference, ReferenceProtocol, ReferenceQuery,
    ReferenceRow,
};
pub use report::{ReportSummary, SummaryRow, write_report};
pub use stats::Interval;
pub use tables::{TABLES, TableInfo};
