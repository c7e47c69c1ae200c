//! `ripplekv plan`: what a run would do. Reads records and tokenizers that are here; loads no weights, fetches nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ripplekv_runner::RunnerError;
use ripplekv_runner::catalog::Catalog;
use ripplekv_runner::engine::{Availability, Loader, ModelShape};
use ripplekv_runner::exit;
use ripplekv_runner::plan::{Plan, PreparedModel, prepare_model, units};
use ripplekv_runner::profile::{groups, profile_path};
use ripplekv_runner::run::{TaskStatus, status};
use ripplekv_runner::store::read_run;
use ripplekv_tasks::Tokenise;
use serde_json::json;

use crate::arguments::SelectionArguments;
use crate::commands::experiment;
use crate::commands::memory::Memory;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::duration;
use crate::tables::plain_table;
use crate::wiring;

pub(crate) fn plan(
    file: &Path,
    selection: &SelectionArguments,
    as_json: bool,
    output: Output,
) -> Result<u8, Failure> {
    let catalog = wiring::catalog();
    let plan = experiment::plan(file, selection, &catalog)?;
    let results = experiment::results_dir(&plan.name, selection);
    for warning in &plan.warnings {
        output.warning(warning);
    }
    if as_json {
        let cells: Vec<_> = plan
            .selected
            .iter()
            .map(|place| &plan.cells[*place])
            .collect();
        output.line(&format!(
            "{:#}",
            json!({"spec": plan.resolved, "cells": cells})
        ))?;
        return Ok(exit::DONE);
    }
    if let Some(profile) = &plan.profile {
        output.line(&format!(
            "profile: at most {} samples of the pack {} in {}, recipe {}",
            profile.recipe.samples,
            profile.pack.name(),
            profile.pack.dir().display(),
            &profile.recipe_hash[..12]
        ))?;
    }
    let loader = wiring::loader("cpu")?;
    let mut prepared = Vec::new();
    let mut shapes = Vec::new();
    let mut stages = Vec::new();
    for model in 0..plan.models.len() {
        if let Some(found) = prepare(&plan, &catalog, loader.as_ref(), model, output)? {
            stages.extend(profile_estimate(&plan, &found, &results)?);
            stages.extend(damage_estimate(&plan, &found));
            prepared.push(found.prepared);
            shapes.push(found.shape);
        }
    }
    output.line(&format!(
        "{}: {} cells; pack {} in {}; results in {}",
        plan.name,
        plan.selected.len(),
        plan.pack.name(),
        plan.pack.dir().display(),
        results.display()
    ))?;
    if selection.only.is_empty() && output.is_verbose() || !selection.only.is_empty() {
        output.data(&cell_table(&plan))?;
    }
    let all = units(&prepared);
    let mine = &all[plan.shard.places(all.len())];
    let found = status(&plan, mine, &results)?;
    if found.is_empty() && !prepared.is_empty() && !plan.cells.is_empty() {
        let message = "limit, sample list or shard leave no prompt".to_owned();
        return Err(RunnerError::NothingSelected(message).into());
    }
    output.data(&status_table(&plan, &found))?;
    for (model, shape) in prepared.iter().zip(&shapes) {
        let of_model: Vec<&TaskStatus> = found
            .iter()
            .filter(|status| status.model == model.model)
            .collect();
        output.line(&estimate(&plan, model, shape, &of_model, &results))?;
    }
    for stage in stages {
        output.line(&stage)?;
    }
    Ok(exit::DONE)
}

/// A model whose prompts are known.
struct Ready {
    prepared: PreparedModel,
    shape: ModelShape,
    tokenizer: Arc<dyn Tokenise>,
}

fn prepare(
    plan: &Plan,
    catalog: &Catalog,
    loader: &dyn Loader,
    place: usize,
    output: Output,
) -> Result<Option<Ready>, Failure> {
    let model = &plan.models[place];
    let failed = |source| RunnerError::Model {
        model: model.name.clone(),
        source,
    };
    match loader.availability(model) {
        Availability::Present => {}
        Availability::Fetchable => {
            output.note(&format!(
                "{}: not here yet, so its prompts are not counted; `ripplekv fetch {}` or the first run gets it",
                model.name, model.name
            ));
            return Ok(None);
        }
        Availability::NotChecked(reason) | Availability::NotRun(reason) => {
            output.note(&format!("{}: not checked: {reason}", model.name));
            return Ok(None);
        }
        Availability::Broken(message) => {
            return Err(Failure::Data(format!("model '{}': {message}", model.name)));
        }
    }
    let tokenizer = loader.tokenizer(model).map_err(failed)?;
    let shape = loader.shape(model).map_err(failed)?;
    let prepared = prepare_model(plan, catalog, place, tokenizer.as_ref(), &shape)?;
    Ok(Some(Ready {
        prepared,
        shape,
        tokenizer,
    }))
}

/// What measuring a model's profile takes; `None` where nothing needs one, or the folder has it.
fn profile_estimate(plan: &Plan, model: &Ready, results: &Path) -> Result<Option<String>, Failure> {
    let name = &plan.models[model.prepared.model].name;
    let Some(profile) = plan.profile_of(name) else {
        return Ok(None);
    };
    if profile_path(results, name).is_file() {
        return Ok(None);
    }
    let groups = groups(profile, &model.shape, model.tokenizer.as_ref())?;
    let shape = &model.shape;
    let peak = Memory { shape }.of_profile(&profile.recipe, &groups);
    Ok(Some(format!(
        "{name}: profile of {} samples, {} tokens to prefill, peak memory about {:.0} MB; nothing where one of this recipe is kept",
        groups.iter().map(Vec::len).sum::<usize>(),
        groups.iter().flatten().sum::<usize>(),
        peak as f64 / 1e6,
    )))
}

/// What measuring damage takes; `None` where the spec has none.
fn damage_estimate(plan: &Plan, model: &Ready) -> Option<String> {
    let damage = plan.damage.as_ref()?;
    let shape = &model.shape;
    let memory = Memory { shape };
    let prompts = model.prepared.tasks.iter().flat_map(|task| {
        let new_tokens = plan.tasks[task.task].max_new_tokens;
        let tokens = task.prompts.iter().map(|prompt| prompt.tokens);
        tokens.map(move |tokens| (new_tokens, tokens))
    });
    let prompts: Vec<(usize, usize)> = prompts.collect();
    let peaks = prompts
        .iter()
        .map(|&(new_tokens, tokens)| memory.of_damage(damage, new_tokens, tokens));
    let passes = if damage.spec.joint { 2 } else { 1 };
    Some(format!(
        "{}: damage of {} prompts, {} tokens to prefill, peak memory about {:.0} MB; nothing where it is measured",
        plan.models[model.prepared.model].name,
        prompts.len(),
        passes * prompts.iter().map(|(_, tokens)| tokens).sum::<usize>(),
        peaks.max().unwrap_or_default() as f64 / 1e6,
    ))
}

fn cell_table(plan: &Plan) -> String {
    let rows: Vec<Vec<String>> = plan
        .selected
        .iter()
        .map(|place| {
            let cell = &plan.cells[*place];
            vec![
                cell.key.to_string(),
                cell.model.clone(),
                cell.task.clone(),
                cell.method.label.clone(),
                cell.budget.clone().unwrap_or_default(),
            ]
        })
        .collect();
    plain_table(&["cell", "model", "task", "method", "budget"], &rows)
}

fn status_table(plan: &Plan, found: &[TaskStatus]) -> String {
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|status| {
            let state = match (status.done + status.failed, status.to_do) {
                (_, 0) => "done",
                (0, _) => "to do",
                _ => "partial",
            };
            vec![
                plan.models[status.model].name.clone(),
                plan.tasks[status.task].info.name.to_owned(),
                status.cells.to_string(),
                status.prompts.to_string(),
                status.tokens.to_string(),
                status.longest.to_string(),
                status.done.to_string(),
                status.failed.to_string(),
                status.to_do.to_string(),
                state.to_owned(),
            ]
        })
        .collect();
    plain_table(
        &[
            "model", "task", "cells", "prompts", "tokens", "longest", "done", "failed", "to do",
            "state",
        ],
        &rows,
    )
}

/// What is left, in work, memory and, where earlier prompts were timed, time.
fn estimate(
    plan: &Plan,
    model: &PreparedModel,
    shape: &ModelShape,
    found: &[&TaskStatus],
    results: &Path,
) -> String {
    let name = &plan.models[model.model].name;
    let tokens: usize = found.iter().map(|status| status.tokens_to_do).sum();
    let prompts: usize = found.iter().map(|status| status.prompts).sum();
    // Two operations for every weight and token, and for every pair of positions in attention.
    let mean = tokens.checked_div(prompts.max(1)).unwrap_or(0) as f64;
    let pairs = 2.0 * shape.layers as f64 * (shape.heads * shape.head_dim) as f64 * mean;
    let operations = tokens as f64 * (2.0 * shape.parameters as f64 + pairs);
    let memory = Memory { shape };
    let peaks = found
        .iter()
        .map(|status| memory.of_task(plan, name, status.task, status.longest));
    let peak = peaks.max().unwrap_or(shape.weight_bytes) as f64;
    let time = seconds_per_token(results, name).map_or_else(
        || "unknown until a prompt was timed".to_owned(),
        |seconds| {
            format!(
                "about {}",
                duration(Duration::from_secs_f64(seconds * tokens as f64))
            )
        },
    );
    let short: usize = model.tasks.iter().map(|task| task.short_prompts).sum();
    format!(
        "{name}: prompts cut at {} tokens, {short} below a must-keep set; {tokens} tokens to prefill, {:.1} TFLOP; weights {:.0} MB, peak memory about {:.0} MB; time {time}",
        model.max_context,
        operations / 1e12,
        shape.weight_bytes as f64 / 1e6,
        peak / 1e6,
    )
}

/// Seconds a prompt token took in earlier prompts of this folder, prefill and all cells together.
fn seconds_per_token(results: &Path, model: &str) -> Option<f64> {
    let stored = read_run(results).ok()?;
    let mut milliseconds = 0.0;
    let mut tokens = 0.0;
    let mut last = None;
    for record in &stored.records {
        let of_model = stored
            .cells
            .get(&record.cell)
            .is_some_and(|cell| cell.model == model);
        let timing = stored
            .timings
            .get(&(record.cell.clone(), record.sample.clone()));
        let (true, Some(timing)) = (of_model, timing) else {
            continue;
        };
        milliseconds += timing.compress_ms + timing.decode_ms;
        let is_new = last != Some(&record.prompt_hash);
        if is_new || timing.alone {
            milliseconds += timing.prefill_ms;
        }
        if is_new {
            tokens += record.prompt_tokens as f64;
            last = Some(&record.prompt_hash);
        }
    }
    (tokens > 0.0).then_some(milliseconds / 1e3 / tokens)
}
