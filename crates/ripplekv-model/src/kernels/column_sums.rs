//! Column sums of causal attention: how much each entry gets from all queries. A second sweep over the scores, with what
//! the first one found of each row. A block of entries meets all its queries in order of position and is nobody else's,
//! so the sums depend on no other thread, and nothing but they is kept.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use ripplekv_cache::exponential::exp2;

use super::attention::{ENTRY_BLOCK, KeyPanels, Normaliser, Queries};
use super::micro::{Chunk, LANES, ROWS, accumulate};

/// Positions of one tile of queries: sums are f32 within one and f64 over them. Nothing but n may decide it.
const TILE: usize = 48;

/// Column sums of one KV head, over the query heads of its group.
pub(crate) struct ColumnSums<'a> {
    pub(crate) keys: &'a KeyPanels,
    /// Of all queries, `[n, heads]`.
    pub(crate) normalisers: &'a [Normaliser],
    /// Query heads of the group.
    pub(crate) heads: usize,
    pub(crate) dim: usize,
    pub(crate) scale: f32,
}

impl ColumnSums<'_> {
    /// Blocks that `positions` entries make.
    pub(crate) fn blocks(positions: usize) -> usize {
        positions.div_ceil(ENTRY_BLOCK)
    }

    /// One sum for each entry of a block. `query` gives the query of a position and a head of the group.
    pub(crate) fn block<'q>(
        &self,
        block: usize,
        query: impl Fn(usize, usize) -> &'q [f32],
    ) -> Vec<f64> {
        let positions = self.normalisers.len() / self.heads;
        let first_entry = block * ENTRY_BLOCK;
        let entries = first_entry..positions.min(first_entry + ENTRY_BLOCK);
        let mut totals = vec![0.0; entries.len()];
        let mut queries = Queries::default();
        let mut sums = Vec::new();
        // tiles before the block see nothing of it
        for first in (first_entry / TILE * TILE..positions).step_by(TILE) {
            let count = TILE.min(positions - first);
            let shape = [count, self.heads, self.dim];
            queries.set(shape, self.scale, |position, head| {
                query(first + position, head)
            });
            sums.clear();
            sums.resize(entries.len().div_ceil(LANES), [0.0; LANES]);
            pulp::Arch::new().dispatch(Sweep {
                keys: self.keys,
                entries: entries.clone(),
                queries: &queries,
                first,
                heads: self.heads,
                normalisers: &self.normalisers[first * self.heads..][..count * self.heads],
                sums: &mut sums,
            });
            for (total, sum) in totals.iter_mut().zip(sums.as_flattened()) {
                *total += f64::from(*sum);
            }
        }
        totals
    }
}

/// Of a row that only fills a group up.
const NOTHING: Normaliser = Normaliser {
    maximum: 0.0,
    factor: 0.0,
};

/// Adds what the queries of a tile attend to each entry of a block to `sums`, `[panel of entries]`.
struct Sweep<'a> {
    keys: &'a KeyPanels,
    entries: Range<usize>,
    queries: &'a Queries,
    /// Position of the first query.
    first: usize,
    heads: usize,
    normalisers: &'a [Normaliser],
    sums: &'a mut [Chunk],
}

impl WithSimd for Sweep<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { keys, entries, .. } = self;
        let keys_of_block = &keys.values[entries.start / LANES * keys.channels..];
        let rows = self.normalisers.chunks(ROWS);
        for (group, (queries, normalisers)) in self.queries.rows.groups().zip(rows).enumerate() {
            let own: [Normaliser; ROWS] =
                std::array::from_fn(|lane| normalisers.get(lane).copied().unwrap_or(NOTHING));
            let seen: [usize; ROWS] = std::array::from_fn(|lane| {
                let position = self.first + (group * ROWS + lane) / self.heads;
                (position + 1)
                    .saturating_sub(entries.start)
                    .min(entries.len())
            });
            let most = seen[normalisers.len() - 1].div_ceil(LANES);
            let panels = keys_of_block
                .chunks_exact(keys.channels)
                .zip(&mut *self.sums);
            for (panel, (keys, sums)) in panels.take(most).enumerate() {
                let mut scores = [[0.0; LANES]; ROWS];
                accumulate(simd, queries, keys, &mut scores);
                for (scores, own) in scores.iter_mut().zip(&own) {
                    let shift = simd.splat_f32s(own.maximum);
                    let factor = simd.splat_f32s(own.factor);
                    for word in S::as_mut_simd_f32s(scores).0 {
                        let weight = exp2(simd, simd.sub_f32s(*word, shift));
                        *word = simd.mul_f32s(weight, factor);
                    }
                }
                // positions ascend, so only where the first row does not see all does any other not
                let first = panel * LANES;
                if seen[0] < first + LANES {
                    for (scores, seen) in scores.iter_mut().zip(seen) {
                        scores[seen.saturating_sub(first).min(LANES)..].fill(0.0);
                    }
                }
                for scores in &scores {
                    let words = S::as_simd_f32s(scores).0;
                    for (sum, word) in S::as_mut_simd_f32s(sums).0.iter_mut().zip(words) {
                        *sum = simd.add_f32s(*sum, *word);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernels::attention::tests::numbers;
    use crate::kernels::attention::{Attention, Seen, Sizes, ValuePanels};

    struct Case {
        heads: usize,
        dim: usize,
        length: usize,
        /// Positions of one attention.
        piece: usize,
        /// What queries are multiplied by.
        size: f32,
    }

    impl Case {
        fn queries(&self) -> Vec<f32> {
            let mut queries = numbers(self.length * self.heads * self.dim, 1);
            queries.iter_mut().for_each(|value| *value *= self.size);
            queries
        }

        fn keys(&self) -> Vec<f32> {
            numbers(self.length * self.dim, 2)
        }

        fn scale(&self) -> f32 {
            1.0 / (self.dim as f32).sqrt()
        }

        /// Through the two sweeps.
        fn sums(&self) -> Vec<f64> {
            let (heads, dim, length) = (self.heads, self.dim, self.length);
            let (queries, keys) = (self.queries(), self.keys());
            let key = |entry: usize| &keys[entry * dim..][..dim];
            let values = ValuePanels::pack(length, dim, key);
            let keys = KeyPanels::pack(length, dim, key);
            let query =
                |position: usize, head: usize| &queries[(position * heads + head) * dim..][..dim];
            let mut attention = Attention::default();
            let mut normalisers = Vec::new();
            for first in (0..length).step_by(self.piece) {
                let positions = self.piece.min(length - first);
                let seen = Seen {
                    keys: &keys,
                    values: &values,
                    length,
                    causal_from: Some(first + 1),
                };
                let shape = Sizes {
                    positions,
                    heads,
                    dim,
                    parts: 1,
                };
                let own = |position: usize, head: usize| query(first + position, head);
                attention.run(shape, self.scale(), own, &[seen]);
                normalisers.extend(attention.normalisers(positions * heads));
            }
            let sums = ColumnSums {
                keys: &keys,
                normalisers: &normalisers,
                heads,
                dim,
                scale: self.scale(),
            };
            (0..ColumnSums::blocks(length))
                .flat_map(|block| sums.block(block, query))
                .collect()
        }

        /// By definition, in f64.
        fn exact(&self) -> Vec<f64> {
            let (heads, dim) = (self.heads, self.dim);
            let (queries, keys) = (self.queries(), self.keys());
            let mut sums = vec![0.0; self.length];
            for (row, query) in queries.chunks_exact(dim).enumerate() {
                let logits: Vec<f64> = keys
                    .chunks_exact(dim)
                    .take(row / heads + 1)
                    .map(|key| {
                        let products = key.iter().zip(query);
                        let dot: f64 = products.map(|(k, q)| f64::from(*k) * f64::from(*q)).sum();
                        dot * f64::from(self.scale())
                    })
                    .collect();
                let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = logits.iter().map(|logit| (logit - most).exp()).sum();
                for (sum, logit) in sums.iter_mut().zip(&logits) {
                    *sum += (logit - most).exp() / total;
                }
            }
            sums
        }

        /// Worst error of a sum as a share of it, or of `least` where it is less.
        fn error(&self, least: f64) -> f64 {
            let (sums, exact) = (self.sums(), self.exact());
            assert_eq!(sums.len(), exact.len());
            let pairs = sums.iter().zip(&exact);
            pairs
                .map(|(sum, exact)| (sum - exact).abs() / exact.max(least))
                .fold(0.0, f64::max)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        /// Lengths around the borders of chunks, tiles and blocks, attention in pieces of any size, group sizes that fill no
        /// group of rows.
        #[test]
        fn column_sums_are_right_and_every_query_gives_one(
            heads in 1usize..8,
            dim in prop::sample::select(vec![16usize, 24, 64, 80]),
            length in prop::sample::select(vec![1usize, 2, 15, 16, 17, 48, 49, 255, 256, 257, 300, 515]),
            piece in 1usize..60,
        ) {
            let case = Case { heads, dim, length, piece, size: 1.0 };
            let error = case.error(0.0);
            prop_assert!(error < 1e-5, "{error}");
            // attention may cut positions as it likes
            let sums = case.sums();
            prop_assert_eq!(&sums, &Case { piece: 48, ..case }.sums());
            let sum: f64 = sums.iter().sum();
            let queries = (length * heads) as f64;
            prop_assert!((sum - queries).abs() < 1e-5 * queries, "{sum} {queries}");
        }
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let case = Case {
            heads: 3,
            dim: 16,
            length: 600,
            piece: 48,
            size: 400.0,
        };
        let error = case.error(1.0);
        assert!(error < 1e-3, "{error}");
    }
}
