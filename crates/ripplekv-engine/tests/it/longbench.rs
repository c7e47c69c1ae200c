//! LongBench's own records: prompt ids equal those of transformers, as hashes of them that
//! `tools/make_longbench_fixtures.py` wrote. The records are never committed: they are read from the folder
//! `shared/` beside the project, or the one that `RIPPLEKV_SHARED` names.
//!
//! Without that folder these tests say that they are skipped, under `CI=true` too: nobody outside has the records,
//! and the committed fixtures of the tokenizer, the chat template and the task crate cover the same code. Where
//! `RIPPLEKV_SHARED` is set, an absent folder is a failure.

use std::path::PathBuf;
use std::sync::Arc;

use rayon::prelude::*;
use ripplekv_engine::ModelLoader;
use ripplekv_model::home::Home;
use ripplekv_runner::cell::{ModelSource, ResolvedModel};
use ripplekv_runner::engine::Loader as _;
use ripplekv_tasks::{Pack, Prompt, PromptOptions, Record, TaskInfo, Tokenise, prepare};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub(crate) fn pack() -> Option<Pack> {
    let stated = std::env::var_os("RIPPLEKV_SHARED").filter(|folder| !folder.is_empty());
    let folder = match &stated {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
    }
    .join("longbench");
    if stated.is_none() && !folder.is_dir() {
        println!("skipped: no LongBench records at {}", folder.display());
        return None;
    }
    Some(Pack::open(folder).unwrap())
}

pub(crate) fn fixture(name: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

pub(crate) fn model() -> (ModelLoader, ResolvedModel) {
    let name = "smollm2-135m-instruct-q4".to_owned();
    let model = ResolvedModel {
        name: name.clone(),
        source: ModelSource::Named(name),
        dtype: "f32".to_owned(),
    };
    let loader = ModelLoader::new(Home::from_environment().unwrap(), "cpu").unwrap();
    (loader, model)
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

pub(crate) fn digest_of_ids(ids: &[u32]) -> String {
    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    sha256(&bytes)
}

pub(crate) fn number(row: &Value, key: &str) -> usize {
    row[key].as_u64().unwrap() as usize
}

/// The record that a row of a fixture is about, with its task.
pub(crate) fn record_of(pack: &Pack, row: &Value) -> (&'static TaskInfo, Record) {
    let task = pack.task(row["task"].as_str().unwrap()).unwrap();
    let record = pack.records(task).unwrap().nth(number(row, "index"));
    (task, record.unwrap().unwrap())
}

pub(crate) fn prompt_at(
    pack: &Pack,
    task: &TaskInfo,
    record: &Record,
    tokenizer: &Arc<dyn Tokenise>,
    limit: usize,
) -> Prompt {
    let options = PromptOptions::official(limit);
    let template = pack.template(task).unwrap();
    prepare(task, template, record, tokenizer.as_ref(), &options).unwrap()
}

#[test]
fn all_124_records_have_the_ids_of_transformers_at_both_limits() {
    let Some(pack) = pack() else { return };
    let (loader, model) = model();
    let tokenizer = loader.tokenizer(&model).unwrap();
    let expected = fixture("longbench-prompts.json");
    let rows = expected["records"].as_array().unwrap();
    let known: usize = pack
        .tasks()
        .map(|task| pack.load(task).unwrap().len())
        .sum();
    assert_eq!((rows.len(), known), (124, 124));
    let differences: Vec<String> = rows
        .par_iter()
        .flat_map_iter(|row| {
            let (task, record) = record_of(&pack, row);
            let differs = |limit: usize| {
                let prompt = prompt_at(&pack, task, &record, &tokenizer, limit);
                let wanted = &row[format!("at_{limit}")];
                let equal = prompt.rendered_tokens == number(row, "rendered_tokens")
                    && prompt.truncated == (prompt.rendered_tokens > limit)
                    && prompt.ids.len() == number(wanted, "tokens")
                    && wanted["sha256"] == digest_of_ids(&prompt.ids);
                (!equal).then(|| {
                    format!(
                        "{task} {} at {limit}: {} ids, expected {wanted}",
                        row["index"],
                        prompt.ids.len()
                    )
                })
            };
            [3_500, 7_500]
                .into_iter()
                .filter_map(differs)
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(differences, Vec::<String>::new());
}
