//! Column sums of a whole prefill: what they are on real layers, and that nothing else moves when they are asked for.

use candle_core::{DType, Device};
use ripplekv_cache::{LayerState, Needs};
use ripplekv_model::{Decoder, Prefill, PrefillOptions, load_decoder, open_weights};

use crate::support::fixture;

const MODELS: [&str; 2] = ["tiny-plain-f32", "tiny-wide-head-f16"];

const ALL: Needs = Needs {
    window_queries: 0,
    column_sums: true,
};

fn decoder(name: &str) -> Box<dyn Decoder> {
    let weights = open_weights(&fixture(name)).unwrap();
    load_decoder(weights.as_ref(), DType::F32, &Device::Cpu).unwrap()
}

fn ids(count: usize, vocabulary: usize) -> Vec<u32> {
    (0..count)
        .map(|place| (place * place * 31 % vocabulary) as u32)
        .collect()
}

fn prefill(decoder: &dyn Decoder, ids: &[u32], needs: Needs) -> Prefill {
    decoder.prefill(ids, needs, &mut |_, _| ()).unwrap()
}

fn sums(state: &LayerState) -> Vec<Vec<f32>> {
    state.column_sums.as_ref().unwrap().to_vec2().unwrap()
}

fn numbers(state: &LayerState) -> [Vec<f32>; 2] {
    [&state.keys, &state.values].map(|tensor| tensor.flatten_all().unwrap().to_vec1().unwrap())
}

#[test]
fn every_query_gives_one_and_nothing_else_moves() {
    for name in MODELS {
        let decoder = decoder(name);
        // one position, whole pieces, and a block of entries that others follow
        for n in [1, 48, 255, 256, 257, 301] {
            let ids = ids(n, decoder.config().vocab_size);
            let with = prefill(decoder.as_ref(), &ids, ALL);
            let without = prefill(decoder.as_ref(), &ids, Needs::default());
            let logits = |prefill: &Prefill| prefill.logits.to_vec1::<f32>().unwrap();
            assert_eq!(logits(&with), logits(&without), "{name}, {n}");
            let layers = with.snapshot.layers.iter().zip(&without.snapshot.layers);
            for (with, without) in layers {
                assert_eq!(numbers(with), numbers(without), "{name}, {n}");
                assert!(without.column_sums.is_none());
                let sums = sums(with);
                assert_eq!(sums.len(), decoder.config().kv_heads);
                for row in sums {
                    assert_eq!(row.len(), n);
                    let total: f64 = row.iter().map(|sum| f64::from(*sum)).sum();
                    assert!(
                        (total - n as f64).abs() < 1e-5 * n as f64,
                        "{name}, {n}: {total}"
                    );
                    // of the last entry at most its own query
                    assert!(row[n - 1] > 0.0 && row[n - 1] <= 1.0 + 1e-6);
                }
            }
        }
    }
}

#[test]
fn threads_and_streaming_change_no_bit() {
    let decoder = decoder(MODELS[0]);
    let ids = ids(700, decoder.config().vocab_size);
    let with_threads = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let done = pool
            .build()
            .unwrap()
            .install(|| prefill(decoder.as_ref(), &ids, ALL));
        done.snapshot.layers.iter().map(sums).collect::<Vec<_>>()
    };
    let alone = with_threads(1);
    for threads in [2, 5] {
        assert_eq!(with_threads(threads), alone);
    }
    let mut streamed = Vec::new();
    let options = PrefillOptions {
        needs: ALL,
        discard_layers: true,
        hidden_change: true,
        ..PrefillOptions::default()
    };
    decoder
        .prefill_with(&ids, options, &mut |_, state| streamed.push(sums(state)))
        .unwrap();
    assert_eq!(streamed, alone);
}
