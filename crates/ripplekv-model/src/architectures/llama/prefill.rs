//! The dense prefill, layer by layer: projections of all positions, then for each piece of positions attention, output
//! projection and feed-forward part in one go, so that nothing of a piece leaves the caches of its core. Where column sums
//! are asked for, a second sweep over the scores follows, so a layer is handed over when all of this is done.

use candle_core::{Result, Tensor};
use rayon::prelude::*;
use ripplekv_cache::{LayerState, Snapshot};

use super::layer::{Layer, by_pieces};
use super::{Llama, failure};
use crate::ModelError;
use crate::decoder::{Prefill, PrefillOptions, host_slice};
use crate::kernels::{ColumnSums, KeyPanels, Normaliser, Seen, ValuePanels, cosine};

/// Keys and values of one KV head in the order of products.
struct Head {
    keys: KeyPanels,
    values: ValuePanels,
}

/// What a piece of positions gives besides their new hidden states.
#[derive(Default)]
struct Piece {
    /// Cosine between every position's state before and after, where asked for.
    cosines: Vec<f64>,
    /// `[kv head, position, head of the group]`, where column sums are asked for.
    normalisers: Vec<Normaliser>,
}

impl Llama {
    pub(super) fn prefill_layers(
        &self,
        ids: &[u32],
        options: PrefillOptions<'_>,
        on_layer: &mut dyn FnMut(usize, &LayerState),
    ) -> std::result::Result<Prefill, ModelError> {
        let n = ids.len();
        if n == 0 {
            return Err(failure("the prompt has no tokens".to_owned()));
        }
        self.check_positions(n - 1)?;
        let hidden = self.config.hidden_size;
        let window = options.needs.window_queries.min(n);
        let column_sums = options.needs.column_sums;
        let group = self.config.heads / self.config.kv_heads;
        let mut states = self.embed(ids)?;
        let mut projected = vec![0.0; n * self.projections()];
        let mut layers = Vec::new();
        let mut hidden_change = Vec::new();
        let mut room = Layer::default();
        for (index, layer) in self.layers.iter().enumerate() {
            let layer = &layer.for_rows(n, &mut room);
            self.project(layer, &states, &mut projected, |row| row);
            let mut state = self.layer_state(&projected, n, window)?;
            if let Some(edit) = options.edit_values {
                state.values = edit(index, state.values)?.contiguous()?;
            }
            let heads = self.heads(&state)?;
            // of the last layer only the last position is read on
            let is_cut = index + 1 == self.layers.len() && !options.hidden_change;
            let read_from = if is_cut { n - 1 } else { 0 };
            let attend_from = if column_sums { 0 } else { read_from };
            let pieces = by_pieces(
                &mut states[attend_from * hidden..],
                hidden,
                |space, first, states| {
                    let before = options.hidden_change.then(|| states.to_vec());
                    let (first, width) = (attend_from + first, self.projections());
                    let positions = states.len() / hidden;
                    let queries = &projected[first * width..][..positions * width];
                    let mut piece = Piece::default();
                    for (kv_head, head) in heads.iter().enumerate() {
                        let seen = [Seen {
                            keys: &head.keys,
                            values: &head.values,
                            length: n,
                            causal_from: Some(first + 1),
                        }];
                        self.mix_head(space, queries, kv_head, 1, &seen);
                        if column_sums {
                            let found = space.attention.normalisers(positions * group);
                            piece.normalisers.extend(found);
                        }
                    }
                    if first + positions > read_from {
                        self.finish(layer, space, states);
                    }
                    if let Some(before) = before {
                        piece.cosines = cosines_of_rows(&before, states, hidden);
                    }
                    Ok(piece)
                },
            )?;
            if column_sums {
                let sums = self.column_sums(&projected, &heads, &pieces);
                let shape = (self.config.kv_heads, n);
                state.column_sums = Some(Tensor::from_vec(sums, shape, &self.device)?);
            }
            drop(heads);
            on_layer(index, &state);
            if !options.discard_layers {
                layers.push(state);
            }
            if options.hidden_change {
                let cosines = pieces.iter().flat_map(|piece| &piece.cosines);
                hidden_change.push(1.0 - cosines.sum::<f64>() / n as f64);
            }
        }
        let logits = self.row_logits(&states[(n - 1) * hidden..]);
        Ok(Prefill {
            snapshot: Snapshot {
                layers,
                prompt_tokens: n,
            },
            logits: Tensor::from_vec(logits, self.config.vocab_size, &self.device)?,
            hidden_change,
        })
    }

    /// The cache of one layer, and the last `window` queries.
    fn layer_state(&self, projected: &[f32], n: usize, window: usize) -> Result<LayerState> {
        let (heads, kv_heads) = (self.config.heads, self.config.kv_heads);
        let keys_from = self.query_width();
        let values_from = keys_from + kv_heads * self.config.head_dim;
        let window_queries = match window {
            0 => None,
            _ => Some(self.by_head(projected, heads, 0, n - window)?),
        };
        Ok(LayerState {
            keys: self.by_head(projected, kv_heads, keys_from, 0)?,
            values: self.by_head(projected, kv_heads, values_from, 0)?,
            window_queries,
            column_sums: None,
        })
    }

    /// [`LayerState::column_sums`], from the queries in `projected` and what attention found of them.
    fn column_sums(&self, projected: &[f32], heads: &[Head], pieces: &[Piece]) -> Vec<f32> {
        let (dim, width) = (self.config.head_dim, self.projections());
        let group = self.config.heads / heads.len();
        let of_head = |kv_head: usize| {
            let own = |piece: &Piece| {
                let rows = piece.normalisers.len() / heads.len();
                piece.normalisers[kv_head * rows..][..rows].to_vec()
            };
            pieces.iter().flat_map(own).collect()
        };
        let normalisers: Vec<Vec<Normaliser>> = (0..heads.len()).map(of_head).collect();
        let blocks = ColumnSums::blocks(projected.len() / width);
        let tasks = (0..heads.len() * blocks).into_par_iter().with_max_len(1);
        let sums: Vec<Vec<f32>> = tasks
            .map(|task| {
                let kv_head = task / blocks;
                let sums = ColumnSums {
                    keys: &heads[kv_head].keys,
                    normalisers: &normalisers[kv_head],
                    heads: group,
                    dim,
                    scale: self.scale(),
                };
                let sums = sums.block(task % blocks, |position, of_group| {
                    let column = (kv_head * group + of_group) * dim;
                    &projected[position * width + column..][..dim]
                });
                let mean = |sum: f64| (sum / group as f64) as f32;
                sums.into_iter().map(mean).collect()
            })
            .collect();
        sums.concat()
    }

    /// `heads` heads that begin at column `column`, from position `first` on: `[heads, positions, head_dim]`.
    fn by_head(
        &self,
        projected: &[f32],
        heads: usize,
        column: usize,
        first: usize,
    ) -> Result<Tensor> {
        let (dim, width) = (self.config.head_dim, self.projections());
        let rows = &projected[first * width..];
        let positions = rows.len() / width;
        let mut out = vec![0.0; heads * positions * dim];
        out.par_chunks_mut(positions * dim)
            .enumerate()
            .for_each(|(head, out)| {
                let column = column + head * dim;
                for (out, row) in out.chunks_exact_mut(dim).zip(rows.chunks_exact(width)) {
                    out.copy_from_slice(&row[column..column + dim]);
                }
            });
        Tensor::from_vec(out, (heads, positions, dim), &self.device)
    }

    /// Keys and values of a layer in the order of products.
    fn heads(&self, state: &LayerState) -> Result<Vec<Head>> {
        let dim = self.config.head_dim;
        let [keys, values] = [&state.keys, &state.values].map(|tensor| tensor.storage_and_layout());
        let (keys, values) = (
            host_slice(&keys.0, keys.1)?,
            host_slice(&values.0, values.1)?,
        );
        let length = keys.len() / (self.config.kv_heads * dim);
        Ok(keys
            .par_chunks(length * dim)
            .zip(values.par_chunks(length * dim))
            .map(|(keys, values)| Head {
                keys: KeyPanels::pack(length, dim, |entry| &keys[entry * dim..][..dim]),
                values: ValuePanels::pack(length, dim, |entry| &values[entry * dim..][..dim]),
            })
            .collect())
    }
}

/// Cosine between every row before and after.
fn cosines_of_rows(before: &[f32], after: &[f32], width: usize) -> Vec<f64> {
    let rows = before.chunks_exact(width).zip(after.chunks_exact(width));
    rows.map(|(before, after)| cosine(before, after)).collect()
}
