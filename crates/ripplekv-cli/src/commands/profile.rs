//! `ripplekv profile`: measures or finds the sensitivity profile of every model of a spec, and shows it.

use ripplekv_runner::exit;
use ripplekv_runner::plan::ProfilePlan;
use ripplekv_runner::profile::{LEAST_SLOPE, ProfileDocument, profile_path};
use ripplekv_runner::run::{RunOptions, StopSignal, run_profiles};
use ripplekv_runner::select::Only;
use ripplekv_runner::spec::Spec;

use crate::arguments::StageArguments;
use crate::commands::experiment;
use crate::commands::run::note_stopped_stages;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::tables::plain_table;
use crate::{signals, wiring};

pub(crate) fn profile(arguments: &StageArguments, output: Output) -> Result<u8, Failure> {
    wiring::set_threads(arguments.machine.threads)?;
    let only = Only::parse(&arguments.selection.only)?;
    let spec = Spec::load(&arguments.spec, &arguments.selection.overrides)?;
    let calibration = experiment::calibration_dir(&spec);
    let plan = ProfilePlan::new(&spec, &wiring::catalog(), &calibration, &only)?;
    let results = experiment::results_dir(&plan.name, &arguments.selection);
    let home = experiment::profile_home(&results);
    let loader = wiring::loader(&arguments.machine.device)?;
    let stop = StopSignal::default();
    let mut progress = Progress::new(output);
    signals::listen(&stop, progress.notes())
        .map_err(|error| Failure::Data(format!("cannot listen to signals: {error}")))?;
    let options = RunOptions {
        out: &results,
        home: &home,
        retry_failed: false,
        stop: &stop,
        segmenter: None,
        program_version: env!("CARGO_PKG_VERSION"),
        only_stages: false,
    };
    let summary = run_profiles(&plan, loader.as_ref(), &options, &mut progress)?;
    progress.clear();
    for document in &summary.documents {
        output.data(&text(document))?;
        let path = profile_path(&results, &document.model.name);
        output.line(&format!("\nprofile: {}", path.display()))?;
    }
    if summary.left > 0 {
        note_stopped_stages(output, summary.left);
        return Ok(exit::INCOMPLETE);
    }
    Ok(exit::DONE)
}

/// The profile as a table, with what it rests on below.
fn text(document: &ProfileDocument) -> String {
    let rows: Vec<Vec<String>> = document
        .sensitivity
        .iter()
        .enumerate()
        .map(|(layer, found)| {
            vec![
                layer.to_string(),
                number(found.mean),
                format!("{} to {}", number(found.low), number(found.high)),
                number(found.median),
                number(found.p90),
            ]
        })
        .collect();
    let table = plain_table(
        &["layer", "mean KL", "95% interval", "median", "p90"],
        &rows,
    );
    let is_quadratic = document.sigma.ladder.iter().any(|step| {
        let slope = step.median_slope;
        step.sigma == document.sigma.chosen && slope.is_some_and(|slope| slope >= LEAST_SLOPE)
    });
    let sigma = match (document.sigma.given, is_quadratic) {
        (true, _) => "given",
        (false, true) => "largest quadratic",
        (false, false) => "none of the ladder was quadratic, its smallest is used",
    };
    let reliability = document.reliability.map_or_else(
        || "unknown below 4 samples, or where all layers are equal".to_owned(),
        |found| {
            format!(
                "{:.3} (halves {:.3}, {} splits)",
                found.spearman_brown, found.split_half, found.splits
            )
        },
    );
    let stopped = if document.stopped_early {
        ", stopped at the wanted reliability"
    } else {
        ""
    };
    let ratios: Vec<String> = document
        .predicted_ratios()
        .iter()
        .map(|(exponent, ratio)| {
            let ratio = ratio.map_or_else(|| "undefined".to_owned(), |ratio| format!("{ratio:.3}"));
            format!("{ratio} at exponent {exponent}")
        })
        .collect();
    format!(
        "{}: mean KL in nats of {} samples, {} left out{stopped}\n{table}\nsigma: {} ({sigma})\nreliability: {reliability}\nbest total damage against uniform, predicted: {}\n",
        document.model.name,
        document.samples.len(),
        document.dropped.len(),
        document.sigma.chosen,
        ratios.join(", ")
    )
}

/// Three significant digits, as sensitivities span orders of magnitude.
fn number(value: f64) -> String {
    format!("{value:.2e}")
}
