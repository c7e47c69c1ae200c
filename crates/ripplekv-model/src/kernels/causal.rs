//! Causal attention of a whole prompt by itself: what a prefill does between its products, to be measured.

use rayon::prelude::*;

use super::{Attention, KeyPanels, Seen, Sizes, ValuePanels};

/// Positions of one parallel piece, as in a prefill.
const PIECE: usize = 48;

/// Sizes of [`causal_attention`].
#[derive(Debug, Clone, Copy)]
pub struct AttentionShape {
    /// n.
    pub positions: usize,
    /// Query heads, a multiple of the KV heads.
    pub heads: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
}

/// What every position mixes, `[n, heads, head_dim]`, of `queries`, `[n, heads, head_dim]`, and of `keys` and `values`,
/// `[kv_heads, n, head_dim]`.
#[must_use]
pub fn causal_attention(
    shape: AttentionShape,
    queries: &[f32],
    keys: &[f32],
    values: &[f32],
) -> Vec<f32> {
    let AttentionShape {
        positions,
        heads,
        kv_heads,
        head_dim: dim,
    } = shape;
    let packed: Vec<(KeyPanels, ValuePanels)> = (0..kv_heads)
        .into_par_iter()
        .map(|head| {
            let place = |entry: usize| head * positions * dim + entry * dim;
            (
                KeyPanels::pack(positions, dim, |entry| &keys[place(entry)..][..dim]),
                ValuePanels::pack(positions, dim, |entry| &values[place(entry)..][..dim]),
            )
        })
        .collect();
    let (group, scale) = (heads / kv_heads, 1.0 / (dim as f32).sqrt());
    let mut out = vec![0.0; positions * heads * dim];
    // late positions first: they cost the most
    out.par_chunks_mut(PIECE * heads * dim)
        .enumerate()
        .rev()
        .with_max_len(1)
        .for_each_init(Attention::default, |attention, (piece, out)| {
            let first = piece * PIECE;
            let count = out.len() / (heads * dim);
            for (kv_head, (keys, values)) in packed.iter().enumerate() {
                let place = |position: usize, of_group: usize| {
                    (position * heads + kv_head * group + of_group) * dim
                };
                let query = |position: usize, of_group: usize| {
                    &queries[place(first + position, of_group)..][..dim]
                };
                let seen = Seen {
                    keys,
                    values,
                    length: positions,
                    causal_from: Some(first + 1),
                };
                let sizes = Sizes {
                    positions: count,
                    heads: group,
                    dim,
                    parts: 1,
                };
                attention.run(sizes, scale, query, &[seen]);
                for position in 0..count {
                    for of_group in 0..group {
                        let out = &mut out[place(position, of_group)..][..dim];
                        attention.read(0, position, of_group, out);
                    }
                }
            }
        });
    out
}

#[cfg(test)]
mod tests {
    use super::super::attention::tests::{exact, numbers, worst};
    use super::*;

    #[test]
    fn every_position_sees_what_came_before_it() {
        let shape = AttentionShape {
            positions: 101,
            heads: 6,
            kv_heads: 2,
            head_dim: 24,
        };
        let (n, heads, dim) = (shape.positions, shape.heads, shape.head_dim);
        let queries = numbers(n * heads * dim, 1);
        let [keys, values] = [2, 3].map(|seed| numbers(n * shape.kv_heads * dim, seed));
        let got = causal_attention(shape, &queries, &keys, &values);
        for position in 0..n {
            for head in 0..heads {
                let place = (position * heads + head) * dim;
                let entries: Vec<(&[f32], &[f32])> = (0..=position)
                    .map(|entry| {
                        let row = (head / 3 * n + entry) * dim;
                        (&keys[row..row + dim], &values[row..row + dim])
                    })
                    .collect();
                let expected = exact(
                    &queries[place..place + dim],
                    1.0 / (dim as f32).sqrt(),
                    &entries,
                );
                let error = worst(&got[place..place + dim], &expected);
                assert!(error < 1e-5, "position {position}, head {head}: {error}");
            }
        }
    }
}
