//! `ripplekv fetch longbench` against a server on loopback and from files of this machine. What needs the official
//! config files runs where the shared folder lies beside the project; elsewhere it says that it is skipped, and the
//! task crate's own tests cover the archive.

#![expect(
    clippy::print_stdout,
    reason = "a skipped test says that it was skipped"
)]

use std::collections::BTreeMap;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use ripplekv_tasks::{LONGBENCH_COMMIT, Pack, Suite, TASKS};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::loopback::{Body, Server};
use crate::program::{Folder, output_of};

const PROMPTS: &str = "/config/dataset2prompt.json";
const LENGTHS: &str = "/config/dataset2maxlen.json";
const ARCHIVE: &str = "/datasets/THUDM/LongBench/resolve/main/data.zip";

/// The folder with the two official files.
fn official() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/longbench/config"
    ));
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: the official config files are not here");
    None
}

fn record(task: &str, number: usize) -> String {
    let record = json!({
        "input": "q", "context": "c", "answers": ["a"], "length": 3, "dataset": task,
        "language": "en", "all_classes": ["a", "b"], "_id": format!("{number:048x}"),
    });
    format!("{record}\n")
}

/// An archive with all 21 tasks, each with its number of records, less `missing` in one of them.
fn archive(missing: usize, extra: Option<&str>) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for task in TASKS.iter().filter(|task| task.suite == Suite::LongBench) {
        let count = task.expected_records - if task.name == "lcc" { missing } else { 0 };
        let lines: String = (0..count).map(|number| record(task.name, number)).collect();
        zip.start_file(
            format!("data/{}.jsonl", task.name),
            SimpleFileOptions::default(),
        )
        .unwrap();
        zip.write_all(lines.as_bytes()).unwrap();
    }
    if let Some(name) = extra {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(b"x").unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn server(config: &Path, archive: Body) -> Server {
    let read = |name: &str| Body::Whole(std::fs::read(config.join(name)).unwrap());
    Server::new(BTreeMap::from([
        (PROMPTS.to_owned(), read("dataset2prompt.json")),
        (LENGTHS.to_owned(), read("dataset2maxlen.json")),
        (ARCHIVE.to_owned(), archive),
    ]))
}

/// The command, asking nobody but the server.
fn fetch(folder: &Folder, address: &str) -> Command {
    let mut command = folder.real();
    for variable in ["http_proxy", "https_proxy", "all_proxy"] {
        command
            .env_remove(variable)
            .env_remove(variable.to_uppercase());
    }
    command
        .args(["fetch", "longbench"])
        .env("HF_ENDPOINT", address)
        .env_remove("HF_HUB_OFFLINE")
        .env("RIPPLEKV_LONGBENCH_CONFIG", format!("{address}/config"));
    command
}

/// Nothing of a failed fetch lies anywhere.
fn assert_nothing_left(folder: &Folder) {
    let left = std::fs::read_dir(folder.at("datasets")).map_or(0, Iterator::count);
    assert_eq!(left, 0);
}

#[test]
fn the_pack_comes_whole_and_once() {
    let Some(config) = official() else { return };
    let bytes = archive(0, Some("data/notes.txt"));
    let digest: String = Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let server = server(&config, Body::Whole(bytes));
    let folder = Folder::new(1);
    let (stdout, _) = output_of(&mut fetch(&folder, &server.address), 0);
    assert_eq!(stdout, "datasets/longbench (4750 records)\n");
    assert_eq!(server.asked(), [PROMPTS, LENGTHS, ARCHIVE]);
    let pack = Pack::open(folder.at("datasets/longbench")).unwrap();
    assert_eq!((pack.name(), pack.tasks().len()), ("longbench", 21));
    let manifest = std::fs::read(folder.at("datasets/longbench/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["archive_sha256"], json!(digest));
    assert_eq!(manifest["partial"], json!(false));
    assert_eq!(manifest["tasks"]["lcc"]["records"], json!(500));
    assert_eq!(std::fs::read_dir(folder.at("datasets")).unwrap().count(), 1);

    let (_, stderr) = output_of(&mut fetch(&folder, &server.address), 0);
    assert!(stderr.contains("the pack is here already"), "{stderr}");
    assert_eq!(server.asked().len(), 3, "fetched twice");
}

#[test]
fn wrong_archives_are_refused_and_leave_nothing() {
    let Some(config) = official() else { return };
    for (body, message) in [
        (
            Body::Whole(archive(0, Some("../evil"))),
            "refused: its entry `../evil` leaves the folder",
        ),
        (
            Body::Whole(archive(1, None)),
            "`lcc` has 499 records, LongBench has 500\nhint: ",
        ),
        (
            Body::Whole(b"<html>sign in</html>".to_vec()),
            "broken archive",
        ),
        (Body::Cut(archive(0, None)), "the download broke off"),
    ] {
        let server = server(&config, body);
        let folder = Folder::new(1);
        let (_, stderr) = output_of(&mut fetch(&folder, &server.address), 3);
        assert!(stderr.contains(message), "{stderr}");
        assert!(
            stderr.contains(ARCHIVE) || message.starts_with('`'),
            "{stderr}"
        );
        assert_nothing_left(&folder);
        assert!(!folder.at("evil").exists() && !folder.at("datasets/evil").exists());
    }
}

#[test]
fn other_config_files_are_refused_before_the_archive_is_fetched() {
    let server = Server::new(BTreeMap::from([
        (PROMPTS.to_owned(), Body::Whole(b"{}".to_vec())),
        (LENGTHS.to_owned(), Body::Whole(b"{}".to_vec())),
    ]));
    let folder = Folder::new(1);
    let (_, stderr) = output_of(&mut fetch(&folder, &server.address), 3);
    assert!(
        stderr.contains("dataset2prompt.json: not LongBench's official file (sha256 "),
        "{stderr}"
    );
    assert_eq!(server.asked(), [PROMPTS, LENGTHS]);
    assert_nothing_left(&folder);
}

#[test]
fn absent_and_broken_answers_are_named() {
    let folder = Folder::new(1);
    let absent = Server::new(BTreeMap::new());
    let (_, stderr) = output_of(&mut fetch(&folder, &absent.address), 3);
    let wanted = format!(
        "error: cannot fetch {}{PROMPTS}: the server answers with status 404\nhint: ",
        absent.address
    );
    assert!(stderr.starts_with(&wanted), "{stderr}");

    let cut = Server::new(BTreeMap::from([(
        PROMPTS.to_owned(),
        Body::Cut(vec![b' '; 4_000]),
    )]));
    let (_, stderr) = output_of(&mut fetch(&folder, &cut.address), 3);
    assert!(stderr.contains("the download broke off"), "{stderr}");

    // A port that was free a moment ago: nobody listens.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let (_, stderr) = output_of(&mut fetch(&folder, &address), 3);
    assert!(stderr.contains("hint: connect to a network"), "{stderr}");

    let (_, stderr) = output_of(fetch(&folder, &address).env("HF_HUB_OFFLINE", "1"), 3);
    assert!(stderr.contains("HF_HUB_OFFLINE is set"), "{stderr}");
    assert_nothing_left(&folder);
}

#[test]
fn the_pack_can_come_from_this_machine() {
    let Some(config) = official() else { return };
    let folder = Folder::new(1);
    folder.write("here/notes.txt", "x");
    std::fs::write(folder.at("here/data.zip"), archive(2, None)).unwrap();
    let from = |source: &str, more: &[&str], code| {
        let mut command = fetch(&folder, "http://127.0.0.1:1");
        output_of(command.args(["--from", source]).args(more), code)
    };
    let (_, stderr) = from("here/data.zip", &[], 3);
    assert!(stderr.contains("no config/dataset2prompt.json"), "{stderr}");
    assert!(stderr.contains("github.com/THUDM/LongBench"), "{stderr}");
    std::fs::create_dir(folder.at("here/config")).unwrap();
    for name in ["dataset2prompt.json", "dataset2maxlen.json"] {
        std::fs::copy(config.join(name), folder.at("here/config").join(name)).unwrap();
    }
    let (_, stderr) = from("here", &[], 3);
    assert!(stderr.contains("`lcc` has 498 records"), "{stderr}");
    let (stdout, stderr) = from("here", &["--partial", "--out", "one"], 0);
    assert_eq!(stdout, "one (4748 records)\n");
    assert!(stderr.contains("only a part of LongBench"), "{stderr}");
    // A folder with data/ serves as well, such as the one just made.
    let (stdout, _) = from("one", &["--partial", "--out", "two"], 0);
    assert_eq!(stdout, "two (4748 records)\n");
    let (_, stderr) = from("nowhere", &[], 3);
    assert!(
        stderr.contains("nowhere: no such file or folder"),
        "{stderr}"
    );
    folder.write("full/x", "x");
    let (_, stderr) = from("one", &["--partial", "--out", "full"], 3);
    assert!(
        stderr.contains("full: there is something already"),
        "{stderr}"
    );
}

#[test]
fn the_commit_is_a_whole_one() {
    // A shortened one may be refused by a mirror, or become ambiguous.
    assert!(
        LONGBENCH_COMMIT.len() == 40 && LONGBENCH_COMMIT.chars().all(|c| c.is_ascii_hexdigit())
    );
}
