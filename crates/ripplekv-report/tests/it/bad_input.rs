//! Results that are not sound: the report says so at its top and goes on with the rest.

use std::fs;

use ripplekv_report::{ReportError, ReportSummary, write_report};
use serde_json::Value;
use tempfile::TempDir;

use crate::results_folder::{Folder, line};

fn small() -> Folder {
    let mut folder = Folder {
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    folder.tasks.truncate(2);
    folder
}

fn report(folder: &Folder, results: &TempDir) -> (ReportSummary, String) {
    let out = TempDir::new().unwrap();
    let summary =
        write_report(&[results.path().to_owned()], out.path(), &folder.options()).unwrap();
    let page = fs::read_to_string(out.path().join("report.md")).unwrap();
    for warning in &summary.warnings {
        assert!(!warning.trim().is_empty());
    }
    (summary, page)
}

fn warned(summary: &ReportSummary, words: &str) -> bool {
    summary
        .warnings
        .iter()
        .any(|warning| warning.contains(words))
}

#[test]
fn a_missing_folder_is_one_clear_error() {
    let missing = TempDir::new().unwrap().path().join("nowhere");
    let out = TempDir::new().unwrap();
    let error = write_report(&[missing], out.path(), &small().options()).unwrap_err();
    assert!(matches!(error, ReportError::MissingFolder { .. }));
    assert!(error.to_string().contains("nowhere: no such folder\nhint:"));
    let error = write_report(&[], out.path(), &small().options()).unwrap_err();
    assert!(error.to_string().contains("no results folder given"));
}

#[test]
fn a_folder_without_manifest_and_cells_is_no_results_folder() {
    let results = TempDir::new().unwrap();
    fs::write(results.path().join("notes.txt"), "something else").unwrap();
    let out = TempDir::new().unwrap();
    let error =
        write_report(&[results.path().to_owned()], out.path(), &small().options()).unwrap_err();
    assert!(matches!(error, ReportError::NoResults { .. }));
    assert!(
        error
            .to_string()
            .contains(": not a results folder: no manifest.json\nhint: "),
        "{error}"
    );
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_without_records_gives_a_report_that_says_so() {
    let folder = small();
    let results = folder.written();
    fs::remove_dir_all(results.path().join("records")).unwrap();
    fs::remove_file(results.path().join("cells.json")).unwrap();
    let (summary, page) = report(&folder, &results);
    assert!(warned(&summary, "cells.json: not read"));
    assert!(warned(&summary, "no records"));
    assert!(summary.terminal.contains("No cell has a scored sample"));
    assert!(page.starts_with("# Report\n\n**Before you read the numbers:**"));
    assert!(summary.rows.is_empty());
}

#[test]
fn cells_without_records_give_no_table() {
    let folder = small();
    let results = TempDir::new().unwrap();
    folder.write_with(results.path(), |_, records| records.clear());
    let (summary, _) = report(&folder, &results);
    assert!(summary.terminal.contains("No cell has a scored sample"));
}

#[test]
fn a_cut_last_line_costs_one_sample() {
    let folder = small();
    let results = folder.written();
    let path = folder.path(results.path(), "records", "dossier_qa");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 40]).unwrap();
    let (summary, page) = report(&folder, &results);
    assert!(
        warned(&summary, "w0.jsonl:16: cut last line left out"),
        "{:?}",
        summary.warnings
    );
    assert!(warned(
        &summary,
        "pyramidkv at 10%: unfinished: dossier_qa n=3/4"
    ));
    assert!(page.contains("n=3/4"));
    assert!(page.contains("unfinished"));
}

#[test]
fn damaged_new_and_foreign_lines_are_left_out() {
    let folder = small();
    let results = folder.written();
    let path = folder.path(results.path(), "records", "logbook_qa");
    let text = fs::read_to_string(&path).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let with = |key: &str, value: Value| {
        let mut changed = first.clone();
        changed[key] = value;
        changed["sample"] = "another".into();
        line(&changed)
    };
    let mut damaged = String::from("{not json}\n");
    damaged.push_str(&with("schema", 99.into()));
    damaged.push_str(&with("cell", "0123456789abcdef".into()));
    fs::write(&path, format!("{text}{damaged}")).unwrap();
    let other = folder.path(results.path(), "records", "dossier_qa");
    let text = fs::read_to_string(&other).unwrap();
    fs::write(&other, text + &with("score", 7.5.into())).unwrap();
    let (summary, _) = report(&folder, &results);
    assert!(warned(&summary, "w0.jsonl:17: record left out"));
    assert!(warned(
        &summary,
        "1 records left out: their schema 99 is newer than"
    ));
    assert!(warned(
        &summary,
        "1 records left out: their cells are not in cells.json"
    ));
    assert!(warned(&summary, "score 7.5 is not within 0 and 1"));
    assert!(
        summary.rows.iter().all(|row| row.n == 8),
        "{:?}",
        summary.rows
    );
}

/// However many lines are damaged, what the tables lack still stands at the top.
#[test]
fn a_thousand_damaged_lines_are_one_warning_and_bury_nothing() {
    let folder = Folder {
        tasks: crate::results_folder::SIXTEEN_TASKS.to_vec(),
        ..small()
    };
    let results = folder.written();
    for (task, _) in &folder.tasks {
        for kind in ["records", "timings"] {
            let path = folder.path(results.path(), kind, task);
            let text = fs::read_to_string(&path).unwrap();
            // One line of the sound ones is lost too, so that cells are unfinished.
            let (_, rest) = text.split_once('\n').unwrap();
            fs::write(&path, format!("{}{rest}", "{damaged\n".repeat(1000))).unwrap();
        }
    }
    let (summary, page) = report(&folder, &results);
    assert!(
        warned(&summary, "w0.jsonl: 1000 entries left out, the first: "),
        "{:?}",
        summary.warnings
    );
    assert!(warned(
        &summary,
        "and 7 more of this kind about the stored files"
    ));
    assert!(summary.warnings.len() < 40, "{:?}", summary.warnings);
    assert!(page.contains("unfinished: narrativeqa n=3/4"), "{page}");
}

#[test]
fn equal_duplicates_count_once_and_different_ones_not_at_all() {
    let folder = small();
    let results = folder.written();
    let path = folder.path(results.path(), "records", "logbook_qa");
    let text = fs::read_to_string(&path).unwrap();
    let mut changed: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    changed["output"] = "something else".into();
    let other = path.with_file_name("w1.jsonl");
    fs::write(
        &other,
        format!("{}\n{}", text.lines().next().unwrap(), line(&changed)),
    )
    .unwrap();
    let (summary, _) = report(&folder, &results);
    assert!(warned(&summary, "differs from the line at"));
    assert!(
        summary
            .warnings
            .iter()
            .filter(|text| text.contains("differs"))
            .count()
            == 1
    );
    assert_eq!(summary.rows[0].n, 7);
    assert_eq!(summary.rows[1].n, 8);
}

#[test]
fn a_failed_sample_is_counted_and_a_later_success_wins() {
    let folder = small();
    let results = TempDir::new().unwrap();
    folder.write_with(results.path(), |cell, records| {
        if cell.method.label != "snapkv" {
            return;
        }
        records[0].score = None;
        records[0].error = Some("out of memory".to_owned());
        if cell.task == "logbook_qa" {
            let again = folder.records(cell).remove(0);
            records.push(again);
        }
    });
    let (summary, _) = report(&folder, &results);
    let snapkv = summary
        .rows
        .iter()
        .find(|row| row.method == "snapkv")
        .unwrap();
    assert_eq!((snapkv.n, snapkv.failed), (7, 1));
    assert!(warned(&summary, "snapkv at 10%: 1 of 8 samples failed"));
}

#[test]
fn one_sample_has_a_score_and_no_interval() {
    let folder = Folder {
        samples: 1,
        budgets: vec!["10%"],
        tasks: vec![("logbook_qa", "single_doc_qa")],
        ..Folder::quickstart()
    };
    let results = folder.written();
    let (summary, page) = report(&folder, &results);
    for row in &summary.rows {
        assert!(row.average.is_some());
        assert_eq!((row.ci_low, row.n), (None, 1));
    }
    assert!(warned(&summary, "too few samples for an interval"));
    assert!(page.contains("score-by-budget.svg"));
}

#[test]
fn a_missing_cell_leaves_the_average_empty() {
    let folder = small();
    let results = folder.written();
    let path = results.path().join("cells.json");
    let mut cells: serde_json::Map<String, Value> =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    cells.retain(|_, cell| !(cell["task"] == "dossier_qa" && cell["method"]["name"] == "snapkv"));
    fs::write(&path, serde_json::to_string(&cells).unwrap()).unwrap();
    let (summary, _) = report(&folder, &results);
    assert!(warned(&summary, "snapkv at 10%: no cell for dossier_qa"));
    let snapkv = summary
        .rows
        .iter()
        .find(|row| row.method == "snapkv")
        .unwrap();
    assert_eq!(snapkv.average, None);
    assert_eq!(snapkv.n, 4);
}

#[test]
fn other_weights_under_the_same_name_are_not_joined() {
    let folder = small();
    let results = folder.written();
    let other = Folder {
        model_hash: "weights-b",
        ..small()
    };
    let others = TempDir::new().unwrap();
    other.write_with(others.path(), |_, records| {
        for record in records {
            record.score = Some(0.0);
        }
    });
    let out = TempDir::new().unwrap();
    let folders = [results.path().to_owned(), others.path().to_owned()];
    let summary = write_report(&folders, out.path(), &folder.options()).unwrap();
    assert!(warned(&summary, "the model differs"));
    assert!(!warned(&summary, "the sample is left out"));
    assert!(
        summary
            .rows
            .iter()
            .all(|row| row.average.unwrap() > 0.0 && row.n == 8)
    );
}

#[test]
fn short_prompts_and_notes_are_counted() {
    let folder = small();
    let results = TempDir::new().unwrap();
    folder.write_with(results.path(), |cell, records| {
        if cell.budget.is_some() {
            records[0].short_prompt = true;
            records[1].warnings = vec!["a note".to_owned()];
        }
    });
    let (summary, _) = report(&folder, &results);
    insta::assert_snapshot!(summary.warnings.join("\n"), @r#"
    streaming-llm at 10%, snapkv at 10%, pyramidkv at 10%: 2 of 8 prompts have a budget below the must-keep set (`short_prompts` applied)
    streaming-llm at 10%, snapkv at 10%, pyramidkv at 10%: 2 of 8 records carry a warning of their own (samples.csv)
    "#);
}

#[test]
fn names_cannot_break_out_of_table_or_folder() {
    let mut folder = Folder {
        model: "../evil|model",
        ..small()
    };
    folder.methods = vec![
        ("full", "full", 0.0),
        ("a|b <script> $x_1$ & 5%", "snapkv", 0.1),
    ];
    // The records' folder needs a safe name; the cells keep the odd one.
    let results = TempDir::new().unwrap();
    folder.write_with(&results.path().join("inner"), |_, _| {});
    let out = TempDir::new().unwrap();
    let inner = out.path().join("inside");
    let summary = write_report(&[results.path().join("inner")], &inner, &folder.options()).unwrap();
    assert!(summary.files.iter().all(|file| file.starts_with(&inner)));
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 1);
    let page = fs::read_to_string(inner.join("report.md")).unwrap();
    assert!(!page.contains("<script>") && page.contains("\\<script\\>"));
    let latex = fs::read_to_string(inner.join("evil-model-aware/main.tex")).unwrap();
    assert!(latex.contains("\\$x\\_1\\$ \\& 5\\%"), "{latex}");
}
