//! Controls that must hold on any model: exact sums, no company effects, a full budget changes nothing.

use ripplekv_cache::{METHODS, Method, Needs};
use ripplekv_engine::{ModelEngine, ModelTokenizer, kept_cell};
use ripplekv_model::tokenizer::TextTokenizer;
use ripplekv_runner::cell::{CellKey, ResolvedMethod};
use ripplekv_runner::engine::{
    CellRequest, CellResult, Engine, ModelIdentity, ModelShape, PrefillMode, PromptRequest,
    ShortPrompts, Signals,
};
use ripplekv_runner::kept::{EVERYTHING, KeptBits, kept_hash, kept_lines};
use ripplekv_tasks::StopRule;
use serde_json::Value;
use std::sync::Arc;

use crate::tiny;

pub(crate) const MODEL: &str = "tiny-plain-f32";

pub(crate) fn engine() -> ModelEngine {
    let decoder = tiny::decoder(MODEL);
    let config = decoder.config();
    let identity = ModelIdentity {
        name: "tiny".to_owned(),
        shape: ModelShape {
            architecture: config.architecture.clone(),
            layers: config.layers,
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            hidden_size: config.hidden_size,
            intermediate_size: config.intermediate_size,
            vocab_size: config.vocab_size,
            context_length: config.context_length,
            parameters: config.parameters(),
            weight_bytes: config.weight_bytes(candle_core::DType::F32),
        },
        model_hash: String::new(),
        tokenizer_hash: String::new(),
        template_hash: None,
        dtype: "f32".to_owned(),
        device: "cpu".to_owned(),
    };
    let tokenizer = TextTokenizer::from_folder(&tokenizer_folder()).unwrap();
    ModelEngine::new(decoder, Arc::new(ModelTokenizer(tokenizer)), identity)
}

fn tokenizer_folder() -> std::path::PathBuf {
    let tokenizers = tiny::folder("tokenizers");
    let mut folders: Vec<_> = std::fs::read_dir(&tokenizers)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("tokenizer.json").exists())
        .collect();
    folders.sort();
    folders.remove(0)
}

struct Cells(Vec<(CellKey, ResolvedMethod, Option<String>)>);

impl Cells {
    fn grid(budgets: &[&str]) -> Self {
        let mut cells = Vec::new();
        for info in METHODS {
            let method = ResolvedMethod {
                name: info.name.to_owned(),
                label: info.name.to_owned(),
                params: Value::Object(serde_json::Map::new()),
            };
            if info.scorer.is_none() {
                cells.push((CellKey(info.name.to_owned()), method, None));
                continue;
            }
            for budget in budgets {
                let key = CellKey(format!("{} {budget}", info.name));
                cells.push((key, method.clone(), Some((*budget).to_owned())));
            }
        }
        Self(cells)
    }

    fn requests(&self) -> Vec<CellRequest<'_>> {
        self.0
            .iter()
            .map(|(key, method, budget)| CellRequest {
                key,
                method,
                budget: budget.as_deref(),
            })
            .collect()
    }
}

fn run_with(
    prefill: PrefillMode,
    engine: &mut ModelEngine,
    ids: &[u32],
    cells: &[CellRequest<'_>],
) -> Vec<CellResult> {
    let stop = StopRule {
        end_tokens: vec![3],
        newline: None,
        min_new_tokens: 0,
    };
    let request = PromptRequest {
        ids,
        cells,
        max_new_tokens: 24,
        stop: &stop,
        short_prompts: ShortPrompts::Shrink,
        answer_kl_tokens: 8,
        prefill,
        want_kept: true,
        signals: &tiny::signals(engine.identity().shape.layers),
    };
    let output = engine.evaluate(&request).unwrap();
    output.cells.into_iter().map(Result::unwrap).collect()
}

fn run(engine: &mut ModelEngine, ids: &[u32], cells: &[CellRequest<'_>]) -> Vec<CellResult> {
    run_with(PrefillMode::default(), engine, ids, cells)
}

fn without_times(mut result: CellResult) -> CellResult {
    result.compress_ms = 0.0;
    result.decode_ms = 0.0;
    result
}

#[test]
fn a_cell_does_not_depend_on_its_company() {
    let mut engine = engine();
    let ids = tiny::ids(3, 300, engine.identity().shape.vocab_size);
    let grid = Cells::grid(&["10%", "30%", "90"]);
    let together = run(&mut engine, &ids, &grid.requests());
    for (request, expected) in grid.requests().iter().zip(together) {
        let alone = run(&mut engine, &ids, std::slice::from_ref(request)).remove(0);
        assert_eq!(
            without_times(alone),
            without_times(expected),
            "{}",
            request.key
        );
    }
}

#[test]
fn compressing_while_prefilling_or_afterwards_gives_the_same() {
    let mut engine = engine();
    let ids = tiny::ids(4, 300, engine.identity().shape.vocab_size);
    let grid = Cells::grid(&["1.5%", "10%", "30%", "100%"]);
    let [streamed, afterwards] = [PrefillMode::Stream, PrefillMode::Snapshot].map(|mode| {
        let results = run_with(mode, &mut engine, &ids, &grid.requests());
        results.into_iter().map(without_times).collect::<Vec<_>>()
    });
    assert_eq!(streamed, afterwards);
}

#[test]
fn kept_entries_and_bytes_are_the_budget() {
    let mut engine = engine();
    let shape = engine.identity().shape.clone();
    let n = 301;
    let ids = tiny::ids(5, n, shape.vocab_size);
    let entry_bytes = (2 * shape.kv_heads * shape.head_dim * 4) as u64;
    let grid = Cells::grid(&["1.5%", "10%", "33.3%", "100", "99.9%"]);
    for (request, result) in grid
        .requests()
        .iter()
        .zip(run(&mut engine, &ids, &grid.requests()))
    {
        let kept: u64 = result.kept_per_layer.iter().map(|&k| u64::from(k)).sum();
        let expected = result.budget_entries.unwrap_or((n * shape.layers) as u64);
        assert_eq!(kept, expected, "{}", request.key);
        assert_eq!(result.cache_bytes, kept * entry_bytes, "{}", request.key);
        // the full cache alone has no distance to itself
        let is_whole = kept == (n * shape.layers) as u64;
        assert_eq!(result.answer_kl == Some(0.0), is_whole, "{}", request.key);
        assert_eq!(
            result.short_prompt,
            !result.warnings.is_empty(),
            "{}",
            request.key
        );
    }
}

#[test]
fn a_full_budget_changes_nothing() {
    let mut engine = engine();
    let ids = tiny::ids(9, 200, engine.identity().shape.vocab_size);
    let results = run(&mut engine, &ids, &Cells::grid(&["100%"]).requests());
    assert!(
        results
            .iter()
            .all(|result| result.output_ids == results[0].output_ids)
    );
    assert!(
        results
            .iter()
            .all(|result| result.cache_bytes == results[0].cache_bytes)
    );
    assert!(results.iter().all(|result| result.answer_kl == Some(0.0)));
}

#[test]
fn different_methods_keep_different_sets() {
    let mut engine = engine();
    let ids = tiny::ids(13, 400, engine.identity().shape.vocab_size);
    let results = run(&mut engine, &ids, &Cells::grid(&["25%"]).requests());
    let hashes: std::collections::BTreeSet<_> = results.iter().map(|r| &r.kept_hash).collect();
    assert_eq!(hashes.len(), METHODS.len());
}

#[test]
fn kept_positions_come_back_as_the_records_hash_says() {
    let mut engine = engine();
    let ids = tiny::ids(13, 400, engine.identity().shape.vocab_size);
    let cells = Cells::grid(&["25%"]);
    for result in run(&mut engine, &ids, &cells.requests()) {
        assert_eq!(kept_hash(result.kept.as_ref()), result.kept_hash);
        let is_whole = result.kept_hash == EVERYTHING;
        assert_eq!(result.kept.is_none(), is_whole);
        let Some(kept) = result.kept else { continue };
        // through the stored form and back
        let stored = KeptBits::new(&kept, ids.len()).unwrap();
        let key = CellKey("a".to_owned());
        let line = &kept_lines("sample", [(&key, &stored)]).unwrap()[0];
        let read = line.unpack(None).unwrap().sets();
        assert_eq!(kept_hash(Some(&read)), result.kept_hash);
        for (layer, entries) in kept.iter().zip(&result.kept_per_layer) {
            assert!(layer.iter().all(|head| head.len() == *entries as usize));
        }
    }
}

#[test]
fn short_prompts_follow_their_rule() {
    let decoder = tiny::decoder(MODEL);
    let ids = tiny::ids(17, 120, decoder.config().vocab_size);
    let needs = Needs {
        window_queries: 64,
        ..Needs::default()
    };
    let snapshot = decoder
        .prefill(&ids, needs, &mut |_, _| ())
        .unwrap()
        .snapshot;
    let method = Method::build("snapkv", &Value::Null).unwrap();
    // 12 entries a layer are below the window of 64: window of 6
    let shrunk = kept_cell(
        &method,
        Some("10%"),
        &snapshot,
        ShortPrompts::Shrink,
        &Signals::new(),
    )
    .unwrap();
    assert!(shrunk.short_prompt);
    assert_eq!(shrunk.must_keep_tokens, 6);
    for layer in shrunk.kept.as_ref().unwrap() {
        assert!(
            layer
                .iter()
                .all(|head| head.len() == 12 && head.ends_with(&[114, 115, 116, 117, 118, 119]))
        );
    }
    let full = kept_cell(
        &method,
        Some("10%"),
        &snapshot,
        ShortPrompts::Full,
        &Signals::new(),
    )
    .unwrap();
    assert!(full.short_prompt && full.kept.is_none());
    let error = kept_cell(
        &method,
        Some("10%"),
        &snapshot,
        ShortPrompts::Error,
        &Signals::new(),
    )
    .unwrap_err();
    assert!(
        error.to_string().contains("below the must-keep set of 64"),
        "{error}"
    );
    let missing = kept_cell(
        &method,
        None,
        &snapshot,
        ShortPrompts::Shrink,
        &Signals::new(),
    )
    .unwrap_err();
    assert!(missing.to_string().contains("needs a budget"));
}
