//! The columns of the frames, in order. Names and meanings are stable: scripts and notebooks of others read them.
//! A new column goes to the end.

/// A documented column of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Its name; never changes its meaning.
    pub name: &'static str,
    /// What it holds, with its unit.
    pub about: &'static str,
}

const fn column(name: &'static str, about: &'static str) -> ColumnInfo {
    ColumnInfo { name, about }
}

/// Columns of `cells`, in order.
pub const CELL_COLUMNS: &[ColumnInfo] = &[
    column("cell", "key of the cell"),
    column(
        "table",
        "table it stands in: one model, query mode and protocol",
    ),
    column("model", "short name of the model"),
    column("task", "task"),
    column("category", "category of the task"),
    column("method", "name of the method"),
    column("label", "label in tables"),
    column(
        "budget",
        "budget as in the spec; empty for methods without one",
    ),
    column("query", "aware or agnostic"),
    column("n", "scored samples"),
    column(
        "expected",
        "samples that any cell of the table has for the task",
    ),
    column("failed", "failed samples; they are in no mean of scores"),
    column(
        "score",
        "100 x mean score, two decimals (LongBench's rounding)",
    ),
    column("stderr", "standard error of the score, points"),
    column("ci_low", "lower end of the 95% bootstrap interval, points"),
    column("ci_high", "upper end of the 95% bootstrap interval, points"),
    column(
        "score_percent_of_full",
        "score in percent of the full cache's score on the task",
    ),
    column(
        "answer_kl",
        "mean KL from the full cache over its own answers, nats; empty where it was not measured",
    ),
    column(
        "kept_entries",
        "mean kept prompt entries per layer and KV head",
    ),
    column(
        "kept_percent",
        "mean share of the prompt's entries kept, percent",
    ),
    column("cache_bytes", "mean bytes of the compressed cache"),
    column("prompt_tokens", "mean prompt tokens"),
    column("output_tokens", "mean generated tokens"),
    column(
        "prefill_ms",
        "mean milliseconds of the prefill shared by all cells of a prompt",
    ),
    column("compress_ms", "mean milliseconds to select and gather"),
    column("decode_ms", "mean milliseconds to decode"),
    column(
        "peak_rss_bytes",
        "greatest resident memory of the process so far, bytes",
    ),
    column(
        "short_prompts",
        "samples whose budget was below the must-keep set",
    ),
    column("with_warnings", "samples that carry a warning"),
    column(
        "fixed_answer_score",
        "points of the best answer given to every sample of the task; empty where the metric cannot be computed here",
    ),
    column(
        "at_chance",
        "true where the full cache's interval does not clear fixed_answer_score; empty without the full cache",
    ),
];

/// Columns of `samples`, in order.
pub const SAMPLE_COLUMNS: &[ColumnInfo] = &[
    column("cell", "key of the cell"),
    column("table", "table it stands in"),
    column("model", "short name of the model"),
    column("task", "task"),
    column("label", "label of the method in tables"),
    column("budget", "budget as in the spec"),
    column("query", "aware or agnostic"),
    column("sample", "id of the sample"),
    column("index", "place in the task's file, from 0"),
    column("score", "score in 0..1; empty for a failed sample"),
    column(
        "score_levenshtein",
        "code only: the python-Levenshtein flavour",
    ),
    column(
        "edit_similarity",
        "normalised Levenshtein similarity to the nearest reference",
    ),
    column(
        "answer_kl",
        "mean KL from the full cache over its own answer, nats; empty where it was not measured",
    ),
    column("prompt_tokens", "prompt tokens"),
    column("removed_tokens", "tokens that middle truncation removed"),
    column(
        "budget_entries",
        "entries per KV head over all layers that the budget allows",
    ),
    column(
        "kept_entries",
        "kept prompt entries per layer and KV head, mean over layers",
    ),
    column("cache_bytes", "bytes of the compressed cache"),
    column("must_keep_tokens", "must-keep tokens that were used"),
    column(
        "short_prompt",
        "true when the budget was below the must-keep set",
    ),
    column("output_tokens", "generated tokens"),
    column("finish", "stop or length"),
    column("prefill_ms", "milliseconds of the shared prefill"),
    column("compress_ms", "milliseconds to select and gather"),
    column("decode_ms", "milliseconds to decode"),
    column("prompt_hash", "hash of the prompt's token ids"),
    column("kept_hash", "hash of the kept indices"),
    column("output", "generated text"),
    column("warnings", "warnings, separated by semicolons"),
    column("error", "why the sample failed"),
];
