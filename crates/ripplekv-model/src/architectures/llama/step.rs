//! One token for many rows at once. Everything but attention runs over all rows in one product; attention of each row
//! over its own cache, parallel over rows, heads and parts of long caches. A row's bits do not depend on its company.

use rayon::prelude::*;

use super::layer::add;
use super::{Llama, ModelError};
use crate::decoder::{DecodeRow, host_slice};
use crate::kernels::{Part, SingleAttention};

impl Llama {
    /// Logits, `[rows, vocab]`.
    pub(super) fn step_rows(
        &self,
        rows: &mut [&mut DecodeRow],
        tokens: &[u32],
    ) -> Result<Vec<f32>, ModelError> {
        for row in rows.iter() {
            self.check_positions(row.position())?;
        }
        let query_width = self.query_width();
        let mut states = self.embed(tokens)?;
        let mut few = self.few();
        let (mut projected, mut mixed, mut out) = (Vec::new(), Vec::new(), Vec::new());
        let mut partials = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            few.normed(
                &states,
                &layer.input_norm,
                &layer.projections,
                &mut projected,
            );
            self.turn(&mut projected, |row| rows[row].position());
            let width = self.projections();
            for (row, projected) in rows.iter_mut().zip(projected.chunks_exact(width)) {
                row.append(index, &projected[query_width..]);
            }
            self.attend_rows(rows, index, &projected, &mut partials, &mut mixed)?;
            few.plain(&mixed, query_width, &layer.output, &mut out);
            add(&mut states, &out);
            few.normed(&states, &layer.post_norm, &layer.gate_up, &mut out);
            let mut gate_up = std::mem::take(&mut out);
            let inner = self.config.intermediate_size;
            few.gated(&mut gate_up, inner, &layer.down, &mut out);
            add(&mut states, &out);
        }
        for row in rows.iter_mut() {
            row.advance();
        }
        Ok(self.row_logits(&states))
    }

    /// Mixed values of every row, `[rows, heads * head_dim]`.
    fn attend_rows(
        &self,
        rows: &[&mut DecodeRow],
        layer: usize,
        projected: &[f32],
        partials: &mut Vec<f32>,
        mixed: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        let (kv_heads, dim) = (self.config.kv_heads, self.config.head_dim);
        let shape = SingleAttention {
            heads: self.config.heads / kv_heads,
            dim,
            scale: self.scale(),
        };
        let guards: Vec<_> = rows
            .iter()
            .map(|row| {
                let layer = row.prompt(layer);
                [&layer.keys, &layer.values].map(|tensor| tensor.storage_and_layout())
            })
            .collect();
        // every row and KV head with its parts, prompt first
        let mut parts: Vec<(&[f32], Part<'_>)> = Vec::new();
        let mut counts = Vec::with_capacity(rows.len() * kv_heads);
        let of_head = shape.heads * dim;
        let all_projected = projected.chunks_exact(self.projections());
        for ((row, [keys, values]), projected) in rows.iter().zip(&guards).zip(all_projected) {
            let (keys, values) = (
                host_slice(&keys.0, keys.1)?,
                host_slice(&values.0, values.1)?,
            );
            let length = keys.len() / (kv_heads * dim);
            let generated = row.generated_part(layer);
            for head in 0..kv_heads {
                let before = parts.len();
                let queries = &projected[head * of_head..(head + 1) * of_head];
                let prompt = Part {
                    keys: &keys[head * length * dim..],
                    values: &values[head * length * dim..],
                    stride: dim,
                    length,
                };
                let own = Part {
                    keys: &generated.keys[head * dim..],
                    values: &generated.values[head * dim..],
                    stride: kv_heads * dim,
                    length: generated.keys.len() / (kv_heads * dim),
                };
                for part in prompt.split().chain(own.split()) {
                    parts.push((queries, part));
                }
                counts.push(parts.len() - before);
            }
        }
        let length = shape.partial_len();
        partials.resize(parts.len() * length, 0.0);
        partials
            .par_chunks_mut(length)
            .zip(&parts)
            .with_max_len(1)
            .for_each(|(partial, (queries, part))| shape.part(queries, *part, partial));
        mixed.resize(rows.len() * self.query_width(), 0.0);
        let mut rest = partials.as_slice();
        for (count, out) in counts.iter().zip(mixed.chunks_exact_mut(of_head)) {
            let (own, others) = rest.split_at(count * length);
            shape.join(own, out);
            rest = others;
        }
        Ok(())
    }
}
