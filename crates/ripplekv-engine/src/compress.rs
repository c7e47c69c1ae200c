//! From one cell and one snapshot to kept sets: T, layer budgets, scores, selection (design.md 4).

use std::collections::BTreeMap;

use ripplekv_cache::{
    AllocationContext, Allocator, Budget, KeptLayer, LayerState, Method, Scorer, Scores, Snapshot,
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

/// Scores that several cells share: one entry per scorer with its parameters and must-keep size, and layer.
#[derive(Debug, Default)]
pub(crate) struct ScoreCache(BTreeMap<(String, usize), Scores>);

impl ScoreCache {
    /// Forgets everything: the next layer has other scores.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// What must be known of a prompt before its prefill.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PromptShape {
    /// n.
    pub(crate) prompt_tokens: usize,
    /// L.
    pub(crate) layers: usize,
    /// Bytes of keys and values of one position in one layer, over all KV heads.
    pub(crate) entry_bytes: usize,
}

impl PromptShape {
    fn of(snapshot: &Snapshot) -> Result<Self, EngineError> {
        Ok(Self {
            prompt_tokens: snapshot.prompt_tokens,
            layers: snapshot.layers.len(),
            entry_bytes: snapshot.entry_bytes().map_err(prompt_error)?,
        })
    }
}

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
    let shape = PromptShape::of(snapshot)?;
    let plan = plan_cell(method, budget, shape, short_prompts, signals)?;
    plan.keep_all(snapshot, &mut ScoreCache::default())
}

/// What one cell will keep, decided before the prefill.
pub(crate) fn plan_cell<'a>(
    method: &'a Method,
    budget: Option<&str>,
    shape: PromptShape,
    short_prompts: ShortPrompts,
    signals: &Signals,
) -> Result<CellPlan<'a>, EngineError> {
    let Method::Compress {
        scorer_key,
        scorer,
        allocator,
    } = method
    else {
        return Ok(CellPlan::Everything(everything(None, 0)));
    };
    let part = Part {
        scorer_key,
        scorer: scorer.as_ref(),
        allocator: allocator.as_ref(),
    };
    plan_part(&part, budget, shape, short_prompts, signals)
}

/// A scorer with its identity, and an allocator.
pub(crate) struct Part<'a> {
    pub(crate) scorer_key: &'a str,
    pub(crate) scorer: &'a dyn Scorer,
    pub(crate) allocator: &'a dyn Allocator,
}

/// A cell whose layers' budgets are known.
pub(crate) enum CellPlan<'a> {
    /// Nothing is left out.
    Everything(KeptCell),
    /// Entries are chosen in each layer.
    Select(Selection<'a>),
}

/// How entries are chosen.
pub(crate) struct Selection<'a> {
    scorer: ScorerOf<'a>,
    scorer_key: String,
    /// Entries of each layer.
    budgets: Vec<usize>,
    must_keep: Vec<u32>,
    /// The cell without its kept sets.
    cell: KeptCell,
}

enum ScorerOf<'a> {
    Whole(&'a dyn Scorer),
    Shrunk(Box<dyn Scorer>),
}

impl ScorerOf<'_> {
    fn get(&self) -> &dyn Scorer {
        match self {
            Self::Whole(scorer) => *scorer,
            Self::Shrunk(scorer) => scorer.as_ref(),
        }
    }
}

impl CellPlan<'_> {
    /// Chooses entries in all layers of a snapshot.
    pub(crate) fn keep_all(
        self,
        snapshot: &Snapshot,
        scores: &mut ScoreCache,
    ) -> Result<KeptCell, EngineError> {
        let selection = match self {
            Self::Everything(cell) => return Ok(cell),
            Self::Select(selection) => selection,
        };
        let layers = snapshot.layers.iter().enumerate();
        let kept = layers
            .map(|(layer, state)| selection.keep_layer(layer, state, scores))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(selection.finish(kept))
    }
}

impl Selection<'_> {
    /// Chooses the entries of one layer.
    pub(crate) fn keep_layer(
        &self,
        layer: usize,
        state: &LayerState,
        scores: &mut ScoreCache,
    ) -> Result<KeptLayer, EngineError> {
        let (_, prompt_tokens, _) = state.keys.dims3().map_err(prompt_error)?;
        let key = (self.scorer_key.clone(), layer);
        if !scores.0.contains_key(&key) {
            let fresh = self.scorer.get().score(state).map_err(prompt_error)?;
            scores.0.insert(key.clone(), fresh);
        }
        let (scores, budget) = (&scores.0[&key], self.budgets[layer]);
        select(scores, &self.must_keep, budget, prompt_tokens).map_err(prompt_error)
    }

    /// The cell with what its layers keep.
    pub(crate) fn finish(self, kept: Vec<KeptLayer>) -> KeptCell {
        KeptCell {
            kept_hash: kept_hash(&kept),
            kept: Some(kept),
            ..self.cell
        }
    }
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
    let shape = PromptShape::of(snapshot)?;
    plan_part(part, budget, shape, short_prompts, signals)?.keep_all(snapshot, scores)
}

fn plan_part<'a>(
    part: &Part<'a>,
    budget: Option<&str>,
    shape: PromptShape,
    short_prompts: ShortPrompts,
    signals: &Signals,
) -> Result<CellPlan<'a>, EngineError> {
    let Part {
        scorer_key,
        scorer,
        allocator,
    } = *part;
    let (n, layers) = (shape.prompt_tokens, shape.layers);
    let budget = budget
        .ok_or_else(|| EngineError::Spec("this method needs a budget".to_owned()))
        .and_then(|text| {
            Budget::parse(text).map_err(|error| EngineError::Spec(error.to_string()))
        })?;
    let total = budget.total_entries(n, layers, shape.entry_bytes);
    let must_keep = scorer.must_keep_tokens();
    if total >= n as u64 * layers as u64 {
        return Ok(CellPlan::Everything(everything(
            Some(total),
            must_keep.min(n),
        )));
    }
    let selection = |scorer: ScorerOf<'a>, scorer_key: String, warnings: Vec<String>| {
        let must_keep_tokens = scorer.get().must_keep_tokens();
        let context = AllocationContext {
            layers,
            prompt_tokens: n,
            total_entries: total,
            signals,
        };
        let weights = allocator.weights(&context).map_err(prompt_error)?;
        let budgets = distribute(&weights, total, must_keep_tokens, n).map_err(prompt_error)?;
        let mut cell = everything(Some(total), must_keep_tokens);
        cell.warnings = warnings;
        Ok(Selection {
            budgets,
            must_keep: scorer.get().must_keep(n),
            scorer,
            scorer_key,
            cell,
        })
    };
    let mean = (total / layers as u64) as usize;
    if must_keep <= mean {
        let whole = ScorerOf::Whole(scorer);
        return Ok(CellPlan::Select(selection(
            whole,
            scorer_key.to_owned(),
            Vec::new(),
        )?));
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
            Ok(CellPlan::Everything(cell))
        }
        ShortPrompts::Shrink => {
            let window = mean / 2;
            if window == 0 {
                return Err(EngineError::Prompt(format!(
                    "budget of {mean} entries a layer leaves no room for a window"
                )));
            }
            let shrunk = ScorerOf::Shrunk(scorer.shrunk(window));
            let key = format!("{scorer_key} shrunk to {window}");
            let mut selection =
                selection(shrunk, key, vec![format!("{short}: window of {window}")])?;
            selection.cell.short_prompt = true;
            Ok(CellPlan::Select(selection))
        }
    }
}

fn prompt_error(error: impl std::fmt::Display) -> EngineError {
    EngineError::Prompt(error.to_string())
}
