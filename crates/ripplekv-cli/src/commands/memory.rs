//! What a run will hold in memory at most, from a model's shape and the lengths of its prompts: for `ripplekv plan`.
//! Bounds: every answer takes all its tokens, and no two cells keep the same entries.

use ripplekv_cache::Budget;
use ripplekv_model::LOGITS_BESIDE;
use ripplekv_runner::damage::joint_names;
use ripplekv_runner::engine::{Injection, ModelShape, PrefillMode};
use ripplekv_runner::plan::{Plan, PlannedDamage};
use ripplekv_runner::profile::{ProfileRecipe, SIGMA_LADDER};
use ripplekv_runner::spec::TimingMode;

/// Resident memory of the program with a tokenizer and working memory of its threads, in bytes.
const PROGRAM_BYTES: u64 = 60_000_000;

/// Numbers that a row's logits are, one after the other, in memory at a time: panel by panel, row by row, for the caller.
const LOGIT_COPIES: usize = 3;

/// Peaks of one model, in bytes.
pub(crate) struct Memory<'a> {
    pub(crate) shape: &'a ModelShape,
}

fn floats(count: usize) -> u64 {
    (count * size_of::<f32>()) as u64
}

/// Numbers of one layer's matrices.
pub(crate) fn layer_numbers(shape: &ModelShape) -> usize {
    let attention = 2 * (shape.heads + shape.kv_heads) * shape.head_dim;
    shape.hidden_size * (attention + 3 * shape.intermediate_size)
}

/// The layer that a pass over many rows has in f32, where weights are kept in less.
pub(crate) fn widened_layer(shape: &ModelShape) -> u64 {
    match shape.weight_bytes < shape.parameters * size_of::<f32>() as u64 {
        true => floats(layer_numbers(shape)),
        false => 0,
    }
}

impl Memory<'_> {
    /// While the longest prompt of a task, `longest` tokens, is evaluated.
    pub(crate) fn of_task(&self, plan: &Plan, model: &str, task: usize, longest: usize) -> u64 {
        let task = &plan.tasks[task];
        let compared = plan.protocol.answer_kl_tokens;
        let whole = longest as u64 * self.shape.layers as u64;
        let keeps_full = compared > 0 || plan.prefill == PrefillMode::Snapshot;
        let totals: Vec<u64> = plan
            .cells_of(model, task.info.name)
            .map(|cell| match cell.budget.as_deref().map(Budget::parse) {
                Some(Ok(budget)) => {
                    budget.total_entries(longest, self.shape.layers, self.entry() as usize)
                }
                _ => whole,
            })
            .collect();
        // cells that keep everything share one cache
        let caches = |totals: &[u64]| {
            let kept: Vec<u64> = totals.iter().copied().filter(|&t| t < whole).collect();
            let has_whole = keeps_full || kept.len() < totals.len();
            let entries = kept.iter().sum::<u64>() + if has_whole { whole } else { 0 };
            let rows = kept.len() + usize::from(compared > 0 || kept.len() < totals.len());
            let decoding = self.decoding(rows, task.max_new_tokens);
            let after = decoding.max(self.forced_logits(compared));
            let all = entries * self.entry();
            match plan.prefill {
                PrefillMode::Stream => all + after.max(self.passing(longest)),
                // nothing is compressed before the prefill has ended
                PrefillMode::Snapshot => {
                    (whole * self.entry() + self.passing(longest)).max(all + after)
                }
            }
        };
        let together = match plan.timing {
            TimingMode::Shared => totals.len().max(1),
            TimingMode::Alone => 1,
        };
        let most = totals.chunks(together).map(caches).max();
        self.resting() + most.unwrap_or_default()
    }

    /// While a profile is measured over groups of prompts of these lengths, each held as a whole from the beginning.
    pub(crate) fn of_profile(&self, recipe: &ProfileRecipe, groups: &[Vec<usize>]) -> u64 {
        let whole = |tokens: usize| (tokens * self.shape.layers) as u64 * self.entry();
        let (draws, answer) = (recipe.draws, recipe.answer_tokens);
        let measured = |tokens: usize| match recipe.inject {
            // every layer and draw of all scales as variants of one pass, and one layer in the order of products with
            // its noise, as it is drawn and as it is read
            Injection::Cache => {
                // the ladder is climbed to check a given scale too
                let scales = match (recipe.sigma, recipe.sigma_samples) {
                    (Some(_), 0) => 1,
                    _ => SIGMA_LADDER.len(),
                };
                // beside them the reference, and a control at the chosen scale
                let variants = scales * self.shape.layers * draws + 2;
                let layer = self.entry() * (1 + draws as u64) * tokens as u64;
                layer + self.forced(variants, answer)
            }
            Injection::Prefill => {
                whole(tokens) + self.passing(tokens).max(self.forced_logits(answer))
            }
        };
        let most = groups.iter().map(|group| {
            let held: usize = group.iter().sum();
            let last = group.last().copied().unwrap_or_default();
            let prefilled = whole(held) + self.passing(last);
            let answered = whole(held) + self.decoding(group.len(), answer);
            // a sample's cache is dropped when it is measured
            let from = (0..group.len())
                .map(|first| whole(group[first..].iter().sum::<usize>()) + measured(group[first]));
            from.chain([prefilled, answered]).max().unwrap_or_default()
        });
        self.resting() + most.max().unwrap_or_default()
    }

    /// While what compressing does to a prompt of so many tokens is measured. A snapshot is held throughout.
    pub(crate) fn of_damage(
        &self,
        damage: &PlannedDamage,
        max_new_tokens: usize,
        tokens: usize,
    ) -> u64 {
        let layers = self.shape.layers;
        let whole = (tokens * layers) as u64;
        let budgets = damage
            .budgets
            .iter()
            .filter_map(|text| Budget::parse(text).ok());
        let totals =
            budgets.map(|budget| budget.total_entries(tokens, layers, self.entry() as usize));
        let kept = totals.max().unwrap_or_default().min(whole);
        let spec = &damage.spec;
        let scored = match spec.task_score {
            true => max_new_tokens.max(spec.answer_tokens),
            false => spec.answer_tokens,
        };
        // the compressed caches, and one layer of each and of the snapshot in the order of products
        let caches = |count: usize| {
            let of_all = count as u64 * kept;
            (of_all + of_all.div_ceil(layers as u64) + tokens as u64) * self.entry()
        };
        // every layer by itself and, at most, each restored in a compressed whole
        let compared = if spec.leave_in { 2 * layers } else { layers };
        let alone = self
            .forced(1 + compared, spec.answer_tokens)
            .max(self.forced(1 + layers, scored))
            .max(self.decoding(layers, scored));
        let joint = if spec.joint { joint_names().len() } else { 0 };
        let measured =
            (caches(1) + alone).max(caches(joint) + self.forced(1 + joint, spec.answer_tokens));
        self.resting() + whole * self.entry() + measured.max(self.passing(tokens))
    }

    /// Weights, program and position table.
    fn resting(&self) -> u64 {
        let turns = floats(self.shape.context_length * self.shape.head_dim);
        self.shape.weight_bytes + widened_layer(self.shape) + PROGRAM_BYTES + turns
    }

    /// Keys and values of one position in one layer.
    fn entry(&self) -> u64 {
        floats(2 * self.shape.kv_heads * self.shape.head_dim)
    }

    /// Numbers of a row of queries, keys and values.
    fn projections(&self) -> usize {
        (self.shape.heads + 2 * self.shape.kv_heads) * self.shape.head_dim
    }

    /// What goes from layer to layer during a prefill: hidden states, projections, and two layers of keys and values (as
    /// they are stored, and in the order of products).
    fn passing(&self, tokens: usize) -> u64 {
        floats(tokens * (self.shape.hidden_size + self.projections()))
            + 2 * self.entry() * tokens as u64
    }

    /// What rows generate: entries of every layer, and logits.
    fn decoding(&self, rows: usize, new_tokens: usize) -> u64 {
        let entries = (rows * new_tokens * self.shape.layers) as u64 * self.entry();
        entries + floats(rows * LOGIT_COPIES * self.shape.vocab_size)
    }

    /// Hidden states, projections and logits of so many variants of an answer in one teacher-forced pass.
    fn forced(&self, variants: usize, positions: usize) -> u64 {
        let states = self.shape.hidden_size * 3 + self.projections();
        floats(variants * positions * states) + self.forced_logits(positions)
    }

    /// Logits of a teacher-forced pass over so many positions, those of the reference, and its probabilities in f64.
    fn forced_logits(&self, positions: usize) -> u64 {
        let beside = match positions {
            0 => 0,
            _ => LOGITS_BESIDE,
        };
        floats((beside + 3 * positions) * self.shape.vocab_size)
    }
}
