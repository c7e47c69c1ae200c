//! Attention of a prompt's last queries over its cached entries: what SnapKV votes with, and its entropy.

use candle_core::{D, DType, Tensor};
use rayon::prelude::*;

use crate::{CacheError, LayerState};

/// Shannon entropy, in nats, of the attention of the last `window` queries over the prompt, mean over heads and queries.
/// A `window` above n means all n queries.
///
/// # Errors
/// When the layer stores fewer window queries, or a tensor operation fails.
pub fn window_entropy(layer: &LayerState, window: usize) -> Result<f64, CacheError> {
    let (_, prompt_tokens, _) = layer.keys.dims3()?;
    let attention = window_attention(layer, window.min(prompt_tokens))?
        .flatten_all()?
        .to_vec1::<f32>()?;
    // summed in row order, whatever thread did which row
    let entropies: Vec<f64> = attention
        .par_chunks(prompt_tokens)
        .map(|row| {
            row.iter()
                .filter(|share| **share > 0.0)
                .map(|&share| -f64::from(share) * libm::log(f64::from(share)))
                .sum()
        })
        .collect();
    Ok(entropies.iter().sum::<f64>() / entropies.len() as f64)
}

/// Attention of the last `window` queries to every prompt entry, `[heads, window, n]`, softmax in f32 over all n with the
/// causal mask inside the window.
///
/// # Errors
/// When fewer queries are stored, or a tensor operation fails.
pub(crate) fn window_attention(layer: &LayerState, window: usize) -> Result<Tensor, CacheError> {
    let (kv_heads, prompt_tokens, head_dim) = layer.keys.dims3()?;
    let missing = |have| CacheError::MissingQueries { have, want: window };
    let stored = layer.window_queries.as_ref().ok_or_else(|| missing(0))?;
    let (heads, have, _) = stored.dims3()?;
    if have < window {
        return Err(missing(have));
    }
    let group = heads / kv_heads;
    let queries = stored
        .narrow(1, have - window, window)?
        .to_dtype(DType::F32)?
        .contiguous()?
        .reshape((kv_heads, group * window, head_dim))?;
    let keys = layer.keys.to_dtype(DType::F32)?;
    let scale = 1.0 / (head_dim as f64).sqrt();
    let logits = (queries.matmul(&keys.t()?)? * scale)?.reshape((heads, window, prompt_tokens))?;
    let logits = logits.broadcast_add(&window_mask(window, prompt_tokens, logits.device())?)?;
    let shifted = logits
        .broadcast_sub(&logits.max_keepdim(D::Minus1)?)?
        .exp()?;
    Ok(shifted.broadcast_div(&shifted.sum_keepdim(D::Minus1)?)?)
}

/// 0 where the query of the window may look, minus infinity where the entry comes after it; `[window, n]`.
fn window_mask(
    window: usize,
    prompt_tokens: usize,
    device: &candle_core::Device,
) -> candle_core::Result<Tensor> {
    let first = prompt_tokens - window;
    let values: Vec<f32> = (0..window)
        .flat_map(|query| {
            (0..prompt_tokens).map(move |entry| {
                if entry <= first + query {
                    0.0
                } else {
                    f32::NEG_INFINITY
                }
            })
        })
        .collect();
    Tensor::from_vec(values, (window, prompt_tokens), device)
}
