//! SwiGLU's gate, `silu(gate) * up`, in one pass over memory.

use candle_core::{CpuStorage, DType, InplaceOp2, Layout, Result, Tensor};
use rayon::prelude::*;

use super::exponential::exp;

/// Values of one parallel piece.
const PIECE: usize = 16 * 1024;

/// `silu(gate) * up`; both `[rows, inner]`.
pub(crate) fn swiglu(gate: Tensor, up: &Tensor) -> Result<Tensor> {
    let fast = gate.device().is_cpu() && gate.dtype() == DType::F32;
    if fast && gate.is_contiguous() && up.is_contiguous() {
        gate.inplace_op2(up, &SwiGlu)?;
        return Ok(gate);
    }
    gate.silu()? * up
}

struct SwiGlu;

fn contiguous<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(values), Some((start, end))) => Ok(&values[start..end]),
        _ => candle_core::bail!("swiglu needs contiguous f32 tensors"),
    }
}

impl InplaceOp2 for SwiGlu {
    fn name(&self) -> &'static str {
        "swiglu"
    }

    fn cpu_fwd(
        &self,
        gate: &mut CpuStorage,
        gate_layout: &Layout,
        up: &CpuStorage,
        up_layout: &Layout,
    ) -> Result<()> {
        let up = contiguous(up, up_layout)?;
        let Some((start, end)) = gate_layout.contiguous_offsets() else {
            candle_core::bail!("swiglu needs contiguous f32 tensors")
        };
        let CpuStorage::F32(gate) = gate else {
            candle_core::bail!("swiglu needs contiguous f32 tensors")
        };
        gate[start..end]
            .par_chunks_mut(PIECE)
            .zip(up.par_chunks(PIECE))
            .for_each(|(gate, up)| {
                pulp::Arch::new().dispatch(
                    #[inline(always)]
                    || {
                        for (value, factor) in gate.iter_mut().zip(up) {
                            *value = *value / (1.0 + exp(-*value)) * factor;
                        }
                    },
                );
            });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    #[test]
    fn the_kernel_equals_tensor_operations() {
        let gate = Tensor::randn(0f32, 20.0, (37, 501), &Device::Cpu).unwrap();
        let up = Tensor::randn(0f32, 1.0, (37, 501), &Device::Cpu).unwrap();
        let expected = (gate.silu().unwrap() * &up).unwrap();
        let got = swiglu(gate.copy().unwrap(), &up).unwrap();
        let worst = (expected - got).unwrap().abs().unwrap().max_all().unwrap();
        assert!(worst.to_scalar::<f32>().unwrap() < 1e-4);
    }
}
