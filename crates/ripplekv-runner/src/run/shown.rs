//! What a run stores of its prompts for readers of the report: their ends, and of the shown ones what every cell kept.

use std::collections::BTreeSet;

use ripplekv_tasks::Tokenise;

use crate::cell::{Cell, CellKey, Query};
use crate::engine::PromptOutput;
use crate::error::RunnerError;
use crate::kept::{KeptBits, kept_lines};
use crate::plan::{PreparedPrompt, PreparedTask};
use crate::prompt_text::{PROMPT_SCHEMA, PromptText, ends, pieces};
use crate::run::job::Job;
use crate::spec::StoreKept;
use crate::store::{KnownPrompt, Store};

/// Prompts of each task whose kept positions are stored under `store_kept: shown`: the first ones, because which are worth
/// a look is not known while running.
pub const SHOWN_PROMPTS: usize = 1;

/// Whether the kept positions of a prompt are stored.
pub(crate) fn is_shown(
    store: StoreKept,
    task: Option<&PreparedTask>,
    prompt: &PreparedPrompt,
) -> bool {
    match store {
        StoreKept::None => false,
        StoreKept::All => true,
        StoreKept::Shown => task.is_some_and(|task| {
            let mut first = task.prompts.iter().take(SHOWN_PROMPTS);
            first.any(|shown| shown.index == prompt.index)
        }),
    }
}

/// The prompts of the task in hand that are stored already.
#[derive(Debug, Default)]
pub(crate) struct KnownPrompts {
    task: (String, String),
    known: BTreeSet<KnownPrompt>,
}

impl KnownPrompts {
    /// Reads what is stored, once a task; what other processes add later concerns prompts of theirs.
    pub(crate) fn of(&mut self, store: &Store, model: &str, task: &str) -> Result<(), RunnerError> {
        let task = (model.to_owned(), task.to_owned());
        if self.task != task {
            self.known = store.known_prompts(&task.0, &task.1)?;
            self.task = task;
        }
        Ok(())
    }
}

/// Appends the lines of one prompt. Comes before its records: a prompt with records is never tried again.
pub(crate) fn store(
    store: &mut Store,
    known: &mut KnownPrompts,
    job: &Job<'_>,
    cells: &[&Cell],
    tokenizer: &dyn Tokenise,
    output: &PromptOutput,
) -> Result<(), RunnerError> {
    let task = job.task.info.name;
    known.of(store, job.model, task)?;
    let failed = |message: String| RunnerError::Data {
        message: format!("task '{task}', sample '{}': {message}", job.record.id),
        hint: "this is a fault of the program; `store_kept: none` leaves it out".to_owned(),
    };
    let queries: BTreeSet<Query> = cells.iter().map(|cell| cell.query).collect();
    let mut texts = Vec::new();
    for query in queries {
        let line = KnownPrompt {
            sample: job.record.id.clone(),
            query,
            prompt_hash: job.prompt.hash.clone(),
            has_pieces: job.want_kept,
        };
        let with_pieces = KnownPrompt {
            has_pieces: true,
            ..line.clone()
        };
        if known.known.contains(&line) || known.known.contains(&with_pieces) {
            continue;
        }
        let pieces = job
            .want_kept
            .then(|| pieces(tokenizer, &job.prompt.ids))
            .transpose();
        let pieces = pieces.map_err(|error| failed(error.to_string()))?;
        texts.push(prompt_text(job, query, pieces));
        known.known.insert(line);
    }
    store.append_lines("prompts", job.model, task, &texts)?;
    let kept = kept(job, cells, output).map_err(failed)?;
    let cells = kept.iter().map(|(key, bits)| (*key, bits));
    let lines = kept_lines(&job.record.id, cells).map_err(failed)?;
    store.append_lines("kept", job.model, task, &lines)
}

fn prompt_text(job: &Job<'_>, query: Query, pieces: Option<Vec<String>>) -> PromptText {
    let (head, left_out_characters, tail) = ends(&job.prompt.text);
    PromptText {
        schema: PROMPT_SCHEMA,
        sample: job.record.id.clone(),
        task: job.task.info.name.to_owned(),
        query,
        prompt_hash: job.prompt.hash.clone(),
        prompt_tokens: job.prompt.ids.len(),
        head: head.to_owned(),
        left_out_characters,
        tail: tail.to_owned(),
        pieces,
    }
}

/// What the cells kept, where the engine gave it.
fn kept<'a>(
    job: &Job<'_>,
    cells: &[&'a Cell],
    output: &PromptOutput,
) -> Result<Vec<(&'a CellKey, KeptBits)>, String> {
    let mut kept = Vec::new();
    for (cell, result) in cells.iter().zip(&output.cells) {
        if let Ok(result) = result
            && let Some(sets) = &result.kept
        {
            kept.push((&cell.key, KeptBits::new(sets, job.prompt.ids.len())?));
        }
    }
    Ok(kept)
}
