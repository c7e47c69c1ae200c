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

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    fn layer(queries: &Tensor, keys: &Tensor) -> LayerState {
        LayerState {
            keys: keys.clone(),
            values: keys.clone(),
            window_queries: Some(queries.clone()),
        }
    }

    #[test]
    fn entropy_of_flat_and_of_known_attention() {
        let (heads, kv_heads, n, d, window) = (4, 2, 10, 3, 3);
        let device = Device::Cpu;
        let zeros = Tensor::zeros((heads, window, d), DType::F32, &device).unwrap();
        let keys: Vec<f32> = (0..kv_heads * n * d)
            .map(|i| (i * 7 % 11) as f32 / 5.0)
            .collect();
        let keys = Tensor::from_vec(keys, (kv_heads, n, d), &device).unwrap();
        // queries of zero attend evenly to the 8, 9 and 10 entries they may see
        let flat = window_entropy(&layer(&zeros, &keys), window).unwrap();
        let expected = (8f64.ln() + 9f64.ln() + 10f64.ln()) / 3.0;
        assert!((flat - expected).abs() < 1e-6, "{flat} {expected}");

        let queries: Vec<f32> = (0..heads * window * d)
            .map(|i| (i * 5 % 13) as f32 / 4.0 - 1.0)
            .collect();
        let queries = Tensor::from_vec(queries, (heads, window, d), &device).unwrap();
        let rows = |tensor: &Tensor| tensor.to_vec3::<f32>().unwrap();
        let (q, k) = (rows(&queries), rows(&keys));
        // the last `used` queries
        for used in [1, 2, 3] {
            let mut expected = 0.0;
            for head in 0..heads {
                for (query, row) in q[head].iter().enumerate().skip(window - used) {
                    let seen = n - window + query + 1;
                    let logits: Vec<f64> = k[head / 2][..seen]
                        .iter()
                        .map(|key| {
                            key.iter()
                                .zip(row)
                                .map(|(a, b)| f64::from(a * b))
                                .sum::<f64>()
                                / (d as f64).sqrt()
                        })
                        .collect();
                    let total: f64 = logits.iter().map(|logit| logit.exp()).sum();
                    expected += logits
                        .iter()
                        .map(|logit| -(logit.exp() / total) * (logit - total.ln()))
                        .sum::<f64>();
                }
            }
            expected /= (heads * used) as f64;
            let entropy = window_entropy(&layer(&queries, &keys), used).unwrap();
            assert!((entropy - expected).abs() < 1e-5, "{entropy} {expected}");
        }
        assert!(matches!(
            window_entropy(&layer(&queries, &keys), 5),
            Err(CacheError::MissingQueries { have: 3, want: 5 })
        ));
    }
}
