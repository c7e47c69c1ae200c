//! Scaled softmax over rows that may see a prefix of their entries, in place.
//! Follows the attention of transformers: softmax in f32 over the visible entries, sums in a fixed order.

use candle_core::{CpuStorage, DType, InplaceOp1, Layout, Result, Tensor};
use rayon::prelude::*;

use super::exponential::exp;

const LANES: usize = 16;

/// Softmax of `scale * x` over the last dimension of `[batch, group * tile, entries]`.
///
/// Rows are ordered `[group, tile]`; row `t` of the tile sees the first `visible + t` entries, the rest become zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CausalSoftmax {
    /// Factor of the logits, 1 / sqrt(head_dim).
    pub(crate) scale: f32,
    /// Rows of one tile.
    pub(crate) tile: usize,
    /// Entries that the first row of the tile sees.
    pub(crate) visible: usize,
}

impl CausalSoftmax {
    /// Applies it in place on the CPU, with tensor operations elsewhere.
    pub(crate) fn apply(self, logits: Tensor) -> Result<Tensor> {
        if logits.device().is_cpu() && logits.dtype() == DType::F32 {
            logits.inplace_op1(&self)?;
            return Ok(logits);
        }
        self.by_tensor_operations(&logits)
    }

    fn by_tensor_operations(self, logits: &Tensor) -> Result<Tensor> {
        let (_, rows, entries) = logits.dims3()?;
        let mask: Vec<f32> = (0..rows)
            .flat_map(|row| {
                let seen = self.visible + row % self.tile;
                (0..entries).map(move |entry| if entry < seen { 0.0 } else { f32::NEG_INFINITY })
            })
            .collect();
        let mask = Tensor::from_vec(mask, (1, rows, entries), logits.device())?;
        let scaled =
            (logits.to_dtype(DType::F32)? * f64::from(self.scale))?.broadcast_add(&mask)?;
        candle_nn::ops::softmax_last_dim(&scaled)?.to_dtype(logits.dtype())
    }
}

impl InplaceOp1 for CausalSoftmax {
    fn name(&self) -> &'static str {
        "causal-softmax"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            candle_core::bail!("causal-softmax needs a contiguous tensor, got {layout:?}")
        };
        let entries = layout.dims().last().copied().unwrap_or(0);
        let CpuStorage::F32(values) = storage else {
            candle_core::bail!("causal-softmax needs f32")
        };
        if entries == 0 {
            return Ok(());
        }
        values[start..end]
            .par_chunks_mut(entries)
            .with_min_len(8)
            .enumerate()
            .for_each(|(row, logits)| {
                let seen = (self.visible + row % self.tile).min(entries);
                let (visible, hidden) = logits.split_at_mut(seen);
                softmax_row(visible, self.scale);
                hidden.fill(0.0);
            });
        Ok(())
    }
}

/// Softmax of `scale * x` over one row, in place; sums in a fixed order.
fn softmax_row(row: &mut [f32], scale: f32) {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut maxima = [f32::NEG_INFINITY; LANES];
            let mut chunks = row.chunks_exact(LANES);
            for chunk in &mut chunks {
                for lane in 0..LANES {
                    maxima[lane] = if chunk[lane] > maxima[lane] {
                        chunk[lane]
                    } else {
                        maxima[lane]
                    };
                }
            }
            let mut maximum = f32::NEG_INFINITY;
            for value in maxima.iter().chain(chunks.remainder()) {
                maximum = maximum.max(*value);
            }
            let shift = maximum * scale;
            let mut sums = [0.0f32; LANES];
            let mut chunks = row.chunks_exact_mut(LANES);
            for chunk in &mut chunks {
                for lane in 0..LANES {
                    let value = exp(chunk[lane] * scale - shift);
                    chunk[lane] = value;
                    sums[lane] += value;
                }
            }
            let mut sum = 0.0f32;
            for value in chunks.into_remainder() {
                *value = exp(*value * scale - shift);
                sum += *value;
            }
            for partial in sums {
                sum += partial;
            }
            let inverse = 1.0 / sum;
            for value in row.iter_mut() {
                *value *= inverse;
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    #[test]
    fn the_kernel_equals_masked_tensor_operations() {
        let (batch, group, tile, start) = (2, 3, 5, 37);
        let entries = start + tile;
        let logits =
            Tensor::randn(0f32, 4.0, (batch, group * tile, entries), &Device::Cpu).unwrap();
        let op = CausalSoftmax {
            scale: 0.125,
            tile,
            visible: start + 1,
        };
        let expected = op.by_tensor_operations(&logits).unwrap();
        let got = op.apply(logits.copy().unwrap()).unwrap();
        let worst = (expected - got)
            .unwrap()
            .abs()
            .unwrap()
            .max_all()
            .unwrap()
            .to_scalar::<f32>()
            .unwrap();
        assert!(worst < 1e-6, "{worst}");
    }
}
