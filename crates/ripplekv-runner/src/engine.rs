//! The seam between the runner and whatever computes: `Loader` opens models, `Engine` answers one prompt for many cells.
//! The runner knows no tensors; the real implementation lives in `ripplekv-engine`, a fake one in [`crate::fake`].

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use ripplekv_tasks::{StopRule, Tokenise};
use serde::{Deserialize, Serialize};

use crate::cell::{CellKey, ResolvedMethod, ResolvedModel};

/// Shape of a model as its configuration file tells it, known without loading weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelShape {
    /// Architecture name, such as `llama`.
    pub architecture: String,
    /// Number of decoder layers (L).
    pub layers: usize,
    /// Query heads per layer.
    pub heads: usize,
    /// Key/value heads per layer.
    pub kv_heads: usize,
    /// Channels of one head.
    pub head_dim: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Entries of the vocabulary.
    pub vocab_size: usize,
    /// Longest sequence the model was trained for, in tokens.
    pub context_length: usize,
    /// Number of parameters.
    pub parameters: u64,
    /// Bytes of weights in memory while running, in the layouts that the engine keeps.
    pub weight_bytes: u64,
}

/// Everything about a loaded model that can change an output; stored in the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelIdentity {
    /// Name used in the spec.
    pub name: String,
    /// Shape of the model.
    pub shape: ModelShape,
    /// blake3 of the weights and the configuration.
    pub model_hash: String,
    /// blake3 of the tokenizer.
    pub tokenizer_hash: String,
    /// blake3 of the chat template, where there is one.
    pub template_hash: Option<String>,
    /// Number format of weights and cache while running, such as `f32`.
    pub dtype: String,
    /// Device the model runs on, such as `cpu`.
    pub device: String,
}

/// What to do with a prompt whose budget is smaller than a method's must-keep set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShortPrompts {
    /// Run the prompt with a window of floor(T / L / 2) for every method of that budget; recorded and counted.
    #[default]
    Shrink,
    /// Leave the prompt uncompressed; recorded and counted.
    Full,
    /// Stop with an error.
    Error,
}

/// One cell asked of the engine for one prompt.
#[derive(Debug, Clone, Copy)]
pub struct CellRequest<'a> {
    /// Key of the cell, returned with the answer.
    pub key: &'a CellKey,
    /// Method with all its parameters written out.
    pub method: &'a ResolvedMethod,
    /// Canonical budget text such as `10%`; `None` for methods that take none.
    pub budget: Option<&'a str>,
}

/// When layers are compressed: the key `prefill`. Decides memory, never a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrefillMode {
    /// Each layer for all cells as soon as it is computed; it is then dropped.
    #[default]
    Stream,
    /// All layers once the last is computed.
    Snapshot,
}

/// One prompt and all the cells to run on it.
#[derive(Debug, Clone, Copy)]
pub struct PromptRequest<'a> {
    /// Prompt token ids, length n.
    pub ids: &'a [u32],
    /// Cells to run; all share one prefill.
    pub cells: &'a [CellRequest<'a>],
    /// Most tokens to generate.
    pub max_new_tokens: usize,
    /// When to stop earlier.
    pub stop: &'a StopRule,
    /// Rule for budgets below the must-keep set.
    pub short_prompts: ShortPrompts,
    /// First tokens of the full cache's own answer over which every cell's KL is measured; 0 measures none.
    pub answer_kl_tokens: usize,
    /// See [`PrefillMode`].
    pub prefill: PrefillMode,
    /// Whether the kept positions are given back with each cell.
    pub want_kept: bool,
    /// Per-layer numbers of the model's profile, for allocators that ask for one.
    pub signals: &'a Signals,
}

/// Kept prompt positions, ascending, `[layer][kv_head][entry]`.
pub type KeptSets = Vec<Vec<Vec<u32>>>;

/// Per-layer numbers by name (`sensitivity`, `local_response`, ...), each of length L.
pub type Signals = BTreeMap<String, Vec<f64>>;

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    /// An end token of the model (or the newline of samsum) came.
    Stop,
    /// `max_new_tokens` were generated.
    Length,
}

/// What one cell did with one prompt. Counts are measured on the cache that was really decoded from.
#[derive(Debug, Clone, PartialEq)]
pub struct CellResult {
    /// Generated ids, the ending token included.
    pub output_ids: Vec<u32>,
    /// Why it ended.
    pub finish: Finish,
    /// T: entries per KV head over all layers that the budget allows; `None` without a budget.
    pub budget_entries: Option<u64>,
    /// Kept prompt entries per KV head, one number a layer (mean over heads, rounded down, where heads differ).
    pub kept_per_layer: Vec<u32>,
    /// Bytes of keys and values of the kept prompt entries.
    pub cache_bytes: u64,
    /// blake3 over the kept indices of all layers and heads; `full` where nothing was evicted.
    pub kept_hash: String,
    /// The kept positions that `kept_hash` is over, where asked for; `None` where nothing was evicted.
    pub kept: Option<KeptSets>,
    /// The window (or must-keep set) that was used, in tokens.
    pub must_keep_tokens: u32,
    /// True when `short_prompts: shrink` made the window smaller, or `full` skipped compression.
    pub short_prompt: bool,
    /// Mean KL(full, this cell) in nats over the teacher-forced answer of the full cache, first token left out; `None`
    /// where not asked for, or where that answer has fewer than 3 tokens.
    pub answer_kl: Option<f64>,
    /// Anything a reader should know: fallbacks never happen silently.
    pub warnings: Vec<String>,
    /// Milliseconds to select and gather.
    pub compress_ms: f64,
    /// Milliseconds to decode (of this row alone, or its share).
    pub decode_ms: f64,
}

/// What one prompt cost and gave.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptOutput {
    /// Milliseconds of the one dense prefill.
    pub prefill_ms: f64,
    /// One entry a requested cell, in the order of the request.
    pub cells: Vec<Result<CellResult, EngineError>>,
}

/// Length that the noise of a value vector is proportional to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoiseNorm {
    /// The vector's own norm.
    #[default]
    Token,
    /// Root mean square of the norms of one KV head's tokens.
    Head,
    /// Root mean square of the norms of the layer's tokens and heads.
    Layer,
}

/// Which prompt positions get noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoisePositions {
    /// Every prompt position.
    #[default]
    All,
    /// What a method could evict: neither the first 4 nor the last 64 positions.
    Evictable,
}

/// When the noise enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Injection {
    /// Into the finished cache: only the answer's reads see it, as with eviction after the prefill.
    #[default]
    Cache,
    /// During the prefill: later layers' keys and values see it too.
    Prefill,
}

/// What is done about the first answer token, which comes from the dense prefill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstToken {
    /// Left out of the average: the cache cannot change it.
    #[default]
    Skip,
    /// The last prompt token is read again against the changed cache, and every position counts.
    Reread,
}

/// One calibration prompt whose layers are perturbed one at a time.
#[derive(Debug, Clone, Copy)]
pub struct SensitivityRequest<'a> {
    /// Prompt token ids, length n.
    pub ids: &'a [u32],
    /// Name of the sample; part of the noise's key.
    pub sample: &'a str,
    /// Seed of the noise.
    pub seed: u64,
    /// m: most tokens of the full model's greedy answer.
    pub answer_tokens: usize,
    /// When the answer ends earlier.
    pub stop: &'a StopRule,
    /// Noise scales, each positive (zero is allowed here for controls).
    pub sigmas: &'a [f64],
    /// Noise draws, used as antithetic pairs (even).
    pub draws: usize,
    /// See [`NoiseNorm`].
    pub norm: NoiseNorm,
    /// See [`NoisePositions`].
    pub positions: NoisePositions,
    /// See [`Injection`].
    pub inject: Injection,
    /// See [`FirstToken`]; without meaning for [`Injection::Prefill`], where every position counts.
    pub first_token: FirstToken,
    /// Whether the control and the signals that are no sensitivity are measured too: `all_layers_kl`, `window_entropy` and
    /// `hidden_change` of the output, which are empty otherwise.
    pub signals: bool,
}

/// What perturbing the layers of one prompt did. KL in nats, mean over answer positions and draws.
#[derive(Debug, Clone, PartialEq)]
pub struct SensitivityOutput {
    /// y*: the full model's greedy answer, the ending token included.
    pub answer_ids: Vec<u32>,
    /// Answer positions that were averaged; below 2 everything else is empty.
    pub positions: usize,
    /// KL(full, perturbed), `[sigma][layer]`.
    pub kl: Vec<Vec<f64>>,
    /// The perturbed layer's own relative attention-output error (Frobenius), `[sigma][layer]`.
    pub local_response: Vec<Vec<f64>>,
    /// Control: KL with every layer perturbed at once, by the first draw of each, `[sigma]`.
    pub all_layers_kl: Vec<f64>,
    /// Mean entropy of the last 64 queries' attention over the prompt, in nats, `[layer]`.
    pub window_entropy: Vec<f64>,
    /// 1 - mean cosine between a layer's input and output states over the prompt, `[layer]`.
    pub hidden_change: Vec<f64>,
}

/// What is heard of one request while its layers are perturbed.
#[derive(Debug)]
pub enum SensitivityNews {
    /// Its prefill is next; all requests are prefilled before the layers of the first are perturbed.
    Begins,
    /// So many layers are done.
    Layers(usize),
    /// The request is done: [`EngineError::Spec`] for a setting that cannot be used, [`EngineError::Prompt`] for this
    /// prompt alone.
    Done(Result<SensitivityOutput, EngineError>),
}

/// Layer weights to compress all layers with at once.
#[derive(Debug, Clone, Copy)]
pub struct Allocation<'a> {
    /// Its name in the results.
    pub name: &'a str,
    /// One positive weight a layer.
    pub weights: &'a [f64],
}

/// One prompt whose layers are really compressed: one at a time, all but one, or all by given allocations.
#[derive(Debug, Clone, Copy)]
pub struct DamageRequest<'a> {
    /// Prompt token ids, length n.
    pub ids: &'a [u32],
    /// m: most tokens of the full model's greedy answer that are compared.
    pub answer_tokens: usize,
    /// Most tokens of an answer that is scored; at least `answer_tokens` are generated by the full model.
    pub max_new_tokens: usize,
    /// When an answer ends earlier.
    pub stop: &'a StopRule,
    /// A method with a scorer; its allocator is not used.
    pub method: &'a ResolvedMethod,
    /// Canonical budgets.
    pub budgets: &'a [&'a str],
    /// Whether each layer is compressed alone (to its share of a uniform allocation).
    pub single_layers: bool,
    /// Whether all layers but one are compressed, for each layer.
    pub leave_in: bool,
    /// Ids of a reference answer; empty leaves its likelihood out.
    pub reference_ids: &'a [u32],
    /// Whether answers of singly compressed layers are generated where they differ from the full model's.
    pub outputs: bool,
    /// Joint allocations.
    pub allocations: &'a [Allocation<'a>],
    /// See [`FirstToken`].
    pub first_token: FirstToken,
    /// Rule for budgets below the must-keep set.
    pub short_prompts: ShortPrompts,
}

/// What one budget did to one prompt.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BudgetDamage {
    /// Entries per KV head of each layer under the uniform allocation, `[layer]`.
    pub layer_tokens: Vec<u32>,
    /// KL(full, only this layer compressed), `[layer]`; empty where not asked for.
    pub kl: Vec<f64>,
    /// Change of the reference answer's mean negative log-likelihood, `[layer]`; empty where not asked for.
    pub reference_nll_change: Vec<f64>,
    /// Generated ids where they differ from the full model's, `[layer]`; empty where not asked for.
    pub outputs: Vec<Option<Vec<u32>>>,
    /// KL(full, every other layer compressed), `[layer]`; empty where not asked for.
    pub leave_in_kl: Vec<f64>,
    /// KL(full, all layers compressed), one number an allocation of the request.
    pub joint_kl: Vec<f64>,
    /// Entries per KV head of each layer under each allocation, `[allocation][layer]`.
    pub joint_layer_tokens: Vec<Vec<u32>>,
}

/// What compression did to one prompt. KL in nats, mean over answer positions.
#[derive(Debug, Clone, PartialEq)]
pub struct DamageOutput {
    /// The full model's greedy answer, up to `max_new_tokens`.
    pub output_ids: Vec<u32>,
    /// Answer positions that were averaged; below 2 everything else is empty.
    pub positions: usize,
    /// Mean negative log-likelihood of the reference answer under the full cache, where asked for.
    pub reference_nll: Option<f64>,
    /// One entry a budget of the request.
    pub budgets: Vec<BudgetDamage>,
    /// Anything a reader should know.
    pub warnings: Vec<String>,
}

/// Why an engine could not do something.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// The model, its files or its reference are wrong or absent: the user can act (exit code 3).
    #[error("{0}")]
    Model(String),
    /// One prompt failed; the run goes on and the failure is recorded.
    #[error("{0}")]
    Prompt(String),
    /// The spec asks for something impossible (exit code 3).
    #[error("{0}")]
    Spec(String),
}

/// A loaded model.
pub trait Engine {
    /// Who this is.
    fn identity(&self) -> &ModelIdentity;

    /// The model's tokenizer and chat template.
    fn tokenizer(&self) -> Arc<dyn Tokenise>;

    /// Runs all cells of one prompt over a single dense prefill.
    ///
    /// # Errors
    /// The outer error means nothing of the prompt could be run; a cell's own failure stands in its place of
    /// [`PromptOutput::cells`].
    fn evaluate(&mut self, request: &PromptRequest<'_>) -> Result<PromptOutput, EngineError>;

    /// Perturbs the values of one layer at a time and measures the final output distribution. The caches of all
    /// `requests` are held until each is done, so that their answers are decoded together; no result depends on the
    /// company. `tell` gets news with the place of the request, ends with [`SensitivityNews::Done`] for each, and stops
    /// the work by [`ControlFlow::Break`].
    fn sensitivity(
        &mut self,
        requests: &[SensitivityRequest<'_>],
        tell: &mut dyn FnMut(usize, SensitivityNews) -> ControlFlow<()>,
    );

    /// Compresses layers for real and measures what it did. `on_layer` hears how many layers are done.
    ///
    /// # Errors
    /// [`EngineError::Spec`] for a setting that cannot be used, [`EngineError::Prompt`] for this prompt alone.
    fn damage(
        &mut self,
        request: &DamageRequest<'_>,
        on_layer: &mut dyn FnMut(usize),
    ) -> Result<DamageOutput, EngineError>;
}

/// Whether a model can be had, found out without a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// Files are here.
    Present,
    /// Files will be fetched on the first run.
    Fetchable,
    /// Cannot be told here, and why (a known model whose weights are absent).
    NotChecked(String),
    /// Known, but this program cannot run it, and why. Not fetched.
    NotRun(String),
    /// Certainly wrong, with a message (a path that does not exist).
    Broken(String),
}

/// Opens models by reference.
pub trait Loader {
    /// Looks for the model without a network and without reading weights.
    fn availability(&self, model: &ResolvedModel) -> Availability;

    /// Shape from the configuration alone (fetches the files where needed).
    ///
    /// # Errors
    /// [`EngineError::Model`] when the files cannot be had or read.
    fn shape(&self, model: &ResolvedModel) -> Result<ModelShape, EngineError>;

    /// Tokenizer alone, much cheaper than the model (fetches the files where needed).
    ///
    /// # Errors
    /// [`EngineError::Model`] when the files cannot be had or read.
    fn tokenizer(&self, model: &ResolvedModel) -> Result<Arc<dyn Tokenise>, EngineError>;

    /// The whole model, weights in memory.
    ///
    /// # Errors
    /// [`EngineError::Model`] when the files cannot be had or read.
    fn load(&self, model: &ResolvedModel) -> Result<Box<dyn Engine>, EngineError>;
}
