//! The controls of design.md 5 for sensitivity and damage, on the tiny model and on SmolLM2-135M.

use std::ops::ControlFlow;
use std::sync::Arc;

use ripplekv_cache::{CompressedCache, Needs, Noise, NoiseKey};
use ripplekv_metrics::statistics::{kl_divergence, log_softmax};
use ripplekv_model::{Branch, Variants};
use ripplekv_runner::cell::ResolvedMethod;
use ripplekv_runner::engine::{
    Allocation, DamageOutput, DamageRequest, Engine, EngineError, FirstToken, Injection, NoiseNorm,
    NoisePositions, SensitivityNews, SensitivityOutput, SensitivityRequest, ShortPrompts,
};
use ripplekv_tasks::StopRule;
use serde_json::json;

use crate::{controls, smollm2, tiny};

fn never() -> StopRule {
    StopRule {
        end_tokens: Vec::new(),
        newline: None,
        min_new_tokens: 0,
    }
}

fn sensitivity<'a>(
    ids: &'a [u32],
    stop: &'a StopRule,
    sigmas: &'a [f64],
) -> SensitivityRequest<'a> {
    SensitivityRequest {
        ids,
        sample: "a sample",
        seed: 0,
        answer_tokens: 8,
        stop,
        sigmas,
        draws: 2,
        norm: NoiseNorm::Token,
        positions: NoisePositions::All,
        inject: Injection::Cache,
        first_token: FirstToken::Skip,
        signals: true,
    }
}

fn snapkv(window: usize) -> ResolvedMethod {
    ResolvedMethod {
        name: "snapkv".to_owned(),
        label: "snapkv".to_owned(),
        params: json!({ "window": window }),
    }
}

fn damage<'a>(
    ids: &'a [u32],
    stop: &'a StopRule,
    method: &'a ResolvedMethod,
    budgets: &'a [&'a str],
    allocations: &'a [Allocation<'a>],
) -> DamageRequest<'a> {
    DamageRequest {
        ids,
        answer_tokens: 8,
        max_new_tokens: 12,
        stop,
        method,
        budgets,
        single_layers: true,
        leave_in: true,
        reference_ids: &ids[..5],
        outputs: true,
        allocations,
        first_token: FirstToken::Skip,
        short_prompts: ShortPrompts::Shrink,
    }
}

type Measured = Result<SensitivityOutput, EngineError>;

/// What each request gave, in order.
fn measured_together(
    engine: &mut dyn Engine,
    requests: &[SensitivityRequest<'_>],
) -> Vec<Measured> {
    let mut results: Vec<Option<Measured>> = requests.iter().map(|_| None).collect();
    let mut layers = vec![0; requests.len()];
    engine.sensitivity(requests, &mut |place, news| {
        match news {
            SensitivityNews::Begins => assert_eq!(layers[place], 0),
            SensitivityNews::Layers(done) => layers[place] = done,
            SensitivityNews::Done(result) => results[place] = Some(result),
        }
        ControlFlow::Continue(())
    });
    let all = engine.identity().shape.layers;
    let results = results.into_iter().zip(layers).map(|(result, layers)| {
        let result = result.unwrap();
        let whole = result.as_ref().is_ok_and(|output| !output.kl.is_empty());
        assert_eq!(layers, if whole { all } else { 0 });
        result
    });
    results.collect()
}

fn measured(engine: &mut dyn Engine, request: &SensitivityRequest<'_>) -> Measured {
    measured_together(engine, &[*request]).remove(0)
}

fn damaged(engine: &mut dyn Engine, request: &DamageRequest<'_>) -> DamageOutput {
    engine.damage(request, &mut |_| ()).unwrap()
}

/// Options, and how many of 8 answer positions they average.
type Variant = (Injection, FirstToken, usize);

const IN_CACHE: Variant = (Injection::Cache, FirstToken::Skip, 7);
const REREAD: Variant = (Injection::Cache, FirstToken::Reread, 8);
const IN_PREFILL: Variant = (Injection::Prefill, FirstToken::Skip, 8);

/// What must hold on any model; `ids` is a prompt long enough for a 10% budget.
fn controls_of_sensitivity(engine: &mut dyn Engine, ids: &[u32], variants: &[Variant]) {
    let stop = never();
    let layers = engine.identity().shape.layers;
    for &(inject, first_token, positions) in variants {
        let request = SensitivityRequest {
            inject,
            first_token,
            ..sensitivity(ids, &stop, &[0.0, 0.1])
        };
        let output = measured(engine, &request).unwrap();
        assert_eq!(output.positions, positions);
        // zero noise is no noise
        assert_eq!(output.kl[0], vec![0.0; layers]);
        assert_eq!(output.local_response[0], vec![0.0; layers]);
        assert_eq!(output.all_layers_kl[0], 0.0);
        // noise is felt, and everywhere at once more than where it matters least
        assert!(
            output.kl[1].iter().all(|kl| *kl > 0.0),
            "{:?}",
            output.kl[1]
        );
        let least = output.kl[1].iter().copied().fold(f64::INFINITY, f64::min);
        assert!(output.all_layers_kl[1] > least);
        assert_eq!(output.window_entropy.len(), layers);
        assert_eq!(output.hidden_change.len(), layers);
        // the same again, to the bit
        assert_eq!(measured(engine, &request).unwrap(), output);
        // and so where nothing else is measured
        let bare = SensitivityRequest {
            signals: false,
            ..request
        };
        let expected = SensitivityOutput {
            all_layers_kl: Vec::new(),
            window_entropy: Vec::new(),
            hidden_change: Vec::new(),
            ..output
        };
        assert_eq!(measured(engine, &bare).unwrap(), expected);
    }
}

fn controls_of_damage(engine: &mut dyn Engine, ids: &[u32], window: usize) {
    let stop = never();
    let layers = engine.identity().shape.layers;
    let method = snapkv(window);
    let uniform = vec![1.0; layers];
    let mut rising: Vec<f64> = (1..=layers).map(|layer| layer as f64).collect();
    let allocations = [
        Allocation {
            name: "uniform",
            weights: &uniform,
        },
        Allocation {
            name: "rising",
            weights: &rising.clone(),
        },
    ];
    for first_token in [FirstToken::Skip, FirstToken::Reread] {
        let request = DamageRequest {
            first_token,
            ..damage(ids, &stop, &method, &["100%", "10%"], &allocations)
        };
        let output = damaged(engine, &request);
        let (all, tenth) = (&output.budgets[0], &output.budgets[1]);
        // a full budget changes nothing, to the bit
        assert_eq!(all.kl, vec![0.0; layers]);
        assert_eq!(all.leave_in_kl, vec![0.0; layers]);
        assert_eq!(all.reference_nll_change, vec![0.0; layers]);
        assert_eq!(all.joint_kl, [0.0, 0.0]);
        assert!(all.outputs.iter().all(Option::is_none));
        // a tenth does, and both allocations spend exactly the same
        assert!(tenth.kl.iter().any(|kl| *kl > 0.0));
        let total = (ids.len() * layers + 5) / 10;
        for kept in tenth.joint_layer_tokens.iter().chain([&tenth.layer_tokens]) {
            assert_eq!(kept.iter().sum::<u32>() as usize, total);
        }
        assert_ne!(tenth.joint_layer_tokens[0], tenth.joint_layer_tokens[1]);
        assert_ne!(tenth.joint_kl[0], tenth.joint_kl[1]);
        assert_eq!(damaged(engine, &request), output);
    }
    rising.pop();
    let short = [Allocation {
        name: "short",
        weights: &rising,
    }];
    let request = damage(ids, &stop, &method, &["10%"], &short);
    let error = engine
        .damage(&request, &mut |_| ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("weights"), "{error}");
}

#[test]
fn sensitivity_controls_hold_on_the_tiny_model() {
    let mut engine = controls::engine();
    let ids = tiny::ids(1, 150, engine.identity().shape.vocab_size);
    controls_of_sensitivity(&mut engine, &ids, &[IN_CACHE, REREAD, IN_PREFILL]);
}

/// Every number of a profile again, from caches with the noise in their values, each a branch of its own: two scales, two
/// antithetic pairs, noise where entries may be evicted.
#[test]
fn sensitivity_is_what_noise_in_the_values_of_one_layer_does() {
    let mut engine = controls::engine();
    let decoder = tiny::decoder(controls::MODEL);
    let (n, vocabulary) = (150, decoder.config().vocab_size);
    let ids = tiny::ids(1, n, vocabulary);
    let prefill = decoder
        .prefill(&ids, Needs::default(), &mut |_, _| ())
        .unwrap();
    let full = CompressedCache::full(&prefill.snapshot);
    let stop = never();
    let sigmas = [0.1, 0.3];
    for first_token in [FirstToken::Skip, FirstToken::Reread] {
        let request = SensitivityRequest {
            draws: 4,
            positions: NoisePositions::Evictable,
            first_token,
            ..sensitivity(&ids, &stop, &sigmas)
        };
        let output = measured(&mut engine, &request).unwrap();
        let mut branches = vec![Branch {
            cache: Arc::new(full.clone()),
            from_layer: 0,
        }];
        for sigma in sigmas {
            for (layer, state) in prefill.snapshot.layers.iter().enumerate() {
                for pair in 0..2 {
                    let key = NoiseKey {
                        seed: request.seed,
                        sample: request.sample,
                        layer,
                        pair,
                    };
                    let noise = Noise::draw(
                        &key,
                        &state.values,
                        ripplekv_cache::NoiseNorm::Token,
                        ripplekv_cache::NoisePositions::Evictable,
                    )
                    .unwrap();
                    branches.extend([sigma, -sigma].map(|sigma| {
                        let mut cache = full.clone();
                        let values = &mut cache.layers[layer].values;
                        *values = noise.perturbed(values, sigma).unwrap();
                        Branch {
                            cache: Arc::new(cache),
                            from_layer: layer,
                        }
                    }));
                }
            }
        }
        let reread = first_token == FirstToken::Reread;
        let mut fed = output.answer_ids[..7].to_vec();
        if reread {
            fed.insert(0, ids[n - 1]);
        }
        let variants = Variants::caches(&branches);
        let forced = decoder.force(variants, &fed, reread, &mut |_| ()).unwrap();
        let rows = |place: usize| {
            let mut rows = decoder.logits(&forced.branches[place].states);
            for row in rows.chunks_exact_mut(vocabulary) {
                log_softmax(row).unwrap();
            }
            rows
        };
        let reference = rows(0);
        let kl = |place: usize| {
            let other = rows(place);
            let pairs = reference
                .chunks_exact(vocabulary)
                .zip(other.chunks_exact(vocabulary));
            let sum: f64 = pairs.map(|(p, q)| kl_divergence(p, q).unwrap()).sum();
            sum / fed.len() as f64
        };
        let layers = prefill.snapshot.layers.len();
        for at in 0..sigmas.len() * layers {
            let draws = 1 + 4 * at..5 + 4 * at;
            let expected = draws.clone().map(kl).sum::<f64>() / 4.0;
            let got = output.kl[at / layers][at % layers];
            let close = (got - expected).abs() < 2e-3 * expected + 1e-7;
            assert!(close && got > 1e-5, "{at}: {got} {expected}");
            let errors = draws.map(|place| forced.branches[place].local_error.unwrap());
            let expected = errors.sum::<f64>() / 4.0;
            let got = output.local_response[at / layers][at % layers];
            assert!(
                (got / expected - 1.0).abs() < 1e-3,
                "{at}: {got} {expected}"
            );
        }
    }
}

#[test]
fn damage_controls_hold_on_the_tiny_model() {
    let mut engine = controls::engine();
    let ids = tiny::ids(1, 150, engine.identity().shape.vocab_size);
    controls_of_damage(&mut engine, &ids, 4);
}

#[test]
fn controls_hold_on_smollm2() {
    let mut engine = smollm2::engine();
    let ids = smollm2::prompt(engine.as_ref());
    let ids = &ids[..300];
    controls_of_sensitivity(engine.as_mut(), &ids[..150], &[REREAD]);
    controls_of_damage(engine.as_mut(), ids, 16);
    let stop = never();
    let output = measured(
        engine.as_mut(),
        &sensitivity(&ids[..150], &stop, &[0.01, 0.03, 3.0]),
    );
    // noise larger than the values everywhere wrecks the answer
    let output = output.unwrap();
    assert!(output.all_layers_kl[2] > 1.0, "{}", output.all_layers_kl[2]);
    // small noise is felt about quadratically
    let mut slopes: Vec<f64> = output.kl[0]
        .iter()
        .zip(&output.kl[1])
        .map(|(small, large)| (large / small).ln() / 3f64.ln())
        .collect();
    slopes.sort_by(f64::total_cmp);
    let median = slopes[slopes.len() / 2];
    assert!((1.7..2.3).contains(&median), "{median}");
}

#[test]
fn samples_measured_together_give_what_each_gives_alone() {
    let mut engine = controls::engine();
    let vocabulary = engine.identity().shape.vocab_size;
    let ids = [60, 90, 41].map(|length| tiny::ids(length as u64, length, vocabulary));
    let stop = never();
    let mut requests: Vec<SensitivityRequest<'_>> = ids
        .iter()
        .map(|ids| sensitivity(ids, &stop, &[0.1]))
        .collect();
    // one that ends early, one with a name and noise of its own, and one that cannot be measured
    requests[0].answer_tokens = 3;
    requests[1].sample = "another";
    requests.insert(
        1,
        SensitivityRequest {
            draws: 3,
            ..requests[2]
        },
    );
    let together = measured_together(&mut engine, &requests);
    for (request, together) in requests.iter().zip(together) {
        match measured(&mut engine, request) {
            Ok(alone) => assert_eq!(together.unwrap(), alone),
            Err(alone) => assert_eq!(together.unwrap_err().to_string(), alone.to_string()),
        }
    }
    // a listener that has enough is not told more
    let mut heard = 0;
    engine.sensitivity(&requests[2..], &mut |_, news| {
        if matches!(news, SensitivityNews::Done(_)) {
            heard += 1;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    assert_eq!(heard, 1);
    // nor is anything begun for one that has enough before the first is done
    let mut heard = 0;
    engine.sensitivity(&requests[2..], &mut |place, _| {
        heard += 1;
        match place {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    });
    assert_eq!(heard, 2);
}

#[test]
fn what_cannot_be_measured_is_said() {
    let mut engine = controls::engine();
    let ids = tiny::ids(1, 60, engine.identity().shape.vocab_size);
    let stop = never();
    for (request, field) in [
        (
            SensitivityRequest {
                draws: 3,
                ..sensitivity(&ids, &stop, &[0.1])
            },
            "profile.draws",
        ),
        (sensitivity(&ids, &stop, &[-0.1]), "profile.sigma"),
        (sensitivity(&ids, &stop, &[f64::NAN]), "profile.sigma"),
    ] {
        let error = measured(&mut engine, &request).unwrap_err();
        assert!(matches!(error, EngineError::Spec(_)));
        assert!(error.to_string().contains(field), "{error}");
    }
    // an answer of one token leaves nothing to average
    let request = SensitivityRequest {
        answer_tokens: 1,
        ..sensitivity(&ids, &stop, &[0.1])
    };
    let output = measured(&mut engine, &request).unwrap();
    assert!(output.positions < 2 && output.kl.is_empty());
}
