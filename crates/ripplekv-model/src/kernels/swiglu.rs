//! SwiGLU's gate, `silu(gate) * up`, in one pass over memory.

use candle_core::{CpuStorage, DType, InplaceOp2, Layout, Result, Tensor};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::exponential::exp2;

/// Values of one parallel piece.
const PIECE_VALUES: usize = 16 * 1024;

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
            .par_chunks_mut(PIECE_VALUES)
            .zip(up.par_chunks(PIECE_VALUES))
            .for_each(|(gate, up)| {
                pulp::Arch::new().dispatch(Piece { gate, up });
            });
        Ok(())
    }
}

/// One parallel piece: `gate` becomes `silu(gate) * up`.
struct Piece<'a> {
    gate: &'a mut [f32],
    up: &'a [f32],
}

impl WithSimd for Piece<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (gate, gate_tail) = S::as_mut_simd_f32s(self.gate);
        let (up, up_tail) = S::as_simd_f32s(self.up);
        for (gate, up) in gate.iter_mut().zip(up) {
            *gate = gated(simd, *gate, *up);
        }
        if !gate_tail.is_empty() {
            let value = simd.partial_load_f32s(gate_tail);
            let value = gated(simd, value, simd.partial_load_f32s(up_tail));
            simd.partial_store_f32s(gate_tail, value);
        }
    }
}

#[inline(always)]
fn gated<S: Simd>(simd: S, gate: S::f32s, up: S::f32s) -> S::f32s {
    let negative = simd.mul_f32s(gate, simd.splat_f32s(-std::f32::consts::LOG2_E));
    let below = simd.add_f32s(simd.splat_f32s(1.0), exp2(simd, negative));
    simd.mul_f32s(simd.div_f32s(gate, below), up)
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
