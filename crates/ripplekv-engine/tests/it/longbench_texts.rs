//! Greedy full-cache texts of twenty LongBench records equal those of transformers in float32, as hashes that
//! `tools/make_longbench_fixtures.py texts` wrote. Skipped without the records, as [`crate::longbench`] says.
//! Both programs stop at 64 new tokens where the task's own limit is higher (qasper, samsum, summaries): more would
//! take minutes and prove no more.

use std::time::Instant;

use ripplekv_runner::cell::{CellKey, ResolvedMethod};
use ripplekv_runner::engine::{CellRequest, Loader as _, PromptRequest, ShortPrompts, Signals};
use ripplekv_tasks::StopRule;
use serde_json::Value;

use crate::longbench::{digest_of_ids, fixture, model, number, pack, prompt_at, record_of, sha256};

#[test]
fn twenty_full_cache_texts_are_those_of_transformers() {
    let Some(pack) = pack() else { return };
    let (loader, model) = model();
    let mut engine = loader.load(&model).unwrap();
    let tokenizer = engine.tokenizer();
    let expected = fixture("longbench-texts.json");
    let ends: Vec<u32> = serde_json::from_value(expected["end_tokens"].clone()).unwrap();
    assert_eq!(tokenizer.end_tokens(), ends);
    assert_eq!(
        tokenizer.newline_token().unwrap() as usize,
        number(&expected, "newline")
    );
    let rows = expected["records"].as_array().unwrap();
    assert_eq!(rows.len(), 20);
    let key = CellKey("full".to_owned());
    let method = ResolvedMethod {
        name: "full".to_owned(),
        label: "full".to_owned(),
        params: Value::Object(serde_json::Map::new()),
    };
    let cells = [CellRequest {
        key: &key,
        method: &method,
        budget: None,
    }];
    let started = Instant::now();
    let mut differences = Vec::new();
    for row in rows {
        let (task, record) = record_of(&pack, row);
        let limit = number(&expected, "max_context");
        let prompt = prompt_at(&pack, task, &record, &tokenizer, limit);
        assert!(!prompt.truncated && prompt.ids.len() < 4_096);
        assert_eq!(row["prompt_sha256"], digest_of_ids(&prompt.ids));
        let most = number(row, "max_new_tokens");
        assert!(most <= pack.max_new_tokens(task).unwrap());
        let output = engine
            .evaluate(&PromptRequest {
                ids: &prompt.ids,
                cells: &cells,
                max_new_tokens: most,
                stop: &StopRule::new(task, tokenizer.as_ref()).unwrap(),
                short_prompts: ShortPrompts::Error,
                answer_kl_tokens: 0,
                prefill: Default::default(),
                want_kept: false,
                signals: &Signals::new(),
            })
            .unwrap();
        let ids = output.cells.into_iter().next().unwrap().unwrap().output_ids;
        let text = tokenizer.decode(&ids, true).unwrap();
        let equal = ids.len() == number(row, "new_tokens")
            && row["new_sha256"] == digest_of_ids(&ids)
            && row["text_sha256"] == sha256(text.as_bytes());
        if !equal {
            differences.push(format!(
                "{task} {}: {} new tokens, expected {}; transformers' two best logits were at least {} apart",
                row["index"],
                ids.len(),
                row["new_tokens"],
                row["smallest_margin"]
            ));
        }
    }
    println!("20 texts in {:.0} s", started.elapsed().as_secs_f64());
    assert_eq!(differences, Vec::<String>::new());
}
