//! Scorers: how important each cached prompt entry of each KV head is.

mod h2o;
mod keydiff;
mod knorm;
mod observed_attention;
mod snapkv;
mod streaming_llm;
mod tova;

use candle_core::DType;
use serde_json::{Map, Value};

use crate::params::ParamInfo;
use crate::{CacheError, LayerState, Needs};

/// Scores of one layer, `[kv_heads, n]`, higher is kept first.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    kv_heads: usize,
    values: Vec<f32>,
}

impl Scores {
    /// From row-major values, `[kv_heads, n]`.
    #[must_use]
    pub fn new(kv_heads: usize, values: Vec<f32>) -> Self {
        Self { kv_heads, values }
    }

    /// Number of KV heads.
    #[must_use]
    pub fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// Scores of one KV head, length n.
    #[must_use]
    pub fn head(&self, head: usize) -> &[f32] {
        let n = self.values.len() / self.kv_heads.max(1);
        &self.values[head * n..(head + 1) * n]
    }
}

/// Rates the entries of a layer.
pub trait Scorer: Send + Sync {
    /// What the prefill must store for this scorer.
    fn needs(&self) -> Needs;

    /// The least a KV head of a layer can be given: the size of the must-keep set, or 1 where that set is empty.
    fn must_keep_tokens(&self) -> usize {
        LEAST_ENTRIES
    }

    /// The must-keep positions for a prompt of `prompt_tokens` tokens, ascending; none where a scorer names none.
    fn must_keep(&self, _prompt_tokens: usize) -> Vec<u32> {
        Vec::new()
    }

    /// The same scorer with a must-keep set of `must_keep_tokens` entries, for prompts whose budget is below it.
    fn shrunk(&self, must_keep_tokens: usize) -> Box<dyn Scorer>;

    /// Scores of one layer, `[kv_heads, n]`.
    ///
    /// # Errors
    /// When the layer lacks what [`Scorer::needs`] asked for, or a tensor operation fails.
    fn score(&self, layer: &LayerState) -> Result<Scores, CacheError>;
}

pub(crate) type BuildScorer = fn(&Map<String, Value>) -> Result<Box<dyn Scorer>, CacheError>;

/// One line of [`SCORERS`].
#[derive(Debug, Clone, Copy)]
pub struct ScorerInfo {
    /// Name in specs.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Paper or program followed.
    pub source: &'static str,
    /// Keys with their defaults.
    pub params: fn() -> Vec<ParamInfo>,
    /// Checks parameters and writes defaults out.
    pub(crate) parse: fn(&Map<String, Value>) -> Result<Value, CacheError>,
    /// Builds from parameters.
    pub(crate) build: BuildScorer,
}

impl ScorerInfo {
    /// Builds the scorer from parameters, a JSON object.
    ///
    /// # Errors
    /// A value out of range or of another type.
    pub fn build(&self, params: &Value) -> Result<Box<dyn Scorer>, CacheError> {
        let empty = Map::new();
        (self.build)(params.as_object().unwrap_or(&empty))
    }
}

/// All scorers.
pub const SCORERS: &[ScorerInfo] = &[
    streaming_llm::INFO,
    snapkv::INFO,
    knorm::INFO,
    tova::INFO,
    keydiff::INFO,
    h2o::INFO,
    observed_attention::INFO,
];

/// What a layer keeps at least where a scorer has no must-keep set, as in kvpress: no cache is empty.
const LEAST_ENTRIES: usize = 1;

/// The last `count` positions of a prompt, ascending.
fn last_positions(count: usize, prompt_tokens: usize) -> Vec<u32> {
    (prompt_tokens.saturating_sub(count) as u32..prompt_tokens as u32).collect()
}

/// Keys of a layer in f32, `[kv_heads, n, head_dim]` row by row.
fn key_values(layer: &LayerState) -> Result<Vec<f32>, CacheError> {
    Ok(layer.keys.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
}

/// The attention that each entry gets, `[kv_heads, n]` row by row, summed over queries and averaged over the query group.
fn column_sums(layer: &LayerState) -> Result<Vec<f32>, CacheError> {
    let sums = layer.column_sums.as_ref();
    let sums = sums.ok_or(CacheError::MissingColumnSums)?;
    Ok(sums.flatten_all()?.to_vec1()?)
}

/// Sum of squares, channel by channel.
fn squares(key: &[f32]) -> f64 {
    key.iter().map(|&channel| f64::from(channel).powi(2)).sum()
}
