//! Shapes that no fixture has: ratios of query and KV heads, wide and odd heads, one layer, prompts of a few tokens, each
//! number format, any number of threads.

use std::path::Path;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ripplekv_cache::{CompressedCache, CompressedLayer, Needs, window_entropy};
use ripplekv_model::{
    Branch, DecodeRow, Decoder, ModelConfig, ModelError, Move, PrefillOptions, RopeScaling,
    Variants, Weights, load_decoder,
};

use crate::reference::{self, Visible};
use crate::tiny;

const TOLERANCE: f32 = 1e-4;

/// Random weights that f32, f16 and bf16 hold exactly.
struct MadeUp(ModelConfig);

impl Weights for MadeUp {
    fn tensor(
        &self,
        name: &str,
        shape: &[usize],
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor, ModelError> {
        let seed = name.bytes().fold(0u64, |seed, byte| {
            seed.wrapping_mul(257).wrapping_add(u64::from(byte))
        });
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let values: Vec<f32> = (0..shape.iter().product())
            .map(|_| f32::from(random.random_range(-127i16..=127)) / 512.0)
            .collect();
        Ok(Tensor::from_vec(values, shape, device)?.to_dtype(dtype)?)
    }

    fn config(&self) -> &ModelConfig {
        &self.0
    }

    fn hash(&self) -> Result<String, ModelError> {
        Ok(String::new())
    }

    fn path(&self) -> &Path {
        Path::new("made up")
    }
}

/// Query heads, KV heads and channels of a head; layers; whether the embedding is the head.
type Shape = ([usize; 3], usize, bool);

const SHAPES: [Shape; 5] = [
    ([2, 2, 80], 1, false),
    ([3, 1, 128], 1, true),
    ([6, 2, 20], 2, true),
    ([14, 2, 64], 2, false),
    ([8, 1, 128], 1, false),
];

fn made_up(([heads, kv_heads, head_dim], layers, tied_head): Shape) -> MadeUp {
    MadeUp(ModelConfig {
        architecture: "llama".to_owned(),
        layers,
        heads,
        kv_heads,
        head_dim,
        hidden_size: 40,
        intermediate_size: 72,
        vocab_size: 97,
        context_length: 512,
        rms_norm_eps: 1e-5,
        rope_theta: 10_000.0,
        rope_scaling: RopeScaling::None,
        tied_head,
    })
}

fn decoder(weights: &MadeUp, dtype: DType) -> Box<dyn Decoder> {
    load_decoder(weights, dtype, &Device::Cpu).unwrap()
}

fn worst(a: &Tensor, b: &Tensor) -> f32 {
    let difference = (a - b).unwrap().abs().unwrap();
    difference.max_all().unwrap().to_scalar::<f32>().unwrap()
}

/// Everything that a pass over `ids` gives, as bits: prefill, statistics, steps alone and in company, forcing.
pub(crate) fn everything(decoder: &dyn Decoder, ids: &[u32], n: usize) -> Vec<u64> {
    let mut bits = Vec::new();
    let mut put = |tensor: &Tensor| {
        let values = tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        bits.extend(values.iter().map(|value| u64::from(value.to_bits())));
    };
    let options = PrefillOptions {
        needs: Needs {
            window_queries: 64,
            column_sums: true,
        },
        hidden_change: true,
        ..PrefillOptions::default()
    };
    let prefill = decoder
        .prefill_with(&ids[..n], options, &mut |_, _| ())
        .unwrap();
    let mut numbers = prefill.hidden_change.clone();
    for layer in &prefill.snapshot.layers {
        for tensor in [&layer.keys, &layer.values] {
            put(tensor);
        }
        put(layer.window_queries.as_ref().unwrap());
        put(layer.column_sums.as_ref().unwrap());
        numbers.push(window_entropy(layer, 64).unwrap());
    }
    put(&prefill.logits);
    let full = Arc::new(CompressedCache::full(&prefill.snapshot));
    let last = Arc::new(kept_last(&full));
    let mut rows: Vec<DecodeRow> = [&full, &last, &full]
        .map(|cache| DecodeRow::new(Arc::clone(cache)))
        .into();
    let mut alone = DecodeRow::new(Arc::clone(&last));
    for &token in &ids[n..] {
        let mut company: Vec<&mut DecodeRow> = rows.iter_mut().collect();
        let logits = decoder.step(&mut company, &[token, token, 5]).unwrap();
        logits.iter().for_each(&mut put);
        let logits_alone = decoder.step(&mut [&mut alone], &[token]).unwrap();
        let values = |tensor: &Tensor| tensor.to_vec1::<f32>().unwrap();
        assert_eq!(values(&logits_alone[0]), values(&logits[1]));
    }
    let branches = [(&full, 0), (&last, 0)].map(|(cache, from_layer)| Branch {
        cache: Arc::clone(cache),
        from_layer,
    });
    let forced = decoder
        .force(Variants::caches(&branches), &ids[n..], false, &mut |_| ())
        .unwrap();
    let moves = [Some(0), None].map(|layer| Move {
        layer,
        direction: 1,
        factor: 0.2,
    });
    let moved = decoder
        .force(
            Variants {
                branches: &branches[..1],
                moves: &moves,
                directions: &|layer| {
                    let values = &prefill.snapshot.layers[layer].values;
                    Ok(vec![(values * 2.0)?, (values * -0.5)?])
                },
            },
            &ids[n..],
            false,
            &mut |_| (),
        )
        .unwrap();
    for branch in forced.branches.into_iter().chain(moved.branches) {
        bits.extend(branch.states.iter().map(|value| u64::from(value.to_bits())));
        numbers.extend(branch.local_error);
    }
    bits.extend(numbers.into_iter().map(f64::to_bits));
    bits
}

/// Runs of several lengths for several rows, some of them taken back, give the bits of single steps.
#[test]
fn tokens_fed_in_runs_give_the_bits_of_single_steps() {
    for shape in SHAPES {
        let weights = made_up(shape);
        let vocabulary = weights.config().vocab_size;
        for dtype in [DType::F32, DType::BF16] {
            let decoder = decoder(&weights, dtype);
            // more generated entries than one part of the attention takes
            let (n, generated) = (30, 270);
            let ids = tiny::ids(7, n + generated, vocabulary);
            let prefill = decoder
                .prefill(&ids[..n], Needs::default(), &mut |_, _| ())
                .unwrap();
            let full = Arc::new(CompressedCache::full(&prefill.snapshot));
            let last = Arc::new(kept_last(&full));
            let tokens = &ids[n..];
            let single: Vec<Vec<f32>> = [&full, &last]
                .map(|cache| {
                    let mut row = DecodeRow::new(Arc::clone(cache));
                    let steps = tokens.iter().flat_map(|token| {
                        let logits = decoder.step(&mut [&mut row], &[*token]).unwrap();
                        logits[0].to_vec1::<f32>().unwrap()
                    });
                    steps.collect()
                })
                .into();
            let mut rows = [&full, &last].map(|cache| DecodeRow::new(Arc::clone(cache)));
            let mut fed = [0, 0];
            let mut step = 0;
            while fed != [generated; 2] {
                let runs = [[3, 1], [0, 4], [2, 0], [5, 3]][step % 4];
                step += 1;
                let runs = [0, 1].map(|row: usize| runs[row].min(generated - fed[row]));
                let tokens = [0, 1].map(|row: usize| &tokens[fed[row]..][..runs[row]]);
                let [a, b] = &mut rows;
                let logits = decoder.feed(&mut [a, b], &tokens).unwrap();
                let mut logits = logits.chunks_exact(vocabulary);
                for row in 0..2 {
                    for place in fed[row]..fed[row] + runs[row] {
                        let expected = &single[row][place * vocabulary..][..vocabulary];
                        let same = logits.next().unwrap() == expected;
                        assert!(same, "{shape:?}, {dtype:?}, row {row}, token {place}");
                    }
                    // near the end what was fed stays, so that there is one
                    let back = usize::from(runs[row] > 1 && fed[row] + 9 < generated);
                    rows[row].take_back(back);
                    fed[row] += runs[row] - back;
                    assert_eq!(rows[row].position(), n + fed[row]);
                }
                assert!(logits.next().is_none());
            }
        }
    }
}

/// The last entry of every layer and head alone.
fn kept_last(full: &CompressedCache) -> CompressedCache {
    let last = |tensor: &Tensor| {
        let n = tensor.dims()[1];
        tensor.narrow(1, n - 1, 1).unwrap().contiguous().unwrap()
    };
    let layers = full.layers.iter().map(|layer| CompressedLayer {
        keys: last(&layer.keys),
        values: last(&layer.values),
    });
    CompressedCache {
        layers: layers.collect(),
        prompt_tokens: full.prompt_tokens,
    }
}

#[test]
fn prefill_steps_and_forcing_equal_the_reference() {
    for shape in SHAPES {
        let weights = made_up(shape);
        let config = weights.config().clone();
        let decoder = decoder(&weights, DType::F32);
        for n in [1usize, 2, 3, 50] {
            let ids = tiny::ids(n as u64, n + 5, config.vocab_size);
            let whole: Vec<u32> = (0..n as u32).collect();
            let kept = vec![vec![whole; config.kv_heads]; config.layers];
            let visible = Visible {
                prompt_tokens: n,
                kept: &kept,
            };
            let expected = reference::logits(&weights, &ids, &visible);
            let prefill = decoder
                .prefill(&ids[..n], Needs::default(), &mut |_, _| ())
                .unwrap();
            let check = |got: &Tensor, position: usize| {
                let error = worst(got, &expected.get(position).unwrap());
                assert!(error < TOLERANCE, "{shape:?}, n = {n}, {position}: {error}");
            };
            check(&prefill.logits, n - 1);
            let cache = Arc::new(CompressedCache::full(&prefill.snapshot));
            let mut row = DecodeRow::new(Arc::clone(&cache));
            for position in n..ids.len() {
                let token = &ids[position..=position];
                check(&decoder.step(&mut [&mut row], token).unwrap()[0], position);
            }
            let reference = Branch {
                cache,
                from_layer: 0,
            };
            let forced = decoder
                .force(
                    Variants::caches(&[reference]),
                    &ids[n - 1..],
                    true,
                    &mut |_| (),
                )
                .unwrap();
            let logits = decoder.logits(&forced.branches[0].states);
            let logits = Tensor::from_vec(logits, ((), config.vocab_size), &Device::Cpu).unwrap();
            for position in n - 1..ids.len() {
                check(&logits.get(position + 1 - n).unwrap(), position);
            }
        }
    }
}

#[test]
fn no_bit_depends_on_threads_or_on_how_weights_are_stored() {
    for shape in SHAPES {
        let weights = made_up(shape);
        let plain = decoder(&weights, DType::F32);
        for n in [1usize, 3, 290] {
            let ids = tiny::ids(n as u64, n + 3, weights.config().vocab_size);
            let on_threads = |decoder: &dyn Decoder, threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let pool = pool.build().unwrap();
                pool.install(|| everything(decoder, &ids, n))
            };
            let expected = on_threads(plain.as_ref(), 1);
            for threads in [2, 5] {
                let same = on_threads(plain.as_ref(), threads) == expected;
                assert!(same, "{shape:?}, n = {n}, {threads} threads");
            }
            for dtype in [DType::F16, DType::BF16] {
                let narrow = decoder(&weights, dtype);
                let same = on_threads(narrow.as_ref(), 2) == expected;
                assert!(same, "{shape:?}, n = {n}, {dtype:?}");
            }
        }
    }
}
