//! `ripplekv score`: official numbers out of prediction files.

use std::path::Path;

use serde_json::{Value, json};

use crate::program::{Folder, output_of};

fn line(pred: &str, answers: &[&str], length: u64) -> String {
    let classes = json!(["Number", "Other location", "Person"]);
    format!(
        "{}\n",
        json!({"pred": pred, "answers": answers, "all_classes": classes, "length": length})
    )
}

#[test]
fn files_are_scored_and_rounded_as_the_official_code_does() {
    let folder = Folder::new(1);
    let qasper = line("Lake Garda", &["the Lake Garda"], 100)
        + &line("no", &["yes", "No."], 5000)
        + &line("x", &["y"], 9000);
    folder.write("qasper.jsonl", &qasper);
    folder.write(
        "trec.jsonl",
        &(line("\nPerson\nNumber", &["Person"], 1) + &line("Person", &["Number"], 1)),
    );
    folder.write("code.jsonl", &line("tide", &["diet"], 1));
    let (stdout, stderr) = output_of(
        folder
            .real()
            .args(["score", "qasper.jsonl", "trec.jsonl", "--json"]),
        0,
    );
    assert_eq!(stderr, "");
    let summary: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(summary["files"][0]["score"], 66.67);
    assert_eq!(summary["files"][1]["score"], 50.0);
    assert_eq!(summary["averages"]["sixteen_task_average"], Value::Null);
    let (stdout, _) = output_of(
        folder
            .real()
            .args(["score", "code.jsonl", "--task", "lcc", "--per-sample"]),
        0,
    );
    let sample: Value = serde_json::from_str(stdout.trim()).unwrap();
    assert_eq!(
        sample,
        json!({"task": "lcc", "line": 1, "score": 0.25, "score_levenshtein": 0.5})
    );
    let (stdout, _) = output_of(folder.real().args(["score", "qasper.jsonl", "--e"]), 0);
    let row = stdout.lines().nth(1).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        cells,
        [
            "qasper", "qa-f1", "3", "66.67", "-", "100.00", "100.00", "0.00"
        ]
    );
}

#[test]
fn the_task_comes_from_the_name_the_field_or_the_option() {
    let folder = Folder::new(1);
    let with_field = line("a b", &["b"], 1).replace(
        "{\"all_classes\"",
        "{\"dataset\":\"qasper\",\"all_classes\"",
    );
    folder.write("mine.jsonl", &with_field);
    let (stdout, _) = output_of(folder.real().args(["score", "mine.jsonl", "--json"]), 0);
    assert!(stdout.contains("\"task\": \"qasper\""), "{stdout}");
    folder.write("bare.jsonl", &line("a", &["a"], 1));
    let (_, stderr) = output_of(folder.real().args(["score", "bare.jsonl"]), 3);
    assert!(
        stderr.starts_with("error: bare.jsonl: the file's name tells no task: unknown task `bare`"),
        "{stderr}"
    );
    let (_, stderr) = output_of(
        folder
            .real()
            .args(["score", "bare.jsonl", "--task", "quasper"]),
        3,
    );
    assert!(stderr.contains("did you mean `qasper`?"), "{stderr}");
}

#[test]
fn wrong_lines_are_named() {
    let folder = Folder::new(1);
    let good = line("a", &["a"], 1);
    for (text, message) in [
        (
            format!("{good}{{\"pred\": "),
            "error: qasper.jsonl:2: malformed JSON: ",
        ),
        (
            format!("{good}[1]\n"),
            "error: qasper.jsonl:2: expected a JSON object with pred and answers",
        ),
        (
            good.replace("pred", "prediction"),
            "error: qasper.jsonl:1: missing field `pred`\nhint: ",
        ),
        (
            good.replace("\"answers\":[\"a\"]", "\"answers\":[]"),
            "error: qasper.jsonl:1: field `answers` is empty\nhint: ",
        ),
        (
            good.replace("\"pred\":\"a\"", "\"pred\":null"),
            "error: qasper.jsonl:1: field `pred` must be a string\nhint: ",
        ),
        (
            format!("\u{feff}{good}"),
            "error: qasper.jsonl:1: the line begins with a UTF-8 byte-order mark (BOM)\nhint: ",
        ),
        (
            good.replace("\"answers\":[\"a\"]", "\"answers\":\"a\""),
            "error: qasper.jsonl:1: field `answers` must be a list of strings",
        ),
        (
            String::new(),
            "error: qasper.jsonl: empty file, nothing to score\nhint: ",
        ),
        (
            format!("{good}\n"),
            "error: qasper.jsonl:2: malformed JSON: ",
        ),
    ] {
        folder.write("qasper.jsonl", &text);
        let (_, stderr) = output_of(folder.real().args(["score", "qasper.jsonl"]), 3);
        assert!(stderr.starts_with(message), "{stderr}");
        assert!(stderr.contains("\nhint: "), "{stderr}");
    }
    let (_, stderr) = output_of(folder.real().args(["score", "absent/qasper.jsonl"]), 3);
    assert!(
        stderr.starts_with("error: absent/qasper.jsonl: "),
        "{stderr}"
    );
    folder.write("qasper.jsonl", &format!("{good}{good}"));
    let (_, stderr) = output_of(folder.real().args(["score", "qasper.jsonl"]), 0);
    assert_eq!(
        stderr,
        "warning: qasper.jsonl:2: equals line 1; was the file written twice?\n"
    );
}

#[test]
fn published_predictions_keep_their_published_scores() {
    let shared = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/longbench/scored-predictions/llama2-7b-chat-4k"
    );
    if !Path::new(shared).is_dir() {
        println!(
            "skipped: {shared} is not here; ripplekv-metrics' committed fixture covers the scores"
        );
        return;
    }
    let folder = Folder::new(1);
    for task in [
        "qasper",
        "trec",
        "samsum",
        "passage_count",
        "lcc",
        "repobench-p",
    ] {
        let path = format!("{shared}/{task}.jsonl");
        let (stdout, _) = output_of(folder.real().args(["score", &path, "--per-sample"]), 0);
        let ours: Vec<Value> = stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let text = std::fs::read_to_string(&path).unwrap();
        let official: Vec<Value> = text
            .split_terminator('\n')
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(ours.len(), official.len());
        for (ours, official) in ours.iter().zip(&official) {
            let close = |left: &Value, right: &Value| {
                (left.as_f64().unwrap() - right.as_f64().unwrap()).abs() <= 1e-12
            };
            match official
                .get("score_difflib")
                .filter(|score| !score.is_null())
            {
                Some(difflib) => {
                    assert!(close(&ours["score"], difflib), "{task} {ours}");
                    assert!(
                        close(&ours["score_levenshtein"], &official["score"]),
                        "{task} {ours}"
                    );
                }
                None => assert!(close(&ours["score"], &official["score"]), "{task} {ours}"),
            }
        }
    }
}
