//! The stored sensitivity profile of one model: per-sample matrices, summaries, settings and hashes. No times, so that
//! equal inputs give equal bytes.

use serde::{Deserialize, Serialize};

use crate::engine::{FirstToken, Injection, NoiseNorm, NoisePositions};

/// Version of [`ProfileDocument`].
pub const PROFILE_SCHEMA: u32 = 1;

/// Everything that decides a profile besides the model. Its hash is part of the key of every cell that uses a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileRecipe {
    /// Name of the calibration pack.
    pub calibration: String,
    /// blake3 over the pack's prompts and records.
    pub data_hash: String,
    /// Most samples to use, taken in turn from the pack's tasks.
    pub samples: usize,
    /// m: most answer tokens.
    pub answer_tokens: usize,
    /// Noise scale; `None` picks it by the slope rule.
    pub sigma: Option<f64>,
    /// Samples that the slope rule looks at.
    pub sigma_samples: usize,
    /// Noise draws, in antithetic pairs.
    pub draws: usize,
    /// Seed of noise and resampling.
    pub seed: u64,
    /// See [`NoiseNorm`].
    pub norm: NoiseNorm,
    /// See [`NoisePositions`].
    pub positions: NoisePositions,
    /// See [`Injection`].
    pub inject: Injection,
    /// See [`FirstToken`].
    pub first_token: FirstToken,
    /// Corrected split-half reliability at which sampling stops early.
    pub stop_at_reliability: Option<f64>,
    /// Whether window entropy, hidden change and the control are measured as well. The sensitivity does not depend on it.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub signals: bool,
    /// Chat template rule, bos rule and context limit of the prompts.
    pub protocol: serde_json::Value,
    /// Constant of the numeric code.
    pub numerics: u32,
}

/// Recipes from before there was a choice have signals, and keep their hashes.
fn yes() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands a reference over"
)]
fn is_true(flag: &bool) -> bool {
    *flag
}

/// The model that was profiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileModel {
    /// Short name.
    pub name: String,
    /// blake3 of weights and configuration.
    pub model_hash: String,
    /// blake3 of the tokenizer.
    pub tokenizer_hash: String,
    /// blake3 of the chat template.
    pub template_hash: Option<String>,
    /// L.
    pub layers: usize,
    /// Number format.
    pub dtype: String,
}

/// One calibration sample. Every list is of length L; what is measured with the signals is absent where
/// [`ProfileRecipe::signals`] is false.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileSample {
    /// Task of the calibration pack.
    pub task: String,
    /// `_id` of the record.
    pub sample: String,
    /// n.
    pub prompt_tokens: u64,
    /// Tokens of the full model's greedy answer.
    pub answer_tokens: u64,
    /// Answer positions averaged.
    pub positions: u64,
    /// KL(full, perturbed) in nats.
    pub kl: Vec<f64>,
    /// The layer's own relative attention-output error under the same noise.
    pub local_response: Vec<f64>,
    /// Mean entropy of the window's attention, in nats. A signal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub window_entropy: Vec<f64>,
    /// 1 - mean cosine of a layer's input and output states. A signal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_change: Vec<f64>,
    /// Control: KL with every layer perturbed at once, by the first draw of each. Measured with the signals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_layers_kl: Option<f64>,
}

/// A calibration sample that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedSample {
    /// Task.
    pub task: String,
    /// `_id` of the record.
    pub sample: String,
    /// Why.
    pub reason: String,
}

/// One rung of the ladder of noise scales.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SigmaStep {
    /// Noise scale.
    pub sigma: f64,
    /// Mean KL of each layer over the samples looked at.
    pub kl: Vec<f64>,
    /// Median over layers of the slope of log KL over log sigma from the rung below; `None` on the first rung.
    pub median_slope: Option<f64>,
    /// Spearman correlation with the profile of the rung below; `None` on the first rung.
    pub spearman_with_previous: Option<f64>,
}

/// How the noise scale was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SigmaChoice {
    /// The scale that was used.
    pub chosen: f64,
    /// True where the spec gave it.
    pub given: bool,
    /// The ladder; empty where the spec gave the scale and asked for no check.
    pub ladder: Vec<SigmaStep>,
}

/// Sensitivity of one layer over the samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LayerSensitivity {
    /// s_l: mean KL in nats.
    pub mean: f64,
    /// Median over samples.
    pub median: f64,
    /// 90th percentile over samples.
    pub p90: f64,
    /// Lower end of the 95% bootstrap interval of the mean.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Whether two halves of the samples agree.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reliability {
    /// Mean Spearman correlation of two halves' profiles over random splits.
    pub split_half: f64,
    /// The same, corrected to the whole length (Spearman-Brown).
    pub spearman_brown: f64,
    /// Number of splits.
    pub splits: usize,
}

/// A profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileDocument {
    /// [`PROFILE_SCHEMA`].
    pub schema: u32,
    /// blake3 of [`ProfileDocument::recipe`].
    pub recipe_hash: String,
    /// blake3 of the document without this field.
    pub content_hash: String,
    /// Settings.
    pub recipe: ProfileRecipe,
    /// The model.
    pub model: ProfileModel,
    /// Noise scale.
    pub sigma: SigmaChoice,
    /// One entry a layer.
    pub sensitivity: Vec<LayerSensitivity>,
    /// Agreement of halves; `None` below 4 samples.
    pub reliability: Option<Reliability>,
    /// True when sampling stopped at the wanted reliability.
    pub stopped_early: bool,
    /// The N x L matrices, in the order measured.
    pub samples: Vec<ProfileSample>,
    /// Samples left out.
    pub dropped: Vec<DroppedSample>,
}
