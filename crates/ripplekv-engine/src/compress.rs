//! From one cell and one snapshot to kept sets: T, layer budgets, scores, selection (design.md 4).

use std::collections::BTreeMap;

use ripplekv_cache::{
    AllocationContext, Allocator, Budget, CacheError, KeptLayer, Method, Scorer, Scores, Snapshot,
    distribute, kept_hash, select,
};
use ripplekv_runner::engine::{EngineError, ShortPrompts, Signals};

/// What a cell keeps of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptCell {
    /// Kept positions, one entry a layer; `None` keeps everything.
    pub kept: Option<Vec<KeptLayer>>,
    /// Hash of the kept sets; cells with equal hashes decode once.
    pub kept_hash: String,
    /// T, for methods with a budget.
    pub budget_entries: Option<u64>,
    /// Must-keep entries of one layer that were used.
    pub must_keep_tokens: u32,
    /// True when the budget was below the must-keep set and the rule for short prompts applied.
    pub short_prompt: bool,
    /// Anything a reader should know.
    pub warnings: Vec<String>,
}

/// Scores of a prompt that several cells share: one entry per scorer with its parameters and must-keep size.
#[derive(Debug, Default)]
pub(crate) struct ScoreCache(BTreeMap<String, Vec<Scores>>);

/// Hash that stands for the whole prompt kept.
const EVERYTHING: &str = "full";

pub(crate) fn everything(budget_entries: Option<u64>, must_keep_tokens: usize) -> KeptCell {
    KeptCell {
        kept: None,
        kept_hash: EVERYTHING.to_owned(),
        budget_entries,
        must_keep_tokens: must_keep_tokens as u32,
        short_prompt: false,
        warnings: Vec::new(),
    }
}

/// Decides what one cell keeps. `budget` is canonical text and is required by every method but `full`.
///
/// # Errors
/// [`EngineError::Spec`] for a missing or wrong budget, [`EngineError::Prompt`] when this prompt cannot be compressed.
pub fn kept_cell(
    method: &Method,
    budget: Option<&str>,
    snapshot: &Snapshot,
    short_prompts: ShortPrompts,
    signals: &Signals,
) -> Result<KeptCell, EngineError> {
    kept_cell_with(
        method,
        budget,
        snapshot,
        short_prompts,
        signals,
        &mut ScoreCache::default(),
    )
}

pub(crate) fn kept_cell_with(
    method: &Method,
    budget: Option<&str>,
    snapshot: &Snapshot,
    short_prompts: ShortPrompts,
    signals: &Signals,
    scores: &mut ScoreCache,
) -> Result<KeptCell, EngineError> {
    let Method::Compress {
        scorer_key,
        scorer,
        allocator,
    } = method
    else {
        return Ok(everything(None, 0));
    };
    let part = Part {
        scorer_key,
        scorer: scorer.as_ref(),
        allocator: allocator.as_ref(),
    };
    kept_by(&part, budget, snapshot, short_prompts, signals, scores)
}

/// A scorer with its identity, and an allocator.
pub(crate) struct Part<'a> {
    pub(crate) scorer_key: &'a str,
    pub(crate) scorer: &'a dyn Scorer,
    pub(crate) allocator: &'a dyn Allocator,
}

/// [`kept_cell`] for a scorer and an allocator that need not belong to one method.
pub(crate) fn kept_by(
    part: &Part<'_>,
    budget: Option<&str>,
    snapshot: &Snapshot,
    short_prompts: ShortPrompts,
    signals: &Signals,
    scores: &mut ScoreCache,
) -> Result<KeptCell, EngineError> {
    let Part {
        scorer_key,
        scorer,
        allocator,
    } = *part;
    let budget = budget
        .ok_or_else(|| EngineError::Spec("this method needs a budget".to_owned()))
        .and_then(|text| {
            Budget::parse(text).map_err(|error| EngineError::Spec(error.to_string()))
        })?;
    let (n, layers) = (snapshot.prompt_tokens, snapshot.layers.len());
    let entry_bytes = snapshot.entry_bytes().map_err(prompt_error)?;
    let total = budget.total_entries(n, layers, entry_bytes);
    let must_keep = scorer.must_keep_tokens();
    if total >= n as u64 * layers as u64 {
        return Ok(everything(Some(total), must_keep.min(n)));
    }
    let mean = (total / layers as u64) as usize;
    if must_keep <= mean {
        let kept = keep(
            scorer, scorer_key, allocator, total, snapshot, signals, scores,
        )?;
        return Ok(compressed(kept, total, must_keep, Vec::new()));
    }
    let short =
        format!("budget of {mean} entries a layer is below the must-keep set of {must_keep}");
    match short_prompts {
        ShortPrompts::Error => Err(EngineError::Spec(format!(
            "{short} for a prompt of {n} tokens\nhint: a larger budget, a smaller window, or short_prompts: shrink"
        ))),
        ShortPrompts::Full => {
            let mut cell = everything(Some(total), must_keep.min(n));
            cell.short_prompt = true;
            cell.warnings.push(format!("{short}: left uncompressed"));
            Ok(cell)
        }
        ShortPrompts::Shrink => {
            let window = mean / 2;
            if window == 0 {
                return Err(EngineError::Prompt(format!(
                    "budget of {mean} entries a layer leaves no room for a window"
                )));
            }
            let shrunk = scorer.shrunk(window);
            let key = format!("{scorer_key} shrunk to {window}");
            let kept = keep(
                shrunk.as_ref(),
                &key,
                allocator,
                total,
                snapshot,
                signals,
                scores,
            )?;
            let warning = format!("{short}: window of {window}");
            let mut cell = compressed(kept, total, shrunk.must_keep_tokens(), vec![warning]);
            cell.short_prompt = true;
            Ok(cell)
        }
    }
}

fn compressed(
    kept: Vec<KeptLayer>,
    total: u64,
    must_keep: usize,
    warnings: Vec<String>,
) -> KeptCell {
    KeptCell {
        kept_hash: kept_hash(&kept),
        kept: Some(kept),
        budget_entries: Some(total),
        must_keep_tokens: must_keep as u32,
        short_prompt: false,
        warnings,
    }
}

fn prompt_error(error: impl std::fmt::Display) -> EngineError {
    EngineError::Prompt(error.to_string())
}

fn keep(
    scorer: &dyn Scorer,
    scorer_key: &str,
    allocator: &dyn Allocator,
    total: u64,
    snapshot: &Snapshot,
    signals: &Signals,
    cache: &mut ScoreCache,
) -> Result<Vec<KeptLayer>, EngineError> {
    let n = snapshot.prompt_tokens;
    let context = AllocationContext {
        layers: snapshot.layers.len(),
        prompt_tokens: n,
        total_entries: total,
        signals,
    };
    let weights = allocator.weights(&context).map_err(prompt_error)?;
    let budgets =
        distribute(&weights, total, scorer.must_keep_tokens(), n).map_err(prompt_error)?;
    if !cache.0.contains_key(scorer_key) {
        let fresh = snapshot
            .layers
            .iter()
            .map(|layer| scorer.score(layer))
            .collect::<Result<Vec<_>, CacheError>>()
            .map_err(prompt_error)?;
        cache.0.insert(scorer_key.to_owned(), fresh);
    }
    let must_keep = scorer.must_keep(n);
    cache.0[scorer_key]
        .iter()
        .zip(&budgets)
        .map(|(scores, &budget)| select(scores, &must_keep, budget, n).map_err(prompt_error))
        .collect()
}
