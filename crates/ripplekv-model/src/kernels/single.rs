//! Attention of one position over its cache, row after row of keys and values as they lie: memory is the limit, so
//! nothing is packed, and every key and value is used for several query heads while it is at hand. The entries are cut
//! into parts of fixed size whose results are joined in order, so that the bits depend on neither the number of threads
//! nor the rows beside.

use pulp::{Simd, WithSimd};
use ripplekv_cache::exponential::exp2;

/// Most entries of one part: enough to read keys and values in long runs, few enough that threads end together.
const PART: usize = 256;
/// Query heads that share a sweep over keys and values.
const HEADS: usize = 3;
/// Keys whose products with queries run side by side: with [`HEADS`] they fill 12 of 16 registers.
const BESIDE: usize = 4;
/// Registers of mixed values of each head at a time.
const MIXED: usize = 4;

/// Some entries of one KV head; entry `i` lies at `i * stride`.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) keys: &'a [f32],
    pub(crate) values: &'a [f32],
    pub(crate) stride: usize,
    pub(crate) length: usize,
}

impl<'a> Part<'a> {
    /// Cuts into parts of fixed size.
    pub(crate) fn split(self) -> impl Iterator<Item = Part<'a>> {
        (0..self.length).step_by(PART).map(move |first| Part {
            keys: &self.keys[first * self.stride..],
            values: &self.values[first * self.stride..],
            stride: self.stride,
            length: PART.min(self.length - first),
        })
    }
}

/// Shapes of one call.
#[derive(Clone, Copy)]
pub(crate) struct SingleAttention {
    /// Query heads of the KV head.
    pub(crate) heads: usize,
    /// Channels.
    pub(crate) dim: usize,
    /// Factor of the logits.
    pub(crate) scale: f32,
}

impl SingleAttention {
    /// Numbers that one part leaves: maxima, totals and sums of every head.
    pub(crate) fn partial_len(&self) -> usize {
        self.heads * (self.dim + 2)
    }

    /// One part for `queries`, `[heads, dim]`, into `partial`.
    pub(crate) fn part(&self, queries: &[f32], part: Part<'_>, partial: &mut [f32]) {
        pulp::Arch::new().dispatch(RunPart {
            shape: *self,
            queries,
            part,
            partial,
        });
    }

    /// Joins the parts of one KV head in order into `out`, `[heads, dim]`.
    pub(crate) fn join<'a>(
        &self,
        partials: impl Iterator<Item = &'a [f32]> + Clone,
        out: &mut [f32],
    ) {
        pulp::Arch::new().dispatch(Join {
            shape: *self,
            partials,
            out,
        });
    }
}

struct RunPart<'a> {
    shape: SingleAttention,
    queries: &'a [f32],
    part: Part<'a>,
    partial: &'a mut [f32],
}

impl WithSimd for RunPart<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let SingleAttention { heads, dim, scale } = self.shape;
        let (maxima, rest) = self.partial.split_at_mut(heads);
        let (totals, sums) = rest.split_at_mut(heads);
        let groups = self
            .queries
            .chunks(HEADS * dim)
            .zip(sums.chunks_mut(HEADS * dim))
            .zip(maxima.chunks_mut(HEADS).zip(totals.chunks_mut(HEADS)));
        for ((queries, sums), (maxima, totals)) in groups {
            let group = Group {
                part: self.part,
                queries,
                dim,
                scale: scale * std::f32::consts::LOG2_E,
                maxima,
                totals,
                sums,
            };
            match queries.len() / dim {
                1 => group.run::<S, 1>(simd),
                2 => group.run::<S, 2>(simd),
                _ => group.run::<S, HEADS>(simd),
            }
        }
    }
}

/// Some query heads and what a part leaves of them.
struct Group<'a> {
    part: Part<'a>,
    /// `[heads, dim]`.
    queries: &'a [f32],
    dim: usize,
    /// Factor of the logits to base 2.
    scale: f32,
    maxima: &'a mut [f32],
    totals: &'a mut [f32],
    /// `[heads, dim]`.
    sums: &'a mut [f32],
}

impl Group<'_> {
    #[inline(always)]
    fn run<S: Simd, const H: usize>(self, simd: S) {
        let Part {
            keys,
            values,
            stride,
            length,
        } = self.part;
        let dim = self.dim;
        let queries: [&[f32]; H] =
            std::array::from_fn(|head| &self.queries[head * dim..(head + 1) * dim]);
        let key = |entry: usize| &keys[entry * stride..][..dim];
        let mut scores = [[0.0f32; PART]; H];
        let whole = length / BESIDE * BESIDE;
        for entry in (0..whole).step_by(BESIDE) {
            let keys: [&[f32]; BESIDE] = std::array::from_fn(|beside| key(entry + beside));
            for (scores, dots) in scores.iter_mut().zip(dots(simd, queries, keys)) {
                scores[entry..entry + BESIDE].copy_from_slice(&dots);
            }
        }
        for entry in whole..length {
            for (scores, [dot]) in scores.iter_mut().zip(dots(simd, queries, [key(entry)])) {
                scores[entry] = dot;
            }
        }
        let results = self.maxima.iter_mut().zip(self.totals.iter_mut());
        for (scores, (maximum, total)) in scores.iter_mut().zip(results) {
            let scores = &mut scores[..length];
            *maximum = most(simd, scores) * self.scale;
            *total = weights(simd, scores, self.scale, *maximum);
        }
        let weights: [&[f32]; H] = scores.each_ref().map(|scores| &scores[..length]);
        mix(simd, self.sums, dim, weights, values, stride);
    }
}

struct Join<'a, P> {
    shape: SingleAttention,
    partials: P,
    out: &'a mut [f32],
}

impl<'p, P: Iterator<Item = &'p [f32]> + Clone> WithSimd for Join<'_, P> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let SingleAttention { heads, dim, .. } = self.shape;
        for (head, out) in self.out.chunks_exact_mut(dim).enumerate() {
            let parts = || self.partials.clone();
            let most = parts().fold(f32::NEG_INFINITY, |most, part| most.max(part[head]));
            let mut total = 0.0;
            out.fill(0.0);
            for part in parts() {
                let factor = one(simd, part[head] - most);
                total += part[heads + head] * factor;
                add(simd, out, &part[(2 * heads) + head * dim..][..dim], factor);
            }
            multiply(simd, out, 1.0 / total);
        }
    }
}

/// Products of `H` queries with `N` keys.
#[inline(always)]
fn dots<S: Simd, const H: usize, const N: usize>(
    simd: S,
    queries: [&[f32]; H],
    keys: [&[f32]; N],
) -> [[f32; N]; H] {
    let words = queries[0].len() / S::F32_LANES;
    // equal lengths known to the compiler: no check within the loop
    let query_words = queries.map(|query| &S::as_simd_f32s(query).0[..words]);
    let key_words = keys.map(|key| &S::as_simd_f32s(key).0[..words]);
    let mut sums = [[simd.splat_f32s(0.0); N]; H];
    for word in 0..words {
        for (key, beside) in key_words.iter().zip(0..) {
            for (sums, query) in sums.iter_mut().zip(&query_words) {
                sums[beside] = simd.mul_add_f32s(query[word], key[word], sums[beside]);
            }
        }
    }
    let mut dots = [[0.0; N]; H];
    let tail = words * S::F32_LANES;
    for ((dots, sums), query) in dots.iter_mut().zip(sums).zip(queries) {
        for ((dot, sum), key) in dots.iter_mut().zip(sums).zip(keys) {
            let rest: f32 = key[tail..]
                .iter()
                .zip(&query[tail..])
                .map(|(k, q)| k * q)
                .sum();
            *dot = simd.reduce_sum_f32s(sum) + rest;
        }
    }
    dots
}

/// `weights . values` of `H` heads into `sums`, `[H, dim]`, entry after entry; entry `i` of `values` begins at `i * stride`.
#[inline(always)]
fn mix<S: Simd, const H: usize>(
    simd: S,
    sums: &mut [f32],
    dim: usize,
    weights: [&[f32]; H],
    values: &[f32],
    stride: usize,
) {
    let width = MIXED * S::F32_LANES;
    let done = dim / width * width;
    for first in (0..done).step_by(width) {
        let mut kept = [[simd.splat_f32s(0.0); MIXED]; H];
        for (entry, place) in (0..weights[0].len()).zip((first..).step_by(stride)) {
            let (values, _) = S::as_simd_f32s(&values[place..place + width]);
            // weights, one value and the sums fill the registers
            let weights = weights.map(|weights| simd.splat_f32s(weights[entry]));
            for (word, value) in values.iter().enumerate() {
                for (kept, weight) in kept.iter_mut().zip(weights) {
                    kept[word] = simd.mul_add_f32s(weight, *value, kept[word]);
                }
            }
        }
        for (sums, kept) in sums.chunks_exact_mut(dim).zip(kept) {
            let (sums, _) = S::as_mut_simd_f32s(&mut sums[first..first + width]);
            sums.copy_from_slice(&kept);
        }
    }
    if done < dim {
        for (sums, weights) in sums.chunks_exact_mut(dim).zip(weights) {
            sums[done..].fill(0.0);
            for (weight, place) in weights.iter().zip((done..).step_by(stride)) {
                add(
                    simd,
                    &mut sums[done..],
                    &values[place..][..dim - done],
                    *weight,
                );
            }
        }
    }
}

/// `sums += weight * values`.
#[inline(always)]
fn add<S: Simd>(simd: S, sums: &mut [f32], values: &[f32], weight: f32) {
    let (sums, sums_tail) = S::as_mut_simd_f32s(sums);
    let (values, values_tail) = S::as_simd_f32s(values);
    let factor = simd.splat_f32s(weight);
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = simd.mul_add_f32s(factor, *value, *sum);
    }
    for (sum, value) in sums_tail.iter_mut().zip(values_tail) {
        *sum += weight * value;
    }
}

#[inline(always)]
fn multiply<S: Simd>(simd: S, values: &mut [f32], factor: f32) {
    let (body, tail) = S::as_mut_simd_f32s(values);
    for value in body {
        *value = simd.mul_f32s(*value, simd.splat_f32s(factor));
    }
    for value in tail {
        *value *= factor;
    }
}

/// The largest.
#[inline(always)]
fn most<S: Simd>(simd: S, values: &[f32]) -> f32 {
    let (body, tail) = S::as_simd_f32s(values);
    let smallest = simd.splat_f32s(f32::NEG_INFINITY);
    let most = body
        .iter()
        .fold(smallest, |most, value| simd.max_f32s(most, *value));
    tail.iter()
        .fold(simd.reduce_max_f32s(most), |most, value| most.max(*value))
}

/// Replaces scores by 2^(scale * x - maximum) and gives the sum.
#[inline(always)]
fn weights<S: Simd>(simd: S, scores: &mut [f32], scale: f32, maximum: f32) -> f32 {
    let (body, tail) = S::as_mut_simd_f32s(scores);
    let (factor, shift) = (simd.splat_f32s(scale), simd.splat_f32s(-maximum));
    let mut sums = simd.splat_f32s(0.0);
    for values in body {
        *values = exp2(simd, simd.mul_add_f32s(*values, factor, shift));
        sums = simd.add_f32s(sums, *values);
    }
    let mut sum = simd.reduce_sum_f32s(sums);
    if !tail.is_empty() {
        let values = simd.mul_add_f32s(simd.partial_load_f32s(tail), factor, shift);
        simd.partial_store_f32s(tail, exp2(simd, values));
        sum += tail.iter().sum::<f32>();
    }
    sum
}

/// 2^x of one number.
#[inline(always)]
fn one<S: Simd>(simd: S, x: f32) -> f32 {
    simd.reduce_max_f32s(exp2(simd, simd.splat_f32s(x)))
}

#[cfg(test)]
mod tests {
    use super::super::attention::tests::{exact, numbers, worst};
    use super::*;

    #[test]
    fn attention_of_one_position_is_right() {
        for (heads, dim, length, stride, size) in [
            (1, 16, 1, 16, 1.0),
            (3, 64, 63, 192, 1.0),
            (3, 64, 2500, 64, 1.0),
            (8, 24, 1024, 24, 1.0),
            (2, 80, 1027, 81, 1.0),
            (3, 64, 1500, 64, 300.0),
        ] {
            let shape = SingleAttention {
                heads,
                dim,
                scale: 1.0 / (dim as f32).sqrt(),
            };
            let queries: Vec<f32> = numbers(heads * dim, 1).iter().map(|q| q * size).collect();
            let (keys, values) = (numbers(length * stride, 2), numbers(length * stride, 3));
            let own = numbers(5 * dim, 4);
            let pieces = [
                Part {
                    keys: &keys,
                    values: &values,
                    stride,
                    length,
                },
                Part {
                    keys: &own,
                    values: &own,
                    stride: dim,
                    length: 5,
                },
            ];
            let parts: Vec<Part<'_>> = pieces.into_iter().flat_map(Part::split).collect();
            let mut partials = vec![0.0; parts.len() * shape.partial_len()];
            for (part, partial) in parts
                .iter()
                .zip(partials.chunks_exact_mut(shape.partial_len()))
            {
                shape.part(&queries, *part, partial);
            }
            let mut out = vec![0.0; heads * dim];
            shape.join(partials.chunks_exact(shape.partial_len()), &mut out);
            let mut entries: Vec<(&[f32], &[f32])> = (0..length)
                .map(|entry| {
                    let place = entry * stride..entry * stride + dim;
                    (&keys[place.clone()], &values[place])
                })
                .collect();
            entries.extend(own.chunks_exact(dim).map(|row| (row, row)));
            for (query, out) in queries.chunks_exact(dim).zip(out.chunks_exact(dim)) {
                let error = worst(out, &exact(query, shape.scale, &entries));
                let bound = if size > 1.0 { 1e-3 } else { 1e-5 };
                assert!(error < bound, "{heads} x {dim}, {length}: {error}");
            }
        }
    }
}
