//! Teacher forcing over many variants of one prompt's cache at once. Below the first layer in which a variant differs
//! its hidden states are the reference's, so it joins the batch only there; every product runs over all variants at once,
//! and keys or values that variants share are put in the order of products once.

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::layer::{Layer, Workspace, add, by_pieces, with_workspace};
use super::{Llama, ModelError, failure};
use crate::decoder::{Branch, Forced, ForcedBranch, host_slice};
use crate::kernels::{KeyPanels, Seen, ValuePanels};
use ripplekv_cache::CompressedLayer;

/// Where a forced token stands and what it sees.
#[derive(Clone, Copy)]
struct Placement {
    /// Forced tokens.
    tokens: usize,
    /// Position of the first token.
    first: usize,
    /// Tokens at the front that are prompt tokens already in the cache: they are read, not appended.
    reread: usize,
}

/// Keys or values of every KV head in the order of products, for each distinct tensor.
struct Packed<P> {
    of_caches: Vec<usize>,
    heads: Vec<Vec<P>>,
}

impl<P: Send> Packed<P> {
    /// One entry a cache; `pack` gets entries and rows of one KV head.
    fn new(tensors: &[&Tensor], pack: impl Fn(usize, &[f32]) -> P + Sync) -> Result<Self> {
        let mut distinct: Vec<&Tensor> = Vec::new();
        let of_caches = tensors
            .iter()
            .map(|tensor| {
                let known = distinct.iter().position(|known| known.id() == tensor.id());
                known.unwrap_or_else(|| {
                    distinct.push(tensor);
                    distinct.len() - 1
                })
            })
            .collect();
        let heads = distinct
            .par_iter()
            .map(|tensor| {
                let (_, length, dim) = tensor.dims3()?;
                let guard = tensor.storage_and_layout();
                let rows = host_slice(&guard.0, guard.1)?;
                let heads = rows.par_chunks(length * dim);
                Ok(heads.map(|rows| pack(length, rows)).collect())
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { of_caches, heads })
    }

    fn of(&self, cache: usize, head: usize) -> &P {
        &self.heads[self.of_caches[cache]][head]
    }
}

impl Llama {
    pub(super) fn force_branches(
        &self,
        branches: &[Branch],
        tokens: &[u32],
        reread: bool,
        on_layer: &mut dyn FnMut(usize),
    ) -> std::result::Result<Forced, ModelError> {
        let invalid = |message: &str| failure(format!("teacher forcing: {message}"));
        let Some(reference) = branches.first() else {
            return Err(invalid("no branch to run"));
        };
        if tokens.is_empty() || reference.from_layer != 0 {
            return Err(invalid("needs tokens, and a reference from layer 0 first"));
        }
        if branches
            .iter()
            .any(|branch| branch.from_layer >= self.layers.len())
        {
            return Err(invalid("a branch begins beyond the last layer"));
        }
        let place = Placement {
            tokens: tokens.len(),
            first: reference.cache.prompt_tokens - usize::from(reread),
            reread: usize::from(reread),
        };
        self.check_positions(place.first + tokens.len() - 1)?;
        // in the order in which branches join, so that a new one goes to the end
        let mut order: Vec<usize> = (0..branches.len()).collect();
        order.sort_by_key(|&index| branches[index].from_layer);
        let block = tokens.len() * self.config.hidden_size;
        let mut states = self.embed(tokens)?;
        let (mut projected, mut attended) = (Vec::new(), Vec::new());
        let mut local_errors: Vec<Option<f64>> = vec![None; branches.len()];
        for (index, layer) in self.layers.iter().enumerate() {
            let active = order.partition_point(|&branch| branches[branch].from_layer <= index);
            while states.len() < active * block {
                states.extend_from_within(..block);
            }
            let caches: Vec<&CompressedLayer> = order[..active]
                .iter()
                .map(|&branch| &branches[branch].cache.layers[index])
                .collect();
            let buffers = [&mut projected, &mut attended];
            self.forced_attention(layer, &states, &caches, place, buffers)?;
            let (reference, _) = attended.split_at(block);
            for (own, &branch) in attended.chunks_exact(block).zip(&order).skip(1) {
                if branches[branch].from_layer == index {
                    local_errors[branch] = Some(relative_error(reference, own));
                }
            }
            add(&mut states, &attended);
            by_pieces(&mut states, self.config.hidden_size, |space, _, states| {
                self.feed_forward(layer, space, states);
                Ok(())
            })?;
            on_layer(index + 1);
        }
        let mut forced: Vec<ForcedBranch> = local_errors
            .into_iter()
            .map(|local_error| ForcedBranch {
                states: Vec::new(),
                local_error,
            })
            .collect();
        for (states, &branch) in states.chunks_exact(block).zip(&order) {
            forced[branch].states = states.to_vec();
        }
        Ok(Forced { branches: forced })
    }

    /// The attention part of one layer for stacked variants, `[variants * tokens, hidden]`, after the output projection,
    /// into `attended`; `projected` is working memory.
    fn forced_attention(
        &self,
        layer: &Layer,
        states: &[f32],
        caches: &[&CompressedLayer],
        place: Placement,
        [projected, attended]: [&mut Vec<f32>; 2],
    ) -> Result<()> {
        let (hidden, width, tokens) = (self.config.hidden_size, self.projections(), place.tokens);
        projected.resize(states.len() / hidden * width, 0.0);
        let position = |row| place.first + row % tokens;
        self.project(layer, states, projected, position);
        let dim = self.config.head_dim;
        let tensors = |part: fn(&CompressedLayer) -> &Tensor| -> Vec<&Tensor> {
            caches.iter().map(|cache| part(cache)).collect()
        };
        let keys = Packed::new(&tensors(|cache| &cache.keys), |length, rows| {
            KeyPanels::pack(length, dim, |entry| &rows[entry * dim..][..dim])
        })?;
        let values = Packed::new(&tensors(|cache| &cache.values), |length, rows| {
            ValuePanels::pack(length, dim, |entry| &rows[entry * dim..][..dim])
        })?;
        attended.resize(states.len(), 0.0);
        attended
            .par_chunks_mut(tokens * hidden)
            .zip(projected.par_chunks(tokens * width))
            .enumerate()
            .with_max_len(1)
            .try_for_each(|(branch, (out, projected))| {
                let length = caches[branch].keys.dims3()?.1;
                with_workspace(|space| {
                    for head in 0..self.config.kv_heads {
                        let prompt = Seen {
                            keys: keys.of(branch, head),
                            values: values.of(branch, head),
                            length,
                            causal_from: None,
                        };
                        self.attend_forced(space, projected, head, prompt, place);
                    }
                    let mixed = std::mem::take(&mut space.mixed);
                    self.project_output(layer, space, &mixed, out);
                    space.mixed = mixed;
                });
                Ok(())
            })
    }

    /// One variant's attention in one KV head, over its prompt cache and, causally, over its own tokens, into
    /// `space.mixed`.
    fn attend_forced(
        &self,
        space: &mut Workspace,
        projected: &[f32],
        kv_head: usize,
        prompt: Seen<'_>,
        place: Placement,
    ) {
        let (dim, kv_heads) = (self.config.head_dim, self.config.kv_heads);
        let width = self.projections();
        let column = |row: usize, column: usize| &projected[row * width + column..][..dim];
        let keys_from = self.query_width() + kv_head * dim;
        let appended = place.tokens - place.reread;
        let own_key = |entry| column(place.reread + entry, keys_from);
        let own_value = |entry| column(place.reread + entry, keys_from + kv_heads * dim);
        let own_keys = KeyPanels::pack(appended, dim, own_key);
        let own_values = ValuePanels::pack(appended, dim, own_value);
        let own = Seen {
            keys: &own_keys,
            values: &own_values,
            length: appended,
            causal_from: Some(1 - place.reread),
        };
        self.mix_head(space, projected, kv_head, &[prompt, own]);
    }
}

/// Frobenius norm of the difference over that of the reference.
fn relative_error(reference: &[f32], other: &[f32]) -> f64 {
    let mut difference = 0.0f64;
    let mut size = 0.0f64;
    for (a, b) in reference.iter().zip(other) {
        difference += f64::from(b - a).powi(2);
        size += f64::from(*a).powi(2);
    }
    if difference == 0.0 {
        0.0
    } else {
        (difference / size).sqrt()
    }
}
