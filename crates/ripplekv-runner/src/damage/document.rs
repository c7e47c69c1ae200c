//! Stored damage: what compressing layers for real did, sample by sample. No times, so that equal inputs give equal
//! bytes. Lies in `damage/<model>/`: `recipe.json`, `samples.jsonl` (one [`DamageSample`] a line) and `joint.jsonl`
//! (one [`JointSample`] a line).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::FirstToken;

/// Version of the damage files.
pub const DAMAGE_SCHEMA: u32 = 1;

/// Everything that decides the damage of a sample besides the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DamageRecipe {
    /// Method whose scorer compresses, with all parameters.
    pub method: String,
    /// Its parameters.
    pub params: serde_json::Value,
    /// Canonical budgets.
    pub budgets: Vec<String>,
    /// m: most answer tokens compared.
    pub answer_tokens: usize,
    /// Whether each layer is restored in a compressed whole.
    pub leave_in: bool,
    /// Whether the reference answer's likelihood is measured.
    pub reference_nll: bool,
    /// Whether task scores are measured.
    pub task_score: bool,
    /// Whether joint allocations are measured.
    pub joint: bool,
    /// Parameters of the ripple mapping for joint allocations (`r`, `gamma`, `center`).
    pub mapping: serde_json::Value,
    /// Seed of halves and random signals.
    pub seed: u64,
    /// See [`FirstToken`].
    pub first_token: FirstToken,
    /// Prompt and scoring rules, data hashes, and constants of numeric code and metrics.
    pub protocol: serde_json::Value,
}

/// `recipe.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DamageHead {
    /// [`DAMAGE_SCHEMA`].
    pub schema: u32,
    /// blake3 of the recipe.
    pub recipe_hash: String,
    /// Settings.
    pub recipe: DamageRecipe,
    /// Short name of the model.
    pub model: String,
    /// blake3 of weights and configuration.
    pub model_hash: String,
    /// blake3 of the tokenizer.
    pub tokenizer_hash: String,
    /// L.
    pub layers: usize,
    /// Content hash of the profile beside it, `profiles/<model>.json`.
    pub profile_hash: String,
    /// Selected samples as `task/id`, in order; the measured ones among them have a line.
    pub selected: Vec<String>,
}

/// Single-layer damage of one budget. Every list is of length L, or empty where not measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LayerDamage {
    /// Entries per KV head that the compressed layer kept.
    pub layer_tokens: Vec<u32>,
    /// KL(full, only this layer compressed) in nats.
    pub kl: Vec<f64>,
    /// KL(full, every other layer compressed) in nats.
    pub leave_in_kl: Vec<f64>,
    /// Change of the reference answer's mean negative log-likelihood, in nats a token.
    pub reference_nll_change: Vec<f64>,
    /// Task score of the full cache less that with this layer compressed, in points of 100.
    pub score_drop: Vec<f64>,
}

/// One line of `samples.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DamageSample {
    /// [`DAMAGE_SCHEMA`].
    pub schema: u32,
    /// blake3 of the recipe.
    pub recipe: String,
    /// Task.
    pub task: String,
    /// `_id` of the record.
    pub sample: String,
    /// n.
    pub prompt_tokens: u64,
    /// Answer positions averaged; 0 where the sample was dropped.
    pub positions: u64,
    /// Task score of the full cache, in points of 100.
    pub full_score: Option<f64>,
    /// By canonical budget.
    pub budgets: BTreeMap<String, LayerDamage>,
    /// Why the sample was dropped.
    pub dropped: Option<String>,
    /// Anything a reader should know.
    pub warnings: Vec<String>,
}

/// One line of `joint.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JointSample {
    /// [`DAMAGE_SCHEMA`].
    pub schema: u32,
    /// blake3 of the recipe, with the profile's content and the first pass's lines.
    pub recipe: String,
    /// Task.
    pub task: String,
    /// `_id` of the record.
    pub sample: String,
    /// 0 or 1: the half of the samples this one is in; the oracle's weights come from the other half.
    pub half: u8,
    /// KL(full, all layers compressed) in nats, by canonical budget and allocation
    /// (`uniform`, `oracle`, and each signal's name; see [`SIGNALS`] and [`joint_names`](super::joint_names)); empty
    /// where the engine failed on the sample.
    pub budgets: BTreeMap<String, BTreeMap<String, f64>>,
    /// Share of all kept entries that lie in other layers than under the uniform allocation, 0 to 1, by the same keys.
    pub moved: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Where a signal's per-layer numbers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalSource {
    /// A matrix of the profile.
    Profile,
    /// A formula of the layer's place.
    Place,
    /// A seeded generator, many draws.
    Random,
    /// The sensitivities on shuffled layers, many draws: they move as much of the budget in another order.
    Permuted,
    /// Single-layer damage of the other half of the samples.
    Oracle,
}

/// One signal that is ranked against damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalInfo {
    /// Name in files and tables.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: SignalSource,
}

const fn signal(name: &'static str, source: SignalSource, summary: &'static str) -> SignalInfo {
    SignalInfo {
        name,
        summary,
        source,
    }
}

/// All signals, in the order of tables. To add one: a line here and its numbers in `signals.rs`.
#[rustfmt::skip]
pub const SIGNALS: &[SignalInfo] = &[
    signal("sensitivity", SignalSource::Profile, "KL of the final distribution under value noise (RippleKV)"),
    signal("local-response", SignalSource::Profile, "the layer's own relative attention-output error under the same noise"),
    signal("window-entropy", SignalSource::Profile, "entropy of the last 64 queries' attention"),
    signal("hidden-change", SignalSource::Profile, "1 - cosine of a layer's input and output states"),
    signal("layer-index", SignalSource::Place, "the layer's depth"),
    signal("reversed-index", SignalSource::Place, "depth reversed, as in a pyramid"),
    signal("middle-peaked", SignalSource::Place, "closeness to the middle layer"),
    signal("random", SignalSource::Random, "100 random profiles"),
    signal("permuted", SignalSource::Permuted, "the sensitivities on shuffled layers: a control that moves as much"),
    signal("oracle", SignalSource::Oracle, "single-layer damage on the other half of the samples"),
];
