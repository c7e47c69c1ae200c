//! Prompt texts and kept positions that a run stores for readers of its report.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ripplekv_runner::cell::CellKey;
use ripplekv_runner::fake::FakeLoader;
use ripplekv_runner::kept::{EVERYTHING, KeptBits, KeptLine, kept_hash};
use ripplekv_runner::plan::PlanOptions;
use ripplekv_runner::prompt_text::PromptText;
use ripplekv_runner::select::Only;
use ripplekv_runner::store::read_run;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::pack::{self, SPEC, run_spec};

fn folder(records: usize) -> TempDir {
    let folder = TempDir::new().unwrap();
    pack::write(&folder.path().join("pack"), records);
    folder
}

fn with(rule: &str) -> String {
    format!("{SPEC}store_kept: {rule}\n")
}

fn lines<T: DeserializeOwned>(folder: &Path, kind: &str) -> Vec<T> {
    let path = folder.join(format!("out/{kind}/tiny/logbook_qa/w0.jsonl"));
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Unpacks all lines of a file in order.
fn unpacked(lines: &[KeptLine]) -> BTreeMap<(String, CellKey), KeptBits> {
    let mut known: BTreeMap<(String, CellKey), KeptBits> = BTreeMap::new();
    for line in lines {
        let of = |cell: &CellKey| (line.sample.clone(), cell.clone());
        let like = line.like.as_ref().and_then(|cell| known.get(&of(cell)));
        let bits = line.unpack(like).unwrap();
        known.insert(of(&line.cell), bits);
    }
    known
}

#[test]
fn the_first_prompt_of_a_task_is_shown_with_what_every_cell_kept() {
    let folder = folder(3);
    run_spec(
        SPEC,
        folder.path(),
        &FakeLoader::default(),
        PlanOptions::default(),
    )
    .unwrap();
    let texts: Vec<PromptText> = lines(folder.path(), "prompts");
    assert_eq!(texts.len(), 3);
    let shown: Vec<bool> = texts.iter().map(|text| text.pieces.is_some()).collect();
    assert_eq!(shown, [true, false, false]);
    let text = &texts[0];
    let pieces = text.pieces.as_ref().unwrap();
    assert_eq!(pieces.len(), text.prompt_tokens);
    assert_eq!(pieces.concat(), format!("{}{}", text.head, text.tail));
    assert!(text.head.starts_with("<user> Read. w0 w7") && text.head.ends_with(" <answer>"));

    let kept = unpacked(&lines::<KeptLine>(folder.path(), "kept"));
    let stored = read_run(&folder.path().join("out")).unwrap();
    let records = stored
        .records
        .iter()
        .filter(|record| record.sample == text.sample);
    let mut compressed = 0;
    for record in records {
        assert_eq!(record.prompt_hash, text.prompt_hash);
        let bits = kept.get(&(record.sample.clone(), record.cell.clone()));
        assert_eq!(bits.is_none(), record.kept_hash == EVERYTHING);
        let Some(bits) = bits else { continue };
        assert_eq!(kept_hash(Some(&bits.sets())), record.kept_hash);
        compressed += 1;
    }
    assert_eq!((compressed, kept.len()), (4, 4));
}

#[test]
fn none_stores_neither_and_all_stores_both_of_every_prompt() {
    let nothing = folder(3);
    run_spec(
        &with("none"),
        nothing.path(),
        &FakeLoader::default(),
        PlanOptions::default(),
    )
    .unwrap();
    assert!(!nothing.path().join("out/prompts").exists());
    assert!(!nothing.path().join("out/kept").exists());

    let all = folder(3);
    run_spec(
        &with("all"),
        all.path(),
        &FakeLoader::default(),
        PlanOptions::default(),
    )
    .unwrap();
    let texts: Vec<PromptText> = lines(all.path(), "prompts");
    assert!(texts.iter().all(|text| text.pieces.is_some()));
    assert_eq!(lines::<KeptLine>(all.path(), "kept").len(), 3 * 4);
    let records = |folder: &Path| {
        fs::read_to_string(folder.join("out/records/tiny/logbook_qa/w0.jsonl")).unwrap()
    };
    assert_eq!(records(nothing.path()), records(all.path()));

    let plans = ["none", "shown", "all"].map(|rule| {
        let plan = pack::plan(&with(rule), all.path(), PlanOptions::default()).unwrap();
        plan.cells
    });
    assert!(
        plans[0] == plans[1] && plans[1] == plans[2],
        "no part of a cell's key"
    );
    let wrong = pack::plan(&with("some"), all.path(), PlanOptions::default()).unwrap_err();
    assert!(wrong.to_string().contains("store_kept"), "{wrong}");
}

#[test]
fn running_on_adds_what_is_missing_and_mends_a_cut_line() {
    let folder = folder(2);
    let loader = FakeLoader::default();
    let options = PlanOptions {
        only: Only::parse(&["method=streaming-llm"]).unwrap(),
        ..PlanOptions::default()
    };
    run_spec(SPEC, folder.path(), &loader, options).unwrap();
    let before: Vec<PromptText> = lines(folder.path(), "prompts");
    let path = folder.path().join("out/kept/tiny/logbook_qa/w0.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    assert_eq!(whole.lines().count(), 2);
    fs::write(&path, &whole[..whole.len() - 5]).unwrap();

    run_spec(SPEC, folder.path(), &loader, PlanOptions::default()).unwrap();
    let after: Vec<PromptText> = lines(folder.path(), "prompts");
    assert_eq!(after, before, "a text is stored once");
    let kept: Vec<KeptLine> = lines(folder.path(), "kept");
    let cells: Vec<&CellKey> = kept.iter().map(|line| &line.cell).collect();
    assert_eq!(
        kept.len(),
        3,
        "the cut one is gone, its record is not: {cells:?}"
    );
    unpacked(&kept);

    run_spec(&with("all"), folder.path(), &loader, PlanOptions::default()).unwrap();
    assert_eq!(
        lines::<KeptLine>(folder.path(), "kept"),
        kept,
        "nothing is computed again for it"
    );
}
