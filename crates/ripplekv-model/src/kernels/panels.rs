//! A weight matrix in panels of [`LANES`] outputs, `[panel, input, LANES]`: the one copy of the weight that prefill,
//! decoding and teacher forcing all read, in f32, f16, bf16 or codes. Products of few rows, which wait for memory, make
//! f32 of some inputs at a time; passes over many rows make it of a whole layer at once. Sums are always f32.

use candle_core::{DType, Result, Tensor};
use half::slice::HalfFloatSliceExt as _;
use half::{bf16, f16};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::coded::{CodedRun, accumulate_coded, decode, pack_codes};
use super::micro::{Chunk, LANES, ROWS, accumulate_some};
use super::rows::Rows;
use crate::weights::{Form, Matrix, RUN};

/// Inputs over which a panel is read at a time: 32 KiB in f32.
const INPUT_BLOCK: usize = 512;
/// Inputs of which f32 is made at a time: 12 KiB, within a core's nearest cache beside six rows.
const MADE_BLOCK: usize = 192;
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
    /// `[panel, input / RUN]`.
    Coded(Vec<CodedRun>),
}

impl Default for Panels {
    /// No weights, room for some.
    fn default() -> Self {
        Self {
            outputs: 0,
            inputs: 0,
            store: Store::F32(Vec::new()),
        }
    }
}

impl Panels {
    /// From weights `[outputs, inputs]` of equal inputs, their outputs one after another; in f32 where their forms differ.
    pub(crate) fn new(weights: &[Matrix]) -> Result<Self> {
        let codes = weights.iter().map(|weight| match weight {
            Matrix::Codes(codes) => Some(codes),
            Matrix::Numbers(_) => None,
        });
        if let Some(codes) = codes.collect::<Option<Vec<_>>>()
            && let Some(first) = codes.first()
        {
            return Ok(Self {
                outputs: codes.iter().map(|codes| codes.outputs()).sum(),
                inputs: first.inputs(),
                store: Store::Coded(pack_codes(&codes)),
            });
        }
        let numbers = weights.iter().map(|weight| match weight {
            Matrix::Codes(codes) => codes.numbers(),
            Matrix::Numbers(tensor) => Ok(tensor.clone()),
        });
        Self::of_numbers(&numbers.collect::<Result<Vec<_>>>()?)
    }

    fn of_numbers(weights: &[Tensor]) -> Result<Self> {
        let Some(first) = weights.first() else {
            candle_core::bail!("a weight without parts")
        };
        let inputs = first.dims2()?.1;
        let outputs = weights.iter().map(|part| part.dims()[0]).sum();
        let dtype = match weights.iter().all(|part| part.dtype() == first.dtype()) {
            true => first.dtype(),
            false => DType::F32,
        };
        let store = match dtype {
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

    /// Bytes of the weights as they are kept.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = match &self.store {
            Store::F32(values) => size_of_val(&values[..]),
            Store::F16(values) => size_of_val(&values[..]),
            Store::Bf16(values) => size_of_val(&values[..]),
            Store::Coded(runs) => size_of_val(&runs[..]),
        };
        bytes as u64
    }

    /// [`Panels::bytes`] of `outputs x inputs` weights in `form`.
    pub(crate) fn bytes_in(form: Form, outputs: usize, inputs: usize) -> u64 {
        let inputs = inputs.next_multiple_of(LANES);
        let panel = match form {
            Form::Numbers(dtype) => inputs * LANES * dtype.size_in_bytes(),
            Form::Codes => inputs / RUN * size_of::<CodedRun>(),
        };
        (outputs.div_ceil(LANES) * panel) as u64
    }

    /// The same weights in f32, put in `room` where they are kept in another form.
    pub(crate) fn in_f32<'a>(&'a self, room: &'a mut Self) -> &'a Self {
        if matches!(self.store, Store::F32(_)) {
            return self;
        }
        (room.outputs, room.inputs) = (self.outputs, self.inputs);
        if let Store::F32(values) = &mut room.store {
            values.resize(self.outputs.div_ceil(LANES) * self.inputs, [0.0; LANES]);
            values
                .par_chunks_mut(self.inputs)
                .enumerate()
                .for_each(|(panel, target)| {
                    pulp::Arch::new().dispatch(Widen {
                        weight: self,
                        panel,
                        target,
                    });
                });
        }
        room
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
            Store::Coded(runs) => {
                for (targets, run) in row.chunks_mut(RUN).zip(&runs[place / RUN..]) {
                    for (target, codes) in targets.iter_mut().zip(&run.codes) {
                        *target = f32::from(codes[lane]) * run.factors[lane] + run.offsets[lane];
                    }
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
        let mut own = blocks[row..].iter().step_by(rows);
        let (whole, rest) = out[..self.outputs].as_chunks_mut::<LANES>();
        for (out, block) in whole.iter_mut().zip(&mut own) {
            *out = *block;
        }
        if let Some(block) = own.next() {
            rest.copy_from_slice(&block[..rest.len()]);
        }
    }

    /// Inputs over which a panel is read at a time.
    fn input_block(&self) -> usize {
        match self.store {
            Store::F32(_) => INPUT_BLOCK,
            _ => MADE_BLOCK,
        }
    }

    /// Weights of a panel from input `first` on in f32, as many as `scratch` has room for.
    #[inline(always)]
    fn block<'a, S: Simd>(
        &'a self,
        simd: S,
        panel: usize,
        first: usize,
        scratch: &'a mut [Chunk; MADE_BLOCK],
    ) -> &'a [Chunk] {
        let count = self.input_block().min(self.inputs - first);
        let place = panel * self.inputs + first;
        if let Store::F32(values) = &self.store {
            return &values[place..place + count];
        }
        let scratch = &mut scratch[..count];
        self.make(simd, place, scratch);
        scratch
    }

    /// f32 from `place`, `[panel, input]`, on.
    #[inline(always)]
    fn make<S: Simd>(&self, simd: S, place: usize, target: &mut [Chunk]) {
        let count = target.len();
        match &self.store {
            Store::F32(values) => target.copy_from_slice(&values[place..place + count]),
            Store::F16(values) => {
                let values = values[place..place + count].as_flattened();
                values.convert_to_f32_slice(target.as_flattened_mut());
            }
            Store::Bf16(values) => {
                let values = values[place..place + count].as_flattened();
                for (target, value) in target.as_flattened_mut().iter_mut().zip(values) {
                    // a bf16 is the upper half of an f32
                    *target = f32::from_bits(u32::from(value.to_bits()) << 16);
                }
            }
            Store::Coded(runs) => {
                let runs = runs[place / RUN..].iter();
                for (target, run) in target.chunks_exact_mut(RUN).zip(runs) {
                    decode(simd, run, target);
                }
            }
        }
    }
}

fn flat<T: candle_core::WithDType>(weights: &[Tensor]) -> Result<Vec<Vec<T>>> {
    weights
        .iter()
        .map(|part| part.to_dtype(T::DTYPE)?.flatten_all()?.to_vec1::<T>())
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

/// One panel in f32.
struct Widen<'a> {
    weight: &'a Panels,
    panel: usize,
    /// `[inputs]`.
    target: &'a mut [Chunk],
}

impl WithSimd for Widen<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let place = self.panel * self.weight.inputs;
        self.weight.make(simd, place, self.target);
    }
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
        let mut scratch = [[0.0; LANES]; MADE_BLOCK];
        for panel in 0..outputs.div_ceil(LANES) {
            let columns = panel * LANES..outputs.min((panel + 1) * LANES);
            for first in (0..self.weight.inputs).step_by(self.weight.input_block()) {
                let weights = self.weight.block(simd, panel, first, &mut scratch);
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
        if let Store::Coded(runs) = &self.weight.store {
            let runs = &runs[self.first_panel * self.weight.inputs / RUN..];
            match self.rows.len() {
                1 => return self.coded::<S, 2, 1>(simd, runs),
                2 => return self.coded::<S, 2, 2>(simd, runs),
                3 => return self.coded::<S, 1, 3>(simd, runs),
                4 => return self.coded::<S, 1, 4>(simd, runs),
                _ => {}
            }
        }
        let mut scratch = [[0.0; LANES]; MADE_BLOCK];
        let blocks = self.blocks.chunks_exact_mut(self.rows.len());
        for (panel, block) in blocks.enumerate() {
            for first in (0..self.weight.inputs).step_by(self.weight.input_block()) {
                let panel = self.first_panel + panel;
                let weights = self.weight.block(simd, panel, first, &mut scratch);
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

impl Piece<'_> {
    /// `R` rows in all, times codes as they are, `P` panels at a time.
    #[inline(always)]
    fn coded<S: Simd, const P: usize, const R: usize>(self, simd: S, runs: &[CodedRun]) {
        let count = self.weight.inputs / RUN;
        let Some(rows) = self.rows.groups().next() else {
            return;
        };
        let (groups, rest) = self.blocks.as_chunks_mut::<R>().0.as_chunks_mut::<P>();
        let (of_groups, of_rest) = runs.split_at(groups.len() * P * count);
        for (sums, runs) in groups.iter_mut().zip(of_groups.chunks_exact(P * count)) {
            let panels = std::array::from_fn(|panel| &runs[panel * count..][..count]);
            accumulate_coded::<S, P, R>(simd, rows, panels, sums);
        }
        for (sums, runs) in rest.iter_mut().zip(of_rest.chunks_exact(count)) {
            accumulate_coded::<S, 1, R>(simd, rows, [runs], std::array::from_mut(sums));
        }
    }
}

#[cfg(test)]
mod tests;
