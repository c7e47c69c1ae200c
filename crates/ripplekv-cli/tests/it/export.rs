//! `ripplekv export longbench`: stored answers as the authors' program reads them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::program::{Folder, output_of};

/// Mean score of each cell and task as the records have it, by exported path.
fn stored_scores(folder: &Folder) -> BTreeMap<String, Vec<f64>> {
    let text = std::fs::read_to_string(folder.at("results/demo/cells.json")).unwrap();
    let cells: Value = serde_json::from_str(&text).unwrap();
    let mut scores: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for line in folder.records() {
        let record: Value = serde_json::from_str(&line).unwrap();
        let cell = &cells[record["cell"].as_str().unwrap()];
        let budget = cell["budget"]
            .as_str()
            .map_or(String::new(), |b| format!("__{b}"));
        let method = cell["method"]["label"].as_str().unwrap();
        let task = cell["task"].as_str().unwrap();
        let path = format!("out/pred/tiny__{method}{budget}/{task}.jsonl");
        scores
            .entry(path)
            .or_default()
            .push(record["score"].as_f64().unwrap());
    }
    scores
}

#[test]
fn exported_files_score_as_the_records_do() {
    let folder = Folder::new(3);
    output_of(folder.fake().args(["run", "demo.yaml"]), 0);
    let (stdout, stderr) = output_of(
        folder
            .fake()
            .args(["export", "longbench", "out", "--from", "results/demo"]),
        0,
    );
    assert!(stderr.contains("the authors' eval.py does not"), "{stderr}");
    let stored = stored_scores(&folder);
    assert_eq!(stored.len(), 10);
    let listed: Vec<String> = stdout.lines().map(str::to_owned).collect();
    let wanted: Vec<String> = stored
        .keys()
        .map(|path| format!("{path} (3 records)"))
        .collect();
    assert_eq!(listed, wanted);
    for (path, scores) in &stored {
        let (stdout, _) = output_of(folder.real().args(["score", path, "--json"]), 0);
        let summary: Value = serde_json::from_str(&stdout).unwrap();
        let mean = 100.0 * scores.iter().sum::<f64>() / scores.len() as f64;
        let rounded: f64 = format!("{mean:.2}").parse().unwrap();
        assert_eq!(summary["files"][0]["score"], json!(rounded), "{path}");
    }
    let all: Vec<f64> = stored.values().flatten().copied().collect();
    assert!(
        all.iter().any(|score| *score > 0.0),
        "scores that are all 0 show nothing"
    );
}

#[test]
fn lines_are_those_of_the_authors_program_in_record_order() {
    let folder = Folder::new(2);
    let spec = crate::program::SPEC.replace("[full, streaming-llm, snapkv]", "[full]");
    folder.write("demo.yaml", &spec);
    output_of(folder.fake().args(["run", "demo.yaml"]), 0);
    let export = || {
        let mut command = folder.fake();
        output_of(
            command.args(["export", "longbench", "out", "--from", "results/demo"]),
            0,
        )
    };
    export();
    // One cell a task: the folder is the model's name alone.
    let path = folder.at("out/pred/tiny/logbook_qa.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let records: Vec<Value> = folder
        .records()
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|record: &Value| record["sample"].as_str().unwrap().starts_with("logbook"))
        .collect();
    let wanted: Vec<String> = records
        .iter()
        .map(|record| {
            format!(
                "{{\"pred\": {}, \"answers\": [{}], \"all_classes\": [\"w1\", \"w2\"], \"length\": 60}}",
                record["output"], record["answers"][0]
            )
        })
        .collect();
    assert_eq!(text.lines().collect::<Vec<_>>(), wanted);
    assert!(text.ends_with('\n'));
    // Written anew, not appended to.
    export();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn what_cannot_be_exported_is_said() {
    let folder = Folder::new(1);
    let (_, stderr) = output_of(
        folder
            .real()
            .args(["export", "longbench", "out", "--from", "absent"]),
        3,
    );
    assert!(stderr.contains("absent: no results folder"), "{stderr}");
    output_of(folder.real().args(["export", "longbench", "out"]), 2);
    output_of(
        folder.real().args(["export", "helm", "out", "--from", "x"]),
        2,
    );
    // Two experiments with different answers for one file.
    output_of(folder.fake().args(["run", "demo.yaml"]), 0);
    output_of(
        folder.fake().args([
            "run",
            "demo.yaml",
            "--set",
            "name=other",
            "--set",
            "protocol.max_context=40",
        ]),
        0,
    );
    let (_, stderr) = output_of(
        folder.fake().args([
            "export",
            "longbench",
            "out",
            "--from",
            "results/demo",
            "results/other",
        ]),
        3,
    );
    assert!(
        stderr.contains("of different cells\nhint: export them into different folders"),
        "{stderr}"
    );
}
