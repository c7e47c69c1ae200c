//! The stored line: one cell's answer to one sample. Times live elsewhere, so records repeat byte for byte.

use serde::{Deserialize, Serialize};

use crate::cell::CellKey;
use crate::engine::Finish;

/// Version of [`Record`]; readers accept every version up to this one.
pub const RECORD_SCHEMA: u32 = 1;

/// One line of `records/<model>/<task>/<writer>.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`RECORD_SCHEMA`] when it was written.
    pub schema: u32,
    /// Key of the cell.
    pub cell: CellKey,
    /// `_id` of the sample.
    pub sample: String,
    /// Position of the sample in its task's file, from 0.
    pub index: u64,
    /// blake3 of the prompt's token ids.
    pub prompt_hash: String,
    /// n: prompt tokens.
    pub prompt_tokens: u64,
    /// Tokens that middle truncation removed.
    pub removed_tokens: u64,
    /// T: entries per KV head over all layers that the budget allows; `None` without a budget.
    pub budget_entries: Option<u64>,
    /// Kept prompt entries per KV head, one number a layer, measured.
    pub kept_per_layer: Vec<u32>,
    /// Bytes of the compressed prompt cache, measured.
    pub cache_bytes: u64,
    /// blake3 over all kept indices.
    pub kept_hash: String,
    /// Must-keep tokens (window, sinks) that were used.
    pub must_keep_tokens: u32,
    /// True when the budget was below the must-keep set and `short_prompts` applied.
    pub short_prompt: bool,
    /// Content hash of the profile that the allocation came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_hash: Option<String>,
    /// r and gamma where the method left them to the calibration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibrated: Option<Calibrated>,
    /// Generated tokens, the ending token included.
    pub output_tokens: u64,
    /// Why generation ended; `None` for a failed sample.
    pub finish: Option<Finish>,
    /// Generated text, special tokens skipped, nothing stripped.
    pub output: String,
    /// References.
    pub answers: Vec<String>,
    /// Classes of a classification task.
    pub all_classes: Option<Vec<String>>,
    /// LongBench's own `length` field.
    pub length: u64,
    /// Score in 0..=1 by the task's metric; `None` for a failed sample.
    pub score: Option<f64>,
    /// Code tasks only: the python-Levenshtein flavour.
    pub score_levenshtein: Option<f64>,
    /// Normalised Levenshtein similarity to the nearest reference; an extra column, never the LongBench score.
    pub edit_similarity: Option<f64>,
    /// Mean KL(full, this cell) in nats over the full cache's own answer, teacher-forced, first token left out; lower is
    /// nearer to the full cache. `None` where `protocol.answer_kl_tokens` is 0 or that answer is too short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_kl: Option<f64>,
    /// Anything a reader should know.
    pub warnings: Vec<String>,
    /// Why the sample failed.
    pub error: Option<String>,
}

/// What `r: calibrate` picked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    /// r.
    pub r: f64,
    /// gamma.
    pub gamma: f64,
}

/// One line of `timings/<model>/<task>/<writer>.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Key of the cell.
    pub cell: CellKey,
    /// `_id` of the sample.
    pub sample: String,
    /// Milliseconds of the prompt's one dense prefill (shared by all its cells).
    pub prefill_ms: f64,
    /// Milliseconds to select and gather.
    pub compress_ms: f64,
    /// Milliseconds to decode.
    pub decode_ms: f64,
    /// Peak resident memory of the process in bytes: so far, or of this cell where it ran alone.
    pub peak_rss_bytes: u64,
    /// Whether the cell had a prefill and decoding steps of its own (`timing: alone`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
}
