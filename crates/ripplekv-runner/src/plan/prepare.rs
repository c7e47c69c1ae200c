//! Makes the prompts of one model: which records fit, which are taken, and whether each cell can run on them.
//! Needs the tokenizer and the model's shape, never its weights. Texts and ids are made again when a prompt runs,
//! so that memory holds one prompt at a time.

use ripplekv_tasks::{PromptOptions, Record, Tokenise, official_max_context, prepare};

use crate::catalog::Catalog;
use crate::cell::{Cell, ResolvedModel};
use crate::engine::{ModelShape, ShortPrompts};
use crate::error::RunnerError;
use crate::plan::{Plan, PlannedTask};

/// Prompts in one claimed unit: neighbours in the task's file.
pub const BLOCK_PROMPTS: usize = 8;

/// One prompt that will run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedPrompt {
    /// Place of the record in its file, from 0.
    pub index: usize,
    /// `_id` of the record.
    pub sample: String,
    /// n: tokens of the prompt.
    pub tokens: usize,
    /// Tokens that middle truncation removed.
    pub removed_tokens: usize,
    /// blake3 of the ids.
    pub hash: String,
}

/// The prompts of one task for one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedTask {
    /// Place of the task in the plan.
    pub task: usize,
    /// Prompts, in file order.
    pub prompts: Vec<PreparedPrompt>,
    /// Records seen that `max_prompt_tokens` left out.
    pub too_long: usize,
    /// Prompts that are shorter than some cell's must-keep set, where `short_prompts` applies.
    pub short_prompts: usize,
}

/// All tasks of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedModel {
    /// Place of the model in the plan.
    pub model: usize,
    /// Tokens before truncation.
    pub max_context: usize,
    /// Tasks, in plan order.
    pub tasks: Vec<PreparedTask>,
}

/// What one process claims at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Place of the model in the plan.
    pub model: usize,
    /// Place of the task in the plan.
    pub task: usize,
    /// Block of records: place in the file divided by [`BLOCK_PROMPTS`].
    pub block: usize,
    /// Prompts of the block.
    pub prompts: Vec<PreparedPrompt>,
}

/// How prompts are made for a model with this window.
#[must_use]
pub(crate) fn prompt_options(plan: &Plan, shape: &ModelShape) -> PromptOptions {
    PromptOptions {
        max_context: plan
            .protocol
            .max_context
            .unwrap_or_else(|| official_max_context(shape.context_length)),
        chat_template: plan.protocol.chat_template,
        clean_up_spaces: plan.protocol.clean_up_spaces,
        bos: plan.protocol.bos,
    }
}

/// Prepares every task of one model.
///
/// # Errors
/// As [`prepare_task`].
pub fn prepare_model(
    plan: &Plan,
    catalog: &Catalog,
    model: usize,
    tokenizer: &dyn Tokenise,
    shape: &ModelShape,
) -> Result<PreparedModel, RunnerError> {
    let resolved = &plan.models[model];
    let mut tasks = Vec::new();
    for (place, task) in plan.tasks.iter().enumerate() {
        // without cells, the prompts are those of the damage stage
        let is_wanted = if plan.cells.is_empty() {
            plan.only.allows_task(task.info.name)
        } else {
            let mut cells = plan.cells_of(&resolved.name, task.info.name);
            cells.next().is_some()
        };
        if is_wanted {
            tasks.push(prepare_task(plan, catalog, model, place, tokenizer, shape)?);
        }
    }
    Ok(PreparedModel {
        model,
        max_context: prompt_options(plan, shape).max_context,
        tasks,
    })
}

/// Prepares one task: takes the records that fit, applies the limit, checks every cell.
///
/// # Errors
/// A prompt that cannot be made, is longer than the model's context, or is too short for a budget
/// with `short_prompts: error`; a task or a cell without a single fitting prompt.
pub fn prepare_task(
    plan: &Plan,
    catalog: &Catalog,
    model: usize,
    task: usize,
    tokenizer: &dyn Tokenise,
    shape: &ModelShape,
) -> Result<PreparedTask, RunnerError> {
    let resolved = &plan.models[model];
    let planned = &plan.tasks[task];
    let options = prompt_options(plan, shape);
    let enough = plan.limit.as_ref().and_then(|limit| limit.enough());
    let mut fitting = Vec::new();
    let mut too_long = 0;
    for (index, record) in plan.pack.records(planned.info)?.enumerate() {
        let record = record?;
        if !is_wanted(plan, &record) {
            continue;
        }
        let prompt = prepare(
            planned.info,
            &planned.template,
            &record,
            tokenizer,
            &options,
        )?;
        let longest = plan.max_prompt_tokens.unwrap_or(usize::MAX);
        if prompt.ids.len() > longest {
            too_long += 1;
            continue;
        }
        fitting.push(PreparedPrompt {
            index,
            sample: record.id,
            tokens: prompt.ids.len(),
            removed_tokens: prompt.removed_tokens,
            hash: prompt.hash,
        });
        if enough.is_some_and(|enough| fitting.len() >= enough) {
            break;
        }
    }
    if fitting.is_empty() && too_long > 0 {
        return Err(RunnerError::Data {
            message: format!(
                "model '{}', task '{}': no prompt has at most {} tokens",
                resolved.name,
                planned.info.name,
                plan.max_prompt_tokens.unwrap_or_default()
            ),
            hint: "raise tasks.max_prompt_tokens, or leave the task out".to_owned(),
        });
    }
    let places = plan
        .limit
        .as_ref()
        .map_or(0..fitting.len(), |limit| limit.places(fitting.len()));
    let prompts = fitting[places].to_vec();
    for prompt in &prompts {
        check_context(resolved, planned, prompt, shape)?;
    }
    let short_prompts = check_budgets(plan, catalog, resolved, planned, &prompts, shape)?;
    Ok(PreparedTask {
        task,
        prompts,
        too_long,
        short_prompts,
    })
}

fn is_wanted(plan: &Plan, record: &Record) -> bool {
    plan.samples.is_empty() || plan.samples.contains(&record.id)
}

fn check_context(
    model: &ResolvedModel,
    task: &PlannedTask,
    prompt: &PreparedPrompt,
    shape: &ModelShape,
) -> Result<(), RunnerError> {
    let room = shape.context_length.saturating_sub(task.max_new_tokens);
    if prompt.tokens <= room {
        return Ok(());
    }
    Err(RunnerError::Data {
        message: format!(
            "task '{}', sample '{}': the prompt of {} tokens and {} new tokens are longer than the context of model '{}' ({} tokens)",
            task.info.name,
            prompt.sample,
            prompt.tokens,
            task.max_new_tokens,
            model.name,
            shape.context_length
        ),
        hint: format!(
            "set protocol.max_context to cut the middle of long prompts, or tasks.max_prompt_tokens to at most {room}"
        ),
    })
}

/// Bytes of one position's keys and values over all KV heads of one layer; the cache is f32 whatever the weights are.
fn entry_bytes(shape: &ModelShape) -> usize {
    2 * shape.kv_heads * shape.head_dim * size_of::<f32>()
}

/// Checks that every budget holds its method's must-keep set; counts the prompts where it does not.
fn check_budgets(
    plan: &Plan,
    catalog: &Catalog,
    model: &ResolvedModel,
    task: &PlannedTask,
    prompts: &[PreparedPrompt],
    shape: &ModelShape,
) -> Result<usize, RunnerError> {
    let rule = plan.protocol.short_prompts;
    let mut is_short = vec![false; prompts.len()];
    for cell in plan.cells_of(&model.name, task.info.name) {
        let Some(budget) = &cell.budget else { continue };
        let Some(method) = catalog
            .methods
            .iter()
            .find(|method| method.name == cell.method.name)
        else {
            continue;
        };
        let must_keep = (method.must_keep_tokens)(&cell.method.params);
        let mut any_fits = prompts.is_empty();
        for (prompt, short) in prompts.iter().zip(&mut is_short) {
            let total =
                (catalog.total_entries)(budget, prompt.tokens, shape.layers, entry_bytes(shape));
            let least = must_keep.min(prompt.tokens) * shape.layers;
            if total < least as u64 {
                *short = true;
                if rule == ShortPrompts::Error {
                    return Err(below_must_keep(
                        cell, budget, prompt, total, must_keep, shape,
                    ));
                }
            }
            // Half of the entries a layer become the shrunk window; one entry has no half.
            let mean = total / shape.layers.max(1) as u64;
            any_fits |= rule == ShortPrompts::Full
                || total >= (prompt.tokens * shape.layers) as u64
                || must_keep as u64 <= mean
                || mean >= 2;
        }
        if !any_fits {
            return Err(RunnerError::Data {
                message: format!(
                    "task '{}', method '{}': a budget of {budget} leaves less than two entries a layer on each of {} prompts; the must-keep set is {must_keep}",
                    cell.task,
                    cell.method.label,
                    prompts.len()
                ),
                hint: "raise the budget, or set protocol.short_prompts to full".to_owned(),
            });
        }
    }
    Ok(is_short.into_iter().filter(|short| *short).count())
}

fn below_must_keep(
    cell: &Cell,
    budget: &str,
    prompt: &PreparedPrompt,
    total: u64,
    must_keep: usize,
    shape: &ModelShape,
) -> RunnerError {
    RunnerError::Data {
        message: format!(
            "task '{}', sample '{}', method '{}': a budget of {budget} of {} tokens is {total} entries over {} layers, below the must-keep set of {must_keep} a layer",
            cell.task, prompt.sample, cell.method.label, prompt.tokens, shape.layers
        ),
        hint: "raise the budget, make the window smaller, or set protocol.short_prompts to shrink or full"
            .to_owned(),
    }
}

/// The units of prepared models in plan order: one for each block of records that has a prompt.
#[must_use]
pub fn units(models: &[PreparedModel]) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for model in models {
        for task in &model.tasks {
            for prompt in &task.prompts {
                let block = prompt.index / BLOCK_PROMPTS;
                match units.last_mut() {
                    Some(unit)
                        if (unit.model, unit.task, unit.block)
                            == (model.model, task.task, block) =>
                    {
                        unit.prompts.push(prompt.clone());
                    }
                    _ => units.push(Unit {
                        model: model.model,
                        task: task.task,
                        block,
                        prompts: vec![prompt.clone()],
                    }),
                }
            }
        }
    }
    units
}
