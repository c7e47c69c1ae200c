//! Attention of one position over its cache, row after row of keys and values as they lie: memory is the limit, so
//! nothing is packed. The entries are cut into parts of fixed size whose results are joined in order, so that the bits
//! depend on neither the number of threads nor the rows beside.

use pulp::{Simd, WithSimd};
use ripplekv_cache::exponential::exp2;

/// Most entries of one part.
const PART: usize = 1024;
/// Entries of one block of scores.
const BLOCK: usize = 64;
/// Keys whose products with a query run side by side.
const BESIDE: usize = 8;
/// Registers of mixed values at a time.
const MIXED: usize = 8;

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
    pub(crate) fn join(&self, partials: &[f32], out: &mut [f32]) {
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
        let Self {
            shape: SingleAttention { heads, dim, scale },
            queries,
            part,
            partial,
        } = self;
        let scale = scale * std::f32::consts::LOG2_E;
        let row = |from: &'_ [f32], entry: usize| -> std::ops::Range<usize> {
            debug_assert!(from.len() >= entry * part.stride + dim);
            entry * part.stride..entry * part.stride + dim
        };
        let (maxima, rest) = partial.split_at_mut(heads);
        let (totals, sums) = rest.split_at_mut(heads);
        maxima.fill(f32::NEG_INFINITY);
        totals.fill(0.0);
        sums.fill(0.0);
        let mut scores = [0.0f32; BLOCK];
        for first in (0..part.length).step_by(BLOCK) {
            let count = BLOCK.min(part.length - first);
            let heads = queries
                .chunks_exact(dim)
                .zip(sums.chunks_exact_mut(dim))
                .zip(maxima.iter_mut().zip(totals.iter_mut()));
            for ((query, sums), (maximum, total)) in heads {
                let scores = &mut scores[..count];
                for (group, scores) in scores.chunks_mut(BESIDE).enumerate() {
                    let entry = first + group * BESIDE;
                    if scores.len() == BESIDE {
                        let keys: [&[f32]; BESIDE] = std::array::from_fn(|beside| {
                            &part.keys[row(part.keys, entry + beside)]
                        });
                        scores.copy_from_slice(&dots(simd, query, keys));
                    } else {
                        for (beside, score) in scores.iter_mut().enumerate() {
                            let key = &part.keys[row(part.keys, entry + beside)];
                            *score = dots(simd, query, [key])[0];
                        }
                    }
                }
                let most = scores
                    .iter()
                    .fold(f32::NEG_INFINITY, |most, score| most.max(*score))
                    * scale;
                if most > *maximum {
                    if *maximum > f32::NEG_INFINITY {
                        let factor = one(simd, *maximum - most);
                        *total *= factor;
                        multiply(simd, sums, factor);
                    }
                    *maximum = most;
                }
                *total += weights(simd, scores, scale, *maximum);
                mix(
                    simd,
                    sums,
                    scores,
                    &part.values[first * part.stride..],
                    part.stride,
                );
            }
        }
    }
}

struct Join<'a> {
    shape: SingleAttention,
    partials: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Join<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let SingleAttention { heads, dim, .. } = self.shape;
        let length = self.shape.partial_len();
        for (head, out) in self.out.chunks_exact_mut(dim).enumerate() {
            let parts = || self.partials.chunks_exact(length);
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

/// Products of one query with `N` keys.
#[inline(always)]
fn dots<S: Simd, const N: usize>(simd: S, query: &[f32], keys: [&[f32]; N]) -> [f32; N] {
    let (query, query_tail) = S::as_simd_f32s(query);
    let keys = keys.map(|key| S::as_simd_f32s(key));
    let mut sums = [simd.splat_f32s(0.0); N];
    for (word, query) in query.iter().enumerate() {
        for (sum, (key, _)) in sums.iter_mut().zip(&keys) {
            *sum = simd.mul_add_f32s(*query, key[word], *sum);
        }
    }
    let mut dots = [0.0; N];
    for ((dot, sum), (_, tail)) in dots.iter_mut().zip(sums).zip(&keys) {
        let rest: f32 = tail.iter().zip(query_tail).map(|(k, q)| k * q).sum();
        *dot = simd.reduce_sum_f32s(sum) + rest;
    }
    dots
}

/// `sums += weights . values`, entry after entry; entry `i` of `values` begins at `i * stride`.
#[inline(always)]
fn mix<S: Simd>(simd: S, sums: &mut [f32], weights: &[f32], values: &[f32], stride: usize) {
    let width = MIXED * S::F32_LANES;
    let done = sums.len() / width * width;
    let mut blocks = sums.chunks_exact_mut(width);
    for (block, sums) in blocks.by_ref().enumerate() {
        let (sums, _) = S::as_mut_simd_f32s(sums);
        let mut kept = [simd.splat_f32s(0.0); MIXED];
        kept.copy_from_slice(sums);
        for (entry, weight) in weights.iter().enumerate() {
            let place = entry * stride + block * width;
            let (values, _) = S::as_simd_f32s(&values[place..place + width]);
            let weight = simd.splat_f32s(*weight);
            for (kept, value) in kept.iter_mut().zip(values) {
                *kept = simd.mul_add_f32s(weight, *value, *kept);
            }
        }
        sums.copy_from_slice(&kept);
    }
    let rest = blocks.into_remainder();
    if !rest.is_empty() {
        for (entry, weight) in weights.iter().enumerate() {
            let place = entry * stride + done;
            add(simd, rest, &values[place..place + rest.len()], *weight);
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
            shape.join(&partials, &mut out);
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
