//! The seam between engine and architectures: a decoder prefills a prompt and continues rows. It owns no cache.

use std::sync::Arc;

use candle_core::{CpuStorage, DType, Device, Layout, Storage, Tensor};
use ripplekv_cache::{CompressedCache, CompressedLayer, LayerState, Needs, Snapshot};

use crate::{ModelConfig, ModelError, Weights};

/// What one dense prefill gives.
#[derive(Debug, Clone)]
pub struct Prefill {
    /// Keys, values and statistics of every layer.
    pub snapshot: Snapshot,
    /// Logits of the last prompt position, `[vocab]`, f32.
    pub logits: Tensor,
    /// 1 - mean cosine over the prompt between each layer's input and output states, where asked for.
    pub hidden_change: Vec<f64>,
}

/// Changes the values `[kv_heads, n, head_dim]` of a layer before anything reads them.
pub type EditValues<'a> = &'a dyn Fn(usize, Tensor) -> candle_core::Result<Tensor>;

/// What a prefill does besides filling the cache.
#[derive(Clone, Copy, Default)]
pub struct PrefillOptions<'a> {
    /// What scorers need.
    pub needs: Needs,
    /// Whether [`Prefill::hidden_change`] is measured; the last layer then runs over the whole prompt.
    pub hidden_change: bool,
    /// See [`EditValues`].
    pub edit_values: Option<EditValues<'a>>,
    /// Whether layers are dropped when `on_layer` has seen them; the snapshot then has none.
    pub discard_layers: bool,
}

/// A variant of one prompt's cache for [`Decoder::force`].
#[derive(Debug, Clone)]
pub struct Branch {
    /// The whole cache; layers that equal the reference's share its storage.
    pub cache: Arc<CompressedCache>,
    /// First layer in which it differs from the reference: below it the reference's hidden states are used.
    pub from_layer: usize,
}

/// A variant of the reference's cache whose values are moved along a direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Move {
    /// The layer that is moved; all of them where `None`.
    pub layer: Option<usize>,
    /// Number of the direction among those of a layer.
    pub direction: usize,
    /// How far, in lengths of the direction; 0 leaves every bit as it is.
    pub factor: f32,
}

/// Directions of one layer's values, each `[kv_heads, n, head_dim]` in f32 as the reference's values.
pub type Directions<'a> = &'a dyn Fn(usize) -> candle_core::Result<Vec<Tensor>>;

/// What teacher forcing runs over.
#[derive(Clone, Copy)]
pub struct Variants<'a> {
    /// The reference, from layer 0, and caches of their own.
    pub branches: &'a [Branch],
    /// The reference moved. In its one layer a variant's attention is the reference's and a multiple of what the
    /// reference's weights mix of the direction, so all moves along a direction share that mixture.
    pub moves: &'a [Move],
    /// Asked for once a layer where there are moves.
    pub directions: Directions<'a>,
}

impl<'a> Variants<'a> {
    /// Nothing but caches.
    #[must_use]
    pub fn caches(branches: &'a [Branch]) -> Self {
        Self {
            branches,
            moves: &[],
            directions: &|_| Ok(Vec::new()),
        }
    }
}

/// What teacher forcing gave.
#[derive(Debug, Clone)]
pub struct Forced {
    /// One entry a variant: branches in order, then moves.
    pub branches: Vec<ForcedBranch>,
}

/// One variant after teacher forcing.
#[derive(Debug, Clone)]
pub struct ForcedBranch {
    /// Hidden states after the last layer, `[tokens, hidden]`; [`Decoder::logits`] turns them into logits.
    pub states: Vec<f32>,
    /// Relative error (Frobenius) of the attention output in the variant's first differing layer against the reference;
    /// `None` for the reference.
    pub local_error: Option<f64>,
}

/// Keys and values of the generated tokens of one layer, each `[generated, kv_heads * head_dim]`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Generated {
    pub(crate) keys: Vec<f32>,
    pub(crate) values: Vec<f32>,
}

/// One sequence being continued: an immutable prompt cache shared with others, and its own generated part, which grows.
#[derive(Debug, Clone)]
pub struct DecodeRow {
    cache: Arc<CompressedCache>,
    generated_parts: Vec<Generated>,
    generated: usize,
}

impl DecodeRow {
    /// A row that goes on after the prompt of `cache`.
    #[must_use]
    pub fn new(cache: Arc<CompressedCache>) -> Self {
        Self {
            generated_parts: vec![Generated::default(); cache.layers.len()],
            cache,
            generated: 0,
        }
    }

    /// Position of the next token: n plus the tokens generated so far, whatever was evicted.
    #[must_use]
    pub fn position(&self) -> usize {
        self.cache.prompt_tokens + self.generated
    }

    /// The prompt's part of a layer.
    pub(crate) fn prompt(&self, layer: usize) -> &CompressedLayer {
        &self.cache.layers[layer]
    }

    /// The generated part of a layer.
    pub(crate) fn generated_part(&self, layer: usize) -> &Generated {
        &self.generated_parts[layer]
    }

    /// Appends one token's keys and values, keys first, to a layer.
    pub(crate) fn append(&mut self, layer: usize, keys_values: &[f32]) {
        let (keys, values) = keys_values.split_at(keys_values.len() / 2);
        let part = &mut self.generated_parts[layer];
        part.keys.extend_from_slice(keys);
        part.values.extend_from_slice(values);
    }

    /// Ends a step: the entries of so many tokens are in every layer.
    pub(crate) fn advance(&mut self, tokens: usize) {
        self.generated += tokens;
    }

    /// Takes the last `tokens` tokens back (at most all), as if they had not been fed.
    pub fn take_back(&mut self, tokens: usize) {
        let kept = self.generated.saturating_sub(tokens);
        for part in &mut self.generated_parts {
            let of_token = part.keys.len() / self.generated.max(1);
            part.keys.truncate(kept * of_token);
            part.values.truncate(kept * of_token);
        }
        self.generated = kept;
    }
}

/// The numbers of a contiguous f32 tensor in main memory.
///
/// # Errors
/// When it is none.
pub(crate) fn host_slice<'a>(
    storage: &'a Storage,
    layout: &Layout,
) -> candle_core::Result<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (Storage::Cpu(CpuStorage::F32(values)), Some((start, end))) => Ok(&values[start..end]),
        _ => candle_core::bail!("expected a contiguous f32 tensor on the cpu, got {layout:?}"),
    }
}

/// Rows whose logits are in memory at a time where only [`Decoder::each_logits`] reads them: enough to pay for a pass over
/// the head's weights, and few beside the weights of a large vocabulary; whole groups of the products.
pub const LOGITS_BESIDE: usize = 126;

/// A decoder-only transformer.
pub trait Decoder: Send + Sync {
    /// Its configuration.
    fn config(&self) -> &ModelConfig;

    /// Number format of weights and caches.
    fn dtype(&self) -> DType;

    /// Device of weights and caches.
    fn device(&self) -> &Device;

    /// Runs `ids` (length n) through the model, layer by layer in query tiles and row blocks; memory is never n x n.
    /// `on_layer` sees every layer's state as soon as it is complete.
    ///
    /// # Errors
    /// An empty prompt, one beyond the position table, or a failing tensor operation.
    fn prefill_with(
        &self,
        ids: &[u32],
        options: PrefillOptions<'_>,
        on_layer: &mut dyn FnMut(usize, &LayerState),
    ) -> Result<Prefill, ModelError>;

    /// [`Decoder::prefill_with`] with nothing but what scorers need.
    ///
    /// # Errors
    /// As [`Decoder::prefill_with`].
    fn prefill(
        &self,
        ids: &[u32],
        needs: Needs,
        on_layer: &mut dyn FnMut(usize, &LayerState),
    ) -> Result<Prefill, ModelError> {
        let options = PrefillOptions {
            needs,
            ..PrefillOptions::default()
        };
        self.prefill_with(ids, options, on_layer)
    }

    /// Feeds `tokens` after the prompt to every variant of its cache at once and gives the hidden states after each.
    /// The first branch is the reference, from layer 0. With `reread` the first token is the prompt's last one, read
    /// again at its own position against the variant's cache and not appended. `on_layer` hears how many layers are done.
    /// A variant whose cache equals the reference's gives the same bits as the reference.
    ///
    /// # Errors
    /// No token, no reference, a layer or direction that is not there, a direction of another shape than the values,
    /// positions beyond the table, or a failing tensor operation.
    fn force(
        &self,
        variants: Variants<'_>,
        tokens: &[u32],
        reread: bool,
        on_layer: &mut dyn FnMut(usize),
    ) -> Result<Forced, ModelError>;

    /// Bytes of the weights as they are kept.
    fn weight_bytes(&self) -> u64;

    /// Logits of hidden states, `[tokens, hidden]` to `[tokens, vocab]`; a row does not depend on the rows beside it.
    fn logits(&self, states: &[f32]) -> Vec<f32>;

    /// The rows of [`Decoder::logits`] with their numbers, each `[vocab]` and free to be changed, in any order and on
    /// several threads; [`LOGITS_BESIDE`] of them are in memory at a time.
    fn each_logits(&self, states: &[f32], visit: &(dyn Fn(usize, &mut [f32]) + Sync));

    /// Feeds some tokens to every row, one after the other, and returns the logits after each, `[all tokens, vocab]`, row
    /// after row. The bits are those of feeding each token by itself, whatever the row's company.
    ///
    /// # Errors
    /// Not as many runs of tokens as rows, a position beyond the table, or a failing tensor operation.
    fn feed(&self, rows: &mut [&mut DecodeRow], tokens: &[&[u32]]) -> Result<Vec<f32>, ModelError>;

    /// Feeds one token to every row and returns the logits after it, one `[vocab]` f32 tensor a row.
    /// A row's result does not depend on its company.
    ///
    /// # Errors
    /// As [`Decoder::feed`].
    fn step(&self, rows: &mut [&mut DecodeRow], tokens: &[u32]) -> Result<Vec<Tensor>, ModelError> {
        let logits = self.feed(rows, &tokens.chunks(1).collect::<Vec<_>>())?;
        Ok(logits
            .chunks_exact(self.config().vocab_size)
            .map(|logits| Tensor::new(logits, self.device()))
            .collect::<candle_core::Result<_>>()?)
    }
}

/// Loads a decoder of one architecture.
pub type LoadDecoder = fn(&dyn Weights, DType, &Device) -> Result<Box<dyn Decoder>, ModelError>;

/// One line of [`crate::ARCHITECTURES`].
#[derive(Debug, Clone, Copy)]
pub struct ArchitectureInfo {
    /// Name in `config.json` (`model_type`) and GGUF (`general.architecture`).
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Loads the weights.
    pub load: LoadDecoder,
    /// Bytes of the weights when they are loaded.
    pub kept_bytes: fn(&dyn Weights, DType) -> u64,
}
