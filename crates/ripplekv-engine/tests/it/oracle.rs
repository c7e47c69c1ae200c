//! Decoding on a really smaller cache equals full attention with a mask over the kept set, for every method.

use std::sync::Arc;

use ripplekv_cache::{CompressedCache, KeptLayer, METHODS, Method, Needs, Snapshot};
use ripplekv_engine::kept_cell;
use ripplekv_model::{DecodeRow, Decoder, Weights};
use ripplekv_runner::engine::ShortPrompts;
use serde_json::Value;

use crate::reference::{self, Visible};
use crate::tiny;

const TOLERANCE: f32 = 1e-4;
const MODELS: [&str; 2] = ["tiny-plain-f32", "tiny-wide-head-f16"];

fn everything(decoder: &dyn Decoder, n: usize) -> Vec<KeptLayer> {
    let config = decoder.config();
    vec![vec![(0..n as u32).collect(); config.kv_heads]; config.layers]
}

/// Worst difference between teacher-forced decoding on the compressed cache and the masked reference.
fn worst_difference(
    weights: &dyn Weights,
    decoder: &dyn Decoder,
    ids: &[u32],
    snapshot: &Snapshot,
    kept: &[KeptLayer],
) -> f32 {
    let n = snapshot.prompt_tokens;
    let visible = Visible {
        prompt_tokens: n,
        kept,
    };
    let expected = reference::logits(weights, ids, &visible);
    let cache = CompressedCache::gather(snapshot, kept).unwrap();
    for (layer, entries) in cache.kept_per_layer().iter().enumerate() {
        assert_eq!(*entries as usize, kept[layer][0].len());
    }
    let mut row = DecodeRow::new(Arc::new(cache));
    let mut worst = 0f32;
    for position in n..ids.len() {
        let got = decoder
            .step(&mut [&mut row], &ids[position..=position])
            .unwrap()
            .remove(0);
        let difference = (got - expected.get(position).unwrap())
            .unwrap()
            .abs()
            .unwrap();
        worst = worst.max(difference.max_all().unwrap().to_scalar::<f32>().unwrap());
    }
    worst
}

#[test]
fn the_prefill_equals_the_reference() {
    for name in MODELS {
        let (weights, decoder) = (tiny::weights(name), tiny::decoder(name));
        // longer than a query tile and a row block, and not a multiple of either
        for n in [1, 5, 128, 129, 700] {
            let ids = tiny::ids(n as u64, n, decoder.config().vocab_size);
            let kept = everything(decoder.as_ref(), n);
            let expected = reference::logits(
                &weights,
                &ids,
                &Visible {
                    prompt_tokens: n,
                    kept: &kept,
                },
            );
            let prefill = decoder
                .prefill(&ids, Needs::default(), &mut |_, _| ())
                .unwrap();
            let difference = (prefill.logits - expected.get(n - 1).unwrap())
                .unwrap()
                .abs()
                .unwrap();
            let worst = difference.max_all().unwrap().to_scalar::<f32>().unwrap();
            assert!(worst < TOLERANCE, "{name}, n = {n}: {worst}");
        }
    }
}

#[test]
fn every_method_decodes_as_masked_full_attention() {
    for name in MODELS {
        let (weights, decoder) = (tiny::weights(name), tiny::decoder(name));
        let n = 260;
        let ids = tiny::ids(7, n + 12, decoder.config().vocab_size);
        let needs = Needs {
            window_queries: 64,
            column_sums: true,
        };
        let prefill = decoder.prefill(&ids[..n], needs, &mut |_, _| ()).unwrap();
        let everything = everything(decoder.as_ref(), n);
        for info in METHODS {
            let method = Method::build(info.name, &Value::Null).unwrap();
            for budget in ["5%", "30%", "77", "99%"] {
                let cell = kept_cell(
                    &method,
                    Some(budget),
                    &prefill.snapshot,
                    ShortPrompts::Shrink,
                    &tiny::signals(decoder.config().layers),
                )
                .unwrap();
                let kept = cell.kept.as_ref().unwrap_or(&everything);
                let worst =
                    worst_difference(&weights, decoder.as_ref(), &ids, &prefill.snapshot, kept);
                assert!(
                    worst < TOLERANCE,
                    "{name}, {}, {budget}: {worst}",
                    info.name
                );
            }
        }
    }
}

#[test]
fn ragged_layers_decode_as_masked_full_attention() {
    let name = MODELS[0];
    let (weights, decoder) = (tiny::weights(name), tiny::decoder(name));
    let n = 90;
    let ids = tiny::ids(11, n + 6, decoder.config().vocab_size);
    let prefill = decoder
        .prefill(&ids[..n], Needs::default(), &mut |_, _| ())
        .unwrap();
    let config = decoder.config();
    let kept: Vec<KeptLayer> = (0..config.layers)
        .map(|layer| {
            (0..config.kv_heads)
                .map(|head| {
                    let count = [1, 37, 90][layer % 3];
                    let mut chosen: Vec<u32> = (0..n as u32).collect();
                    chosen
                        .sort_by_key(|&p| (u64::from(p) * 2_654_435_761 + head as u64 * 97) % 1009);
                    chosen.truncate(count);
                    chosen.sort_unstable();
                    chosen
                })
                .collect()
        })
        .collect();
    let worst = worst_difference(&weights, decoder.as_ref(), &ids, &prefill.snapshot, &kept);
    assert!(worst < TOLERANCE, "{worst}");
    // the test can fail: other kept sets give other logits
    let mut other = kept.clone();
    other[0][0] = vec![(kept[0][0][0] + 1) % n as u32];
    let cache = CompressedCache::gather(&prefill.snapshot, &other).unwrap();
    let mut row = DecodeRow::new(Arc::new(cache));
    let got = decoder
        .step(&mut [&mut row], &ids[n..=n])
        .unwrap()
        .remove(0);
    let expected = reference::logits(
        &weights,
        &ids[..=n],
        &Visible {
            prompt_tokens: n,
            kept: &kept,
        },
    );
    let difference = (got - expected.get(n).unwrap()).unwrap().abs().unwrap();
    assert!(difference.max_all().unwrap().to_scalar::<f32>().unwrap() > 10.0 * TOLERANCE);
}
