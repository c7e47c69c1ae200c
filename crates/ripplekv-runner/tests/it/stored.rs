//! The results folder: what is in it, and what happens when it is damaged or shared.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ripplekv_runner::exit;
use ripplekv_runner::fake::FakeLoader;
use ripplekv_runner::plan::PlanOptions;
use ripplekv_runner::select::{Limit, Only, Shard};
use ripplekv_runner::store::{Store, read_run};
use tempfile::TempDir;

use crate::pack::{self, SPEC, run_spec};

fn folder(records: usize) -> TempDir {
    let folder = TempDir::new().unwrap();
    pack::write(&folder.path().join("pack"), records);
    folder
}

fn records_file(folder: &Path) -> PathBuf {
    folder.join("out/records/tiny/logbook_qa/w0.jsonl")
}

fn run_all(folder: &Path, loader: &FakeLoader) -> ripplekv_runner::run::RunSummary {
    run_spec(SPEC, folder, loader, PlanOptions::default()).unwrap()
}

#[test]
fn a_run_stores_measured_budgets_scores_and_identity() {
    let folder = folder(2);
    run_all(folder.path(), &FakeLoader::default());
    let stored = read_run(&folder.path().join("out")).unwrap();
    assert!(stored.warnings.is_empty(), "{:?}", stored.warnings);
    assert_eq!(stored.records.len(), 20);
    assert_eq!(stored.timings.len(), 20);
    assert_eq!(stored.current_cells().count(), 10);
    for record in &stored.records {
        let cell = &stored.cells[&record.cell];
        let kept: u64 = record
            .kept_per_layer
            .iter()
            .map(|kept| u64::from(*kept))
            .sum();
        match &cell.budget {
            Some(_) => assert_eq!(Some(kept), record.budget_entries),
            None => assert_eq!(kept, record.prompt_tokens * 4),
        }
        assert!(
            record
                .score
                .is_some_and(|score| (0.0..=1.0).contains(&score))
        );
    }
    let manifest = &stored.manifest;
    assert_eq!(manifest.models["tiny"].shape.layers, 4);
    assert_eq!(manifest.pack.tasks["logbook_qa"].records, 2);
    assert_eq!(manifest.spec["protocol"]["short_prompts"], "shrink");
    assert_eq!(manifest.max_context["tiny"], 3500);
    assert!(folder.path().join("out/log.jsonl").is_file());
}

#[test]
fn the_manifest_lists_what_all_shards_selected() {
    let folder = folder(20);
    let loader = FakeLoader::default();
    let out = folder.path().join("out");
    let selected = || read_run(&out).unwrap().manifest.selected["tiny"].clone();
    let ids = |task: &str, count: usize| -> Vec<String> {
        (0..count).map(|place| format!("{task}-{place}")).collect()
    };
    let options = PlanOptions {
        shard: Shard { index: 1, count: 4 },
        ..PlanOptions::default()
    };
    run_spec(SPEC, folder.path(), &loader, options).unwrap();
    assert_eq!(selected()["logbook_qa"], ids("logbook_qa", 20));
    assert_eq!(selected()["ticket_class"], ids("ticket_class", 20));
    let options = PlanOptions {
        limit: Some(Limit::First(2)),
        only: Only::parse(&["task=ticket_class".to_owned()]).unwrap(),
        ..PlanOptions::default()
    };
    run_spec(SPEC, folder.path(), &loader, options).unwrap();
    assert_eq!(selected()["logbook_qa"], ids("logbook_qa", 20), "left out");
    assert_eq!(selected()["ticket_class"], ids("ticket_class", 2));
}

#[test]
fn a_manifest_without_a_selection_is_read_and_gets_one() {
    let folder = folder(2);
    let loader = FakeLoader::default();
    run_all(folder.path(), &loader);
    let path = folder.path().join("out/manifest.json");
    let mut manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest.as_object_mut().unwrap().remove("selected");
    fs::write(&path, manifest.to_string()).unwrap();
    let read = || read_run(&folder.path().join("out")).unwrap().manifest;
    assert!(read().selected.is_empty());
    run_all(folder.path(), &loader);
    assert_eq!(read().selected["tiny"]["logbook_qa"].len(), 2);
}

#[test]
fn records_repeat_byte_for_byte() {
    let (one, two) = (folder(3), folder(3));
    run_all(one.path(), &FakeLoader::default());
    run_all(two.path(), &FakeLoader::default());
    assert_eq!(
        fs::read(records_file(one.path())).unwrap(),
        fs::read(records_file(two.path())).unwrap()
    );
}

#[test]
fn a_cut_last_line_is_dropped_and_its_cell_runs_again() {
    let folder = folder(3);
    let loader = FakeLoader::default();
    run_all(folder.path(), &loader);
    let path = records_file(folder.path());
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 10]).unwrap();
    let stored = read_run(&folder.path().join("out")).unwrap();
    assert_eq!(stored.records.len(), 29);
    assert!(
        stored.warnings[0].ends_with(
            "w0.jsonl:15: the last line is cut and was left out; its prompt will run again"
        ),
        "{:?}",
        stored.warnings
    );
    let summary = run_all(folder.path(), &loader);
    assert_eq!((summary.computed, loader.calls().len()), (1, 7));
    assert_eq!(
        fs::read(&path).unwrap(),
        whole,
        "mended, not appended to the cut line"
    );
}

#[test]
fn a_damaged_line_is_an_error_with_its_place() {
    let folder = folder(2);
    run_all(folder.path(), &FakeLoader::default());
    let path = records_file(folder.path());
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"schema\"", "schema", 1)).unwrap();
    let error = read_run(&folder.path().join("out")).unwrap_err();
    assert!(
        error.to_string().contains("w0.jsonl:1: damaged line: "),
        "{error}"
    );
    assert_eq!(error.exit_code(), exit::SPEC_OR_DATA);
}

#[test]
fn equal_duplicates_are_one_and_different_ones_an_error() {
    let folder = folder(2);
    run_all(folder.path(), &FakeLoader::default());
    let path = records_file(folder.path());
    let copy = path.with_file_name("w1.jsonl");
    fs::copy(&path, &copy).unwrap();
    let out = folder.path().join("out");
    assert_eq!(read_run(&out).unwrap().records.len(), 20);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&copy, text.replace("\"output\":\"", "\"output\":\"x")).unwrap();
    let error = read_run(&out).unwrap_err().to_string();
    assert!(
        error.contains("stored twice with different contents"),
        "{error}"
    );
}

#[test]
fn two_runs_at_once_share_the_work() {
    let folder = folder(40);
    let loader = FakeLoader::default().with_delay(Duration::from_millis(5));
    let summaries: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| run_all(folder.path(), &loader)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(loader.calls().len(), 80, "no prompt twice");
    assert_eq!(
        summaries
            .iter()
            .map(|summary| summary.computed)
            .sum::<usize>(),
        400
    );
    assert!(
        summaries.iter().all(|summary| summary.computed > 0),
        "both worked: {summaries:?}"
    );
    let stored = read_run(&folder.path().join("out")).unwrap();
    assert_eq!(stored.records.len(), 400);
    assert!(
        folder
            .path()
            .join("out/records/tiny/logbook_qa/w1.jsonl")
            .is_file()
            || folder
                .path()
                .join("out/records/tiny/ticket_class/w1.jsonl")
                .is_file()
    );
}

#[test]
fn a_unit_held_by_another_process_is_left_and_told() {
    let folder = folder(20);
    let out = folder.path().join("out");
    let other = Store::open(&out).unwrap();
    let held = other.claim("tiny", "logbook_qa", 1).unwrap();
    assert!(held.is_some());
    let loader = FakeLoader::default();
    let summary = run_all(folder.path(), &loader);
    assert_eq!(
        (summary.left, summary.exit_code()),
        (8 * 5, exit::INCOMPLETE)
    );
    drop(held);
    let summary = run_all(folder.path(), &loader);
    assert_eq!((summary.computed, summary.exit_code()), (8 * 5, exit::DONE));
}

#[test]
fn a_cut_line_of_another_writer_is_left_alone() {
    let folder = folder(2);
    let loader = FakeLoader::default();
    run_all(folder.path(), &loader);
    let path = records_file(folder.path());
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"schema\":1,\"cell\":").unwrap();
    let before = fs::read(&path).unwrap();
    let out = folder.path().join("out");
    let _w0 = Store::open(&out).unwrap();
    let summary = run_all(folder.path(), &loader);
    assert_eq!(summary.computed, 0);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_folder_without_manifest_is_no_results_folder() {
    let folder = TempDir::new().unwrap();
    let error = read_run(folder.path()).unwrap_err().to_string();
    assert!(
        error.ends_with("hint: give a folder such as results/quickstart; `ripplekv run` makes it"),
        "{error}"
    );
}

#[test]
fn records_without_a_manifest_are_refused() {
    let folder = folder(1);
    run_all(folder.path(), &FakeLoader::default());
    fs::remove_file(folder.path().join("out/manifest.json")).unwrap();
    let again = run_spec(
        SPEC,
        folder.path(),
        &FakeLoader::default(),
        PlanOptions::default(),
    );
    let error = again.unwrap_err();
    assert!(
        error.to_string().ends_with(
            "out/manifest.json: is missing beside records, so which model made them is unknown\nhint: restore the file, or start afresh with --out DIR"
        ),
        "{error}"
    );
    assert_eq!(error.exit_code(), exit::SPEC_OR_DATA);
    assert!(!folder.path().join("out/manifest.json").exists());
}

#[test]
fn another_kind_of_device_is_refused_and_an_old_manifest_is_read() {
    let folder = folder(1);
    run_all(folder.path(), &FakeLoader::default());
    let path = folder.path().join("out/manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"working_folder_git\""), "{text}");
    let old = text.replace("\"working_folder_git\"", "\"git\"");
    fs::write(&path, &old).unwrap();
    read_run(&folder.path().join("out")).unwrap();

    assert!(old.contains("\"device\": \"cpu, faked\""), "{old}");
    fs::write(&path, old.replace("cpu, faked", "cuda:1")).unwrap();
    let more = SPEC.replace("[25%, 50%]", "[25%, 50%, 75%]");
    let loader = FakeLoader::default();
    let error = run_spec(&more, folder.path(), &loader, PlanOptions::default()).unwrap_err();
    assert!(
        error.to_string().contains(
            "model 'tiny': its kind of device was cuda when the stored records were made and is cpu, faked now"
        ),
        "{error}"
    );
}
