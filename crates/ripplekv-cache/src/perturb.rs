//! Norm-adaptive noise on a layer's values, the probe of the sensitivity profile (arXiv 2608.08684, design.md 5):
//! V'_j = V_j + sigma * norm_j / sqrt(d) * g_j with g_j ~ N(0, I_d), per KV head and position.
//! Every number depends on its key alone (seed, sample, layer, pair, head, position, channel): any thread count and order
//! give the same bits.

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;

use crate::CacheError;
use crate::normal::fill_normal;

/// Positions at the start and at the end of a prompt that no method evicts: the sinks and SnapKV's window.
const FIRST_EVICTABLE: usize = 4;
const LAST_KEPT: usize = 64;

/// Rows that one thread takes at a time at least.
const ROWS_A_TASK: usize = 64;

/// Length that the noise of a value vector is proportional to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NoiseNorm {
    /// The vector's own Euclidean norm.
    #[default]
    Token,
    /// Root mean square of the norms of all prompt tokens of the KV head.
    Head,
    /// Root mean square of the norms of all prompt tokens of all KV heads of the layer.
    Layer,
}

/// Which prompt positions get noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NoisePositions {
    /// Every one.
    #[default]
    All,
    /// Neither the first 4 nor the last 64; none in a prompt of at most 68 tokens.
    Evictable,
}

/// Which noise: equal keys give equal noise on equal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoiseKey<'a> {
    /// Seed of the profile.
    pub seed: u64,
    /// Name of the calibration sample.
    pub sample: &'a str,
    /// Layer.
    pub layer: usize,
    /// k of the antithetic pair: draw 2k adds the noise, draw 2k + 1 subtracts it.
    pub pair: usize,
}

impl NoiseKey<'_> {
    /// The generator's key; head, position and channel are its counter.
    fn generator_key(&self) -> [u32; 2] {
        let mut hasher = blake3::Hasher::new();
        for number in [self.seed, self.layer as u64, self.pair as u64] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(self.sample.as_bytes());
        let hash = hasher.finalize();
        let word = |at: usize| {
            let bytes = hash.as_bytes();
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        [word(0), word(4)]
    }
}

/// Noise of sigma 1 for the values of one layer, to be used at several sigmas and with both signs.
#[derive(Debug, Clone)]
pub struct Noise {
    /// norm_j / sqrt(d) * g_j in f32, `[kv_heads, touched, head_dim]`.
    unit: Vec<f32>,
    /// Of the values that it was drawn for.
    shape: [usize; 3],
    /// Positions that are touched.
    touched: usize,
    /// The first of them.
    first: usize,
}

impl Noise {
    /// Draws the noise for `values`, `[kv_heads, n, head_dim]`.
    ///
    /// # Errors
    /// When `values` does not have three dimensions, or a tensor operation fails.
    pub fn draw(
        key: &NoiseKey<'_>,
        values: &Tensor,
        norm: NoiseNorm,
        positions: NoisePositions,
    ) -> Result<Self, CacheError> {
        let (kv_heads, prompt_tokens, head_dim) = values.dims3()?;
        let first = match positions {
            NoisePositions::All => 0,
            NoisePositions::Evictable => FIRST_EVICTABLE,
        };
        let touched = match positions {
            NoisePositions::All => prompt_tokens,
            NoisePositions::Evictable => prompt_tokens.saturating_sub(FIRST_EVICTABLE + LAST_KEPT),
        };
        let norms = lengths(values, norm)?;
        let generator_key = key.generator_key();
        let mut unit = vec![0.0f32; kv_heads * touched * head_dim];
        if !unit.is_empty() {
            unit.par_chunks_mut(head_dim)
                .with_min_len(ROWS_A_TASK)
                .enumerate()
                .for_each(|(row, channels)| {
                    let (head, position) = (row / touched, first + row % touched);
                    let length = norms[head * prompt_tokens + position];
                    let scale = (length / (head_dim as f64).sqrt()) as f32;
                    fill_normal(
                        channels,
                        scale,
                        [position as u32, head as u32],
                        generator_key,
                    );
                });
        }
        Ok(Self {
            unit,
            shape: [kv_heads, prompt_tokens, head_dim],
            touched,
            first,
        })
    }

    /// The noise as a direction in which the values that it was drawn for may be moved, `[kv_heads, n, head_dim]` in f32:
    /// 0 at positions without noise.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn direction(self, device: &Device) -> Result<Tensor, CacheError> {
        let [kv_heads, prompt_tokens, head_dim] = self.shape;
        let of_head = prompt_tokens * head_dim;
        let numbers = if self.touched == prompt_tokens {
            self.unit
        } else {
            let mut numbers = vec![0.0; kv_heads * of_head];
            let touched = self.touched * head_dim;
            for (head, numbers) in numbers.chunks_exact_mut(of_head).enumerate() {
                numbers[self.first.min(prompt_tokens) * head_dim..][..touched]
                    .copy_from_slice(&self.unit[head * touched..][..touched]);
            }
            numbers
        };
        Ok(Tensor::from_vec(numbers, &self.shape, device)?)
    }

    /// Number of positions that get noise.
    #[must_use]
    pub fn touched_positions(&self) -> usize {
        self.touched
    }

    /// `values` with this noise times `signed_sigma`, in the values' own number format; the values it was drawn for,
    /// `[kv_heads, n, head_dim]`. Sigma 0 and positions without noise keep every bit.
    ///
    /// # Errors
    /// When the shapes differ, or a tensor operation fails.
    pub fn perturbed(&self, values: &Tensor, signed_sigma: f64) -> Result<Tensor, CacheError> {
        let (_, prompt_tokens, head_dim) = values.dims3()?;
        let touched = self.touched;
        if signed_sigma == 0.0 || touched == 0 {
            return Ok(values.clone());
        }
        let signed_sigma = signed_sigma as f32;
        let mut noisy = flat(values)?;
        noisy
            .par_chunks_mut(prompt_tokens * head_dim)
            .zip(self.unit.par_chunks(touched * head_dim))
            .for_each(|(values, unit)| {
                let touched = values[self.first * head_dim..].iter_mut().zip(unit);
                for (value, unit) in touched {
                    *value += unit * signed_sigma;
                }
            });
        Ok(Tensor::from_vec(noisy, values.shape(), values.device())?.to_dtype(values.dtype())?)
    }
}

/// `[kv_heads, n, head_dim]` row by row, in f32.
fn flat(values: &Tensor) -> Result<Vec<f32>, CacheError> {
    Ok(values.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
}

/// Length that the noise of each vector is proportional to, `[kv_heads, n]` row-major.
fn lengths(values: &Tensor, norm: NoiseNorm) -> Result<Vec<f64>, CacheError> {
    let (_, prompt_tokens, head_dim) = values.dims3()?;
    let squares: Vec<f64> = flat(values)?
        .par_chunks(head_dim)
        .with_min_len(ROWS_A_TASK)
        .map(square)
        .collect();
    let group = match norm {
        NoiseNorm::Token => 1,
        NoiseNorm::Head => prompt_tokens,
        NoiseNorm::Layer => squares.len(),
    };
    Ok(squares
        .chunks(group.max(1))
        .flat_map(|group| {
            let mean = group.iter().sum::<f64>() / group.len() as f64;
            std::iter::repeat_n(mean.sqrt(), group.len())
        })
        .collect())
}

/// Squared Euclidean norm, in sums beside each other, which a processor adds at the same time.
fn square(vector: &[f32]) -> f64 {
    let mut sums = [0.0f64; 8];
    for values in vector.chunks(sums.len()) {
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += f64::from(*value) * f64::from(*value);
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests;
