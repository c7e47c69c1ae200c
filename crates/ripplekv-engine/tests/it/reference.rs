//! A second, naive llama: whole sequence at once, an explicit n x n mask per layer and head, no cache, no tiles.
//! Shares with the real one only the reading of weights.

use candle_core::{D, DType, Device, Tensor};
use ripplekv_cache::KeptLayer;
use ripplekv_model::{ModelConfig, Weights};

/// Which prompt entries each layer and KV head may see once the prompt is over.
pub(crate) struct Visible<'a> {
    pub(crate) prompt_tokens: usize,
    pub(crate) kept: &'a [KeptLayer],
}

fn rms_norm(states: &Tensor, weight: &Tensor, epsilon: f64) -> Tensor {
    let variance = states.sqr().unwrap().mean_keepdim(D::Minus1).unwrap();
    let scaled = states
        .broadcast_div(&(variance + epsilon).unwrap().sqrt().unwrap())
        .unwrap();
    scaled.broadcast_mul(weight).unwrap()
}

fn rope(states: &Tensor, config: &ModelConfig) -> Tensor {
    let (_, seq, head_dim) = states.dims3().unwrap();
    let half = head_dim / 2;
    let mut cos = Vec::new();
    let mut sin = Vec::new();
    for position in 0..seq {
        for channel in 0..head_dim {
            let pair = channel % half;
            // f32 as in transformers: the table is part of the model's definition
            let exponent = (2 * pair) as f32 / head_dim as f32;
            let angle = position as f32 * (1.0 / config.rope_theta.powf(exponent));
            cos.push(angle.cos());
            sin.push(angle.sin());
        }
    }
    let table = |values| Tensor::from_vec(values, (seq, head_dim), &Device::Cpu).unwrap();
    let first = states.narrow(2, 0, half).unwrap();
    let second = states.narrow(2, half, half).unwrap();
    let rotated = Tensor::cat(&[second.neg().unwrap(), first], 2).unwrap();
    (states.broadcast_mul(&table(cos)).unwrap() + rotated.broadcast_mul(&table(sin)).unwrap())
        .unwrap()
}

fn mask(seq: usize, head: usize, layer: usize, visible: &Visible<'_>) -> Tensor {
    let mut values = vec![f32::NEG_INFINITY; seq * seq];
    let kept = &visible.kept[layer][head];
    for query in 0..seq {
        for key in 0..=query {
            let in_prompt = key < visible.prompt_tokens;
            let after_prompt = query >= visible.prompt_tokens;
            if !(after_prompt && in_prompt) || kept.binary_search(&(key as u32)).is_ok() {
                values[query * seq + key] = 0.0;
            }
        }
    }
    Tensor::from_vec(values, (seq, seq), &Device::Cpu).unwrap()
}

/// Logits of every position, `[seq, vocab]`, for a model without rope scaling.
pub(crate) fn logits(weights: &dyn Weights, ids: &[u32], visible: &Visible<'_>) -> Tensor {
    let config = weights.config();
    let (hidden, inner, head_dim) = (
        config.hidden_size,
        config.intermediate_size,
        config.head_dim,
    );
    let query_size = config.heads * head_dim;
    let key_size = config.kv_heads * head_dim;
    let group = config.heads / config.kv_heads;
    let get = |name: &str, shape: &[usize]| {
        weights
            .tensor(name, shape, DType::F32, &Device::Cpu)
            .unwrap()
    };
    let epsilon = f64::from(config.rms_norm_eps);
    let embedding = get("model.embed_tokens.weight", &[config.vocab_size, hidden]);
    let mut states = embedding
        .index_select(&Tensor::new(ids, &Device::Cpu).unwrap(), 0)
        .unwrap();
    for layer in 0..config.layers {
        let part = |name: &str, shape: &[usize]| {
            get(&format!("model.layers.{layer}.{name}.weight"), shape)
        };
        let apply = |x: &Tensor, name: &str, shape: &[usize]| {
            x.matmul(&part(name, shape).t().unwrap()).unwrap()
        };
        let split = |x: Tensor, heads: usize| {
            x.reshape((ids.len(), heads, head_dim))
                .unwrap()
                .transpose(0, 1)
                .unwrap()
                .contiguous()
                .unwrap()
        };
        let normed = rms_norm(&states, &part("input_layernorm", &[hidden]), epsilon);
        let queries = rope(
            &split(
                apply(&normed, "self_attn.q_proj", &[query_size, hidden]),
                config.heads,
            ),
            config,
        );
        let keys = rope(
            &split(
                apply(&normed, "self_attn.k_proj", &[key_size, hidden]),
                config.kv_heads,
            ),
            config,
        );
        let values = split(
            apply(&normed, "self_attn.v_proj", &[key_size, hidden]),
            config.kv_heads,
        );
        let heads: Vec<Tensor> = (0..config.heads)
            .map(|head| {
                let kv_head = head / group;
                let scores = queries
                    .get(head)
                    .unwrap()
                    .matmul(&keys.get(kv_head).unwrap().t().unwrap())
                    .unwrap();
                let scores = (scores / (head_dim as f64).sqrt()).unwrap();
                let masked = (scores + mask(ids.len(), kv_head, layer, visible)).unwrap();
                candle_nn::ops::softmax(&masked, D::Minus1)
                    .unwrap()
                    .matmul(&values.get(kv_head).unwrap())
                    .unwrap()
            })
            .collect();
        let mixed = Tensor::cat(&heads, 1).unwrap();
        states = (states + apply(&mixed, "self_attn.o_proj", &[hidden, query_size])).unwrap();
        let normed = rms_norm(
            &states,
            &part("post_attention_layernorm", &[hidden]),
            epsilon,
        );
        let gate = apply(&normed, "mlp.gate_proj", &[inner, hidden])
            .silu()
            .unwrap();
        let up = apply(&normed, "mlp.up_proj", &[inner, hidden]);
        states =
            (states + apply(&(gate * up).unwrap(), "mlp.down_proj", &[hidden, inner])).unwrap();
    }
    let states = rms_norm(&states, &get("model.norm.weight", &[hidden]), epsilon);
    let head = match config.tied_head {
        true => embedding,
        false => get("lm_head.weight", &[config.vocab_size, hidden]),
    };
    states.matmul(&head.t().unwrap()).unwrap()
}
