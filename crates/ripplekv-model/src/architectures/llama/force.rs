//! Teacher forcing over many variants of one prompt's cache at once. Below the first layer in which a variant differs
//! its hidden states are the reference's, so it joins the batch only there; every product runs over all variants at once,
//! and keys or values that variants share are put in the order of products once. Where a variant's values differ from
//! the reference's by a multiple of a direction, queries and keys are still the reference's: its attention is the
//! reference's plus that multiple of the direction mixed by the same weights.

use std::sync::OnceLock;

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::layer::{Layer, LayerOfPass, Workspace, add, by_pieces, with_workspace};
use super::{Llama, ModelError, failure};
use crate::decoder::{Forced, ForcedBranch, Move, Variants, host_slice};
use crate::kernels::{KeyPanels, Seen, ValuePanels};
use ripplekv_cache::{CompressedCache, CompressedLayer};

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
    /// Of each distinct tensor.
    lengths: Vec<usize>,
    heads: Vec<Vec<P>>,
}

/// A variant as it runs.
#[derive(Clone, Copy)]
struct Variant<'a> {
    /// Its place among the results.
    place: usize,
    from_layer: usize,
    cache: &'a CompressedCache,
    moved: Option<Move>,
}

impl<'a> Variant<'a> {
    /// All of them, in the order in which they join, so that a new one goes to the end: by layer, and within a layer
    /// those last that need no attention of their own there. The first is the reference.
    fn sorted(variants: Variants<'a>, layers: usize) -> Result<Vec<Self>> {
        let Some(reference) = variants.branches.first() else {
            candle_core::bail!("no branch to run")
        };
        if reference.from_layer != 0 {
            candle_core::bail!("needs a reference from layer 0 first");
        }
        let branches = variants.branches.iter().map(|branch| Self {
            place: 0,
            from_layer: branch.from_layer,
            cache: &branch.cache,
            moved: None,
        });
        let moves = variants.moves.iter().map(|moved| Self {
            place: 0,
            from_layer: moved.layer.unwrap_or(0),
            cache: &reference.cache,
            moved: Some(*moved),
        });
        let mut all: Vec<Self> = branches.chain(moves).collect();
        for (place, variant) in all.iter_mut().enumerate() {
            variant.place = place;
        }
        if all.iter().any(|variant| variant.from_layer >= layers) {
            candle_core::bail!("a variant begins beyond the last layer");
        }
        all.sort_by_key(|variant| (variant.from_layer, variant.joins_by_sum().is_some()));
        Ok(all)
    }

    /// Where its attention in its first layer is a sum of what the reference has.
    fn joins_by_sum(&self) -> Option<Move> {
        self.moved.filter(|moved| moved.layer.is_some())
    }

    /// Where its values are moved in every layer, so that it runs by itself in all of them.
    fn moved_throughout(&self) -> Option<Move> {
        self.moved.filter(|moved| moved.layer.is_none())
    }
}

/// One layer's attention for all variants that run by themselves.
struct Attending<'a> {
    variants: &'a [Variant<'a>],
    /// Of the layer.
    index: usize,
    directions: &'a [Tensor],
    place: Placement,
}

/// Numbers that are used again from layer to layer.
#[derive(Default)]
struct Buffers {
    projected: Vec<f32>,
    /// After the output projection, `[variants * tokens, hidden]`.
    attended: Vec<f32>,
    /// What the reference's weights mix of each direction, after the output projection, `[directions * tokens, hidden]`.
    along: Vec<f32>,
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
                Ok((length, heads.map(|rows| pack(length, rows)).collect()))
            })
            .collect::<Result<Vec<_>>>()?;
        let (lengths, heads) = heads.into_iter().unzip();
        Ok(Self {
            of_caches,
            lengths,
            heads,
        })
    }

    fn length(&self, cache: usize) -> usize {
        self.lengths[self.of_caches[cache]]
    }

    fn of(&self, cache: usize, head: usize) -> &P {
        &self.heads[self.of_caches[cache]][head]
    }
}

impl Llama {
    pub(super) fn force_variants(
        &self,
        variants: Variants<'_>,
        tokens: &[u32],
        reread: bool,
        on_layer: &mut dyn FnMut(usize),
    ) -> std::result::Result<Forced, ModelError> {
        let invalid = |message: String| failure(format!("teacher forcing: {message}"));
        let all = Variant::sorted(variants, self.layers.len())
            .map_err(|error| invalid(error.to_string()))?;
        if tokens.is_empty() {
            return Err(invalid("needs tokens".to_owned()));
        }
        let place = Placement {
            tokens: tokens.len(),
            first: all[0].cache.prompt_tokens - usize::from(reread),
            reread: usize::from(reread),
        };
        self.check_positions(place.first + tokens.len() - 1)?;
        let block = tokens.len() * self.config.hidden_size;
        let mut states = self.embed(tokens)?;
        let mut buffers = Buffers::default();
        let mut local_errors: Vec<Option<f64>> = vec![None; all.len()];
        let mut room = Layer::default();
        for (index, layer) in self.layers.iter().enumerate() {
            let directions = match variants.moves {
                [] => Vec::new(),
                _ => (variants.directions)(index)?,
            };
            let missing = variants
                .moves
                .iter()
                .find(|moved| moved.direction >= directions.len());
            if let Some(moved) = missing {
                return Err(invalid(format!("no direction {}", moved.direction)));
            }
            let of_values = all[0].cache.layers[index].values.dims();
            if let Some(wrong) = directions.iter().find(|own| own.dims() != of_values) {
                return Err(invalid(format!(
                    "a direction is {:?}, the values of layer {index} are {of_values:?}",
                    wrong.dims()
                )));
            }
            let active = all.partition_point(|variant| variant.from_layer <= index);
            let attend = all.partition_point(|variant| {
                (variant.from_layer, variant.joins_by_sum().is_some()) <= (index, false)
            });
            let layer = &layer.for_rows(active * tokens.len(), &mut room);
            let attending = Attending {
                variants: &all[..attend],
                index,
                directions: &directions,
                place,
            };
            while states.len() < attend * block {
                states.extend_from_within(..block);
            }
            self.forced_attention(layer, &states, &attending, &mut buffers)?;
            while states.len() < active * block {
                states.extend_from_within(..block);
            }
            let Buffers {
                attended, along, ..
            } = &mut buffers;
            for moved in all[attend..active].iter().filter_map(Variant::joins_by_sum) {
                let end = attended.len();
                attended.extend_from_within(..block);
                let mixed = &along[moved.direction * block..][..block];
                add_multiple(&mut attended[end..], moved.factor, mixed);
            }
            let (reference, _) = attended.split_at(block);
            for (own, variant) in attended.chunks_exact(block).zip(&all).skip(1) {
                if variant.from_layer == index {
                    local_errors[variant.place] = Some(relative_error(reference, own));
                }
            }
            let hidden = self.config.hidden_size;
            by_pieces(&mut states, hidden, |space, first, states| {
                add(states, &attended[first * hidden..]);
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
        for (states, variant) in states.chunks_exact(block).zip(&all) {
            forced[variant.place].states = states.to_vec();
        }
        Ok(Forced { branches: forced })
    }

    /// The attention part of one layer for stacked variants, `[variants * tokens, hidden]`, after the output projection,
    /// into `attended` and `along`.
    fn forced_attention(
        &self,
        layer: &LayerOfPass<'_>,
        states: &[f32],
        attending: &Attending<'_>,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let Attending {
            variants,
            directions,
            place,
            ..
        } = *attending;
        let Buffers {
            projected,
            attended,
            along,
        } = buffers;
        let (hidden, width, tokens) = (self.config.hidden_size, self.projections(), place.tokens);
        projected.resize(states.len() / hidden * width, 0.0);
        let position = |row| place.first + row % tokens;
        self.project(layer, states, projected, position);
        let dim = self.config.head_dim;
        let caches: Vec<&CompressedLayer> = variants
            .iter()
            .map(|variant| &variant.cache.layers[attending.index])
            .collect();
        let keys: Vec<&Tensor> = caches.iter().map(|cache| &cache.keys).collect();
        let keys = Packed::new(&keys, |length, rows| {
            KeyPanels::pack(length, dim, |entry| &rows[entry * dim..][..dim])
        })?;
        let pack_values = |length: usize, rows: &[f32]| {
            ValuePanels::pack(length, dim, |entry| &rows[entry * dim..][..dim])
        };
        let values: Vec<&Tensor> = caches.iter().map(|cache| &cache.values).collect();
        let mut values = Packed::new(&values, pack_values)?;
        let along_panels = Packed::new(&directions.iter().collect::<Vec<_>>(), pack_values)?;
        for direction in 0..directions.len() {
            for head in 0..self.config.kv_heads {
                values.heads[0][head].append(along_panels.of(direction, head));
            }
        }
        attended.resize(states.len(), 0.0);
        let mixed_along = OnceLock::new();
        attended
            .par_chunks_mut(tokens * hidden)
            .zip(projected.par_chunks(tokens * width))
            .enumerate()
            .with_max_len(1)
            .for_each(|(variant, (out, projected))| {
                // the reference mixes the directions beside its values, and so does what is moved in every layer
                let moved = variants[variant].moved_throughout();
                let parts = match (variant, moved) {
                    (0, _) => 1 + directions.len(),
                    (_, Some(moved)) => 2 + moved.direction,
                    _ => 1,
                };
                with_workspace(|space| {
                    for head in 0..self.config.kv_heads {
                        let prompt = Seen {
                            keys: keys.of(variant, head),
                            values: values.of(variant, head),
                            length: keys.length(variant),
                            causal_from: None,
                        };
                        self.attend_forced(space, projected, head, parts, prompt, place);
                    }
                    let mut mixed = std::mem::take(&mut space.mixed);
                    let of_part = tokens * self.query_width();
                    let (own, others) = mixed.split_at_mut(of_part);
                    if let Some(moved) = moved {
                        let mixed = &others[moved.direction * of_part..][..of_part];
                        add_multiple(own, moved.factor, mixed);
                    }
                    self.project_output(layer, space, own, out);
                    if variant == 0 && !others.is_empty() {
                        let mut along = vec![0.0; directions.len() * tokens * hidden];
                        self.project_output(layer, space, others, &mut along);
                        // the reference is one variant
                        let _ = mixed_along.set(along);
                    }
                    space.mixed = mixed;
                });
            });
        *along = mixed_along.into_inner().unwrap_or_default();
        Ok(())
    }

    /// One variant's attention in one KV head, over its prompt cache and, causally, over its own tokens, into
    /// `space.mixed`.
    fn attend_forced(
        &self,
        space: &mut Workspace,
        projected: &[f32],
        kv_head: usize,
        parts: usize,
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
        self.mix_head(space, projected, kv_head, parts, &[prompt, own]);
    }
}

/// `sums += factor * values`; a factor of 0 leaves every bit as it is.
fn add_multiple(sums: &mut [f32], factor: f32, values: &[f32]) {
    if factor == 0.0 {
        return;
    }
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += factor * value;
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
