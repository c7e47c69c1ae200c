//! One wrong pack per error text: the place, the reason, what to do.

use std::fs;
use std::path::Path;

use ripplekv_tasks::{LENGTH_FILE, PROMPT_FILE, Pack, find_task};
use tempfile::TempDir;

const RECORD: &str = r#"{"input": "q", "context": "c", "answers": ["a"], "length": 1, "dataset": "logbook_qa", "language": "en", "all_classes": null, "_id": "one"}"#;

fn put(dir: &Path, file: &str, text: impl AsRef<[u8]>) {
    let path = dir.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn good() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    put(
        dir.path(),
        PROMPT_FILE,
        r#"{"logbook_qa": "{context} {input}"}"#,
    );
    put(dir.path(), LENGTH_FILE, r#"{"logbook_qa": 16}"#);
    put(dir.path(), "data/logbook_qa.jsonl", format!("{RECORD}\n"));
    dir
}

/// The error of opening, without the folder's changing name.
fn open_error(dir: &TempDir) -> String {
    let text = Pack::open(dir.path()).unwrap_err().to_string();
    text.replace(&dir.path().display().to_string(), "PACK")
}

fn load_error(dir: &TempDir) -> String {
    let pack = Pack::open(dir.path()).unwrap();
    let text = pack
        .load(find_task("logbook_qa").unwrap())
        .unwrap_err()
        .to_string();
    text.replace(&dir.path().display().to_string(), "PACK")
}

fn with_records(text: impl AsRef<[u8]>) -> TempDir {
    let dir = good();
    put(dir.path(), "data/logbook_qa.jsonl", text);
    dir
}

#[test]
fn a_good_pack_opens() {
    let dir = good();
    let pack = Pack::open(dir.path()).unwrap();
    let task = pack.task("logbook_qa").unwrap();
    assert_eq!(pack.name(), "quickstart");
    assert_eq!(pack.max_new_tokens(task).unwrap(), 16);
    assert_eq!(pack.template(task).unwrap(), "{context} {input}");
    assert_eq!(pack.load(task).unwrap().len(), 1);
    let bytes = fs::read(pack.record_path(task)).unwrap();
    assert_eq!(
        pack.hash(task).unwrap(),
        blake3::hash(&bytes).to_hex().as_str()
    );
}

#[test]
fn the_manifest_names_the_pack() {
    let dir = good();
    put(
        dir.path(),
        "manifest.json",
        r#"{"name": "mine", "other": 1}"#,
    );
    assert_eq!(Pack::open(dir.path()).unwrap().name(), "mine");
    put(dir.path(), "manifest.json", "{");
    assert!(
        open_error(&dir).starts_with("PACK/manifest.json: EOF while parsing an object at line 1")
    );
}

#[test]
fn a_last_line_without_newline_counts_and_crlf_is_fine() {
    let second = RECORD.replace("one", "two");
    let dir = with_records(format!("{RECORD}\r\n{second}"));
    let pack = Pack::open(dir.path()).unwrap();
    assert_eq!(
        pack.load(pack.task("logbook_qa").unwrap()).unwrap().len(),
        2
    );
}

#[test]
fn lines_end_at_newlines_only() {
    let odd = RECORD.replace("\"c\"", "\"a\u{2028}b\u{85}c\"");
    let dir = with_records(format!("{odd}\n"));
    let pack = Pack::open(dir.path()).unwrap();
    let records = pack.load(pack.task("logbook_qa").unwrap()).unwrap();
    assert_eq!(records[0].context, "a\u{2028}b\u{85}c");
}

#[test]
fn no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("longbench");
    assert_eq!(
        Pack::open(&missing).unwrap_err().to_string(),
        format!(
            "no pack folder at {}\nhint: `ripplekv fetch longbench` brings it",
            missing.display()
        )
    );
    let missing = dir.path().join("else");
    let text = Pack::open(missing).unwrap_err().to_string();
    assert!(text.ends_with("hint: give the folder that holds config/ and data/"));
}

#[test]
fn empty_pack() {
    let wanted = "PACK: empty pack, no data/<task>.jsonl in it\nhint: is this the right folder? `ripplekv fetch` brings packs";
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(open_error(&dir), wanted);
    fs::create_dir(dir.path().join("data")).unwrap();
    assert_eq!(open_error(&dir), wanted);
}

#[test]
fn missing_config_file() {
    for file in [PROMPT_FILE, LENGTH_FILE] {
        let dir = good();
        fs::remove_file(dir.path().join(file)).unwrap();
        assert_eq!(
            open_error(&dir),
            format!(
                "PACK/{file}: no such file\nhint: a pack has config/dataset2prompt.json, config/dataset2maxlen.json and data/<task>.jsonl"
            )
        );
    }
}

#[test]
fn config_that_is_not_json_or_lacks_the_task() {
    let dir = good();
    put(dir.path(), PROMPT_FILE, r#"{"logbook_qa": 3}"#);
    assert!(
        open_error(&dir).starts_with("PACK/config/dataset2prompt.json: invalid type: integer `3`")
    );
    put(dir.path(), PROMPT_FILE, "{}");
    assert_eq!(
        open_error(&dir),
        "PACK/config/dataset2prompt.json: no entry for `logbook_qa`\nhint: every data/<task>.jsonl needs an entry in both config files"
    );
    let dir = good();
    put(dir.path(), LENGTH_FILE, r#"{"logbook_qa": 0}"#);
    assert_eq!(
        open_error(&dir),
        "PACK/config/dataset2maxlen.json: `logbook_qa` allows 0 new tokens"
    );
}

#[test]
fn prompt_text_that_cannot_be_filled() {
    let dir = good();
    put(dir.path(), PROMPT_FILE, r#"{"logbook_qa": "{contxt}"}"#);
    assert!(open_error(&dir).starts_with(
        "PACK/config/dataset2prompt.json: prompt of `logbook_qa`: unknown placeholder `{contxt}` at byte 0\nhint: "
    ));
}

#[test]
fn a_longbench_task_needs_the_official_config() {
    let dir = good();
    put(dir.path(), "data/qasper.jsonl", RECORD);
    put(
        dir.path(),
        PROMPT_FILE,
        r#"{"qasper": "{context}", "logbook_qa": "{context}"}"#,
    );
    let text = open_error(&dir);
    assert!(
        text.starts_with("PACK/config/dataset2prompt.json: not LongBench's official file (sha256 ")
    );
    assert!(text.contains(
        "expected 56d22ad4f382169c2b8a11ff4c982a4a1bea096c8152b0f0b85b64686b157c30)\nhint: "
    ));
}

#[test]
fn unknown_task() {
    let dir = good();
    put(dir.path(), "data/logbok_qa.jsonl", RECORD);
    assert_eq!(
        open_error(&dir),
        "PACK/data/logbok_qa.jsonl: unknown task `logbok_qa`\nhint: did you mean `logbook_qa`? `ripplekv ls tasks` lists them all"
    );
}

#[test]
fn names_that_select_nothing() {
    let dir = good();
    let pack = Pack::open(dir.path()).unwrap();
    let error = |name: &str| {
        let text = pack.select(&[name]).unwrap_err().to_string();
        text.replace(&dir.path().display().to_string(), "PACK")
    };
    assert_eq!(
        error("qasper"),
        "task `qasper` is not in the pack at PACK (it has logbook_qa)\nhint: it belongs to the pack `longbench`"
    );
    assert_eq!(
        error("english16"),
        "no task of `english16` is in the pack at PACK (it has logbook_qa)"
    );
    assert!(error("qaspar").starts_with("unknown task `qaspar`\nhint: did you mean `qasper`?"));
}

#[test]
fn a_group_takes_what_is_there_and_tells_what_is_not() {
    let dir = good();
    let pack = Pack::open(dir.path()).unwrap();
    let selection = pack.select(&["single_doc_qa"]).unwrap();
    assert_eq!(selection.tasks.len(), 1);
    assert!(
        selection.absent.is_empty(),
        "LongBench's tasks are not missed in a pack of ours"
    );
    let selection = pack.select(&["own6"]).unwrap();
    let absent: Vec<_> = selection.absent.iter().map(|task| task.name).collect();
    assert_eq!(
        absent,
        [
            "dossier_qa",
            "minutes_sum",
            "ticket_class",
            "paragraph_find",
            "module_line"
        ]
    );
}

#[test]
fn no_records() {
    assert_eq!(
        load_error(&with_records("")),
        "PACK/data/logbook_qa.jsonl: no records in the file\nhint: remove the file or fetch the pack again"
    );
}

#[test]
fn malformed_line() {
    let cut = &RECORD.replace("one", "two")[..50];
    let text = load_error(&with_records(format!("{RECORD}\n{cut}\n")));
    assert!(
        text.starts_with("PACK/data/logbook_qa.jsonl:2: malformed JSON: EOF while parsing a string at line 1 column 50\nhint: "),
        "{text}"
    );
    let text = load_error(&with_records(format!("{RECORD}\n\n")));
    assert!(
        text.starts_with("PACK/data/logbook_qa.jsonl:2: malformed JSON: "),
        "{text}"
    );
    let text = load_error(&with_records(b"\xff\n"));
    assert!(
        text.starts_with("PACK/data/logbook_qa.jsonl:1: malformed JSON: "),
        "{text}"
    );
}

#[test]
fn missing_field() {
    let text = load_error(&with_records(RECORD.replace("\"answers\"", "\"answer\"")));
    assert!(
        text.starts_with("PACK/data/logbook_qa.jsonl:1: missing field `answers`\nhint: "),
        "{text}"
    );
}

#[test]
fn record_without_answers() {
    let text = load_error(&with_records(RECORD.replace("[\"a\"]", "[]")));
    assert_eq!(
        text,
        "PACK/data/logbook_qa.jsonl:1: record `one` has no answers\nhint: without an answer nothing can be scored; add one or drop the record"
    );
}

#[test]
fn duplicate_ids() {
    let other = RECORD.replace("one", "two");
    let text = load_error(&with_records(format!("{RECORD}\n{other}\n{RECORD}\n")));
    assert_eq!(
        text,
        "PACK/data/logbook_qa.jsonl:3: id `one` is already used on line 1\nhint: results are kept by id, so every record of a task needs its own"
    );
}

#[test]
fn classification_without_classes() {
    let dir = good();
    put(
        dir.path(),
        PROMPT_FILE,
        r#"{"ticket_class": "{context} {input}", "logbook_qa": "{context}"}"#,
    );
    put(
        dir.path(),
        LENGTH_FILE,
        r#"{"ticket_class": 8, "logbook_qa": 16}"#,
    );
    put(dir.path(), "data/ticket_class.jsonl", RECORD);
    let pack = Pack::open(dir.path()).unwrap();
    let text = pack
        .load(pack.task("ticket_class").unwrap())
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("ticket_class.jsonl:1: record `one` of a classification task has no `all_classes`\nhint: "),
        "{text}"
    );
}

#[test]
fn reading_ends_after_the_first_error() {
    let dir = with_records(format!("{RECORD}\n[]\n{RECORD}\n"));
    let pack = Pack::open(dir.path()).unwrap();
    let read: Vec<bool> = pack
        .records(pack.task("logbook_qa").unwrap())
        .unwrap()
        .map(|record| record.is_ok())
        .collect();
    assert_eq!(read, [true, false]);
}
