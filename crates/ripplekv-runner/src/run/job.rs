//! One prompt with the cells it is to be run for, and how its records are made.

use ripplekv_metrics::jieba::Segmenter;
use ripplekv_metrics::{CodeSimilarity, Context};
use ripplekv_tasks::{
    Prompt, Record as TaskRecord, Tokenise, clean_up_spaces, postprocess, score_record,
};

use crate::cell::Cell;
use crate::engine::CellResult;
use crate::plan::{PlannedTask, PreparedPrompt};
use crate::record::{RECORD_SCHEMA, Record};
use crate::spec::ProtocolSpec;

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

/// What turns an answer's ids into a text and a score.
pub(crate) struct Scoring<'a> {
    pub(crate) tokenizer: &'a dyn Tokenise,
    pub(crate) protocol: &'a ProtocolSpec,
    pub(crate) segmenter: Option<&'a Segmenter>,
}

/// The record of what the engine gave.
///
/// # Errors
/// In words, when the answer cannot be decoded or scored.
pub(crate) fn answered_record(
    scoring: &Scoring<'_>,
    job: &Job<'_>,
    cell: &Cell,
    result: &CellResult,
) -> Result<Record, String> {
    let decoded = scoring
        .tokenizer
        .decode(&result.output_ids, true)
        .map_err(|error| error.to_string())?;
    let output = if scoring.protocol.clean_up_spaces {
        clean_up_spaces(&decoded)
    } else {
        decoded
    };
    let info = job.task.info;
    let score = |code: CodeSimilarity| {
        let context = Context {
            segmenter: scoring.segmenter,
            code,
            ..Context::default()
        };
        let classes = job.record.all_classes.as_deref();
        score_record(info, &output, &job.record.answers, classes, &context)
            .map_err(|error| error.to_string())
    };
    let is_code = info.metric == "code-similarity";
    let score_levenshtein = if is_code {
        Some(score(CodeSimilarity::Levenshtein)?)
    } else {
        None
    };
    let edit_similarity = job
        .record
        .answers
        .iter()
        .map(|answer| strsim::normalized_levenshtein(postprocess(info, &output), answer))
        .fold(0.0, f64::max);
    let mut record = empty_record(job, cell);
    record.budget_entries = result.budget_entries;
    record.kept_per_layer.clone_from(&result.kept_per_layer);
    record.cache_bytes = result.cache_bytes;
    record.kept_hash.clone_from(&result.kept_hash);
    record.must_keep_tokens = result.must_keep_tokens;
    record.short_prompt = result.short_prompt;
    record.output_tokens = result.output_ids.len() as u64;
    record.finish = Some(result.finish);
    record.score = Some(score(scoring.protocol.code_similarity)?);
    record.score_levenshtein = score_levenshtein;
    record.edit_similarity = Some(edit_similarity);
    record.answer_kl = result.answer_kl;
    record.warnings.clone_from(&result.warnings);
    record.output = output;
    Ok(record)
}

pub(crate) fn failed_record(job: &Job<'_>, cell: &Cell, error: String) -> Record {
    let mut record = empty_record(job, cell);
    record.error = Some(error);
    record
}

/// What a record holds before the engine's part.
fn empty_record(job: &Job<'_>, cell: &Cell) -> Record {
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
