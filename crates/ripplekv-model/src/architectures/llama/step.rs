//! One token, or some in a row, for many rows at once. Everything but attention runs over all tokens in one product;
//! attention of each token over its row's cache, parallel over rows, heads and parts of long caches. A token's bits depend
//! neither on the company of its row nor on how many tokens are fed with it.

use rayon::prelude::*;

use super::layer::add;
use super::{Llama, ModelError};
use crate::decoder::{DecodeRow, host_slice};
use crate::kernels::{Part, SingleAttention};

/// One token of a step.
#[derive(Clone, Copy)]
struct Fed {
    row: usize,
    /// Tokens of the same row before it in this step.
    before: usize,
    position: usize,
}

/// Memory of the attention of one step, used again from layer to layer.
#[derive(Default)]
struct Buffers {
    partials: Vec<f32>,
    /// Mixed values of every token, `[tokens, heads * head_dim]`.
    mixed: Vec<f32>,
}

impl Llama {
    /// Logits, `[tokens of all rows, vocab]`.
    pub(super) fn step_rows(
        &self,
        rows: &mut [&mut DecodeRow],
        tokens: &[&[u32]],
    ) -> Result<Vec<f32>, ModelError> {
        let mut fed = Vec::new();
        for (row, (own, tokens)) in rows.iter().zip(tokens).enumerate() {
            fed.extend((0..tokens.len()).map(|before| Fed {
                row,
                before,
                position: own.position() + before,
            }));
        }
        if let Some(last) = fed.iter().map(|fed| fed.position).max() {
            self.check_positions(last)?;
        }
        let query_width = self.query_width();
        let mut states = self.embed(&tokens.concat())?;
        let mut few = self.few();
        let (mut projected, mut out) = (Vec::new(), Vec::new());
        let mut buffers = Buffers::default();
        for (index, layer) in self.layers.iter().enumerate() {
            few.normed(
                &states,
                &layer.input_norm,
                &layer.projections,
                &mut projected,
            );
            self.turn(&mut projected, |token| fed[token].position);
            let width = self.projections();
            for (fed, projected) in fed.iter().zip(projected.chunks_exact(width)) {
                rows[fed.row].append(index, &projected[query_width..]);
            }
            self.attend_rows(rows, &fed, index, &projected, &mut buffers)?;
            few.plain(&buffers.mixed, query_width, &layer.output, &mut out);
            add(&mut states, &out);
            few.normed(&states, &layer.post_norm, &layer.gate_up, &mut out);
            let mut gate_up = std::mem::take(&mut out);
            let inner = self.config.intermediate_size;
            few.gated(&mut gate_up, inner, &layer.down, &mut out);
            add(&mut states, &out);
        }
        for (row, tokens) in rows.iter_mut().zip(tokens) {
            row.advance(tokens.len());
        }
        Ok(self.row_logits(&states))
    }

    /// Mixed values of every token.
    fn attend_rows(
        &self,
        rows: &[&mut DecodeRow],
        fed: &[Fed],
        layer: usize,
        projected: &[f32],
        buffers: &mut Buffers,
    ) -> Result<(), ModelError> {
        let (kv_heads, dim) = (self.config.kv_heads, self.config.head_dim);
        let shape = SingleAttention {
            heads: self.config.heads / kv_heads,
            dim,
            scale: self.scale(),
        };
        let of_head = shape.heads * dim;
        // every token's queries with the parts of its cache, prompt first
        let mut parts: Vec<(&[f32], Part<'_>)> = Vec::new();
        // how many tokens of a row read the same part: one task, so that all but the first find it in a core's cache
        let mut readers: Vec<usize> = Vec::new();
        // of every token and KV head
        let mut places: Vec<Vec<usize>> = vec![Vec::new(); fed.len() * kv_heads];
        let guards: Vec<_> = rows
            .iter()
            .map(|row| {
                let layer = row.prompt(layer);
                [&layer.keys, &layer.values].map(|tensor| tensor.storage_and_layout())
            })
            .collect();
        let tokens = projected.chunks_exact(self.projections()).zip(fed);
        let tokens: Vec<_> = tokens.enumerate().collect();
        for tokens in tokens.chunk_by(|(_, (_, a)), (_, (_, b))| a.row == b.row) {
            let (_, (_, first)) = tokens[0];
            let [keys, values] = &guards[first.row];
            let (keys, values) = (
                host_slice(&keys.0, keys.1)?,
                host_slice(&values.0, values.1)?,
            );
            let length = keys.len() / (kv_heads * dim);
            let generated = rows[first.row].generated_part(layer);
            let earlier = generated.keys.len() / (kv_heads * dim) - tokens.len();
            for head in 0..kv_heads {
                let prompt = Part {
                    keys: &keys[head * length * dim..],
                    values: &values[head * length * dim..],
                    stride: dim,
                    length,
                };
                // what the last of the tokens sees
                let own = Part {
                    keys: &generated.keys[head * dim..],
                    values: &generated.values[head * dim..],
                    stride: kv_heads * dim,
                    length: earlier + tokens.len(),
                };
                let prompt = prompt.split().map(|part| (part, None));
                let own = own.split().scan(0, |first, part| {
                    let begins = *first;
                    *first += part.length;
                    Some((part, Some(begins)))
                });
                for (part, begins) in prompt.chain(own) {
                    let before = parts.len();
                    for (token, (projected, fed)) in tokens {
                        let seen = earlier + fed.before + 1;
                        let length = match begins {
                            None => part.length,
                            Some(begins) => part.length.min(seen.saturating_sub(begins)),
                        };
                        if length > 0 {
                            places[token * kv_heads + head].push(parts.len());
                            let queries = &projected[head * of_head..(head + 1) * of_head];
                            parts.push((queries, Part { length, ..part }));
                        }
                    }
                    readers.push(parts.len() - before);
                }
            }
        }
        let length = shape.partial_len();
        let Buffers { partials, mixed } = buffers;
        partials.resize(parts.len() * length, 0.0);
        let mut rest = (partials.as_mut_slice(), parts.as_slice());
        let tasks = readers.iter().map(|count| {
            let (partials, parts) = std::mem::take(&mut rest);
            let (own_partials, partials) = partials.split_at_mut(count * length);
            let (own_parts, parts) = parts.split_at(*count);
            rest = (partials, parts);
            (own_partials, own_parts)
        });
        let tasks: Vec<_> = tasks.collect();
        tasks
            .into_par_iter()
            .with_max_len(1)
            .for_each(|(partials, parts)| {
                for (partial, (queries, part)) in partials.chunks_exact_mut(length).zip(parts) {
                    shape.part(queries, *part, partial);
                }
            });
        mixed.resize(fed.len() * self.query_width(), 0.0);
        for (places, out) in places.iter().zip(mixed.chunks_exact_mut(of_head)) {
            let own = places
                .iter()
                .map(|place| &partials[place * length..][..length]);
            shape.join(own, out);
        }
        Ok(())
    }
}
