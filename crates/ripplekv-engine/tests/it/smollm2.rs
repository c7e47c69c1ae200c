//! The controls on the real quickstart model.

use ripplekv_cache::METHODS;
use ripplekv_engine::ModelLoader;
use ripplekv_model::home::Home;
use ripplekv_runner::cell::{CellKey, ModelSource, ResolvedMethod, ResolvedModel};
use ripplekv_runner::engine::{CellRequest, Engine, Loader, PromptRequest, ShortPrompts};
use ripplekv_tasks::StopRule;
use serde_json::Value;

use crate::tiny;

fn model() -> ResolvedModel {
    ResolvedModel {
        name: "smollm2-135m-instruct-q4".to_owned(),
        source: ModelSource::Named("smollm2-135m-instruct-q4".to_owned()),
        dtype: "f32".to_owned(),
    }
}

pub(crate) fn engine() -> Box<dyn Engine> {
    let loader = ModelLoader::new(Home::from_environment().unwrap(), "cpu").unwrap();
    loader.load(&model()).unwrap()
}

/// Our own words, long enough for every window.
pub(crate) fn prompt(engine: &dyn Engine) -> Vec<u32> {
    let mut text = String::from("The keeper of the harbour wrote one line every evening. ");
    for day in 1..=40 {
        text.push_str(&format!(
            "On evening {day} the lamp was lit and {} boats came home. ",
            day % 7 + 2
        ));
    }
    text.push_str("The keeper's last line says");
    engine.tokenizer().encode(&text, true).unwrap()
}

#[test]
fn full_budgets_give_the_full_text_and_small_ones_are_exact() {
    let mut engine = engine();
    let tokenizer = engine.tokenizer();
    let ids = prompt(engine.as_ref());
    let method = |name: &str| ResolvedMethod {
        name: name.to_owned(),
        label: name.to_owned(),
        params: Value::Object(serde_json::Map::new()),
    };
    let mut cells = vec![(CellKey("full".to_owned()), method("full"), None)];
    for info in METHODS.iter().filter(|info| info.scorer.is_some()) {
        for budget in ["100%", "20%"] {
            cells.push((
                CellKey(format!("{} {budget}", info.name)),
                method(info.name),
                Some(budget),
            ));
        }
    }
    let requests: Vec<CellRequest<'_>> = cells
        .iter()
        .map(|(key, method, budget)| CellRequest {
            key,
            method,
            budget: *budget,
        })
        .collect();
    let stop = StopRule {
        end_tokens: tokenizer.end_tokens(),
        newline: None,
        min_new_tokens: 0,
    };
    let output = engine
        .evaluate(&PromptRequest {
            ids: &ids,
            cells: &requests,
            max_new_tokens: 12,
            stop: &stop,
            short_prompts: ShortPrompts::Shrink,
            answer_kl_tokens: 0,
            prefill: Default::default(),
            want_kept: false,
            signals: &tiny::signals(engine.identity().shape.layers),
        })
        .unwrap();
    let results: Vec<_> = output.cells.into_iter().map(Result::unwrap).collect();
    let shape = engine.identity().shape.clone();
    for (request, result) in requests.iter().zip(&results) {
        let kept: u64 = result.kept_per_layer.iter().map(|&k| u64::from(k)).sum();
        let everything = (ids.len() * shape.layers) as u64;
        match request.budget {
            Some("20%") => {
                assert_eq!(kept, (2 * everything + 5) / 10, "{}", request.key);
                assert_eq!(Some(kept), result.budget_entries);
            }
            _ => {
                assert_eq!(kept, everything, "{}", request.key);
                assert_eq!(result.output_ids, results[0].output_ids, "{}", request.key);
            }
        }
    }
}
