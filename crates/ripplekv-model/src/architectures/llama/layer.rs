//! What every pass does with rows of hidden states in one layer, apart from attention.

use std::cell::RefCell;

use candle_core::Result;
use rayon::prelude::*;

use super::Llama;
use crate::kernels::{Attention, Chunk, Panels, ROWS, Rows, Seen, Sizes, rms_norm, swiglu};

/// Most rows of one parallel piece: few, so that threads end together; enough to read weights and keys seldom.
const MOST_ROWS: usize = 48;

/// Rows from which on f32 is made of a layer's weights once instead of in every piece: it takes as long as making it in
/// about six pieces.
const ROWS_IN_F32: usize = 288;

/// Rows of one parallel piece of so many: as many pieces for every thread, in whole groups of the products.
fn piece_rows(rows: usize) -> usize {
    let pieces = rows.div_ceil(MOST_ROWS);
    let pieces = pieces.next_multiple_of(rayon::current_num_threads());
    rows.div_ceil(pieces.max(1))
        .next_multiple_of(ROWS)
        .max(ROWS)
}

/// Weights of one layer.
#[derive(Default)]
pub(super) struct Layer {
    /// `[hidden]`.
    pub(super) input_norm: Vec<f32>,
    /// Queries, keys and values of all heads, one after another.
    pub(super) projections: Panels,
    pub(super) output: Panels,
    /// `[hidden]`.
    pub(super) post_norm: Vec<f32>,
    /// Gate, then up.
    pub(super) gate_up: Panels,
    pub(super) down: Panels,
}

impl Layer {
    /// The weights for a pass over so many rows. For many they are in f32, put in `room` where they are kept in another
    /// form; for few, making that would take longer than doing without. The bits of the pass are the same.
    pub(super) fn for_rows<'a>(&'a self, rows: usize, room: &'a mut Layer) -> LayerOfPass<'a> {
        let Self {
            projections,
            output,
            gate_up,
            down,
            ..
        } = self;
        let [projections, output, gate_up, down] = match rows >= ROWS_IN_F32 {
            true => [
                projections.in_f32(&mut room.projections),
                output.in_f32(&mut room.output),
                gate_up.in_f32(&mut room.gate_up),
                down.in_f32(&mut room.down),
            ],
            false => [projections, output, gate_up, down],
        };
        LayerOfPass {
            input_norm: &self.input_norm,
            projections,
            output,
            post_norm: &self.post_norm,
            gate_up,
            down,
        }
    }

    /// Bytes of the weights as they are kept.
    pub(super) fn bytes(&self) -> u64 {
        let matrices = [&self.projections, &self.output, &self.gate_up, &self.down];
        let norms = size_of_val(&self.input_norm[..]) + size_of_val(&self.post_norm[..]);
        matrices.map(Panels::bytes).iter().sum::<u64>() + norms as u64
    }
}

/// Weights of one layer as a pass reads them.
pub(super) struct LayerOfPass<'a> {
    pub(super) input_norm: &'a [f32],
    pub(super) projections: &'a Panels,
    pub(super) output: &'a Panels,
    pub(super) post_norm: &'a [f32],
    pub(super) gate_up: &'a Panels,
    pub(super) down: &'a Panels,
}

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

/// Runs `work` with this thread's working memory.
pub(super) fn with_workspace<T>(work: impl FnOnce(&mut Workspace) -> T) -> T {
    // taken out, so that work within work finds another instead of a lock
    let mut space = WORKSPACE.take();
    let result = work(&mut space);
    WORKSPACE.set(space);
    result
}

/// Working memory of one thread, used again from piece to piece and layer to layer.
#[derive(Default)]
pub(super) struct Workspace {
    pub(super) attention: Attention,
    /// Mixed values of some positions, `[parts, positions, heads * head_dim]`.
    pub(super) mixed: Vec<f32>,
    rows: Rows,
    normed: Vec<f32>,
    wide: Vec<f32>,
    narrow: Vec<f32>,
}

impl Llama {
    /// Queries, keys and values of `states`, `[rows, hidden]`, into `out`, `[rows, projections]`; queries and keys turned
    /// to the positions that `position` gives for each row.
    pub(super) fn project(
        &self,
        layer: &LayerOfPass<'_>,
        states: &[f32],
        out: &mut [f32],
        position: impl Fn(usize) -> usize + Sync,
    ) {
        let count = piece_rows(states.len() / self.config.hidden_size);
        out.par_chunks_mut(count * self.projections())
            .zip(states.par_chunks(count * self.config.hidden_size))
            .enumerate()
            .with_max_len(1)
            .for_each(|(piece, (out, states))| {
                with_workspace(|space| {
                    let Workspace { normed, rows, .. } = space;
                    self.norm_rows(states, layer.input_norm, normed, rows);
                    layer.projections.multiply_here(rows, out);
                });
                self.turn(out, |row| position(piece * count + row));
            });
    }

    /// Mixes `parts` values of one KV head for the queries in `projected`, `[positions, projections]`, into
    /// `space.mixed`, `[parts, positions, heads * head_dim]`.
    pub(super) fn mix_head(
        &self,
        space: &mut Workspace,
        projected: &[f32],
        kv_head: usize,
        parts: usize,
        pieces: &[Seen<'_>],
    ) {
        let dim = self.config.head_dim;
        let group = self.config.heads / self.config.kv_heads;
        let (width, mixed_width) = (self.projections(), self.query_width());
        let positions = projected.len() / width;
        let query = |position: usize, of_group: usize| {
            let column = (kv_head * group + of_group) * dim;
            &projected[position * width + column..][..dim]
        };
        let sizes = Sizes {
            positions,
            heads: group,
            dim,
            parts,
        };
        space.attention.run(sizes, self.scale(), query, pieces);
        space.mixed.resize(parts * positions * mixed_width, 0.0);
        for (row, mixed) in space.mixed.chunks_exact_mut(mixed_width).enumerate() {
            let (part, position) = (row / positions, row % positions);
            let own = &mut mixed[kv_head * group * dim..][..group * dim];
            for (of_group, out) in own.chunks_exact_mut(dim).enumerate() {
                space.attention.read(part, position, of_group, out);
            }
        }
    }

    /// Turns queries and keys in rows of projections.
    pub(super) fn turn(&self, rows: &mut [f32], position: impl Fn(usize) -> usize) {
        let turned = (self.config.heads + self.config.kv_heads) * self.config.head_dim;
        for (row, values) in rows.chunks_exact_mut(self.projections()).enumerate() {
            self.rope.apply(&mut values[..turned], position(row));
        }
    }

    /// Adds the output projection of `space.mixed` and then the feed-forward part to `states`, `[rows, hidden]`.
    pub(super) fn finish(
        &self,
        layer: &LayerOfPass<'_>,
        space: &mut Workspace,
        states: &mut [f32],
    ) {
        let mut projected = std::mem::take(&mut space.narrow);
        projected.resize(states.len(), 0.0);
        let mixed = std::mem::take(&mut space.mixed);
        self.project_output(layer, space, &mixed, &mut projected);
        add(states, &projected);
        (space.mixed, space.narrow) = (mixed, projected);
        self.feed_forward(layer, space, states);
    }

    /// The output projection of `mixed`, `[rows, heads * head_dim]`, into `out`, `[rows, hidden]`.
    pub(super) fn project_output(
        &self,
        layer: &LayerOfPass<'_>,
        space: &mut Workspace,
        mixed: &[f32],
        out: &mut [f32],
    ) {
        space.rows.set(mixed, self.query_width());
        layer.output.multiply_here(&space.rows, out);
    }

    /// Adds the feed-forward part to `states`, `[rows, hidden]`.
    pub(super) fn feed_forward(
        &self,
        layer: &LayerOfPass<'_>,
        space: &mut Workspace,
        states: &mut [f32],
    ) {
        let inner = self.config.intermediate_size;
        self.norm_rows(states, layer.post_norm, &mut space.normed, &mut space.rows);
        space.wide.resize(space.rows.len() * 2 * inner, 0.0);
        layer.gate_up.multiply_here(&space.rows, &mut space.wide);
        gate_rows(&mut space.wide, inner, &mut space.rows);
        space.narrow.resize(states.len(), 0.0);
        layer.down.multiply_here(&space.rows, &mut space.narrow);
        add(states, &space.narrow);
    }

    fn norm_rows(&self, states: &[f32], weight: &[f32], normed: &mut Vec<f32>, rows: &mut Rows) {
        let hidden = self.config.hidden_size;
        rows.reset(states.len() / hidden, hidden);
        normed.resize(hidden, 0.0);
        for (row, states) in states.chunks_exact(hidden).enumerate() {
            rms_norm(states, weight, self.config.rms_norm_eps, normed);
            rows.set_row(row, normed);
        }
    }

    /// The same products for rows so few that outputs are what runs in parallel.
    pub(super) fn few(&self) -> Few<'_> {
        Few {
            llama: self,
            rows: Rows::default(),
            normed: Vec::new(),
            blocks: Vec::new(),
        }
    }

    /// `[heads * head_dim]`.
    pub(super) fn query_width(&self) -> usize {
        self.config.heads * self.config.head_dim
    }

    /// Width of a row of queries, keys and values.
    pub(super) fn projections(&self) -> usize {
        (self.config.heads + 2 * self.config.kv_heads) * self.config.head_dim
    }
}

/// The same work for few rows, parallel over the outputs of each product; the same bits.
pub(super) struct Few<'a> {
    llama: &'a Llama,
    rows: Rows,
    normed: Vec<f32>,
    blocks: Vec<Chunk>,
}

impl Few<'_> {
    /// `weight` times the norm of `states`.
    pub(super) fn normed(
        &mut self,
        states: &[f32],
        norm: &[f32],
        weight: &Panels,
        out: &mut Vec<f32>,
    ) {
        self.llama
            .norm_rows(states, norm, &mut self.normed, &mut self.rows);
        weight.multiply(&self.rows, &mut self.blocks, out);
    }

    /// [`Few::normed`] row by row with the row's number, on several threads.
    pub(super) fn each_normed(
        &mut self,
        states: &[f32],
        norm: &[f32],
        weight: &Panels,
        visit: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        let Self {
            llama,
            rows,
            normed,
            blocks,
        } = self;
        llama.norm_rows(states, norm, normed, rows);
        weight.multiply_into_blocks(rows, blocks);
        (0..rows.len()).into_par_iter().for_each(|row| {
            with_workspace(|space| {
                space.wide.resize(weight.outputs(), 0.0);
                weight.read_row(blocks, rows.len(), row, &mut space.wide);
                visit(row, &mut space.wide);
            });
        });
    }

    /// `weight` times `inputs`, rows of `width`.
    pub(super) fn plain(
        &mut self,
        inputs: &[f32],
        width: usize,
        weight: &Panels,
        out: &mut Vec<f32>,
    ) {
        self.rows.set(inputs, width);
        weight.multiply(&self.rows, &mut self.blocks, out);
    }

    /// `weight` times `silu(gate) * up`; `gate_up` is `[rows, 2 * inner]` and used up.
    pub(super) fn gated(
        &mut self,
        gate_up: &mut [f32],
        inner: usize,
        weight: &Panels,
        out: &mut Vec<f32>,
    ) {
        gate_rows(gate_up, inner, &mut self.rows);
        weight.multiply(&self.rows, &mut self.blocks, out);
    }
}

/// `silu(gate) * up` of `gate_up`, `[rows, 2 * inner]`, which is used up.
fn gate_rows(gate_up: &mut [f32], inner: usize, rows: &mut Rows) {
    rows.reset(gate_up.len() / (2 * inner), inner);
    for (row, values) in gate_up.chunks_exact_mut(2 * inner).enumerate() {
        let (gate, up) = values.split_at_mut(inner);
        swiglu(gate, up);
        rows.set_row(row, gate);
    }
}

pub(super) fn add(states: &mut [f32], change: &[f32]) {
    for (state, change) in states.iter_mut().zip(change) {
        *state += change;
    }
}

/// Runs over `states` in pieces of some rows, late rows first (of a causal prompt they cost the most); gives what each
/// piece gave, in order.
pub(super) fn by_pieces<T: Send>(
    states: &mut [f32],
    row: usize,
    work: impl Fn(&mut Workspace, usize, &mut [f32]) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let rows = piece_rows(states.len() / row);
    let mut results = states
        .par_chunks_mut(rows * row)
        .enumerate()
        .rev()
        .with_max_len(1)
        .map(|(piece, states)| with_workspace(|space| work(space, piece * rows, states)))
        .collect::<Result<Vec<T>>>()?;
    results.reverse();
    Ok(results)
}
