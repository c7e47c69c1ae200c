//! How much of a plan is stored already; reads only.

use std::path::Path;

use crate::error::RunnerError;
use crate::plan::{Plan, Unit};
use crate::store::read_done;

/// One model and task of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStatus {
    /// Place of the model in the plan.
    pub model: usize,
    /// Place of the task in the plan.
    pub task: usize,
    /// Selected cells.
    pub cells: usize,
    /// Prompts.
    pub prompts: usize,
    /// Their tokens.
    pub tokens: usize,
    /// Tokens of the longest prompt.
    pub longest: usize,
    /// Cells of prompts stored without error.
    pub done: usize,
    /// Cells of prompts stored with an error.
    pub failed: usize,
    /// Cells of prompts that are missing.
    pub to_do: usize,
    /// Tokens of the prompts with a missing cell: what must be prefilled.
    pub tokens_to_do: usize,
}

/// What is stored of some units in the results folder `dir`.
///
/// # Errors
/// When a stored file is damaged.
pub fn status(plan: &Plan, units: &[Unit], dir: &Path) -> Result<Vec<TaskStatus>, RunnerError> {
    let mut found: Vec<TaskStatus> = Vec::new();
    let mut done = None;
    for unit in units {
        let model = &plan.models[unit.model].name;
        let task = plan.tasks[unit.task].info.name;
        let is_new = found
            .last()
            .is_none_or(|last| (last.model, last.task) != (unit.model, unit.task));
        if is_new {
            done = Some(read_done(dir, model, task)?);
            found.push(TaskStatus {
                model: unit.model,
                task: unit.task,
                cells: plan.cells_of(model, task).count(),
                prompts: 0,
                tokens: 0,
                longest: 0,
                done: 0,
                failed: 0,
                to_do: 0,
                tokens_to_do: 0,
            });
        }
        let (Some(status), Some(done)) = (found.last_mut(), &done) else {
            continue;
        };
        for prompt in &unit.prompts {
            status.prompts += 1;
            status.tokens += prompt.tokens;
            status.longest = status.longest.max(prompt.tokens);
            let before = status.to_do;
            for cell in plan.cells_of(model, task) {
                if done.is_done(&cell.key, &prompt.sample) {
                    status.done += 1;
                } else if done.is_failed(&cell.key, &prompt.sample) {
                    status.failed += 1;
                } else {
                    status.to_do += 1;
                }
            }
            if status.to_do > before {
                status.tokens_to_do += prompt.tokens;
            }
        }
    }
    Ok(found)
}
