//! Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU, tied or untied head.
//! Follows transformers' `modeling_llama.py`; the cache belongs to the caller. Runs on the CPU: weights with
//! the values that the spec says (f32, f16, bf16), kept as small as the file has them; everything else in f32.

mod force;
mod layer;
mod prefill;
mod step;

use candle_core::{DType, Device};
use ripplekv_cache::LayerState;

use crate::decoder::{
    ArchitectureInfo, DecodeRow, Decoder, Forced, LOGITS_BESIDE, Prefill, PrefillOptions, Variants,
};
use crate::kernels::{Panels, ROWS};
use crate::rope::Rope;
use crate::{Form, ModelConfig, ModelError, Weights};
use layer::Layer;

pub(super) const INFO: ArchitectureInfo = ArchitectureInfo {
    name: "llama",
    summary: "RMSNorm, rope, grouped-query attention, SwiGLU",
    load: |weights, dtype, device| Ok(Box::new(Llama::load(weights, dtype, device)?)),
    kept_bytes,
};

/// Positions behind the context length that generation may reach.
const POSITIONS_BEYOND_CONTEXT: usize = 1024;

struct Llama {
    config: ModelConfig,
    dtype: DType,
    device: Device,
    embedding: Panels,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    /// `None` where the embedding is the head.
    head: Option<Panels>,
    rope: Rope,
}

fn failure(message: String) -> ModelError {
    candle_core::Error::Msg(message).into()
}

/// Matrices that are multiplied as one: names and outputs of the parts, and the inputs of each.
struct Fused {
    parts: Vec<(String, usize)>,
    inputs: usize,
}

impl Fused {
    fn new(parts: &[(String, usize)], inputs: usize) -> Self {
        Self {
            parts: parts.to_vec(),
            inputs,
        }
    }

    /// As [`Panels::new`] keeps it.
    fn kept_bytes(&self, weights: &dyn Weights, dtype: DType) -> u64 {
        let mut forms = self.parts.iter().map(|(name, _)| weights.form(name, dtype));
        let first = forms.next().unwrap_or(Form::Numbers(dtype));
        let outputs = self.parts.iter().map(|(_, outputs)| outputs).sum();
        Panels::bytes_in(
            match forms.all(|form| form == first) {
                true => first,
                false => Form::Numbers(DType::F32),
            },
            outputs,
            self.inputs,
        )
    }
}

/// The embedding, and the head where it is another matrix.
fn vocabularies(config: &ModelConfig) -> Vec<Fused> {
    let names = match config.tied_head {
        true => &["model.embed_tokens.weight"][..],
        false => &["model.embed_tokens.weight", "lm_head.weight"],
    };
    let matrix = |name: &&str| {
        Fused::new(
            &[((*name).to_owned(), config.vocab_size)],
            config.hidden_size,
        )
    };
    names.iter().map(matrix).collect()
}

/// Queries with keys and values, output projection, gate with up, down.
fn of_layer(config: &ModelConfig, index: usize) -> [Fused; 4] {
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    let query = config.heads * config.head_dim;
    let key_value = config.kv_heads * config.head_dim;
    let part =
        |name: &str, outputs: usize| (format!("model.layers.{index}.{name}.weight"), outputs);
    let projections = [
        part("self_attn.q_proj", query),
        part("self_attn.k_proj", key_value),
        part("self_attn.v_proj", key_value),
    ];
    let gate_up = [part("mlp.gate_proj", inner), part("mlp.up_proj", inner)];
    [
        Fused::new(&projections, hidden),
        Fused::new(&[part("self_attn.o_proj", hidden)], query),
        Fused::new(&gate_up, hidden),
        Fused::new(&[part("mlp.down_proj", hidden)], inner),
    ]
}

/// See [`ArchitectureInfo::kept_bytes`].
fn kept_bytes(weights: &dyn Weights, dtype: DType) -> u64 {
    let config = weights.config();
    let layers = (0..config.layers).flat_map(|index| of_layer(config, index));
    let matrices = vocabularies(config).into_iter().chain(layers);
    let matrices: u64 = matrices.map(|fused| fused.kept_bytes(weights, dtype)).sum();
    let norms = (2 * config.layers + 1) * config.hidden_size;
    matrices + (norms * size_of::<f32>()) as u64
}

impl Llama {
    fn load(weights: &dyn Weights, dtype: DType, device: &Device) -> Result<Self, ModelError> {
        if !device.is_cpu() {
            return Err(failure(format!(
                "models run on the cpu, not on {:?}\nhint: leave --device out",
                device.location()
            )));
        }
        let config = weights.config().clone();
        let hidden = config.hidden_size;
        let vector = |name: &str| -> Result<Vec<f32>, ModelError> {
            Ok(weights
                .tensor(name, &[hidden], DType::F32, device)?
                .to_vec1::<f32>()?)
        };
        // one tensor at a time is in memory beside its panels
        let matrix = |fused: &Fused| -> Result<Panels, ModelError> {
            let Fused { parts, inputs } = fused;
            let parts = parts
                .iter()
                .map(|(name, outputs)| weights.matrix(name, [*outputs, *inputs], dtype, device))
                .collect::<Result<Vec<_>, _>>()?;
            Ok(Panels::new(&parts)?)
        };
        // the largest first, while there is nothing beside it
        let vocabularies = vocabularies(&config);
        let embedding = matrix(&vocabularies[0])?;
        let head = vocabularies.get(1).map(matrix).transpose()?;
        let layers = (0..config.layers)
            .map(|index| {
                let name = |part: &str| format!("model.layers.{index}.{part}.weight");
                let [projections, output, gate_up, down] = of_layer(&config, index);
                Ok(Layer {
                    input_norm: vector(&name("input_layernorm"))?,
                    projections: matrix(&projections)?,
                    output: matrix(&output)?,
                    post_norm: vector(&name("post_attention_layernorm"))?,
                    gate_up: matrix(&gate_up)?,
                    down: matrix(&down)?,
                })
            })
            .collect::<Result<Vec<_>, ModelError>>()?;
        let positions = config.context_length + POSITIONS_BEYOND_CONTEXT;
        Ok(Self {
            norm: vector("model.norm.weight")?,
            rope: Rope::new(&config, positions),
            dtype,
            device: device.clone(),
            embedding,
            layers,
            head,
            config,
        })
    }

    fn scale(&self) -> f32 {
        1.0 / (self.config.head_dim as f32).sqrt()
    }

    /// Hidden states of token ids, `[ids, hidden]`.
    fn embed(&self, ids: &[u32]) -> Result<Vec<f32>, ModelError> {
        let (vocabulary, hidden) = (self.config.vocab_size, self.config.hidden_size);
        if let Some(id) = ids.iter().find(|id| **id as usize >= vocabulary) {
            return Err(failure(format!(
                "token id {id} is outside the model's vocabulary of {vocabulary}"
            )));
        }
        let mut states = vec![0.0; ids.len() * hidden];
        for (id, state) in ids.iter().zip(states.chunks_exact_mut(hidden)) {
            self.embedding.read_output(*id as usize, state);
        }
        Ok(states)
    }

    fn check_positions(&self, last: usize) -> Result<(), ModelError> {
        if last < self.rope.positions() {
            return Ok(());
        }
        Err(failure(format!(
            "position {last} is beyond the model's {} positions",
            self.rope.positions()
        )))
    }

    fn head(&self) -> &Panels {
        self.head.as_ref().unwrap_or(&self.embedding)
    }

    /// Logits of hidden states `[rows, hidden]`: `[rows, vocab]`, each row as if alone.
    fn row_logits(&self, states: &[f32]) -> Vec<f32> {
        let mut logits = Vec::new();
        let mut few = self.few();
        few.normed(states, &self.norm, self.head(), &mut logits);
        logits
    }

    /// The same rows, handed over one by one while they are in a core's cache.
    fn each_row_logits(&self, states: &[f32], visit: &(dyn Fn(usize, &mut [f32]) + Sync)) {
        let hidden = self.config.hidden_size;
        let rows = states.len() / hidden;
        let beside = rows
            .div_ceil(rows.div_ceil(LOGITS_BESIDE).max(1))
            .next_multiple_of(ROWS)
            .max(ROWS);
        let mut few = self.few();
        for (piece, states) in states.chunks(beside * hidden).enumerate() {
            few.each_normed(states, &self.norm, self.head(), |row, logits| {
                visit(piece * beside + row, logits);
            });
        }
    }
}

impl Decoder for Llama {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn dtype(&self) -> DType {
        self.dtype
    }

    fn weight_bytes(&self) -> u64 {
        let layers = self.layers.iter().map(Layer::bytes);
        let vocabularies = [Some(&self.embedding), self.head.as_ref()];
        let vocabularies = vocabularies.into_iter().flatten().map(Panels::bytes);
        layers.chain(vocabularies).sum::<u64>() + size_of_val(&self.norm[..]) as u64
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
        self.prefill_layers(ids, options, on_layer)
    }

    fn force(
        &self,
        variants: Variants<'_>,
        tokens: &[u32],
        reread: bool,
        on_layer: &mut dyn FnMut(usize),
    ) -> Result<Forced, ModelError> {
        self.force_variants(variants, tokens, reread, on_layer)
    }

    fn logits(&self, states: &[f32]) -> Vec<f32> {
        self.row_logits(states)
    }

    fn each_logits(&self, states: &[f32], visit: &(dyn Fn(usize, &mut [f32]) + Sync)) {
        self.each_row_logits(states, visit);
    }

    fn feed(&self, rows: &mut [&mut DecodeRow], tokens: &[&[u32]]) -> Result<Vec<f32>, ModelError> {
        if rows.len() != tokens.len() {
            return Err(failure(format!(
                "{} rows but tokens for {}",
                rows.len(),
                tokens.len()
            )));
        }
        if tokens.iter().all(|tokens| tokens.is_empty()) {
            return Ok(Vec::new());
        }
        // inside the pool from the first product to the last: a thread outside it waits for a wake-up at each
        rayon::scope(|_| self.step_rows(rows, tokens))
    }
}
