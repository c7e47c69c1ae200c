//! A weight matrix for two kinds of products: many rows at once (prefill, candle's gemm) and few rows (decoding).
//!
//! The few-row kernel sums over the inputs in one fixed order whatever the number of rows, so a row's result does not
//! depend on its company; gemm's one-row and many-row results differ in the last bits. It reads each weight once for
//! all rows, from panels of [`PANEL`] outputs laid out `[panel, input, PANEL]`.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Result, Shape, Tensor};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

/// Outputs of one panel: two 256-bit registers.
const PANEL: usize = 16;
/// Rows whose sums stay in registers at a time.
const ROWS: usize = 6;
/// Panels of one parallel piece.
const PIECE: usize = 4;

/// A weight `[out, in]`.
pub(crate) struct Linear {
    weight: Tensor,
    packed: Option<Packed>,
}

impl Linear {
    /// Packs the weight for few-row products where it lies on the CPU in f32.
    pub(crate) fn new(weight: Tensor) -> Result<Self> {
        let packed = if weight.device().is_cpu() && weight.dtype() == DType::F32 {
            Some(Packed::new(&weight)?)
        } else {
            None
        };
        Ok(Self { weight, packed })
    }

    /// `[rows, in]` to `[rows, out]`, fast for many rows.
    pub(crate) fn many_rows(&self, states: &Tensor) -> Result<Tensor> {
        states.matmul(&self.weight.t()?)
    }

    /// `[rows, in]` to `[rows, out]`; each row's result is the same alone and in company.
    pub(crate) fn few_rows(&self, states: &Tensor) -> Result<Tensor> {
        let Some(packed) = &self.packed else {
            let (rows, _) = states.dims2()?;
            let single = (0..rows)
                .map(|row| self.many_rows(&states.narrow(0, row, 1)?))
                .collect::<Result<Vec<_>>>()?;
            return Tensor::cat(&single, 0);
        };
        states.contiguous()?.apply_op1_no_bwd(packed)
    }
}

/// The panels of one weight.
#[derive(Clone)]
struct Packed {
    inputs: usize,
    outputs: usize,
    /// `[panels, inputs, PANEL]`, missing outputs of the last panel zero.
    panels: Arc<Vec<f32>>,
}

impl Packed {
    fn new(weight: &Tensor) -> Result<Self> {
        let (outputs, inputs) = weight.dims2()?;
        let rows = weight.to_vec2::<f32>()?;
        let mut panels = vec![0.0f32; outputs.div_ceil(PANEL) * inputs * PANEL];
        panels
            .par_chunks_mut(inputs * PANEL)
            .enumerate()
            .for_each(|(panel, values)| {
                for (lane, row) in rows.iter().skip(panel * PANEL).take(PANEL).enumerate() {
                    for (input, value) in row.iter().enumerate() {
                        values[input * PANEL + lane] = *value;
                    }
                }
            });
        Ok(Self {
            inputs,
            outputs,
            panels: Arc::new(panels),
        })
    }

    /// `states`: `[rows, inputs]`; returns `[rows, outputs]`.
    fn multiply(&self, states: &[f32]) -> Vec<f32> {
        let rows = states.len() / self.inputs;
        // one block a panel, `[rows, PANEL]`, so that pieces write apart from each other
        let mut blocks = vec![0.0f32; self.panels.len() / self.inputs * rows];
        blocks
            .par_chunks_mut(rows * PANEL * PIECE)
            .zip(self.panels.par_chunks(self.inputs * PANEL * PIECE))
            .for_each(|(blocks, panels)| {
                pulp::Arch::new().dispatch(Piece {
                    states,
                    inputs: self.inputs,
                    rows,
                    panels,
                    blocks,
                });
            });
        let mut out = vec![0.0f32; rows * self.outputs];
        for (row, target) in out.chunks_exact_mut(self.outputs).enumerate() {
            for (panel, values) in target.chunks_mut(PANEL).enumerate() {
                let start = (panel * rows + row) * PANEL;
                values.copy_from_slice(&blocks[start..start + values.len()]);
            }
        }
        out
    }
}

/// Some panels for all rows, one parallel piece.
struct Piece<'a> {
    /// `[rows, inputs]`.
    states: &'a [f32],
    inputs: usize,
    rows: usize,
    /// `[panels, inputs, PANEL]`.
    panels: &'a [f32],
    /// `[panels, rows, PANEL]`.
    blocks: &'a mut [f32],
}

impl WithSimd for Piece<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // registers of one panel row
        match S::F32_LANES {
            16 => self.multiply::<S, 1>(simd),
            8 => self.multiply::<S, 2>(simd),
            4 => self.multiply::<S, 4>(simd),
            _ => self.multiply::<S, PANEL>(simd),
        }
    }
}

impl Piece<'_> {
    #[inline(always)]
    fn multiply<S: Simd, const V: usize>(self, simd: S) {
        let pairs = self
            .blocks
            .chunks_exact_mut(self.rows * PANEL)
            .zip(self.panels.chunks_exact(self.inputs * PANEL));
        for (block, panel) in pairs {
            let (weights, _) = S::as_simd_f32s(panel);
            let states = self.states.chunks(self.inputs * ROWS);
            for (states, block) in states.zip(block.chunks_mut(PANEL * ROWS)) {
                let (block, _) = S::as_mut_simd_f32s(block);
                let inputs = self.inputs;
                match block.len() / V {
                    1 => multiply_rows::<S, V, 1>(simd, states, inputs, weights, block),
                    2 => multiply_rows::<S, V, 2>(simd, states, inputs, weights, block),
                    3 => multiply_rows::<S, V, 3>(simd, states, inputs, weights, block),
                    4 => multiply_rows::<S, V, 4>(simd, states, inputs, weights, block),
                    5 => multiply_rows::<S, V, 5>(simd, states, inputs, weights, block),
                    _ => multiply_rows::<S, V, ROWS>(simd, states, inputs, weights, block),
                }
            }
        }
    }
}

/// `R` rows over one panel of `V` registers a row; every sum runs over the inputs in order.
#[inline(always)]
fn multiply_rows<S: Simd, const V: usize, const R: usize>(
    simd: S,
    states: &[f32],
    inputs: usize,
    weights: &[S::f32s],
    block: &mut [S::f32s],
) {
    let mut sums = [[simd.splat_f32s(0.0); V]; R];
    let rows: [&[f32]; R] = std::array::from_fn(|row| &states[row * inputs..(row + 1) * inputs]);
    for (input, weights) in weights.chunks_exact(V).take(inputs).enumerate() {
        for row in 0..R {
            let state = simd.splat_f32s(rows[row][input]);
            for lane in 0..V {
                sums[row][lane] = simd.mul_add_f32s(state, weights[lane], sums[row][lane]);
            }
        }
    }
    for (target, sum) in block.chunks_exact_mut(V).zip(sums) {
        target.copy_from_slice(&sum);
    }
}

impl CustomOp1 for Packed {
    fn name(&self) -> &'static str {
        "few-row-linear"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (CpuStorage::F32(values), Some((start, end))) = (storage, layout.contiguous_offsets())
        else {
            candle_core::bail!("few-row-linear needs a contiguous f32 tensor")
        };
        let (rows, inputs) = layout.shape().dims2()?;
        if inputs != self.inputs {
            candle_core::bail!(
                "few-row-linear: {inputs} inputs, the weight has {}",
                self.inputs
            )
        }
        let out = self.multiply(&values[start..end]);
        Ok((CpuStorage::F32(out), Shape::from((rows, self.outputs))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    #[test]
    fn rows_are_the_same_alone_and_in_company_and_right() {
        for (inputs, outputs) in [(64, 48), (72, 320), (5, 1), (576, 33)] {
            let weight = Tensor::randn(0f32, 1.0, (outputs, inputs), &Device::Cpu).unwrap();
            let linear = Linear::new(weight.clone()).unwrap();
            let states = Tensor::randn(0f32, 1.0, (11, inputs), &Device::Cpu).unwrap();
            let exact = states.to_dtype(DType::F64).unwrap();
            let exact = exact
                .matmul(&weight.to_dtype(DType::F64).unwrap().t().unwrap())
                .unwrap();
            let together = linear.few_rows(&states).unwrap();
            let difference = (together.to_dtype(DType::F64).unwrap() - exact)
                .unwrap()
                .abs()
                .unwrap();
            let worst = difference.max_all().unwrap().to_scalar::<f64>().unwrap();
            assert!(worst < 1e-4, "{inputs} x {outputs}: {worst}");
            let together = together.to_vec2::<f32>().unwrap();
            for count in 1..=11 {
                let part = linear
                    .few_rows(&states.narrow(0, 0, count).unwrap())
                    .unwrap();
                assert_eq!(part.to_vec2::<f32>().unwrap(), together[..count]);
            }
        }
    }
}
