//! One prompt with the cells it is to be run for, and what its records hold before the engine's part.

use ripplekv_tasks::{Prompt, Record as TaskRecord};

use crate::cell::Cell;
use crate::plan::{PlannedTask, PreparedPrompt};
use crate::record::{RECORD_SCHEMA, Record};

/// One prompt, ready for the engine.
pub(crate) struct Job<'a> {
    pub(crate) model: &'a str,
    pub(crate) task: &'a PlannedTask,
    pub(crate) prepared: &'a PreparedPrompt,
    pub(crate) record: &'a TaskRecord,
    pub(crate) prompt: Prompt,
    pub(crate) cells: Vec<&'a Cell>,
    /// Whether the kept positions are stored.
    pub(crate) want_kept: bool,
}

pub(crate) fn failed_record(job: &Job<'_>, cell: &Cell, error: String) -> Record {
    let mut record = empty_record(job, cell);
    record.error = Some(error);
    record
}

/// What a record holds before the engine's part.
pub(crate) fn empty_record(job: &Job<'_>, cell: &Cell) -> Record {
    Record {
        schema: RECORD_SCHEMA,
        cell: cell.key.clone(),
        sample: job.record.id.clone(),
        index: job.prepared.index as u64,
        prompt_hash: job.prompt.hash.clone(),
        prompt_tokens: job.prompt.ids.len() as u64,
        removed_tokens: job.prompt.removed_tokens as u64,
        budget_entries: None,
        kept_per_layer: Vec::new(),
        cache_bytes: 0,
        kept_hash: String::new(),
        must_keep_tokens: 0,
        short_prompt: false,
        profile_hash: None,
        calibrated: None,
        answer_kl: None,
        output_tokens: 0,
        finish: None,
        output: String::new(),
        answers: job.record.answers.clone(),
        all_classes: job.record.all_classes.clone(),
        length: job.record.length,
        score: None,
        score_levenshtein: None,
        edit_similarity: None,
        warnings: Vec::new(),
        error: None,
    }
}
