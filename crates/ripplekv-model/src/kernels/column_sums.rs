//! Column sums of causal attention: how much each entry gets from all queries. A second sweep over the scores, with what
//! the first one found of each row. A block of entries meets all its queries in order of position and is nobody else's,
//! so the sums depend on no other thread, and nothing but they is kept.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use ripplekv_cache::exponential::exp2;

use super::attention::{ENTRY_BLOCK, KeyPanels, Normaliser, Queries};
use super::micro::{Chunk, LANES, ROWS, accumulate};

/// Sums of one block of entries of one KV head over its queries, in f64 over tiles of queries and in f32 within one.
pub(crate) struct ColumnSums<'a> {
    keys: &'a KeyPanels,
    entries: Range<usize>,
    totals: Vec<f64>,
    /// Of one tile, `[panel of entries]`.
    tile: Vec<Chunk>,
    queries: Queries,
}

impl<'a> ColumnSums<'a> {
    /// Blocks of `entries` entries.
    pub(crate) fn blocks(entries: usize) -> usize {
        entries.div_ceil(ENTRY_BLOCK)
    }

    /// No sums yet of a block of the `length` entries of `keys`.
    pub(crate) fn new(keys: &'a KeyPanels, length: usize, block: usize) -> Self {
        let first = block * ENTRY_BLOCK;
        let entries = first..length.min(first + ENTRY_BLOCK);
        Self {
            keys,
            totals: vec![0.0; entries.len()],
            tile: Vec::new(),
            queries: Queries::default(),
            entries,
        }
    }

    /// Adds the attention of `positions * heads` queries, `[position, head of the group]`, from position `first` on.
    /// `query` gives the query of a position, counted from `first`, and a head of the group; `normalisers` are theirs.
    pub(crate) fn add<'q>(
        &mut self,
        first: usize,
        [positions, heads, dim]: [usize; 3],
        scale: f32,
        query: impl Fn(usize, usize) -> &'q [f32],
        normalisers: &[Normaliser],
    ) {
        if first + positions <= self.entries.start {
            return;
        }
        self.queries.set([positions, heads, dim], scale, query);
        self.tile.clear();
        self.tile
            .resize(self.entries.len().div_ceil(LANES), [0.0; LANES]);
        pulp::Arch::new().dispatch(Sweep {
            sums: self,
            first,
            heads,
            normalisers,
        });
        for (total, sum) in self.totals.iter_mut().zip(self.tile.as_flattened()) {
            *total += f64::from(*sum);
        }
    }

    /// One sum an entry.
    pub(crate) fn finish(self) -> Vec<f64> {
        self.totals
    }
}

/// Of a row that only fills a group up.
const NOTHING: Normaliser = Normaliser {
    maximum: 0.0,
    factor: 0.0,
};

struct Sweep<'s, 'a> {
    sums: &'s mut ColumnSums<'a>,
    first: usize,
    heads: usize,
    normalisers: &'s [Normaliser],
}

impl WithSimd for Sweep<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ColumnSums {
            keys,
            entries,
            tile,
            queries,
            ..
        } = self.sums;
        let keys_of_block = &keys.values[entries.start / LANES * keys.channels..];
        let rows = self.normalisers.chunks(ROWS);
        for (group, (queries, normalisers)) in queries.rows.groups().zip(rows).enumerate() {
            let own: [Normaliser; ROWS] =
                std::array::from_fn(|lane| normalisers.get(lane).copied().unwrap_or(NOTHING));
            let seen: [usize; ROWS] = std::array::from_fn(|lane| {
                let position = self.first + (group * ROWS + lane) / self.heads;
                (position + 1)
                    .saturating_sub(entries.start)
                    .min(entries.len())
            });
            let most = seen[normalisers.len() - 1].div_ceil(LANES);
            let panels = keys_of_block.chunks_exact(keys.channels).zip(&mut *tile);
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
    use crate::kernels::attention::{Attention, Seen, ValuePanels};

    struct Case {
        heads: usize,
        dim: usize,
        length: usize,
        /// Positions of one tile.
        tile: usize,
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

        /// Through the two sweeps, tile by tile.
        fn sums(&self) -> Vec<f64> {
            let (heads, dim, length) = (self.heads, self.dim, self.length);
            let (queries, keys) = (self.queries(), self.keys());
            let key = |entry: usize| &keys[entry * dim..][..dim];
            let values = ValuePanels::pack(length, dim, key);
            let keys = KeyPanels::pack(length, dim, key);
            let tiles: Vec<(usize, usize)> = (0..length)
                .step_by(self.tile)
                .map(|first| (first, self.tile.min(length - first)))
                .collect();
            let query = |first: usize| {
                let queries = &queries[first * heads * dim..];
                move |position: usize, head: usize| {
                    &queries[(position * heads + head) * dim..][..dim]
                }
            };
            let mut attention = Attention::default();
            let normalisers: Vec<Vec<Normaliser>> = tiles
                .iter()
                .map(|&(first, positions)| {
                    let seen = Seen {
                        keys: &keys,
                        values: &values,
                        length,
                        causal_from: Some(first + 1),
                    };
                    let shape = [positions, heads, dim];
                    attention.run(shape, self.scale(), query(first), &[seen]);
                    attention.normalisers(positions * heads).collect()
                })
                .collect();
            (0..ColumnSums::blocks(length))
                .flat_map(|block| {
                    let mut sums = ColumnSums::new(&keys, length, block);
                    for (&(first, positions), normalisers) in tiles.iter().zip(&normalisers) {
                        let shape = [positions, heads, dim];
                        sums.add(first, shape, self.scale(), query(first), normalisers);
                    }
                    sums.finish()
                })
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

        /// Worst error of a sum as a share of it, or of 1 where it is less.
        fn error(&self) -> f64 {
            let (sums, exact) = (self.sums(), self.exact());
            assert_eq!(sums.len(), exact.len());
            let pairs = sums.iter().zip(&exact);
            pairs
                .map(|(sum, exact)| (sum - exact).abs() / exact.max(1.0))
                .fold(0.0, f64::max)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        /// Lengths around the borders of chunks and blocks, tiles that end anywhere, group sizes that fill no group of rows.
        #[test]
        fn column_sums_are_right_and_every_query_gives_one(
            heads in 1usize..8,
            dim in prop::sample::select(vec![16usize, 24, 64, 80]),
            length in prop::sample::select(vec![1usize, 2, 15, 16, 17, 255, 256, 257, 300, 515]),
            tile in 1usize..60,
        ) {
            let case = Case { heads, dim, length, tile, size: 1.0 };
            let error = case.error();
            prop_assert!(error < 1e-5, "{error}");
            let sum: f64 = case.sums().iter().sum();
            let queries = (length * heads) as f64;
            prop_assert!((sum - queries).abs() < 1e-5 * queries, "{sum} {queries}");
        }
    }

    #[test]
    fn an_entry_that_nobody_has_seen_yet_gets_nothing() {
        let case = Case {
            heads: 1,
            dim: 16,
            length: 300,
            tile: 48,
            size: 1.0,
        };
        let keys = case.keys();
        let keys = KeyPanels::pack(300, 16, |entry| &keys[entry * 16..][..16]);
        let queries = case.queries();
        let mut sums = ColumnSums::new(&keys, 300, 0);
        let one = Normaliser {
            maximum: 0.0,
            factor: 1.0,
        };
        // positions 3 to 5 see entries 0 to 5
        let query = |position: usize, _: usize| &queries[position * 16..][..16];
        sums.add(3, [3, 1, 16], 1.0, query, &[one; 3]);
        let sums = sums.finish();
        assert!(sums[..6].iter().all(|sum| *sum > 0.0));
        assert_eq!(sums[6..], [0.0; 250]);
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let case = Case {
            heads: 3,
            dim: 16,
            length: 600,
            tile: 48,
            size: 400.0,
        };
        let error = case.error();
        assert!(error < 1e-3, "{error}");
    }
}
