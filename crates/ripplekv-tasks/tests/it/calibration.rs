//! The committed calibration pack: made again byte for byte, disjoint from every benchmark.

use std::collections::BTreeMap;
use std::fs;

use ripplekv_tasks::generate::{
    CALIBRATION_RECORDS_PER_TASK, DEFAULT_SEED, GENERATOR_VERSION, PackKind, generate_candidates,
    read_manifest, write_calibration,
};
use ripplekv_tasks::{LENGTH_FILE, PROMPT_FILE, Pack, Record, Suite, TASKS, TaskInfo, pack_hash};

use crate::generated::{assert_same_files, committed};
use crate::longbench;

fn calibration_tasks() -> Vec<&'static TaskInfo> {
    TASKS
        .iter()
        .filter(|task| matches!(task.suite, Suite::Own | Suite::Calibration))
        .collect()
}

fn records_of(pack: &Pack) -> Vec<Record> {
    pack.tasks()
        .flat_map(|task| pack.load(task).unwrap())
        .collect()
}

#[test]
fn the_committed_pack_is_made_again_byte_for_byte_and_agrees_with_the_task_table() {
    let dir = committed("calibration");
    let manifest = read_manifest(&dir).unwrap();
    assert_eq!(manifest.kind, PackKind::Calibration);
    assert_eq!(manifest.generator_version, GENERATOR_VERSION);
    assert_eq!(manifest.seed, DEFAULT_SEED);
    let again = tempfile::tempdir().unwrap();
    write_calibration(again.path(), DEFAULT_SEED).unwrap();
    let tasks = calibration_tasks();
    let names: Vec<&str> = tasks.iter().map(|task| task.name).collect();
    assert_same_files(again.path(), &dir, &names);

    let pack = Pack::open(&dir).unwrap();
    assert_eq!(pack.name(), "calibration");
    assert_eq!(pack.tasks().collect::<Vec<_>>(), tasks);
    for task in tasks {
        assert_eq!(pack.max_new_tokens(task).unwrap(), task.max_new_tokens);
        assert_eq!(pack.hash(task).unwrap(), manifest.tasks[task.name].blake3);
        let records = pack.load(task).unwrap();
        assert_eq!(records.len(), CALIBRATION_RECORDS_PER_TASK);
        assert!(records.iter().all(|record| !record.answers.is_empty()));
    }
    assert!(pack.select(&["all"]).unwrap().absent.is_empty());
}

/// A profile measured on a benchmark's texts would know the benchmark.
#[test]
fn no_context_and_no_record_is_shared_with_a_benchmark() {
    let hash = |text: &str| blake3::hash(text.as_bytes()).to_hex().to_string();
    // What a record says, without its id, which is a hash already.
    let content = |record: &Record| {
        let mut record = record.clone();
        record.id.clear();
        hash(&record.to_line())
    };
    let generated = |kind| {
        let candidates = generate_candidates(kind, DEFAULT_SEED);
        candidates.into_iter().map(|one| one.record).collect()
    };
    let mut packs: Vec<(&str, Vec<Record>)> = vec![
        (
            "calibration",
            records_of(&Pack::open(committed("calibration")).unwrap()),
        ),
        // All candidates, the committed records among them.
        ("quickstart", generated(PackKind::Quickstart)),
        ("study", generated(PackKind::Study)),
    ];
    let sizes: Vec<usize> = packs.iter().map(|(_, records)| records.len()).collect();
    assert_eq!(sizes, [28, 72, 216]);
    let quickstart = records_of(&Pack::open(committed("quickstart")).unwrap());
    assert!(quickstart.iter().all(|one| packs[1].1.contains(one)));
    if let Some(longbench) = longbench::shared() {
        packs.push(("longbench", records_of(&longbench)));
    }

    let mut contexts: BTreeMap<String, &str> = BTreeMap::new();
    let mut contents: BTreeMap<String, &str> = BTreeMap::new();
    for (name, records) in &packs {
        for record in records {
            // LongBench itself asks several questions about one context.
            let context = contexts.insert(hash(&record.context), name);
            assert!(
                context.is_none_or(|other| other == "longbench"),
                "{name} and {context:?} share the context of {}",
                record.id
            );
            let whole = contents.insert(content(record), name);
            assert_eq!(whole, None, "{name} has {} again", record.id);
        }
    }
}

#[test]
fn the_pack_hash_sees_all_that_can_change_a_prompt_and_nothing_else() {
    let write = |change: &dyn Fn(&std::path::Path)| {
        let dir = tempfile::tempdir().unwrap();
        write_calibration(dir.path(), 5).unwrap();
        change(dir.path());
        pack_hash(&Pack::open(dir.path()).unwrap()).unwrap()
    };
    let replace = |file: &'static str, from: &'static str, to: &'static str| {
        move |dir: &std::path::Path| {
            let path = dir.join(file);
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{from}");
            fs::write(&path, text.replacen(from, to, 1)).unwrap();
        }
    };
    let hash = write(&|_| {});
    assert_eq!(hash.len(), 64);
    assert_eq!(
        write(&replace("manifest.json", "calibration", "other")),
        hash
    );
    assert_ne!(
        write(&replace(PROMPT_FILE, "table above", "list above")),
        hash
    );
    assert_ne!(write(&replace(LENGTH_FILE, ": 16", ": 17")), hash);
    assert_ne!(
        write(&replace(
            "data/order_table.jsonl",
            "| Order |",
            "| Order  |"
        )),
        hash
    );
    let without = write(&|dir| fs::remove_file(dir.join("data/order_table.jsonl")).unwrap());
    assert_ne!(without, hash);
}
