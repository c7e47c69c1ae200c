//! Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU, tied or untied head.
//! Follows transformers' `modeling_llama.py`; the cache belongs to the caller.

mod force;

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;
use ripplekv_cache::{LayerState, Snapshot};

use crate::decoder::{
    ArchitectureInfo, Branch, DecodeRow, Decoder, Forced, Prefill, PrefillOptions,
};
use crate::kernels::{Linear, Seen, attend, swiglu};
use crate::rope::Rope;
use crate::{ModelConfig, ModelError, Weights};

pub(super) const INFO: ArchitectureInfo = ArchitectureInfo {
    name: "llama",
    summary: "RMSNorm, rope, grouped-query attention, SwiGLU",
    load: |weights, dtype, device| Ok(Box::new(Llama::load(weights, dtype, device)?)),
};

/// Rows of one feed-forward block.
const ROW_BLOCK: usize = 512;
/// Positions behind the context length that generation may reach.
const POSITIONS_BEYOND_CONTEXT: usize = 1024;

struct Layer {
    input_norm: Tensor,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    post_norm: Tensor,
    gate: Linear,
    up: Linear,
    down: Linear,
}

struct Llama {
    config: ModelConfig,
    dtype: DType,
    device: Device,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Linear,
    rope: Rope,
}

impl Llama {
    fn load(weights: &dyn Weights, dtype: DType, device: &Device) -> Result<Self, ModelError> {
        let config = weights.config().clone();
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let query = config.heads * config.head_dim;
        let key_value = config.kv_heads * config.head_dim;
        let load = |name: &str, shape: &[usize]| weights.tensor(name, shape, dtype, device);
        let layers = (0..config.layers)
            .map(|index| {
                let load = |part: &str, shape: &[usize]| {
                    load(&format!("model.layers.{index}.{part}.weight"), shape)
                };
                let linear = |part: &str, shape: &[usize]| -> Result<Linear, ModelError> {
                    Ok(Linear::new(load(part, shape)?)?)
                };
                Ok(Layer {
                    input_norm: load("input_layernorm", &[hidden])?,
                    query: linear("self_attn.q_proj", &[query, hidden])?,
                    key: linear("self_attn.k_proj", &[key_value, hidden])?,
                    value: linear("self_attn.v_proj", &[key_value, hidden])?,
                    output: linear("self_attn.o_proj", &[hidden, query])?,
                    post_norm: load("post_attention_layernorm", &[hidden])?,
                    gate: linear("mlp.gate_proj", &[inner, hidden])?,
                    up: linear("mlp.up_proj", &[inner, hidden])?,
                    down: linear("mlp.down_proj", &[hidden, inner])?,
                })
            })
            .collect::<Result<Vec<_>, ModelError>>()?;
        let embedding = load("model.embed_tokens.weight", &[config.vocab_size, hidden])?;
        let head = if config.tied_head {
            embedding.clone()
        } else {
            load("lm_head.weight", &[config.vocab_size, hidden])?
        };
        let positions = config.context_length + POSITIONS_BEYOND_CONTEXT;
        Ok(Self {
            norm: load("model.norm.weight", &[hidden])?,
            rope: Rope::new(&config, positions, dtype, device)?,
            dtype,
            device: device.clone(),
            embedding,
            layers,
            head: Linear::new(head)?,
            config,
        })
    }

    fn norm(&self, states: &Tensor, weight: &Tensor) -> candle_core::Result<Tensor> {
        candle_nn::ops::rms_norm(&states.contiguous()?, weight, self.config.rms_norm_eps)
    }

    fn scale(&self) -> f32 {
        1.0 / (self.config.head_dim as f32).sqrt()
    }

    /// `[seq, heads * head_dim]` to `[heads, seq, head_dim]`.
    fn split_heads(&self, states: &Tensor, heads: usize) -> candle_core::Result<Tensor> {
        let (seq, _) = states.dims2()?;
        states
            .reshape((seq, heads, self.config.head_dim))?
            .transpose(0, 1)?
            .contiguous()
    }

    /// Causal attention of the queries at `first..first + seq` over the keys of `0..first + seq`.
    /// `queries`: `[heads, seq, head_dim]`; returns `[seq, heads * head_dim]`.
    fn attention(
        &self,
        queries: &Tensor,
        first: usize,
        layer: &LayerState,
    ) -> candle_core::Result<Tensor> {
        let pieces = [Seen {
            keys: layer.keys.clone(),
            values: layer.values.clone(),
            causal_from: Some(first + 1),
        }];
        attend(queries, &pieces, self.scale())
    }

    /// The feed-forward part with its residual, in row blocks; `[seq, hidden]`.
    fn feed_forward(&self, layer: &Layer, states: &Tensor) -> candle_core::Result<Tensor> {
        let (seq, _) = states.dims2()?;
        let mut blocks = Vec::with_capacity(seq.div_ceil(ROW_BLOCK));
        for start in (0..seq).step_by(ROW_BLOCK) {
            let block = states.narrow(0, start, ROW_BLOCK.min(seq - start))?;
            let normed = self.norm(&block, &layer.post_norm)?;
            let gate = layer.gate.many_rows(&normed)?;
            let inner = swiglu(gate, &layer.up.many_rows(&normed)?)?;
            blocks.push((block + layer.down.many_rows(&inner)?)?);
        }
        Tensor::cat(&blocks, 0)
    }

    /// Logits of `[rows, hidden]`, `[rows, vocab]` in f32, each row as if alone.
    fn row_logits(&self, states: &Tensor) -> candle_core::Result<Tensor> {
        self.head
            .few_rows(&self.norm(states, &self.norm)?)?
            .to_dtype(DType::F32)
    }

    fn embed(&self, ids: &[u32]) -> Result<Tensor, ModelError> {
        let vocabulary = self.config.vocab_size;
        if let Some(id) = ids.iter().find(|id| **id as usize >= vocabulary) {
            return Err(candle_core::Error::Msg(format!(
                "token id {id} is outside the model's vocabulary of {vocabulary}"
            ))
            .into());
        }
        let index = Tensor::new(ids, &self.device)?;
        Ok(self.embedding.index_select(&index, 0)?)
    }

    fn check_positions(&self, last: usize) -> Result<(), ModelError> {
        if last < self.rope.positions() {
            return Ok(());
        }
        Err(candle_core::Error::Msg(format!(
            "position {last} is beyond the model's {} positions",
            self.rope.positions()
        ))
        .into())
    }

    /// One row's attention in one layer: turns its query and key, appends, attends. All inputs `[1, heads * head_dim]`.
    fn attend_row(
        &self,
        row: &mut DecodeRow,
        layer: usize,
        [query, key, value]: [Tensor; 3],
    ) -> candle_core::Result<Tensor> {
        let (heads, kv_heads) = (self.config.heads, self.config.kv_heads);
        let position = row.position();
        let queries = self
            .rope
            .apply(&self.split_heads(&query, heads)?, position)?;
        let keys = self
            .rope
            .apply(&self.split_heads(&key, kv_heads)?, position)?;
        let values = self.split_heads(&value, kv_heads)?;
        let pieces = row
            .extend_layer(layer, &keys, &values)?
            .map(|(keys, values)| Seen {
                keys,
                values,
                causal_from: None,
            });
        attend(&queries, &pieces, self.scale())
    }

    /// One token for every row; `[rows, vocab]`. Everything but attention runs over all rows at once, with kernels
    /// whose rows do not see each other.
    fn step_rows(&self, rows: &mut [&mut DecodeRow], tokens: &[u32]) -> Result<Tensor, ModelError> {
        for row in rows.iter() {
            self.check_positions(row.position())?;
        }
        let mut states = self.embed(tokens)?;
        for (index, layer) in self.layers.iter().enumerate() {
            let normed = self.norm(&states, &layer.input_norm)?;
            let queries = layer.query.few_rows(&normed)?;
            let keys = layer.key.few_rows(&normed)?;
            let values = layer.value.few_rows(&normed)?;
            let attended = rows
                .par_iter_mut()
                .enumerate()
                .map(|(place, row)| {
                    let own = |states: &Tensor| states.narrow(0, place, 1);
                    self.attend_row(row, index, [own(&queries)?, own(&keys)?, own(&values)?])
                })
                .collect::<candle_core::Result<Vec<_>>>()?;
            states = (states + layer.output.few_rows(&Tensor::cat(&attended, 0)?)?)?;
            let normed = self.norm(&states, &layer.post_norm)?;
            let gate = layer.gate.few_rows(&normed)?;
            let inner = swiglu(gate, &layer.up.few_rows(&normed)?)?;
            states = (states + layer.down.few_rows(&inner)?)?;
        }
        for row in rows.iter_mut() {
            row.advance();
        }
        Ok(self.row_logits(&states)?)
    }
}

impl Decoder for Llama {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn dtype(&self) -> DType {
        self.dtype
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn prefill_with(
        &self,
        ids: &[u32],
        options: PrefillOptions<'_>,
        on_layer: &mut dyn FnMut(usize, &LayerState),
    ) -> Result<Prefill, ModelError> {
        let n = ids.len();
        if n == 0 {
            return Err(candle_core::Error::Msg("the prompt has no tokens".to_owned()).into());
        }
        self.check_positions(n - 1)?;
        let window = options.needs.window_queries.min(n);
        let last_layer = self.layers.len() - 1;
        let mut states = self.embed(ids)?;
        let mut snapshot = Vec::with_capacity(self.layers.len());
        let mut hidden_change = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            let normed = self.norm(&states, &layer.input_norm)?;
            let keys = self.rope.apply(
                &self.split_heads(&layer.key.many_rows(&normed)?, self.config.kv_heads)?,
                0,
            )?;
            let mut values =
                self.split_heads(&layer.value.many_rows(&normed)?, self.config.kv_heads)?;
            if let Some(edit) = options.edit_values {
                values = edit(index, values)?;
            }
            // of the last layer only the last position is read on, and the window by scorers
            let is_cut = index == last_layer && !options.hidden_change;
            let read_from = if is_cut { n - 1 } else { 0 };
            let query_from = if is_cut { (n - 1).min(n - window) } else { 0 };
            let rows = normed.narrow(0, query_from, n - query_from)?;
            let queries = self.rope.apply(
                &self.split_heads(&layer.query.many_rows(&rows)?, self.config.heads)?,
                query_from,
            )?;
            drop(normed);
            let window_queries = match window {
                0 => None,
                _ => Some(
                    queries
                        .narrow(1, n - window - query_from, window)?
                        .contiguous()?,
                ),
            };
            let state = LayerState {
                keys,
                values,
                window_queries,
            };
            let read = queries.narrow(1, read_from - query_from, n - read_from)?;
            let attended = self.attention(&read, read_from, &state)?;
            on_layer(index, &state);
            snapshot.push(state);
            let residual = states.narrow(0, read_from, n - read_from)?;
            let middle = (residual + layer.output.many_rows(&attended)?)?;
            let after = self.feed_forward(layer, &middle)?;
            if options.hidden_change {
                hidden_change.push(1.0 - mean_cosine(&states, &after)?);
            }
            states = after;
        }
        let (rows, _) = states.dims2()?;
        let logits = self
            .row_logits(&states.narrow(0, rows - 1, 1)?)?
            .squeeze(0)?;
        Ok(Prefill {
            snapshot: Snapshot {
                layers: snapshot,
                prompt_tokens: n,
            },
            logits,
            hidden_change,
        })
    }

    fn force(
        &self,
        branches: &[Branch],
        tokens: &[u32],
        reread: bool,
        on_layer: &mut dyn FnMut(usize),
    ) -> Result<Forced, ModelError> {
        self.force_branches(branches, tokens, reread, on_layer)
    }

    fn logits(&self, states: &Tensor) -> Result<Tensor, ModelError> {
        let normed = self.norm(states, &self.norm)?;
        Ok(self.head.many_rows(&normed)?.to_dtype(DType::F32)?)
    }

    fn step(&self, rows: &mut [&mut DecodeRow], tokens: &[u32]) -> Result<Vec<Tensor>, ModelError> {
        if rows.len() != tokens.len() {
            return Err(candle_core::Error::Msg(format!(
                "{} rows but {} tokens",
                rows.len(),
                tokens.len()
            ))
            .into());
        }
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let logits = self.step_rows(rows, tokens)?;
        Ok((0..rows.len())
            .map(|row| logits.get(row))
            .collect::<candle_core::Result<_>>()?)
    }
}

/// Mean over rows of the cosine between two `[rows, hidden]` states.
fn mean_cosine(before: &Tensor, after: &Tensor) -> candle_core::Result<f64> {
    let width = before.dims2()?.1;
    let before = before.flatten_all()?.to_vec1::<f32>()?;
    let after = after.flatten_all()?.to_vec1::<f32>()?;
    let mut sum = 0.0f64;
    for (a, b) in before.chunks_exact(width).zip(after.chunks_exact(width)) {
        let dot = |x: &[f32], y: &[f32]| -> f64 {
            x.iter()
                .zip(y)
                .map(|(x, y)| f64::from(*x) * f64::from(*y))
                .sum()
        };
        sum += dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    }
    Ok(sum / (before.len() / width) as f64)
}
