//! `ripplekv run`: the whole experiment, then the table and the report.

use std::path::Path;

use ripplekv_runner::exit;
use ripplekv_runner::plan::Plan;
use ripplekv_runner::run::{RunOptions, RunSummary, StopSignal, run as run_plan};
use ripplekv_runner::select::Shard;

use crate::arguments::{MachineArguments, RunArguments, SelectionArguments};
use crate::commands::{experiment, report};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::{signals, wiring};

pub(crate) fn run(arguments: &RunArguments, output: Output) -> Result<u8, Failure> {
    let work = Work {
        spec: &arguments.spec,
        selection: &arguments.selection,
        machine: &arguments.machine,
        retry_failed: arguments.retry_failed,
        only_stages: false,
    };
    work.run(output)
}

/// What `run` and `damage` have in common.
pub(crate) struct Work<'a> {
    pub(crate) spec: &'a Path,
    pub(crate) selection: &'a SelectionArguments,
    pub(crate) machine: &'a MachineArguments,
    pub(crate) retry_failed: bool,
    /// Whether the cells are left alone.
    pub(crate) only_stages: bool,
}

impl Work<'_> {
    pub(crate) fn run(&self, output: Output) -> Result<u8, Failure> {
        wiring::set_threads(self.machine.threads)?;
        let catalog = wiring::catalog();
        let plan = experiment::plan(self.spec, self.selection, &catalog)?;
        if self.only_stages && plan.damage.is_none() {
            return Err(Failure::Data(format!(
                "{}: the key 'damage' is missing\nhint: write damage: {{budgets: [10%], scorer: snapkv}}",
                self.spec.display()
            )));
        }
        let results = experiment::results_dir(&plan.name, self.selection);
        let segmenter = if plan.needs_segmenter() {
            Some(wiring::segmenter()?)
        } else {
            None
        };
        let loader = wiring::loader(&self.machine.device)?;
        let stop = StopSignal::default();
        let mut progress = Progress::new(output);
        signals::listen(&stop, progress.notes())
            .map_err(|error| Failure::Data(format!("cannot listen to signals: {error}")))?;
        let home = experiment::profile_home(&results);
        let options = RunOptions {
            out: &results,
            home: &home,
            retry_failed: self.retry_failed,
            stop: &stop,
            segmenter: segmenter.as_ref(),
            program_version: env!("CARGO_PKG_VERSION"),
            only_stages: self.only_stages,
        };
        let summary = run_plan(&plan, &catalog, loader.as_ref(), &options, &mut progress)?;
        progress.clear();
        finish(&plan, &results, &summary, output)
    }
}

/// Says what is left, or writes the report and prints its tables.
fn finish(
    plan: &Plan,
    results: &Path,
    summary: &RunSummary,
    output: Output,
) -> Result<u8, Failure> {
    let code = summary.exit_code();
    if summary.stages_left > 0 {
        note_stopped_stages(output, summary.stages_left);
        return Ok(code);
    }
    if summary.left > 0 {
        let reason = if summary.interrupted {
            "stopped"
        } else {
            "other processes hold the rest"
        };
        output.note(&format!(
            "{reason}: {} cells of prompts are stored, {} are left\nto continue: {}",
            summary.computed + summary.stored_before,
            summary.left,
            command_line()
        ));
        return Ok(code);
    }
    if summary.failed > 0 {
        output.warning(&format!(
            "{} samples failed; their records say why, and --retry-failed runs them again",
            summary.failed
        ));
    }
    if plan.shard != Shard::ALL {
        output.note(&format!(
            "shard {}/{} is done; when all are: ripplekv report {}",
            plan.shard.index,
            plan.shard.count,
            results.display()
        ));
        return Ok(code);
    }
    if summary.stages_failed > 0 {
        output.warning(&format!(
            "{} samples failed in the damage stage; their lines in {} say why",
            summary.stages_failed,
            results.join("damage").display()
        ));
    }
    let folder = experiment::report_dir(results);
    let summary = report::write(&[results.to_owned()], &folder, &report::options(), output)?;
    output.data(&summary.terminal)?;
    output.line(&format!("\nreport: {}", folder.join("report.md").display()))?;
    output.line(&format!("pages: {}", folder.join("index.html").display()))?;
    debug_assert!(code == exit::DONE || code == exit::FAILED_SAMPLES);
    Ok(code)
}

/// Says that a stage was stopped, and how it goes on.
pub(crate) fn note_stopped_stages(output: Output, visits: usize) {
    output.note(&format!(
        "stopped: {visits} visits of samples are left in the profile and damage stages; what was measured is kept\nto continue: {}",
        command_line()
    ));
}

/// This command, as it can be typed again.
fn command_line() -> String {
    let words: Vec<String> = std::env::args()
        .enumerate()
        .map(|(place, word)| match place {
            0 => "ripplekv".to_owned(),
            _ => shell_word(&word),
        })
        .collect();
    words.join(" ")
}

/// A word quoted for a POSIX shell where it needs to be.
fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,%@+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(shell_word("--limit=5%"), "--limit=5%");
        assert_eq!(shell_word("budgets=[10%, 20%]"), "'budgets=[10%, 20%]'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(shell_word(""), "''");
    }
}
