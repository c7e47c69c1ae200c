//! Kept sets and scores equal kvpress 0.5.5's on the tiny models, and h2o's, which kvpress lacks, those of transformers'
//! attention (fixture by tools/make_kept_fixtures.py).

use candle_core::{DType, Device};
use ripplekv_cache::{Method, Needs, SCORERS};
use ripplekv_engine::kept_cell;
use ripplekv_model::{load_decoder, open_weights};
use ripplekv_runner::engine::{ShortPrompts, Signals};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tiny;

#[derive(Deserialize)]
struct Fixture {
    prompts: Vec<Prompt>,
}

#[derive(Deserialize)]
struct Prompt {
    model: String,
    ids: Vec<u32>,
    cases: Vec<Case>,
    scores: Vec<ScoreCase>,
}

#[derive(Deserialize)]
struct Case {
    method: String,
    kept_tokens: usize,
    /// `[layers, kv_heads, kept]`.
    kept: Vec<Vec<Vec<u32>>>,
    #[serde(default)]
    window: Option<usize>,
    #[serde(default)]
    kernel: Option<usize>,
    #[serde(default)]
    sinks: Option<usize>,
}

#[derive(Deserialize)]
struct ScoreCase {
    window: usize,
    kernel: usize,
    /// `[layers, kv_heads, n - window]`.
    values: Vec<Vec<Vec<f32>>>,
}

fn fixture() -> Fixture {
    serde_json::from_str(include_str!("../fixtures/kept-kvpress.json")).unwrap()
}

fn params(case: &Case) -> Value {
    let mut params = json!({});
    for (key, value) in [
        ("window", case.window),
        ("kernel", case.kernel),
        ("sinks", case.sinks),
    ] {
        if let Some(value) = value {
            params[key] = json!(value);
        }
    }
    params
}

fn decoder(name: &str) -> Box<dyn ripplekv_model::Decoder> {
    let weights = open_weights(&tiny::folder(name)).unwrap();
    load_decoder(weights.as_ref(), DType::F32, &Device::Cpu).unwrap()
}

#[test]
fn kept_sets_equal_kvpress() {
    for prompt in fixture().prompts {
        let decoder = decoder(&prompt.model);
        let needs = Needs {
            window_queries: 64,
            column_sums: true,
        };
        let snapshot = decoder
            .prefill(&prompt.ids, needs, &mut |_, _| ())
            .unwrap()
            .snapshot;
        assert!(prompt.cases.len() > 4);
        for case in &prompt.cases {
            let method = Method::build(&case.method, &params(case)).unwrap();
            let budget = case.kept_tokens.to_string();
            let cell = kept_cell(
                &method,
                Some(&budget),
                &snapshot,
                ShortPrompts::Error,
                &Signals::new(),
            )
            .unwrap();
            assert_eq!(
                cell.kept.as_ref(),
                Some(&case.kept),
                "{}: {} keeping {}",
                prompt.model,
                case.method,
                case.kept_tokens
            );
        }
    }
}

#[test]
fn snapkv_scores_equal_kvpress() {
    let info = SCORERS.iter().find(|info| info.name == "snapkv").unwrap();
    for prompt in fixture().prompts {
        let decoder = decoder(&prompt.model);
        for case in &prompt.scores {
            let needs = Needs {
                window_queries: case.window,
                ..Needs::default()
            };
            let snapshot = decoder
                .prefill(&prompt.ids, needs, &mut |_, _| ())
                .unwrap()
                .snapshot;
            let scorer = info
                .build(&json!({"window": case.window, "kernel": case.kernel}))
                .unwrap();
            for (layer, expected) in snapshot.layers.iter().zip(&case.values) {
                let scores = scorer.score(layer).unwrap();
                for (head, expected) in expected.iter().enumerate() {
                    assert_eq!(expected.len(), prompt.ids.len() - case.window);
                    for (got, expected) in scores.head(head).iter().zip(expected) {
                        assert!(
                            (got - expected).abs() <= 1e-4 * expected.abs(),
                            "{got} {expected}"
                        );
                    }
                }
            }
        }
    }
}
