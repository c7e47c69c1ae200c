//! The lengths of the committed calibration pack under the quickstart model's own tokenizer.

use ripplekv_runner::engine::Loader as _;
use ripplekv_tasks::{Pack, PromptOptions, official_max_context, prepare};

use crate::longbench::model;

#[test]
fn every_calibration_prompt_is_of_the_promised_length() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../datasets/calibration");
    let pack = Pack::open(dir).unwrap();
    let (loader, model) = model();
    let tokenizer = loader.tokenizer(&model).unwrap();
    let options = PromptOptions::official(official_max_context(8_192));
    let mut prompts = 0;
    for task in pack.tasks() {
        let template = pack.template(task).unwrap();
        for record in pack.load(task).unwrap() {
            let prompt = prepare(task, template, &record, tokenizer.as_ref(), &options).unwrap();
            assert!(!prompt.truncated, "{task} {}", record.id);
            assert_eq!(prompt.chat_applied, task.chat_template, "{task}");
            let tokens = prompt.ids.len();
            assert!(
                (1_536..=3_072).contains(&tokens),
                "{task} {}: {tokens}",
                record.id
            );
            prompts += 1;
        }
    }
    assert_eq!(prompts, 28);
}
