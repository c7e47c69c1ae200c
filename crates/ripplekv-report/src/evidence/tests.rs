//! Rows and words worked out by hand from small documents.

use std::collections::BTreeMap;

use ripplekv_metrics::statistics::Bootstrap;
use ripplekv_runner::damage::{DamageSample, JointSample, LayerDamage, StoredDamage};
use ripplekv_runner::profile::ProfileDocument;
use serde_json::json;

use super::allocation::{self, Regret};
use super::correlation::{self, Outcome};
use super::prediction;
use super::words::{prediction_sentence, verdict};
use super::{Estimate, Measure};
use crate::stats::Interval;

fn bootstrap() -> Bootstrap {
    Bootstrap {
        resamples: 300,
        confidence: 0.95,
        seed: 0,
    }
}

/// Every sample has these numbers, so that no resample differs from the data.
fn profile(kl: &[f64], samples: usize) -> ProfileDocument {
    let layers = kl.len();
    let sample = json!({
        "task": "t", "sample": "s", "prompt_tokens": 9, "answer_tokens": 3, "positions": 2, "kl": kl,
        "local_response": vec![0.5; layers], "window_entropy": kl, "hidden_change": kl, "all_layers_kl": 1.0,
    });
    let sensitivity: Vec<_> = kl
        .iter()
        .map(|value| json!({"mean": value, "median": value, "p90": value, "low": value, "high": value}))
        .collect();
    serde_json::from_value(json!({
        "schema": 1, "recipe_hash": "r", "content_hash": "c",
        "recipe": {
            "calibration": "c", "data_hash": "d", "samples": samples, "answer_tokens": 3, "sigma": 0.1,
            "sigma_samples": 1, "draws": 2, "seed": 0, "norm": "token", "positions": "all", "inject": "cache",
            "first_token": "skip", "stop_at_reliability": null, "protocol": null, "numerics": 1,
        },
        "model": {"name": "m", "model_hash": "m", "tokenizer_hash": "t", "template_hash": null, "layers": layers, "dtype": "f32"},
        "sigma": {"chosen": 0.1, "given": true, "ladder": []},
        "sensitivity": sensitivity, "reliability": null, "stopped_early": false,
        "samples": vec![sample; samples], "dropped": [],
    }))
    .unwrap()
}

fn damage(layers: usize, samples: Vec<DamageSample>, joint: Vec<JointSample>) -> StoredDamage {
    let head = json!({
        "schema": 1, "recipe_hash": "r",
        "recipe": {
            "method": "snapkv", "params": null, "budgets": ["10%"], "answer_tokens": 3, "leave_in": false,
            "reference_nll": false, "task_score": true, "joint": true, "mapping": null, "seed": 0,
            "first_token": "skip", "protocol": null,
        },
        "model": "m", "model_hash": "m", "tokenizer_hash": "t", "layers": layers, "profile_hash": "c", "selected": [],
    });
    StoredDamage {
        head: serde_json::from_value(head).unwrap(),
        samples,
        joint,
        warnings: Vec::new(),
    }
}

fn sample(name: usize, budgets: &[(&str, u32, Vec<f64>)]) -> DamageSample {
    let layers = |kept: u32, kl: &Vec<f64>| LayerDamage {
        layer_tokens: vec![kept; kl.len()],
        kl: kl.clone(),
        score_drop: vec![0.0; kl.len()],
        ..LayerDamage::default()
    };
    DamageSample {
        schema: 1,
        recipe: "r".to_owned(),
        task: "t".to_owned(),
        sample: format!("{name:02}"),
        prompt_tokens: 9,
        positions: 2,
        full_score: None,
        budgets: budgets
            .iter()
            .map(|(budget, kept, kl)| ((*budget).to_owned(), layers(*kept, kl)))
            .collect(),
        dropped: None,
        warnings: Vec::new(),
    }
}

/// Evidence of layers whose sensitivity and damage spread over decades.
pub(crate) fn made_up(layers: usize, budgets: usize) -> super::Evidence {
    let curve: Vec<f64> = (0..layers)
        .map(|layer| 1e-5 * (1.0 + (layer * 7 % 11) as f64).powi(3))
        .collect();
    let samples = (0..4).map(|name| {
        let budgets: Vec<(String, u32, Vec<f64>)> = (1..=budgets)
            .map(|place| {
                let level = (1.0 + name as f64) / place as f64;
                let kl = curve.iter().map(|value| value * level).collect();
                (format!("{place}%"), place as u32, kl)
            })
            .collect();
        let borrowed: Vec<(&str, u32, Vec<f64>)> = budgets
            .iter()
            .map(|(text, kept, kl)| (text.as_str(), *kept, kl.clone()))
            .collect();
        sample(name, &borrowed)
    });
    let stored = super::StoredEvidence {
        profile: Some(profile(&curve, 3)),
        damage: Some(damage(layers, samples.collect(), Vec::new())),
    };
    let options = crate::options::ReportOptions {
        bootstrap_resamples: 20,
        ..crate::options::ReportOptions::default()
    };
    super::analyse_model(
        "a-model-with-a-rather-long-name-of-its-own-8b-instruct",
        &stored,
        &options,
    )
}

/// Damage of 5 layers in 4 equal samples at 10%.
fn ranked_damage() -> StoredDamage {
    let kl = [0.2, 0.1, 0.4, 0.3, 0.5];
    let samples = (0..4).map(|name| sample(name, &[("10%", 10, kl.to_vec())]));
    damage(5, samples.collect(), Vec::new())
}

#[test]
fn correlations_are_those_worked_out_by_hand() {
    // Ranks of damage over the layers: 2 1 4 3 5. Against depth: squared rank differences 1 1 1 1 0, so
    // rho = 1 - 6 x 4 / (5 x 24) = 0.8; 8 of 10 pairs agree, so tau = 0.6.
    let damage = ranked_damage();
    let profile = profile(&[0.02, 0.01, 0.04, 0.03, 0.05], 3);
    let blocks = correlation::blocks(&profile, &damage, &["10%".to_owned()], &bootstrap());
    let single = &blocks[0];
    assert_eq!(
        (
            single.measure,
            single.profile_samples,
            single.damage_samples,
            single.layers
        ),
        (Measure::SingleLayer, 3, 4, 5)
    );
    let Outcome::Ranked {
        rho,
        tau,
        reliability,
        disattenuated,
        ..
    } = &single.row("sensitivity").unwrap().outcome
    else {
        panic!("{single:?}");
    };
    assert_eq!(
        (rho.value, *tau, *reliability, *disattenuated),
        (1.0, Some(1.0), Some(1.0), Some(1.0))
    );
    let Outcome::Ranked {
        rho,
        tau,
        p,
        sensitivity_above: Some(above),
        ..
    } = &single.row("layer-index").unwrap().outcome
    else {
        panic!("{single:?}");
    };
    assert!((rho.value - 0.8).abs() < 1e-12 && (tau.unwrap() - 0.6).abs() < 1e-12);
    assert!((above.value - 0.2).abs() < 1e-12);
    // Of the five shifts of depth none but the identity reaches 0.8.
    assert_eq!(*p, Some(0.2));
    let Outcome::Oracle { half, rho, .. } = &single.row("oracle").unwrap().outcome else {
        panic!("{single:?}");
    };
    assert_eq!((*half, rho.value), (1.0, 1.0));
    let constant = verdict(single.row("local-response").unwrap());
    assert_eq!(constant, "undefined: the signal is the same on every layer");
    let drops = &blocks[1];
    assert_eq!(drops.measure, Measure::ScoreDrop);
    let words = verdict(drops.row("sensitivity").unwrap());
    assert_eq!(words, "undefined: the task score drop is 0 on every layer");
}

#[test]
fn signals_that_were_not_measured_are_not_ranked() {
    let damage = ranked_damage();
    let ranked = |signals: bool| {
        let mut profile = profile(&[0.02, 0.01, 0.04, 0.03, 0.05], 3);
        profile.recipe.signals = signals;
        if !signals {
            for sample in &mut profile.samples {
                sample.window_entropy.clear();
                sample.hidden_change.clear();
            }
        }
        let blocks = correlation::blocks(&profile, &damage, &["10%".to_owned()], &bootstrap());
        [
            "sensitivity",
            "local-response",
            "window-entropy",
            "hidden-change",
        ]
        .map(|signal| blocks[0].row(signal).is_some())
    };
    assert_eq!(ranked(true), [true; 4]);
    assert_eq!(ranked(false), [true, true, false, false]);
}

#[test]
fn restoring_a_harmful_layer_leaves_little_damage() {
    let mut samples: Vec<DamageSample> = (0..2)
        .map(|name| sample(name, &[("10%", 10, vec![0.1, 0.2, 0.3])]))
        .collect();
    for sample in &mut samples {
        // Layer 2 does the most harm: with it restored least KL remains.
        sample.budgets.get_mut("10%").unwrap().leave_in_kl = vec![0.9, 0.8, 0.1];
    }
    let damage = damage(3, samples, Vec::new());
    let blocks = correlation::blocks(
        &profile(&[0.1, 0.2, 0.3], 2),
        &damage,
        &["10%".to_owned()],
        &bootstrap(),
    );
    let restored = blocks
        .iter()
        .find(|block| block.measure == Measure::Restored)
        .unwrap();
    let Outcome::Ranked { rho, .. } = &restored.row("sensitivity").unwrap().outcome else {
        panic!("{restored:?}");
    };
    assert_eq!(rho.value, 1.0);
}

fn joint(name: usize, allocations: &[(&str, f64)]) -> JointSample {
    let map: BTreeMap<String, f64> = allocations
        .iter()
        .map(|(name, kl)| ((*name).to_owned(), *kl))
        .collect();
    JointSample {
        schema: 1,
        recipe: "r".to_owned(),
        task: "t".to_owned(),
        sample: format!("{name:02}"),
        half: 0,
        budgets: BTreeMap::from([("10%".to_owned(), map)]),
        moved: BTreeMap::new(),
    }
}

#[test]
fn regret_is_the_share_of_the_room_that_is_left() {
    let lines = (0..6)
        .map(|name| {
            let level = 1.0 + 0.1 * name as f64;
            joint(
                name,
                &[
                    ("uniform", 1.0 * level),
                    ("oracle", 0.6 * level),
                    ("sensitivity", 0.7 * level),
                    ("random-0", 1.0 * level),
                    ("random-1", 1.2 * level),
                ],
            )
        })
        .collect();
    let blocks = allocation::blocks(
        &damage(2, Vec::new(), lines),
        &["10%".to_owned()],
        &bootstrap(),
    );
    let block = &blocks[0];
    let names: Vec<&str> = block.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "uniform",
            "oracle",
            "sensitivity",
            "random (mean of 2 draws)"
        ]
    );
    let regret = |place: usize| match &block.rows[place].regret {
        Regret::Known(regret) => regret.value,
        Regret::Unknown(reason) => panic!("{reason}"),
    };
    // (0.7 - 0.6) / (1 - 0.6) and (1.1 - 0.6) / (1 - 0.6).
    for (place, expected) in [(0, 1.0), (1, 0.0), (2, 0.25), (3, 1.25)] {
        assert!(
            (regret(place) - expected).abs() < 1e-9,
            "{place}: {}",
            regret(place)
        );
    }
    assert!((block.oracle_ratio.unwrap().value - 0.6).abs() < 1e-9);
    // Mean level 1.25, difference -0.3 of it.
    let change = block.rows[2].from_uniform.unwrap();
    assert!((change.value + 0.375).abs() < 1e-9 && change.is_below_zero());
}

#[test]
fn no_regret_where_the_oracle_is_not_apart_from_uniform() {
    let lines = (0..6)
        .map(|name| {
            let sign = if name % 2 == 0 { 1.0 } else { -1.0 };
            joint(
                name,
                &[
                    ("uniform", 1.0),
                    ("oracle", 1.0 + 0.1 * sign),
                    ("sensitivity", 0.9),
                ],
            )
        })
        .collect();
    let blocks = allocation::blocks(
        &damage(2, Vec::new(), lines),
        &["10%".to_owned()],
        &bootstrap(),
    );
    assert_eq!(
        blocks[0].rows[2].regret,
        Regret::Unknown("the oracle is not distinguishable from uniform")
    );
    let one = vec![joint(0, &[("uniform", 1.0), ("oracle", 0.5)])];
    let blocks = allocation::blocks(
        &damage(2, Vec::new(), one),
        &["10%".to_owned()],
        &bootstrap(),
    );
    assert_eq!(
        blocks[0].rows[0].regret,
        Regret::Unknown("too few samples for an interval")
    );
}

#[test]
fn the_predicted_ratio_warns_where_layers_hardly_differ() {
    let budgets = ["10%".to_owned(), "20%".to_owned()];
    let samples = |first: f64, second: f64| -> Vec<DamageSample> {
        (0..3)
            .map(|name| {
                // Twice the entries, half the damage: p = 1.
                sample(
                    name,
                    &[
                        ("10%", 10, vec![first, second]),
                        ("20%", 20, vec![first / 2.0, second / 2.0]),
                    ],
                )
            })
            .collect()
    };
    let rows = prediction::rows(
        &damage(2, samples(1.0, 9.0), Vec::new()),
        &budgets,
        &[],
        &bootstrap(),
    );
    let (p, ratio) = rows[0].ratios[0];
    // ((1 + 3) / 2)^2 / ((1 + 9) / 2)
    assert!((p - 1.0).abs() < 1e-9 && (ratio - 0.8).abs() < 1e-9);
    assert!(!prediction_sentence(&rows[0]).contains("WARNING"));
    let rows = prediction::rows(
        &damage(2, samples(1.0, 1.1), Vec::new()),
        &budgets,
        &[],
        &bootstrap(),
    );
    assert!(
        prediction_sentence(&rows[0])
            .contains("WARNING: above 0.98, so no allocation can help much here")
    );
    // One budget measures no exponent.
    let rows = prediction::rows(
        &damage(2, samples(1.0, 9.0), Vec::new()),
        &budgets[..1],
        &[],
        &bootstrap(),
    );
    let exponents: Vec<f64> = rows[0].ratios.iter().map(|pair| pair.0).collect();
    assert_eq!(exponents, [0.5, 1.0, 2.0]);
}

#[test]
fn words_follow_the_interval() {
    let block = correlation::CorrelationBlock {
        measure: Measure::SingleLayer,
        budget: "10%".to_owned(),
        layers: 30,
        profile_samples: 16,
        damage_samples: 40,
        damage_reliability: Some(0.9),
        rows: Vec::new(),
    };
    let row = |rho: (f64, f64, f64), above: Option<(f64, f64, f64)>, p_holm: f64| {
        let estimate = |(value, low, high): (f64, f64, f64)| Estimate {
            value,
            interval: Some(Interval { low, high }),
        };
        correlation::CorrelationRow {
            signal: if above.is_some() {
                "layer-index"
            } else {
                "sensitivity"
            },
            outcome: Outcome::Ranked {
                rho: estimate(rho),
                tau: None,
                p: Some(p_holm),
                p_holm: Some(p_holm),
                sensitivity_above: above.map(estimate),
                reliability: None,
                disattenuated: None,
                undefined_share: 0.0,
            },
        }
    };
    let said = |known: &correlation::CorrelationRow| verdict(known);
    assert_eq!(
        said(&row((0.71, 0.55, 0.82), None, 0.033)),
        "established (interval over samples, circular-shift p 0.033)"
    );
    // a random signal's order is as stable over samples: the shift decides
    assert_eq!(
        said(&row((0.3, 0.1, 0.5), None, 0.2)),
        "not established: stable over samples, but shifted over depth it does as well (p 0.200)"
    );
    assert_eq!(
        said(&row((0.2, -0.1, 0.5), None, 0.24)),
        "not established: the interval holds 0"
    );
    assert_eq!(
        said(&row((0.3, 0.1, 0.5), Some((0.42, 0.2, 0.61)), 1.0)),
        "sensitivity above by 0.42 (0.20 to 0.61): established over samples"
    );
    assert_eq!(
        said(&row((0.3, 0.1, 0.5), Some((0.05, -0.2, 0.3)), 1.0)),
        "not established: the interval of the difference holds 0"
    );
    assert_eq!(
        said(&row((0.9, 0.8, 1.0), Some((-0.3, -0.5, -0.1)), 1.0)),
        "sensitivity below by 0.30 (0.10 to 0.50); not established, as resampling leans against it"
    );
    let held = correlation::CorrelationBlock {
        rows: vec![
            row((0.71, 0.55, 0.82), None, 0.033),
            row((0.3, 0.1, 0.5), Some((0.42, 0.2, 0.61)), 1.0),
        ],
        ..block
    };
    assert_eq!(
        super::words::headline(&held),
        "sensitivity ranks KL, layer compressed alone at 10% with rho 0.71 (95% 0.55 to 0.82; 16 x 40 samples, 30 layers): established (interval over samples, circular-shift p 0.033); against layer-index: sensitivity above by 0.42 (0.20 to 0.61): established over samples"
    );
}
