//! A weight matrix in panels of [`LANES`] outputs, `[panel, input, LANES]`: the one copy of the weight that prefill,
//! decoding and teacher forcing all read, in f32, f16 or bf16. Sums are always f32.

use candle_core::{DType, Result, Tensor};
use half::slice::HalfFloatSliceExt as _;
use half::{bf16, f16};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::micro::{Chunk, LANES, ROWS, accumulate_some};
use super::rows::Rows;

/// Inputs over which a panel is read at a time: 32 KiB in f32.
const INPUT_BLOCK: usize = 512;
/// Panels of one parallel piece: few, so that threads end together.
const PIECE: usize = 2;

/// A weight `[outputs, inputs]`.
pub(crate) struct Panels {
    outputs: usize,
    /// Inputs, filled up to whole chunks with zero weights.
    inputs: usize,
    store: Store,
}

/// `[panel, input]`.
enum Store {
    F32(Vec<Chunk>),
    F16(Vec<[f16; LANES]>),
    Bf16(Vec<[bf16; LANES]>),
}

impl Panels {
    /// From weights `[outputs, inputs]` of equal inputs and number format, their outputs one after another.
    pub(crate) fn new(weights: &[Tensor]) -> Result<Self> {
        let Some(first) = weights.first() else {
            candle_core::bail!("a weight without parts")
        };
        let inputs = first.dims2()?.1;
        let outputs = weights.iter().map(|part| part.dims()[0]).sum();
        let store = match first.dtype() {
            DType::F32 => Store::F32(pack(&flat::<f32>(weights)?, inputs)),
            DType::F16 => Store::F16(pack(&flat::<f16>(weights)?, inputs)),
            DType::BF16 => Store::Bf16(pack(&flat::<bf16>(weights)?, inputs)),
            other => candle_core::bail!("weights in {other:?} are not run here"),
        };
        Ok(Self {
            outputs,
            inputs: inputs.div_ceil(LANES) * LANES,
            store,
        })
    }

    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// The weights of one output, as many as `row` has room for.
    pub(crate) fn read_output(&self, output: usize, row: &mut [f32]) {
        let (panel, lane) = (output / LANES, output % LANES);
        let place = panel * self.inputs;
        match &self.store {
            Store::F32(values) => {
                for (target, value) in row.iter_mut().zip(&values[place..]) {
                    *target = value[lane];
                }
            }
            Store::F16(values) => {
                for (target, value) in row.iter_mut().zip(&values[place..]) {
                    *target = value[lane].to_f32();
                }
            }
            Store::Bf16(values) => {
                for (target, value) in row.iter_mut().zip(&values[place..]) {
                    *target = value[lane].to_f32();
                }
            }
        }
    }

    /// `rows` times the weight on the calling thread, `[rows, outputs]`.
    pub(crate) fn multiply_here(&self, rows: &Rows, out: &mut [f32]) {
        pulp::Arch::new().dispatch(Here {
            weight: self,
            rows,
            out,
        });
    }

    /// `rows` times the weight, parallel over outputs; the same bits as [`Panels::multiply_here`]. `out` is emptied and
    /// gets `[rows, outputs]`; `blocks` is working memory.
    pub(crate) fn multiply(&self, rows: &Rows, blocks: &mut Vec<Chunk>, out: &mut Vec<f32>) {
        self.multiply_into_blocks(rows, blocks);
        out.clear();
        out.resize(rows.len() * self.outputs, 0.0);
        out.par_chunks_mut(self.outputs)
            .enumerate()
            .for_each(|(row, out)| self.read_row(blocks, rows.len(), row, out));
    }

    /// [`Panels::multiply`] that leaves the product where it arises: one block of `[rows]` for each panel, so that pieces
    /// write apart from each other.
    pub(crate) fn multiply_into_blocks(&self, rows: &Rows, blocks: &mut Vec<Chunk>) {
        let count = rows.len();
        blocks.resize(self.outputs.div_ceil(LANES) * count, [0.0; LANES]);
        blocks
            .par_chunks_mut(count * PIECE)
            .enumerate()
            .with_max_len(1)
            .for_each(|(piece, blocks)| {
                pulp::Arch::new().dispatch(Piece {
                    weight: self,
                    first_panel: piece * PIECE,
                    rows,
                    blocks,
                });
            });
    }

    /// One of `rows` rows, `[outputs]`, of what [`Panels::multiply_into_blocks`] left.
    pub(crate) fn read_row(&self, blocks: &[Chunk], rows: usize, row: usize, out: &mut [f32]) {
        let own = blocks.iter().skip(row).step_by(rows);
        let (whole, rest) = out[..self.outputs].as_chunks_mut::<LANES>();
        let rest = (!rest.is_empty()).then_some(rest);
        let targets = whole.iter_mut().map(|out| &mut out[..]).chain(rest);
        for (out, block) in targets.zip(own) {
            out.copy_from_slice(&block[..out.len()]);
        }
    }

    /// Weights of a panel's inputs `first..first + INPUT_BLOCK` in f32.
    #[inline(always)]
    fn block<'a>(&'a self, panel: usize, first: usize, scratch: &'a mut Vec<Chunk>) -> &'a [Chunk] {
        let count = INPUT_BLOCK.min(self.inputs - first);
        let place = panel * self.inputs + first;
        match &self.store {
            Store::F32(values) => &values[place..place + count],
            Store::F16(values) => {
                scratch.resize(count, [0.0; LANES]);
                let values = values[place..place + count].as_flattened();
                values.convert_to_f32_slice(scratch.as_flattened_mut());
                scratch
            }
            Store::Bf16(values) => {
                scratch.resize(count, [0.0; LANES]);
                let values = values[place..place + count].as_flattened();
                for (target, value) in scratch.as_flattened_mut().iter_mut().zip(values) {
                    // a bf16 is the upper half of an f32
                    *target = f32::from_bits(u32::from(value.to_bits()) << 16);
                }
                scratch
            }
        }
    }
}

fn flat<T: candle_core::WithDType>(weights: &[Tensor]) -> Result<Vec<Vec<T>>> {
    weights
        .iter()
        .map(|part| part.flatten_all()?.to_vec1::<T>())
        .collect()
}

/// `[panel, input]` from row-major parts.
fn pack<T: Copy + Default + Send + Sync>(parts: &[Vec<T>], inputs: usize) -> Vec<[T; LANES]> {
    let rows: Vec<&[T]> = parts
        .iter()
        .flat_map(|part| part.chunks_exact(inputs))
        .collect();
    let padded = inputs.div_ceil(LANES) * LANES;
    let mut panels = vec![[T::default(); LANES]; rows.len().div_ceil(LANES) * padded];
    panels
        .par_chunks_mut(padded)
        .zip(rows.par_chunks(LANES))
        .for_each(|(panel, rows)| {
            for (lane, row) in rows.iter().enumerate() {
                for (target, value) in panel.iter_mut().zip(*row) {
                    target[lane] = *value;
                }
            }
        });
    panels
}

/// All outputs for rows that one thread holds.
struct Here<'a> {
    weight: &'a Panels,
    rows: &'a Rows,
    /// `[rows, outputs]`.
    out: &'a mut [f32],
}

impl WithSimd for Here<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let outputs = self.weight.outputs;
        let mut scratch = Vec::new();
        for panel in 0..outputs.div_ceil(LANES) {
            let columns = panel * LANES..outputs.min((panel + 1) * LANES);
            for first in (0..self.weight.inputs).step_by(INPUT_BLOCK) {
                let weights = self.weight.block(panel, first, &mut scratch);
                let groups = self.rows.groups().zip(self.out.chunks_mut(ROWS * outputs));
                for (group, out) in groups {
                    let size = out.len() / outputs;
                    let group = &group[first / LANES * size..][..weights.len() / LANES * size];
                    let mut sums = [[0.0; LANES]; ROWS];
                    if first > 0 {
                        for (sum, out) in sums.iter_mut().zip(out.chunks_exact(outputs)) {
                            sum[..columns.len()].copy_from_slice(&out[columns.clone()]);
                        }
                    }
                    accumulate_some(simd, group, weights, &mut sums[..size]);
                    for (sum, out) in sums.iter().zip(out.chunks_exact_mut(outputs)) {
                        let out = &mut out[columns.clone()];
                        // a length known to the compiler makes this two stores
                        match out.as_chunks_mut::<LANES>() {
                            ([out], _) => *out = *sum,
                            (_, out) => out.copy_from_slice(&sum[..out.len()]),
                        }
                    }
                }
            }
        }
    }
}

/// Some outputs for all rows.
struct Piece<'a> {
    weight: &'a Panels,
    first_panel: usize,
    rows: &'a Rows,
    /// `[panels of the piece, rows]`.
    blocks: &'a mut [Chunk],
}

impl WithSimd for Piece<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut scratch = Vec::new();
        let blocks = self.blocks.chunks_exact_mut(self.rows.len());
        for (panel, block) in blocks.enumerate() {
            for first in (0..self.weight.inputs).step_by(INPUT_BLOCK) {
                let weights = self
                    .weight
                    .block(self.first_panel + panel, first, &mut scratch);
                for (group, sums) in self.rows.groups().zip(block.chunks_mut(ROWS)) {
                    let size = sums.len();
                    let group = &group[first / LANES * size..][..weights.len() / LANES * size];
                    if first == 0 {
                        sums.fill([0.0; LANES]);
                    }
                    accumulate_some(simd, group, weights, sums);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    fn random(rows: usize, columns: usize) -> Tensor {
        Tensor::randn(0f32, 1.0, (rows, columns), &Device::Cpu).unwrap()
    }

    fn product(panels: &Panels, states: &[f32], width: usize) -> Vec<f32> {
        let mut rows = Rows::default();
        rows.set(states, width);
        let mut here = vec![0.0; rows.len() * panels.outputs];
        panels.multiply_here(&rows, &mut here);
        let (mut blocks, mut out) = (Vec::new(), Vec::new());
        panels.multiply(&rows, &mut blocks, &mut out);
        assert_eq!(here, out);
        out
    }

    #[test]
    fn rows_are_the_same_alone_and_in_company_and_right() {
        for (inputs, outputs) in [(64, 48), (72, 320), (5, 1), (576, 33), (1540, 20)] {
            let weight = random(outputs, inputs);
            let split = outputs / 3;
            let parts = [
                weight.narrow(0, 0, split).unwrap(),
                weight.narrow(0, split, outputs - split).unwrap(),
            ];
            let panels = Panels::new(&parts).unwrap();
            let states = random(11, inputs);
            let wide = |tensor: &Tensor| tensor.to_dtype(DType::F64).unwrap();
            let exact = wide(&states).matmul(&wide(&weight).t().unwrap()).unwrap();
            let exact = exact.flatten_all().unwrap().to_vec1::<f64>().unwrap();
            let states = states.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let together = product(&panels, &states, inputs);
            let worst = together.iter().zip(&exact);
            let worst = worst.map(|(got, exact)| (f64::from(*got) - exact).abs());
            let worst = worst.fold(0.0, f64::max);
            assert!(worst < 2e-4, "{inputs} x {outputs}: {worst}");
            for count in 1..=11 {
                let part = product(&panels, &states[..count * inputs], inputs);
                assert_eq!(part, together[..count * outputs]);
            }
        }
    }

    #[test]
    fn half_precision_weights_give_the_bits_of_their_f32_values() {
        let states = random(7, 530).flatten_all().unwrap();
        let states = states.to_vec1::<f32>().unwrap();
        for dtype in [DType::F16, DType::BF16] {
            let weight = random(35, 530).to_dtype(dtype).unwrap();
            let narrow = Panels::new(std::slice::from_ref(&weight)).unwrap();
            let wide = Panels::new(&[weight.to_dtype(DType::F32).unwrap()]).unwrap();
            assert_eq!(product(&narrow, &states, 530), product(&wide, &states, 530));
            let (mut a, mut b) = ([0.0; 530], [0.0; 530]);
            narrow.read_output(34, &mut a);
            wide.read_output(34, &mut b);
            assert_eq!(a, b);
        }
    }
}
