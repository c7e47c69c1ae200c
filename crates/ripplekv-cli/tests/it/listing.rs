//! `ls`, `show`, `schema`, `docs`, `completions`, `man`, `fetch`: what they print.

use serde_json::Value;

use crate::program::{Folder, output_of};

#[test]
fn ls_lists_the_tables() {
    let folder = Folder::new(1);
    for (what, name) in [
        ("models", "smollm2-135m-instruct-q4"),
        ("models", "llama-3.1-8b-instruct"),
        ("tasks", "narrativeqa"),
        ("tasks", "single_doc_qa"),
        ("methods", "pyramidkv"),
        ("scorers", "streaming-llm"),
        ("allocators", "pyramid"),
        ("figures", "score-by-budget"),
    ] {
        let (stdout, stderr) = output_of(folder.real().args(["ls", what]), 0);
        assert!(
            stdout.lines().any(|line| line.starts_with(name)),
            "{what}: {stdout}"
        );
        assert_eq!(stderr, "");
        let (stdout, _) = output_of(folder.real().args(["ls", what, "--json"]), 0);
        let rows: Vec<Value> = serde_json::from_str(&stdout).unwrap();
        assert!(rows.iter().any(|row| row["name"] == name), "{what}");
    }
}

#[test]
fn show_prints_the_prompt_alone() {
    let folder = Folder::new(2);
    let (stdout, _) = output_of(
        folder.fake().args([
            "show",
            "logbook_qa",
            "--sample",
            "1",
            "--pack",
            "pack",
            "--prompt",
        ]),
        0,
    );
    assert!(stdout.starts_with("Read. w1 w8 "), "{stdout}");
    assert!(
        stdout.ends_with(" Question: where is thing 1? Answer:"),
        "{stdout}"
    );
    let (stdout, _) = output_of(
        folder.fake().args([
            "show",
            "logbook_qa",
            "--sample",
            "logbook_qa-1",
            "--spec",
            "demo.yaml",
            "--prompt",
        ]),
        0,
    );
    assert!(
        stdout.starts_with("<user> Read. w1 w8 ") && stdout.ends_with(" <answer>"),
        "{stdout}"
    );
    let (stdout, _) = output_of(
        folder
            .fake()
            .args(["show", "logbook_qa", "--spec", "demo.yaml"]),
        0,
    );
    assert!(
        stdout.contains("tokens: 78 (rendered 71, cut at 3500, removed 0 from the middle)"),
        "{stdout}"
    );
    let (_, stderr) = output_of(
        folder
            .fake()
            .args(["show", "logbook_qa", "--sample", "9", "--pack", "pack"]),
        3,
    );
    assert!(
        stderr.contains("no record '9' (the file has 2)\nhint: give a place from 0 to 1, or an id"),
        "{stderr}"
    );
}

#[test]
fn the_schema_knows_the_keys_and_names() {
    let folder = Folder::new(1);
    let (stdout, _) = output_of(folder.real().arg("schema"), 0);
    let schema: Value = serde_json::from_str(&stdout).unwrap();
    let top: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(
        top,
        [
            "budgets",
            "damage",
            "methods",
            "models",
            "name",
            "prefill",
            "profile",
            "protocol",
            "schema",
            "store_kept",
            "tasks",
            "timing"
        ]
    );
    let text = stdout.as_str();
    for name in [
        "smollm2-135m-instruct-q4",
        "pyramidkv",
        "qasper",
        "short_prompts",
        "max_prompt_tokens",
        "window",
    ] {
        assert!(text.contains(&format!("\"{name}\"")), "{name}");
    }
}

#[test]
fn docs_completions_and_man_pages_come_out() {
    let folder = Folder::new(1);
    for (page, part) in [
        ("cli", "## ripplekv score"),
        ("tasks", "| qasper |"),
        ("methods", "| snapkv |"),
        ("models", "| llama-3.1-8b-instruct |"),
        ("spec", "`tasks.limit`"),
        ("exit-codes", "| 100 |"),
    ] {
        let (stdout, _) = output_of(folder.real().args(["docs", page]), 0);
        assert!(stdout.contains(part), "{page}: {stdout}");
    }
    let (stdout, _) = output_of(folder.real().args(["completions", "bash"]), 0);
    assert!(stdout.contains("_ripplekv()"), "{stdout}");
    output_of(folder.real().args(["man", "pages"]), 0);
    assert!(folder.at("pages/ripplekv-run.1").is_file());
    let (stdout, _) = output_of(folder.real().arg("--version"), 0);
    assert!(stdout.starts_with("ripplekv "), "{stdout}");
}

#[test]
fn fetch_makes_the_study_pack_and_names_what_it_knows() {
    let folder = Folder::new(1);
    let (stdout, _) = output_of(folder.real().args(["fetch", "study", "--out", "study"]), 0);
    assert!(stdout.starts_with("study (2"), "{stdout}");
    assert!(folder.at("study/config/dataset2prompt.json").is_file());
    let (_, stderr) = output_of(folder.real().args(["fetch", "studdy"]), 3);
    assert!(
        stderr.contains("nothing to fetch is called 'studdy'\nhint: did you mean 'study'?"),
        "{stderr}"
    );
}
