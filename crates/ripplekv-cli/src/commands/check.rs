//! `ripplekv check`: everything that can be wrong before a model loads.

use std::path::Path;

use ripplekv_report::Reference;
use ripplekv_runner::RunnerError;
use ripplekv_runner::catalog::Catalog;
use ripplekv_runner::engine::{Availability, Loader};
use ripplekv_runner::exit;
use ripplekv_runner::plan::{Plan, PlanOptions, check_names, prepare_model};
use ripplekv_runner::spec::Spec;

use crate::arguments::CheckArguments;
use crate::commands::experiment::{calibration_dir, named_pack, pack_dir};
use crate::failure::Failure;
use crate::output::Output;
use crate::wiring;

/// Packs that are fetched or generated: a spec that names one is no worse for their absence.
const FETCHED_PACKS: [&str; 2] = ["longbench", "study"];

pub(crate) fn check(arguments: &CheckArguments, output: Output) -> Result<u8, Failure> {
    let catalog = wiring::catalog();
    let loader = wiring::loader("cpu")?;
    let mut code = exit::DONE;
    for file in &arguments.specs {
        match check_one(file, arguments, &catalog, loader.as_ref()) {
            Ok(notes) => {
                output.line(&format!("{}: ok", file.display()))?;
                for note in notes {
                    output.line(&format!("  {note}"))?;
                }
            }
            Err(failure) => {
                let text = failure.text().unwrap_or_default();
                let name = file.display().to_string();
                if text.starts_with(&name) {
                    output.error(&text);
                } else {
                    output.error(&format!("{name}: {text}"));
                }
                code = failure.exit_code();
            }
        }
    }
    Ok(code)
}

fn check_one(
    file: &Path,
    arguments: &CheckArguments,
    catalog: &Catalog,
    loader: &dyn Loader,
) -> Result<Vec<String>, Failure> {
    if let Some(notes) = check_published(file)? {
        return Ok(notes);
    }
    let spec = Spec::load(file, &arguments.overrides)?;
    check_names(&spec, catalog)?;
    let folder = pack_dir(&spec, arguments.pack.as_deref())?;
    let name = spec.tasks.pack.as_deref().unwrap_or_default();
    if arguments.pack.is_none() && !folder.is_dir() && FETCHED_PACKS.contains(&name) {
        return Ok(vec![format!(
            "not checked: the pack '{name}' is not here; --pack DIR names a folder that has it"
        )]);
    }
    let options = PlanOptions {
        calibration: calibration_dir(&spec),
        ..PlanOptions::default()
    };
    let plan = Plan::new(&spec, catalog, &folder, options)
        .map_err(|error| named_pack(error, &spec, arguments.pack.as_deref()))?;
    let mut notes = vec![format!(
        "{} cells over {} tasks",
        plan.cells.len(),
        plan.tasks.len()
    )];
    if let Some(profile) = &plan.profile {
        notes.push(format!(
            "profile: at most {} samples of the pack {}",
            profile.recipe.samples,
            profile.pack.name()
        ));
    }
    notes.extend(
        plan.warnings
            .iter()
            .map(|warning| format!("warning: {warning}")),
    );
    for place in 0..plan.models.len() {
        notes.push(check_model(&plan, catalog, loader, place)?);
    }
    Ok(notes)
}

/// A file of published values, as in `experiments/reference/`: it has rows and no models. `None` for any other file.
fn check_published(file: &Path) -> Result<Option<Vec<String>>, Failure> {
    // What cannot be read is told by the reader of specs.
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    if !has("rows:") || has("models:") {
        return Ok(None);
    }
    let reference = Reference::parse(&file.display().to_string(), &text).map_err(Failure::Data)?;
    let rows = reference.rows.len();
    let model = &reference.model;
    Ok(Some(vec![format!(
        "published values: {rows} rows of {model}, {}",
        reference.source
    )]))
}

fn check_model(
    plan: &Plan,
    catalog: &Catalog,
    loader: &dyn Loader,
    place: usize,
) -> Result<String, Failure> {
    let model = &plan.models[place];
    let failed = |source| RunnerError::Model {
        model: model.name.clone(),
        source,
    };
    match loader.availability(model) {
        Availability::Present => {}
        Availability::Fetchable => {
            return Ok(format!(
                "{}: not checked: not here yet, the first run fetches it",
                model.name
            ));
        }
        Availability::NotChecked(reason) | Availability::NotRun(reason) => {
            return Ok(format!("{}: not checked: {reason}", model.name));
        }
        Availability::Broken(message) => {
            return Err(Failure::Data(format!("model '{}': {message}", model.name)));
        }
    }
    let tokenizer = loader.tokenizer(model).map_err(failed)?;
    let shape = loader.shape(model).map_err(failed)?;
    let prepared = prepare_model(plan, catalog, place, tokenizer.as_ref(), &shape)?;
    let prompts: usize = prepared.tasks.iter().map(|task| task.prompts.len()).sum();
    let short: usize = prepared.tasks.iter().map(|task| task.short_prompts).sum();
    Ok(format!(
        "{}: {prompts} prompts, cut at {} tokens, {short} below a must-keep set",
        model.name, prepared.max_context
    ))
}
