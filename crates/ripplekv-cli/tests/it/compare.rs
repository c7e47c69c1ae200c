//! `compare`: two methods of a folder, one against all, before and after, and what it says of wrong arguments.

use serde_json::Value;

use crate::program::{Folder, output_of};

/// Ten cells of two tasks, and the same again with another answer scored.
fn run() -> Folder {
    let folder = Folder::new(6);
    output_of(folder.fake().args(["run", "demo.yaml"]), 0);
    output_of(
        folder
            .fake()
            .args(["run", "demo.yaml", "--out", "results/again"]),
        0,
    );
    folder
}

#[test]
fn two_methods_are_told_in_words() {
    let folder = run();
    let (stdout, _) = output_of(
        folder.fake().args([
            "compare",
            "results/demo:snapkv",
            ":streaming-llm",
            "--tasks",
        ]),
        0,
    );
    let mut lines = stdout.lines();
    assert_eq!(lines.next(), Some("tiny, query aware"));
    let sentences: Vec<&str> = stdout
        .lines()
        .filter(|line| line.starts_with("- "))
        .collect();
    assert_eq!(sentences.len(), 2, "{stdout}");
    for (sentence, budget) in sentences.iter().zip(["25%", "50%"]) {
        assert!(sentence.contains("snapkv") && sentence.contains("streaming-llm"));
        assert!(sentence.contains(&format!("at {budget}")), "{sentence}");
        assert!(sentence.contains("n = 12, 2 tasks"), "{sentence}");
    }
    assert_eq!(stdout.matches("  logbook_qa ").count(), 2, "{stdout}");
    assert!(stdout.contains("correct to wrong "), "{stdout}");
    let (stdout, _) = output_of(
        folder.fake().args([
            "compare",
            "results/demo:snapkv",
            "results/demo:streaming-llm",
            "--budget",
            "25%",
            "--query",
            "aware",
            "--json",
        ]),
        0,
    );
    let rows: Vec<Value> = serde_json::from_str(&stdout).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["metric"], "score");
    assert_eq!(rows[0]["left"]["method"], "snapkv");
    assert_eq!(rows[0]["right"]["budget"], "25%");
    assert_eq!(rows[0]["n"], 12);
    assert_eq!(rows[0]["tasks"].as_array().unwrap().len(), 2);
    let counts = ["wins", "ties", "losses"].map(|key| rows[0][key].as_u64().unwrap());
    assert_eq!(counts.iter().sum::<u64>(), 12);
}

#[test]
fn the_same_run_twice_shows_no_change() {
    let folder = run();
    let (stdout, stderr) = output_of(
        folder
            .fake()
            .args(["compare", "results/again", "results/demo"]),
        0,
    );
    let same = stdout
        .lines()
        .filter(|line| line.contains("have the same score on every sample"));
    assert_eq!(same.count(), 5, "{stdout}");
    assert_eq!(stdout.matches("12 of 12 answers the same").count(), 5);
    assert!(!stderr.contains("differ in"), "{stderr}");
}

#[test]
fn wrong_arguments_end_with_the_code_of_their_kind() {
    let folder = run();
    let compare = |arguments: &[&str], code| {
        let (stdout, stderr) = output_of(folder.fake().arg("compare").args(arguments), code);
        assert_eq!(stdout, "");
        stderr
    };
    compare(&["results/demo"], 2);
    compare(&["results/demo:snapkv", ":full", "--query", "both"], 2);
    compare(&["results/demo:snapkv", ":full", "--tasks", "--json"], 2);
    let stderr = compare(&[":snapkv", "results/demo:full"], 2);
    assert!(
        stderr.contains("names no results folder\nhint: "),
        "{stderr}"
    );
    let stderr = compare(&["results/demo:snapkv", ":full", "--query", "agnostic"], 4);
    assert!(stderr.contains("no cell of query agnostic"), "{stderr}");
    let stderr = compare(&["results/demo:snapkv", ":snapkv"], 4);
    assert!(
        stderr.contains("a row is not compared with itself"),
        "{stderr}"
    );
    let stderr = compare(&["results/nowhere", "results/demo"], 3);
    assert!(
        stderr.contains("results/nowhere: no such folder\nhint: "),
        "{stderr}"
    );
    let stderr = compare(&["results/demo:snapvk", ":full"], 4);
    assert!(
        stderr.contains("`results/demo:snapvk` selects no finished samples\nhint: the folder has full, streaming-llm@25%"),
        "{stderr}"
    );
    let stderr = compare(&["results/demo", "results/demo"], 4);
    assert!(
        stderr.contains("hint: within one folder name a method"),
        "{stderr}"
    );
    compare(&["results/demo:snapkv", ":full", "--budget", "7%"], 4);
}
