//! Runs that stopped half-way or were run again with fewer samples: what a report says is what was selected.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ripplekv_report::{ReportSummary, write_report};
use tempfile::TempDir;

use crate::results_folder::Folder;

fn two_tasks() -> Folder {
    let mut folder = Folder {
        budgets: vec!["10%"],
        selected: Some(4),
        ..Folder::quickstart()
    };
    folder.tasks.truncate(2);
    folder
}

fn report(folder: &Folder, results: &[&Path], out: &Path) -> (ReportSummary, String) {
    let results: Vec<_> = results.iter().map(|path| (*path).to_owned()).collect();
    let summary = write_report(&results, out, &folder.options()).unwrap();
    (summary, fs::read_to_string(out.join("report.md")).unwrap())
}

/// What a stopped run leaves: every cell of the first three prompts of the first task.
fn stopped(folder: &Folder) -> TempDir {
    let results = TempDir::new().unwrap();
    folder.write_with(results.path(), |cell, records| {
        records.truncate(if cell.task == "logbook_qa" { 3 } else { 0 });
    });
    results
}

#[test]
fn a_stopped_run_has_no_average_and_no_best() {
    let folder = two_tasks();
    let results = stopped(&folder);
    let out = TempDir::new().unwrap();
    let (summary, page) = report(&folder, &[results.path()], out.path());
    for row in &summary.rows {
        assert_eq!((row.n, row.expected), (3, 8), "{}", row.method);
        assert_eq!((row.average, row.ci_low), (None, None), "{}", row.method);
    }
    assert!(page.contains("n=3/4") && page.contains("n=0/4"), "{page}");
    assert!(
        page.contains("unfinished: logbook_qa n=3/4, dossier_qa n=0/4"),
        "{page}"
    );
    let main = page.split("### ").nth(1).unwrap();
    assert!(!main.contains("**"), "something is marked best: {main}");
    assert!(!summary.terminal.contains('*'), "{}", summary.terminal);
    assert!(!page.contains(".svg"), "a figure of an unfinished run");
    assert!(page.contains("| 3/8 |"), "{page}");
}

#[test]
fn an_unfinished_row_is_left_out_of_the_ranks() {
    let folder = two_tasks();
    let results = TempDir::new().unwrap();
    folder.write_with(results.path(), |cell, records| {
        if cell.method.label == "snapkv" && cell.task == "logbook_qa" {
            records.truncate(3);
        }
    });
    let out = TempDir::new().unwrap();
    let (summary, page) = report(&folder, &[results.path()], out.path());
    let row = |method: &str| {
        summary
            .rows
            .iter()
            .find(|row| row.method == method)
            .unwrap()
    };
    assert_eq!(row("snapkv").average, None);
    assert!(row("pyramidkv").average.is_some());
    let line = |start: &str| page.lines().find(|line| line.starts_with(start)).unwrap();
    assert!(!line("| 10%    | snapkv ").contains('*'), "{page}");
    assert!(line("| 10%    | pyramidkv ").contains("**"), "{page}");
}

#[test]
fn records_outside_the_last_selection_are_left_out() {
    let all = two_tasks();
    let first_two = Folder {
        selected: Some(2),
        ..two_tasks()
    };
    let results = TempDir::new().unwrap();
    first_two.write_with(results.path(), |_, _| {});
    let out = TempDir::new().unwrap();
    let (summary, _) = report(&first_two, &[results.path()], out.path());
    assert_eq!(
        summary.warnings,
        ["16 stored records outside the last selection are left out"]
    );
    assert!(
        summary
            .rows
            .iter()
            .all(|row| (row.n, row.expected) == (4, 4))
    );
    let samples = fs::read_to_string(out.path().join("samples.csv")).unwrap();
    assert!(!samples.contains("logbook_qa-2") && samples.contains("logbook_qa-1"));
    // With a folder of the same cells that selected all, nothing is outside.
    let whole = all.written();
    let (summary, _) = report(&all, &[results.path(), whole.path()], out.path());
    assert!(summary.warnings.is_empty(), "{:?}", summary.warnings);
    assert!(
        summary
            .rows
            .iter()
            .all(|row| (row.n, row.expected) == (8, 8))
    );
}

#[test]
fn files_of_an_earlier_report_do_not_stay() {
    let folder = two_tasks();
    let (whole, part) = (folder.written(), stopped(&folder));
    let (again, fresh) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    report(&folder, &[whole.path()], again.path());
    let figure = again
        .path()
        .join("smollm2-135m-instruct-q4-aware/score-by-budget.svg");
    assert!(figure.is_file());
    fs::write(again.path().join("notes.md"), "the reader's own").unwrap();
    let (summary, _) = report(&folder, &[part.path()], again.path());
    report(&folder, &[part.path()], fresh.path());
    assert!(!figure.exists());
    let mut left = files(again.path());
    assert_eq!(left.remove("notes.md").as_deref(), Some("the reader's own"));
    assert_eq!(left, files(fresh.path()));
    let listed: Vec<String> = serde_json::from_str(&left.remove("files.json").unwrap()).unwrap();
    assert_eq!(listed, left.into_keys().collect::<Vec<_>>());
    assert_eq!(summary.files.len(), listed.len() + 1);
}

#[test]
fn a_list_of_files_cannot_reach_outside_its_folder() {
    let folder = two_tasks();
    let results = folder.written();
    let out = TempDir::new().unwrap();
    let (kept, report_folder) = (out.path().join("kept.txt"), out.path().join("report"));
    fs::write(&kept, "not the report's").unwrap();
    fs::create_dir(&report_folder).unwrap();
    let list = serde_json::json!(["../kept.txt", kept, "", "a/../../kept.txt"]);
    fs::write(report_folder.join("files.json"), list.to_string()).unwrap();
    report(&folder, &[results.path()], &report_folder);
    assert!(kept.is_file());
}

/// Texts of all files below a folder, by name.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap().to_string_lossy();
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            found.insert(name.into_owned(), text);
        }
    }
    found
}

#[test]
fn a_row_that_was_never_run_is_marked_so() {
    let folder = two_tasks();
    let results = TempDir::new().unwrap();
    folder.write_with(results.path(), |cell, records| {
        if cell.method.label == "pyramidkv" {
            records.clear();
        }
    });
    let out = TempDir::new().unwrap();
    let (_, page) = report(&folder, &[results.path()], out.path());
    let main = page.split("### ").nth(1).unwrap();
    let line = |method: &str| main.lines().find(|line| line.contains(method)).unwrap();
    assert!(
        line("| pyramidkv ").contains("| specified, not run |"),
        "{main}"
    );
    assert!(!line("| snapkv ").contains("specified"), "{main}");
    // Nothing run at all: no table, and the same words.
    let nothing = TempDir::new().unwrap();
    folder.write_with(nothing.path(), |_, records| records.clear());
    let (summary, page) = report(&folder, &[nothing.path()], out.path());
    assert!(
        page.contains("specified, not run") && !page.contains("### "),
        "{page}"
    );
    assert!(summary.terminal.contains("specified, not run"));
}
