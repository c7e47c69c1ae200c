//! Attention of a prompt's last queries over its cached entries: what SnapKV votes with, and its entropy.

use candle_core::{CpuStorage, DType, Storage};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::exponential::exp2;
use crate::{CacheError, LayerState};

/// Shannon entropy, in nats, of the attention of the last `window` queries over the prompt, mean over heads and queries.
/// A `window` above n means all n queries.
///
/// # Errors
/// When the layer stores fewer window queries, or a tensor operation fails.
pub fn window_entropy(layer: &LayerState, window: usize) -> Result<f64, CacheError> {
    let (_, prompt_tokens, _) = layer.keys.dims3()?;
    let window = window.min(prompt_tokens);
    // summed in the order of heads and queries, whatever thread did which
    let entropies = by_head(layer, window, |rows| {
        let mut scratch = Vec::new();
        let each = rows.map(|row| row.softmax(&mut scratch).entropy);
        each.collect::<Vec<f64>>()
    })?;
    let sum: f64 = entropies.iter().flatten().sum();
    Ok(sum / (entropies.len() * window) as f64)
}

/// Mean over the last `window` queries of their attention to every prompt entry, `[heads][n]`, softmax in f32 over all n
/// with the causal mask inside the window.
///
/// # Errors
/// When fewer queries are stored, or a tensor operation fails.
pub(crate) fn mean_window_attention(
    layer: &LayerState,
    window: usize,
) -> Result<Vec<Vec<f32>>, CacheError> {
    let (_, prompt_tokens, _) = layer.keys.dims3()?;
    by_head(layer, window, |rows| {
        let mut mean = vec![0.0f32; prompt_tokens];
        let mut scratch = Vec::new();
        for row in rows {
            let factor = 1.0 / (row.softmax(&mut scratch).total * window as f32);
            for (mean, weight) in mean.iter_mut().zip(&scratch) {
                *mean += weight * factor;
            }
        }
        mean
    })
}

/// One query's logits in base 2 before scaling.
struct Row<'a> {
    /// What the query sees.
    logits: &'a [f32],
    scale: f32,
}

/// What [`Row::softmax`] found besides the weights.
struct Weighed {
    /// Sum of the weights.
    total: f32,
    /// Shannon entropy of the distribution in nats.
    entropy: f64,
}

impl Row<'_> {
    /// Writes the weights relative to the largest to `weights`.
    fn softmax(&self, weights: &mut Vec<f32>) -> Weighed {
        weights.clear();
        weights.extend_from_slice(self.logits);
        pulp::Arch::new().dispatch(Softmax {
            weights,
            scale: self.scale,
        })
    }
}

/// See [`Row::softmax`].
struct Softmax<'a> {
    /// Logits, to become weights.
    weights: &'a mut [f32],
    scale: f32,
}

impl WithSimd for Softmax<'_> {
    type Output = Weighed;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Weighed {
        let (body, tail) = S::as_mut_simd_f32s(self.weights);
        let mut most = simd.splat_f32s(f32::NEG_INFINITY);
        for logit in &*body {
            most = simd.max_f32s(most, *logit);
        }
        let most = tail
            .iter()
            .fold(simd.reduce_max_f32s(most), |most, logit| most.max(*logit));
        let factor = simd.splat_f32s(self.scale);
        let shift = simd.splat_f32s(-most * self.scale);
        let mut total = simd.splat_f32s(0.0);
        let mut products = simd.splat_f32s(0.0);
        for value in body {
            let exponent = simd.mul_add_f32s(*value, factor, shift);
            *value = exp2(simd, exponent);
            total = simd.add_f32s(total, *value);
            products = simd.mul_add_f32s(*value, exponent, products);
        }
        let mut total = simd.reduce_sum_f32s(total);
        let mut products = simd.reduce_sum_f32s(products);
        if !tail.is_empty() {
            let exponents = simd.mul_add_f32s(simd.partial_load_f32s(tail), factor, shift);
            simd.partial_store_f32s(tail, exponents);
            let mut weights = [0.0; 16];
            let weights = &mut weights[..tail.len()];
            simd.partial_store_f32s(weights, exp2(simd, exponents));
            for (exponent, weight) in tail.iter_mut().zip(weights) {
                total += *weight;
                products += *weight * *exponent;
                *exponent = *weight;
            }
        }
        // -sum p log p with p = 2^x / total
        let bits = libm::log2(f64::from(total)) - f64::from(products) / f64::from(total);
        Weighed {
            total,
            entropy: bits * std::f64::consts::LN_2,
        }
    }
}

/// What `reduce` makes of the rows of each query head, in order; rows from the first query of the window to the last.
fn by_head<T: Send>(
    layer: &LayerState,
    window: usize,
    reduce: impl Fn(&mut dyn Iterator<Item = Row<'_>>) -> T + Sync,
) -> Result<Vec<T>, CacheError> {
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
    let scale = std::f32::consts::LOG2_E / (head_dim as f32).sqrt();
    let mut reduced = Vec::with_capacity(heads);
    // a KV head at a time, so that memory stays at group * window rows
    for kv_head in 0..kv_heads {
        let logits = queries.get(kv_head)?.matmul(&keys.get(kv_head)?.t()?)?;
        let (storage, layout) = logits.storage_and_layout();
        let (Storage::Cpu(CpuStorage::F32(values)), Some((start, end))) =
            (&*storage, layout.contiguous_offsets())
        else {
            return Err(candle_core::Error::Msg("scores run on the cpu".to_owned()).into());
        };
        let of_heads: Vec<T> = values[start..end]
            .par_chunks(window * prompt_tokens)
            .map(|rows| {
                let mut rows = rows.chunks_exact(prompt_tokens).enumerate();
                let mut rows = rows.by_ref().map(|(query, logits)| Row {
                    logits: &logits[..prompt_tokens - window + query + 1],
                    scale,
                });
                reduce(&mut rows)
            })
            .collect();
        reduced.extend(of_heads);
    }
    Ok(reduced)
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor};

    use super::*;

    fn layer(queries: &Tensor, keys: &Tensor) -> LayerState {
        LayerState {
            keys: keys.clone(),
            values: keys.clone(),
            window_queries: Some(queries.clone()),
            column_sums: None,
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
