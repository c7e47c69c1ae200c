//! Weights of block-quantised files in panels: codes of [`RUN`] inputs beside the factors and offsets that make numbers of
//! them, so that a panel is read from its beginning to its end.

use pulp::Simd;
use rayon::prelude::*;

use super::micro::{Chunk, LANES};
use crate::weights::{Codes, RUN};

/// [`RUN`] inputs of a panel; a number is `code * factor + offset`.
#[derive(Clone, Copy)]
pub(crate) struct CodedRun {
    pub(crate) factors: Chunk,
    pub(crate) offsets: Chunk,
    /// `[input, output of the panel]`.
    pub(crate) codes: [[i8; LANES]; RUN],
}

const EMPTY: CodedRun = CodedRun {
    factors: [0.0; LANES],
    offsets: [0.0; LANES],
    codes: [[0; LANES]; RUN],
};

/// `[panel, input / RUN]` from matrices of equal inputs, their outputs one after another.
pub(crate) fn pack_codes(parts: &[&Codes]) -> Vec<CodedRun> {
    let outputs: Vec<(&Codes, usize)> = parts
        .iter()
        .flat_map(|codes| (0..codes.outputs()).map(|output| (*codes, output)))
        .collect();
    let runs = parts.first().map_or(1, |codes| codes.inputs() / RUN);
    let mut panels = vec![EMPTY; outputs.len().div_ceil(LANES) * runs];
    panels
        .par_chunks_mut(runs)
        .zip(outputs.par_chunks(LANES))
        .for_each(|(panel, outputs)| {
            for (lane, (codes, output)) in outputs.iter().enumerate() {
                let own = codes.codes_of(*output).chunks_exact(RUN);
                let own = own.zip(codes.scales_of(*output));
                for (run, (codes, scale)) in panel.iter_mut().zip(own) {
                    (run.factors[lane], run.offsets[lane]) = (scale.factor, scale.offset);
                    for (target, code) in run.codes.iter_mut().zip(codes) {
                        target[lane] = *code;
                    }
                }
            }
        });
    panels
}

/// Numbers of one run. The product of a code and a factor of 16 bits is exact, so this is what multiplying and then adding
/// gives.
#[inline(always)]
pub(crate) fn decode<S: Simd>(simd: S, run: &CodedRun, target: &mut [Chunk]) {
    let (factors, offsets) = (run.factors, run.offsets);
    for (target, codes) in target.iter_mut().zip(&run.codes) {
        *target = numbers(simd, codes, &factors, &offsets);
    }
}

#[inline(always)]
fn numbers<S: Simd>(simd: S, codes: &[i8; LANES], factors: &Chunk, offsets: &Chunk) -> Chunk {
    let mut numbers = codes.map(f32::from);
    let (words, _) = S::as_mut_simd_f32s(&mut numbers);
    let scales = S::as_simd_f32s(factors).0.iter();
    let scales = scales.zip(S::as_simd_f32s(offsets).0);
    for (word, (factor, offset)) in words.iter_mut().zip(scales) {
        *word = simd.mul_add_f32s(*word, *factor, *offset);
    }
    numbers
}

/// `sums[p][r] = rows[.., r] . panels[p]` for `R` rows and `P` panels of codes, in the order of inputs that every product
/// has. A sum waits for the one before it, so that several panels are read at a time.
///
/// `rows`: `[chunks, R]`; each panel: `[chunks / 2]` runs.
#[inline(always)]
pub(crate) fn accumulate_coded<S: Simd, const P: usize, const R: usize>(
    simd: S,
    rows: &[Chunk],
    panels: [&[CodedRun]; P],
    sums: &mut [[Chunk; R]; P],
) {
    // registers of a chunk
    match LANES / S::F32_LANES {
        1 => registers::<S, 1, P, R>(simd, rows, panels, sums),
        2 => registers::<S, 2, P, R>(simd, rows, panels, sums),
        4 => registers::<S, 4, P, R>(simd, rows, panels, sums),
        _ => registers::<S, LANES, P, R>(simd, rows, panels, sums),
    }
}

#[inline(always)]
fn registers<S: Simd, const V: usize, const P: usize, const R: usize>(
    simd: S,
    rows: &[Chunk],
    panels: [&[CodedRun]; P],
    sums: &mut [[Chunk; R]; P],
) {
    let mut kept = [[[simd.splat_f32s(0.0); V]; R]; P];
    for (place, rows) in rows.chunks_exact(R * RUN / LANES).enumerate() {
        let runs = panels.map(|panel| &panel[place]);
        let words = |chunk: &Chunk| -> [S::f32s; V] {
            let (words, _) = S::as_simd_f32s(chunk);
            std::array::from_fn(|word| words[word])
        };
        let factors = runs.map(|run| words(&run.factors));
        let offsets = runs.map(|run| words(&run.offsets));
        for input in 0..RUN {
            let rows = &rows[input / LANES * R..][..R];
            let states: [S::f32s; R] =
                std::array::from_fn(|row| simd.splat_f32s(rows[row][input % LANES]));
            for panel in 0..P {
                let codes = words(&runs[panel].codes[input].map(f32::from));
                for word in 0..V {
                    let (factor, offset) = (factors[panel][word], offsets[panel][word]);
                    let weight = simd.mul_add_f32s(codes[word], factor, offset);
                    for (kept, state) in kept[panel].iter_mut().zip(states) {
                        kept[word] = simd.mul_add_f32s(state, weight, kept[word]);
                    }
                }
            }
        }
    }
    for (kept, sums) in kept.iter().zip(sums) {
        for (kept, sums) in kept.iter().zip(sums) {
            S::as_mut_simd_f32s(sums).0[..V].copy_from_slice(kept);
        }
    }
}
