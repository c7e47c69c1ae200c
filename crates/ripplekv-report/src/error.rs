//! What can stop a report: only what leaves nothing to write. Everything less is a warning at the report's top.
//! Style of the texts: lower case, names the file, then a hint (see `CONTRIBUTING.md`).

use std::path::PathBuf;

/// Why no report (or comparison) could be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// No results folder was named.
    #[error("no results folder given\nhint: `ripplekv report results/quickstart`")]
    NoFolders,
    /// A results folder is not there.
    #[error("{}: no such folder\nhint: `ripplekv run SPEC` makes a results folder", path.display())]
    MissingFolder {
        /// The folder as it was given.
        path: PathBuf,
    },
    /// A folder holds neither a manifest nor cells.
    #[error(
        "{}: not a results folder: no manifest.json\nhint: give a folder such as results/quickstart; `ripplekv run SPEC` makes it",
        path.display()
    )]
    NoResults {
        /// The folder as it was given.
        path: PathBuf,
    },
    /// No table has a method of the baseline's name.
    #[error("baseline `{baseline}` is no method of these results\nhint: they have {}", known.join(", "))]
    UnknownBaseline {
        /// The label as it was given.
        baseline: String,
        /// Every label, in table order.
        known: Vec<String>,
    },
    /// A file could not be written.
    #[error("{}: cannot write: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of an earlier report could not be removed.
    #[error("{}: cannot remove this file of an earlier report: {source}", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is there but could not be read.
    #[error("{}: cannot read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A frame could not be built.
    #[error("frame `{frame}`: {source}")]
    Frame {
        /// `cells` or `samples`.
        frame: &'static str,
        /// What polars said.
        source: polars::error::PolarsError,
    },
    /// A table could not be written as CSV.
    #[error("{name}: cannot write CSV: {source}")]
    Csv {
        /// Which table.
        name: String,
        /// What the writer said.
        source: csv::Error,
    },
    /// A frame could not be written as Parquet.
    #[error("{name}: cannot write Parquet: {source}")]
    Parquet {
        /// Which file.
        name: String,
        /// What the writer said.
        source: parquet::errors::ParquetError,
    },
    /// A figure could not be drawn.
    #[error("figure `{figure}`: {message}")]
    Draw {
        /// Which figure.
        figure: String,
        /// What the drawing library said.
        message: String,
    },
    /// An HTML page could not be made.
    #[error("page `{page}`: {message}")]
    Page {
        /// Which page.
        page: String,
        /// What the template engine said.
        message: String,
    },
    /// One side of a comparison selects nothing.
    #[error("`{selection}` selects no finished samples\nhint: {hint}")]
    EmptySelection {
        /// The selection as it was given.
        selection: String,
        /// What there is.
        hint: String,
    },
    /// The two sides share no sample.
    #[error(
        "`{left}` and `{right}` share no sample of the same model, task, protocol and query mode\nhint: {hint}"
    )]
    NothingShared {
        /// First side.
        left: String,
        /// Second side.
        right: String,
        /// What to do.
        hint: String,
    },
}
