//! The columns of the frames, in order. Names, meanings and kinds are stable: scripts and notebooks of others read them.
//! A new column goes to the end.

/// What a column's values are, in Parquet as in the frame; every value may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// UTF-8 text.
    Text,
    /// Unsigned 64-bit integer.
    Integer,
    /// 64-bit float.
    Number,
    /// True or false.
    Truth,
}

impl ColumnKind {
    /// As the documentation writes it.
    pub fn name(self) -> &'static str {
        match self {
            ColumnKind::Text => "text",
            ColumnKind::Integer => "integer",
            ColumnKind::Number => "number",
            ColumnKind::Truth => "true or false",
        }
    }
}

/// A documented column of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Its name; never changes its meaning.
    pub name: &'static str,
    /// What its values are.
    pub kind: ColumnKind,
    /// What it holds, with its unit.
    pub about: &'static str,
}

const fn text(name: &'static str, about: &'static str) -> ColumnInfo {
    column(name, ColumnKind::Text, about)
}

const fn integer(name: &'static str, about: &'static str) -> ColumnInfo {
    column(name, ColumnKind::Integer, about)
}

const fn number(name: &'static str, about: &'static str) -> ColumnInfo {
    column(name, ColumnKind::Number, about)
}

const fn truth(name: &'static str, about: &'static str) -> ColumnInfo {
    column(name, ColumnKind::Truth, about)
}

const fn column(name: &'static str, kind: ColumnKind, about: &'static str) -> ColumnInfo {
    ColumnInfo { name, kind, about }
}

/// Columns of `cells`, in order.
pub const CELL_COLUMNS: &[ColumnInfo] = &[
    text("cell", "key of the cell"),
    text(
        "table",
        "table it stands in: one model, query mode and protocol",
    ),
    text("model", "short name of the model"),
    text("task", "task"),
    text("category", "category of the task"),
    text("method", "name of the method"),
    text("label", "label in tables"),
    text(
        "budget",
        "budget as in the spec; empty for methods without one",
    ),
    text("query", "aware or agnostic"),
    integer("n", "scored samples"),
    integer(
        "expected",
        "samples that any cell of the table has for the task",
    ),
    integer("failed", "failed samples; they are in no mean of scores"),
    number(
        "score",
        "100 x mean score, two decimals (LongBench's rounding)",
    ),
    number("stderr", "standard error of the score, points"),
    number("ci_low", "lower end of the 95% bootstrap interval, points"),
    number("ci_high", "upper end of the 95% bootstrap interval, points"),
    number(
        "score_percent_of_full",
        "score in percent of the full cache's score on the task",
    ),
    number(
        "answer_kl",
        "mean KL from the full cache over its own answers, nats; empty where it was not measured",
    ),
    number(
        "kept_entries",
        "mean kept prompt entries per layer and KV head",
    ),
    number(
        "kept_percent",
        "mean share of the prompt's entries kept, percent",
    ),
    number("cache_bytes", "mean bytes of the compressed cache"),
    number("prompt_tokens", "mean prompt tokens"),
    number("output_tokens", "mean generated tokens"),
    number(
        "prefill_ms",
        "mean milliseconds of the prefill shared by all cells of a prompt",
    ),
    number("compress_ms", "mean milliseconds to select and gather"),
    number("decode_ms", "mean milliseconds to decode"),
    integer(
        "peak_rss_bytes",
        "greatest resident memory of the process so far, bytes",
    ),
    integer(
        "short_prompts",
        "samples whose budget was below the must-keep set",
    ),
    integer("with_warnings", "samples that carry a warning"),
    number(
        "fixed_answer_score",
        "points of the best answer given to every sample of the task; empty where the metric cannot be computed here",
    ),
    truth(
        "at_chance",
        "true where the full cache's interval does not clear fixed_answer_score; empty without the full cache",
    ),
];

/// Columns of `samples`, in order.
pub const SAMPLE_COLUMNS: &[ColumnInfo] = &[
    text("cell", "key of the cell"),
    text("table", "table it stands in"),
    text("model", "short name of the model"),
    text("task", "task"),
    text("label", "label of the method in tables"),
    text("budget", "budget as in the spec"),
    text("query", "aware or agnostic"),
    text("sample", "id of the sample"),
    integer("index", "place in the task's file, from 0"),
    number("score", "score in 0..1; empty for a failed sample"),
    number(
        "score_levenshtein",
        "code only: the python-Levenshtein flavour",
    ),
    number(
        "edit_similarity",
        "normalised Levenshtein similarity to the nearest reference",
    ),
    number(
        "answer_kl",
        "mean KL from the full cache over its own answer, nats; empty where it was not measured",
    ),
    integer("prompt_tokens", "prompt tokens"),
    integer("removed_tokens", "tokens that middle truncation removed"),
    integer(
        "budget_entries",
        "entries per KV head over all layers that the budget allows",
    ),
    number(
        "kept_entries",
        "kept prompt entries per layer and KV head, mean over layers",
    ),
    integer("cache_bytes", "bytes of the compressed cache"),
    integer("must_keep_tokens", "must-keep tokens that were used"),
    truth(
        "short_prompt",
        "true when the budget was below the must-keep set",
    ),
    integer("output_tokens", "generated tokens"),
    text("finish", "stop or length"),
    number("prefill_ms", "milliseconds of the shared prefill"),
    number("compress_ms", "milliseconds to select and gather"),
    number("decode_ms", "milliseconds to decode"),
    text("prompt_hash", "hash of the prompt's token ids"),
    text("kept_hash", "hash of the kept indices"),
    text("output", "generated text"),
    text("warnings", "warnings, separated by semicolons"),
    text("error", "why the sample failed"),
];
