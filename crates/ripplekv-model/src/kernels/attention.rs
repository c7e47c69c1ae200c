//! Attention of many queries with an online softmax (Milakov and Gimelshein 2018; Dao et al. 2022) in blocks of entries.
//! The queries of a KV head at some positions are the rows of the products; six rows' scores of a block stay in the
//! first-level cache between the two products. A row's bits do not depend on the rows beside it.

use pulp::{Simd, WithSimd};
use ripplekv_cache::exponential::exp2;

use super::micro::{Chunk, LANES, ROWS, accumulate};
use super::rows::Rows;

/// Entries of one block: keys and values of 64 channels are 128 KiB, within a second-level cache.
pub(super) const ENTRY_BLOCK: usize = 256;

/// Keys of one KV head, `[panel of LANES entries, channel]`.
pub(crate) struct KeyPanels {
    /// Channels, filled up with zeros to whole chunks.
    pub(super) channels: usize,
    pub(super) values: Vec<Chunk>,
}

impl KeyPanels {
    /// From `length` rows of `dim` channels.
    pub(crate) fn pack<'a>(length: usize, dim: usize, row: impl Fn(usize) -> &'a [f32]) -> Self {
        let channels = dim.div_ceil(LANES) * LANES;
        let mut values = vec![[0.0; LANES]; length.div_ceil(LANES) * channels];
        for (panel, values) in values.chunks_exact_mut(channels).enumerate() {
            for lane in 0..LANES.min(length - panel * LANES) {
                for (target, value) in values.iter_mut().zip(row(panel * LANES + lane)) {
                    target[lane] = *value;
                }
            }
        }
        Self { channels, values }
    }
}

/// Values of one KV head, `[part, panel of LANES channels, entry]`.
pub(crate) struct ValuePanels {
    /// Entries, filled up with zeros to whole chunks.
    entries: usize,
    values: Vec<Chunk>,
}

impl ValuePanels {
    /// From `length` rows of `dim` channels.
    pub(crate) fn pack<'a>(length: usize, dim: usize, row: impl Fn(usize) -> &'a [f32]) -> Self {
        let entries = length.div_ceil(LANES) * LANES;
        let mut values = vec![[0.0; LANES]; dim.div_ceil(LANES) * entries];
        for entry in 0..length {
            for (panel, value) in row(entry).chunks(LANES).enumerate() {
                values[panel * entries + entry][..value.len()].copy_from_slice(value);
            }
        }
        Self { entries, values }
    }

    /// Puts other values of the same entries behind these, to be mixed by the same weights.
    pub(crate) fn append(&mut self, other: &Self) {
        debug_assert_eq!(self.entries, other.entries);
        self.values.extend_from_slice(&other.values);
    }

    /// Panels of the entries `first..first + count`, of which [`LANES`] are a chunk; none where there are no entries.
    fn panels(&self, first: usize, count: usize) -> impl Iterator<Item = &[Chunk]> {
        let panels = self.values.chunks_exact(self.entries.max(1));
        panels.map(move |panel| &panel[first..first + count])
    }
}

/// Entries that queries look at.
pub(crate) struct Seen<'a> {
    pub(crate) keys: &'a KeyPanels,
    /// Where several [`Sizes::parts`] are mixed, those that are missing count as zeros.
    pub(crate) values: &'a ValuePanels,
    pub(crate) length: usize,
    /// Entries that the first query position sees, where each later position sees one more; `None` where all see all.
    pub(crate) causal_from: Option<usize>,
}

/// Queries of one KV head as rows of products, `[position, head of the group]`, filled up to whole groups of rows with
/// the last one.
#[derive(Default)]
pub(super) struct Queries {
    pub(super) rows: Rows,
    scaled: Vec<f32>,
}

impl Queries {
    /// Takes the queries that `query` gives for a position and a head of the group, so that scores are in base 2.
    pub(super) fn set<'a>(
        &mut self,
        [positions, heads, dim]: [usize; 3],
        scale: f32,
        query: impl Fn(usize, usize) -> &'a [f32],
    ) {
        let scale = scale * std::f32::consts::LOG2_E;
        let rows = (positions * heads).next_multiple_of(ROWS);
        self.rows.reset(rows, dim);
        self.scaled.resize(dim, 0.0);
        for row in 0..rows {
            let row_of = row.min(positions * heads - 1);
            let query = query(row_of / heads, row_of % heads);
            for (scaled, query) in self.scaled.iter_mut().zip(query) {
                *scaled = query * scale;
            }
            self.rows.set_row(row, &self.scaled);
        }
    }
}

/// What turns a query's scores into attention: `2^(score - maximum) * factor`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Normaliser {
    pub(super) maximum: f32,
    pub(super) factor: f32,
}

/// What one attention works on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sizes {
    /// Query positions.
    pub(crate) positions: usize,
    /// Query heads of the KV head.
    pub(crate) heads: usize,
    /// Channels.
    pub(crate) dim: usize,
    /// Values of each entry that are mixed by the same weights, one after the other ([`ValuePanels::append`]).
    pub(crate) parts: usize,
}

/// One attention at a time; the memory is used again.
#[derive(Default)]
pub(crate) struct Attention {
    sizes: Sizes,
    queries: Queries,
    /// `[panel of the block, row of the group]`.
    scores: Vec<Chunk>,
    /// `[group, part, panel of channels, row of the group]`.
    sums: Vec<Chunk>,
    maxima: Vec<f32>,
    totals: Vec<f32>,
}

impl Attention {
    /// Attention of `positions * heads` queries of one KV head over `pieces`, of which every query sees at least one
    /// entry. `query` gives the query of a position and a head of the group.
    pub(crate) fn run<'a>(
        &mut self,
        sizes: Sizes,
        scale: f32,
        query: impl Fn(usize, usize) -> &'a [f32],
        pieces: &[Seen<'_>],
    ) {
        self.sizes = sizes;
        let Sizes {
            positions,
            heads,
            dim,
            ..
        } = sizes;
        self.queries.set([positions, heads, dim], scale, query);
        pulp::Arch::new().dispatch(Run {
            attention: self,
            pieces,
        });
    }

    /// Writes what the query of a position and a head of the group mixed of a part of the values to `out`, `[dim]`.
    pub(crate) fn read(&self, part: usize, position: usize, head: usize, out: &mut [f32]) {
        let row = position * self.sizes.heads + head;
        let panels = self.sizes.dim.div_ceil(LANES);
        let place = row / ROWS * self.sizes.parts + part;
        let first = place * panels * ROWS + row % ROWS;
        let factor = 1.0 / self.totals[row];
        for (panel, out) in out.chunks_mut(LANES).enumerate() {
            for (target, value) in out.iter_mut().zip(&self.sums[first + panel * ROWS]) {
                *target = value * factor;
            }
        }
    }

    /// Of the first `rows` queries, `[position, head of the group]`.
    pub(crate) fn normalisers(&self, rows: usize) -> impl Iterator<Item = Normaliser> {
        let of_rows = self.maxima.iter().zip(&self.totals).take(rows);
        of_rows.map(|(maximum, total)| Normaliser {
            maximum: *maximum,
            factor: 1.0 / total,
        })
    }
}

struct Run<'a> {
    attention: &'a mut Attention,
    pieces: &'a [Seen<'a>],
}

impl WithSimd for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let space = self.attention;
        let Sizes {
            positions,
            heads,
            dim,
            parts,
        } = space.sizes;
        let rows = space.queries.rows.len();
        let panels = parts * dim.div_ceil(LANES);
        space
            .scores
            .resize(ENTRY_BLOCK / LANES * ROWS, [0.0; LANES]);
        space.sums.clear();
        space.sums.resize(rows * panels, [0.0; LANES]);
        space.maxima.clear();
        space.maxima.resize(rows, f32::NEG_INFINITY);
        space.totals.clear();
        space.totals.resize(rows, 0.0);
        for piece in self.pieces {
            let visible = |row: usize| {
                let position = (row / heads).min(positions - 1);
                let seen = piece.causal_from.map(|first| first + position);
                seen.map_or(piece.length, |seen| seen.min(piece.length))
            };
            for first in (0..visible(rows - 1)).step_by(ENTRY_BLOCK) {
                let groups = space
                    .queries
                    .rows
                    .groups()
                    .zip(space.sums.chunks_exact_mut(panels * ROWS));
                for (group, (queries, sums)) in groups.enumerate() {
                    let row = group * ROWS;
                    let in_block = |row| visible(row).saturating_sub(first).min(ENTRY_BLOCK);
                    let count = in_block(row + ROWS - 1).div_ceil(LANES);
                    let channels = piece.keys.channels;
                    let keys = &piece.keys.values[first / LANES * channels..][..count * channels];
                    let (scores, _) = space.scores.as_chunks_mut::<ROWS>();
                    let scores = &mut scores[..count];
                    for (scores, keys) in scores.iter_mut().zip(keys.chunks_exact(channels)) {
                        *scores = [[0.0; LANES]; ROWS];
                        accumulate(simd, queries, keys, scores);
                    }
                    for lane in 0..ROWS {
                        let row = row + lane;
                        let softmax = Softmax {
                            maximum: &mut space.maxima[row],
                            total: &mut space.totals[row],
                        };
                        softmax.block(simd, scores, lane, in_block(row), sums);
                    }
                    let values = piece.values.panels(first, count * LANES);
                    for (sums, values) in sums.as_chunks_mut::<ROWS>().0.iter_mut().zip(values) {
                        accumulate(simd, scores.as_flattened(), values, sums);
                    }
                }
            }
        }
    }
}

/// One row's state of the online softmax.
struct Softmax<'a> {
    maximum: &'a mut f32,
    total: &'a mut f32,
}

impl Softmax<'_> {
    /// Turns the first `visible` scores (base 2) of row `lane` into weights relative to the maximum so far, the others
    /// into zeros, and brings what the row has summed to the new maximum.
    #[inline(always)]
    fn block<S: Simd>(
        self,
        simd: S,
        scores: &mut [[Chunk; ROWS]],
        lane: usize,
        visible: usize,
        sums: &mut [Chunk],
    ) {
        let (whole, rest) = (visible / LANES, visible % LANES);
        if rest > 0 {
            scores[whole][lane][rest..].fill(f32::NEG_INFINITY);
        }
        let (seen, hidden) = scores.split_at_mut(visible.div_ceil(LANES));
        let mut most = simd.splat_f32s(f32::NEG_INFINITY);
        for rows in &*seen {
            for word in S::as_simd_f32s(&rows[lane]).0 {
                most = simd.max_f32s(most, *word);
            }
        }
        let most = simd.reduce_max_f32s(most);
        if most > *self.maximum {
            if *self.maximum > f32::NEG_INFINITY {
                let factor = exp2(simd, simd.splat_f32s(*self.maximum - most));
                let factor = simd.reduce_max_f32s(factor);
                *self.total *= factor;
                for sums in sums.as_chunks_mut::<ROWS>().0 {
                    for value in &mut sums[lane] {
                        *value *= factor;
                    }
                }
            }
            *self.maximum = most;
        }
        let shift = simd.splat_f32s(*self.maximum);
        let mut total = simd.splat_f32s(0.0);
        for rows in &mut *seen {
            for word in S::as_mut_simd_f32s(&mut rows[lane]).0 {
                *word = exp2(simd, simd.sub_f32s(*word, shift));
                total = simd.add_f32s(total, *word);
            }
        }
        *self.total += simd.reduce_sum_f32s(total);
        if rest > 0 {
            // next to nothing, but nothing is what they are
            seen[whole][lane][rest..].fill(0.0);
        }
        for rows in hidden {
            rows[lane] = [0.0; LANES];
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
