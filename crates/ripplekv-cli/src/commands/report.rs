//! `ripplekv report`: tables and figures from stored records.

use std::path::{Path, PathBuf};

use ripplekv_report::{ReportOptions, ReportSummary, TaskLabel, write_report};
use ripplekv_tasks::TASKS;

use crate::arguments::ReportArguments;
use crate::commands::experiment;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn report(arguments: &ReportArguments, output: Output) -> Result<(), Failure> {
    let folder = match (&arguments.out, arguments.dirs.first()) {
        (Some(folder), _) => folder.clone(),
        (None, Some(first)) => experiment::report_dir(first),
        (None, None) => return Err(Failure::Usage("no results folder given".to_owned())),
    };
    let defaults = options();
    let options = ReportOptions {
        intervals: arguments.intervals,
        baseline: arguments.baseline.clone(),
        prompt_pages: arguments.prompt_pages.unwrap_or(defaults.prompt_pages),
        ..defaults
    };
    let summary = write(&arguments.dirs, &folder, &options, output)?;
    if arguments.json {
        let rows = serde_json::to_string_pretty(&summary.rows)
            .map_err(|error| Failure::Data(error.to_string()))?;
        output.line(&rows)?;
    } else {
        output.data(&summary.terminal)?;
        output.line(&format!("\nreport: {}", folder.join("report.md").display()))?;
        output.line(&format!("pages: {}", folder.join("index.html").display()))?;
    }
    Ok(())
}

/// Writes a report and tells its warnings.
pub(crate) fn write(
    results: &[PathBuf],
    folder: &Path,
    options: &ReportOptions,
    output: Output,
) -> Result<ReportSummary, Failure> {
    let summary = write_report(results, folder, options)?;
    for warning in &summary.warnings {
        output.warning(warning);
    }
    Ok(summary)
}

/// The task facts of this program, and the width of its terminal.
pub(crate) fn options() -> ReportOptions {
    ReportOptions {
        tasks: TASKS
            .iter()
            .map(|task| TaskLabel {
                name: task.name.to_owned(),
                category: task.category.to_string(),
                in_average: task.in_average,
                metric: task.metric.to_owned(),
            })
            .collect(),
        terminal_width: terminal_width(),
        ..ReportOptions::default()
    }
}

/// Columns of the terminal; elsewhere the report's own default.
fn terminal_width() -> usize {
    comfy_table::Table::new()
        .width()
        .map_or(ReportOptions::default().terminal_width, usize::from)
}
