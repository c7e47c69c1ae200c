//! Attention against its definition in f64, and that a query's bits are its own.

use proptest::prelude::*;

use super::*;

/// Repeatable numbers of about [-1.5, 1.5].
pub(crate) fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u64 << 23) as f32 * 1.5 - 1.5
        })
        .collect()
}

/// Attention of one query by definition, in f64: `entries` are keys and values, each `[dim]`.
pub(crate) fn exact(query: &[f32], scale: f32, entries: &[(&[f32], &[f32])]) -> Vec<f64> {
    let logits: Vec<f64> = entries
        .iter()
        .map(|(key, _)| {
            let products = key.iter().zip(query);
            let dot: f64 = products.map(|(k, q)| f64::from(*k) * f64::from(*q)).sum();
            dot * f64::from(scale)
        })
        .collect();
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = logits.iter().map(|logit| (logit - most).exp()).sum();
    let mut out = vec![0.0; query.len()];
    for (logit, (_, value)) in logits.iter().zip(entries) {
        for (out, value) in out.iter_mut().zip(*value) {
            *out += (logit - most).exp() / total * f64::from(*value);
        }
    }
    out
}

pub(crate) fn worst(got: &[f32], exact: &[f64]) -> f64 {
    assert_eq!(got.len(), exact.len());
    let differences = got.iter().zip(exact);
    differences
        .map(|(got, exact)| (f64::from(*got) - exact).abs())
        .fold(0.0, f64::max)
}

/// One piece all of whose entries are seen (none where `before` is 0), then one causal piece.
struct Case {
    heads: usize,
    dim: usize,
    positions: usize,
    before: usize,
    causal_from: usize,
    size: f32,
}

/// Worst error against f64, and the bits of the first query.
fn check(case: &Case) -> (f64, Vec<f32>) {
    let Case {
        heads,
        dim,
        positions,
        before,
        causal_from,
        size,
    } = *case;
    let own = causal_from + positions - 1;
    let queries: Vec<f32> = numbers(positions * heads * dim, 1)
        .iter()
        .map(|value| value * size)
        .collect();
    let rows = |seed: u64| [numbers(before * dim, seed), numbers(own * dim, seed + 1)];
    let (keys, values) = (rows(2), rows(4));
    let lengths = [before, own];
    let pack = |piece: usize| {
        let key = |entry: usize| &keys[piece][entry * dim..][..dim];
        let value = |entry: usize| &values[piece][entry * dim..][..dim];
        (
            KeyPanels::pack(lengths[piece], dim, key),
            ValuePanels::pack(lengths[piece], dim, value),
        )
    };
    let packed = [pack(0), pack(1)];
    let pieces: Vec<Seen<'_>> = [None, Some(causal_from)]
        .into_iter()
        .enumerate()
        .filter(|(piece, _)| lengths[*piece] > 0)
        .map(|(piece, causal_from)| Seen {
            keys: &packed[piece].0,
            values: &packed[piece].1,
            length: lengths[piece],
            causal_from,
        })
        .collect();
    let query = |position: usize, head: usize| &queries[(position * heads + head) * dim..][..dim];
    let scale = 1.0 / (dim as f32).sqrt();
    let mut attention = Attention::default();
    let sizes = Sizes {
        positions,
        heads,
        dim,
        parts: 1,
    };
    attention.run(sizes, scale, query, &pieces);
    let mut error = 0.0f64;
    let mut first = vec![0.0; dim];
    attention.read(0, 0, 0, &mut first);
    for position in 0..positions {
        let seen = [before, causal_from + position];
        let mut entries: Vec<(&[f32], &[f32])> = Vec::new();
        for piece in 0..2 {
            for entry in 0..seen[piece] {
                let place = entry * dim..(entry + 1) * dim;
                entries.push((&keys[piece][place.clone()], &values[piece][place]));
            }
        }
        for head in 0..heads {
            let mut got = vec![0.0; dim];
            attention.read(0, position, head, &mut got);
            error = error.max(worst(&got, &exact(query(position, head), scale, &entries)));
        }
    }
    (error, first)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Lengths around the borders of chunks and blocks, group sizes and channels that fill no register.
    #[test]
    fn attention_is_right_and_a_query_does_not_depend_on_its_company(
        heads in 1usize..8,
        dim in prop::sample::select(vec![16usize, 24, 64, 80]),
        positions in 1usize..40,
        before in prop::sample::select(vec![0usize, 1, 15, 16, 255, 256, 257, 530]),
        causal_from in prop::sample::select(vec![1usize, 2, 240, 255, 256]),
    ) {
        let case = Case { heads, dim, positions, before, causal_from, size: 1.0 };
        let (error, first) = check(&case);
        prop_assert!(error < 1e-5, "{error}");
        let alone = Case { positions: 1, ..case };
        // entries behind the first query's are hidden from it, so leaving them out must change nothing
        prop_assert_eq!(first, check(&alone).1);
    }
}

#[test]
fn parts_of_the_values_are_mixed_by_the_same_weights() {
    let (heads, dim, positions, length) = (3, 24, 7, 530);
    let numbers = |seed| numbers(length * dim, seed);
    let (queries, keys, own_keys) = (numbers(1), numbers(2), numbers(3));
    let [first, second, own] = [4, 5, 6].map(numbers);
    let pack = |rows: &[f32], length| ValuePanels::pack(length, dim, |i| &rows[i * dim..][..dim]);
    let pack_keys =
        |rows: &[f32], length| KeyPanels::pack(length, dim, |i| &rows[i * dim..][..dim]);
    let (keys, own_keys) = (pack_keys(&keys, length), pack_keys(&own_keys, positions));
    let query = |position: usize, head: usize| &queries[(position * heads + head) * dim..][..dim];
    // what is mixed of each part, `[part, position, head, dim]`
    let mixed = |values: &ValuePanels, own: &ValuePanels, parts: usize| {
        let pieces = [
            (&keys, values, length, None),
            (&own_keys, own, positions, Some(1)),
        ];
        let pieces = pieces.map(|(keys, values, length, causal_from)| Seen {
            keys,
            values,
            length,
            causal_from,
        });
        let sizes = Sizes {
            positions,
            heads,
            dim,
            parts,
        };
        let mut attention = Attention::default();
        attention.run(sizes, 0.2, query, &pieces);
        let mut out = vec![0.0; parts * positions * heads * dim];
        for (row, out) in out.chunks_exact_mut(dim).enumerate() {
            let (part, row) = (row / (positions * heads), row % (positions * heads));
            attention.read(part, row / heads, row % heads, out);
        }
        out
    };
    let own = pack(&own, positions);
    let mut both = pack(&first, length);
    both.append(&pack(&second, length));
    let together = mixed(&both, &own, 2);
    let zeros = pack(&vec![0.0; positions * dim], positions);
    let alone = [
        mixed(&pack(&first, length), &own, 1),
        mixed(&pack(&second, length), &zeros, 1),
    ];
    assert!(together == alone.concat());
}

#[test]
fn large_logits_do_not_overflow() {
    let case = Case {
        heads: 3,
        dim: 16,
        positions: 5,
        before: 600,
        causal_from: 1,
        size: 400.0,
    };
    let (error, _) = check(&case);
    assert!(error < 1e-3, "{error}");
}
