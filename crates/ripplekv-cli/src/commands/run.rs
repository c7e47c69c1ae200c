//! `ripplekv run`: the whole experiment, then the table and the report.

use ripplekv_runner::exit;
use ripplekv_runner::run::{RunOptions, StopSignal, run as run_plan};
use ripplekv_runner::select::Shard;

use crate::arguments::RunArguments;
use crate::commands::{experiment, report};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::{signals, wiring};

pub(crate) fn run(arguments: &RunArguments, output: Output) -> Result<u8, Failure> {
    wiring::set_threads(arguments.machine.threads)?;
    let catalog = wiring::catalog();
    let plan = experiment::plan(&arguments.spec, &arguments.selection, &catalog)?;
    let results = experiment::results_dir(&plan.name, &arguments.selection);
    let segmenter = if plan.needs_segmenter() {
        Some(wiring::segmenter()?)
    } else {
        None
    };
    let loader = wiring::loader(&arguments.machine.device)?;
    let stop = StopSignal::default();
    let mut progress = Progress::new(output);
    signals::listen(&stop, progress.notes())
        .map_err(|error| Failure::Data(format!("cannot listen to signals: {error}")))?;
    let home = experiment::profile_home(&results);
    let options = RunOptions {
        out: &results,
        home: &home,
        retry_failed: arguments.retry_failed,
        stop: &stop,
        segmenter: segmenter.as_ref(),
        program_version: env!("CARGO_PKG_VERSION"),
    };
    let summary = run_plan(&plan, &catalog, loader.as_ref(), &options, &mut progress)?;
    let code = summary.exit_code();
    if summary.stages_left > 0 {
        note_stopped_stages(output, summary.stages_left);
        return Ok(code);
    }
    if plan.cells.is_empty() {
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
    let folder = experiment::report_dir(&results);
    let summary = report::write(&[results], &folder, output)?;
    output.data(&summary.terminal)?;
    output.line(&format!("\nreport: {}", folder.join("report.md").display()))?;
    debug_assert!(code == exit::DONE || code == exit::FAILED_SAMPLES);
    Ok(code)
}

/// Says that a stage was stopped, and how it goes on.
pub(crate) fn note_stopped_stages(output: Output, models: usize) {
    output.note(&format!(
        "stopped: the stages of {models} models are left; what was measured is kept\nto continue: {}",
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
