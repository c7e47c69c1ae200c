//! Results of other versions: older ones are read, newer ones are named at the report's top and left out.

use std::fs;
use std::path::{Path, PathBuf};

use ripplekv_report::{ReportSummary, TaskLabel, write_report};
use serde_json::Value;
use tempfile::TempDir;

use crate::results_folder::Folder;

fn older() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/results-schema-1")
}

fn report(results: &[PathBuf], folder: &Folder) -> (ReportSummary, String) {
    let out = TempDir::new().unwrap();
    let mut options = folder.options();
    options
        .tasks
        .extend(["logbook_qa", "ticket_class"].map(|name| TaskLabel {
            name: name.to_owned(),
            category: "own".to_owned(),
            in_average: false,
            metric: "qa-f1".to_owned(),
        }));
    let summary = write_report(results, out.path(), &options).unwrap();
    let page = fs::read_to_string(out.path().join("report.md")).unwrap();
    (summary, page)
}

#[test]
fn results_of_schema_1_are_read() {
    let (summary, page) = report(&[older()], &Folder::quickstart());
    let rows: Vec<_> = summary
        .rows
        .iter()
        .map(|row| (row.method.as_str(), row.n, row.expected, row.answer_kl))
        .collect();
    assert_eq!(rows, [("full", 8, 8, None), ("snapkv", 8, 8, None)]);
    // As the run's own report had them.
    assert_eq!(summary.rows[0].tasks["ticket_class"], 75.0);
    assert!(
        summary
            .warnings
            .iter()
            .all(|warning| warning.starts_with("at chance level: ")),
        "{:?}",
        summary.warnings
    );
    assert!(!page.contains("newer"), "{page}");
}

/// Raises every `schema` of a file's lines.
fn raise(path: &Path, schema: u32) {
    let text = fs::read_to_string(path).unwrap();
    let raised: String = text
        .lines()
        .map(|line| {
            let mut value: Value = serde_json::from_str(line).unwrap();
            value["schema"] = schema.into();
            format!("{value}\n")
        })
        .collect();
    fs::write(path, raised).unwrap();
}

#[test]
fn newer_records_are_counted_once_and_the_rest_is_used() {
    let folder = Folder::quickstart();
    let results = folder.written();
    for task in ["logbook_qa", "dossier_qa"] {
        raise(&folder.path(results.path(), "records", task), 9);
    }
    let (summary, page) = report(&[results.path().to_owned()], &folder);
    let newer: Vec<&String> = summary
        .warnings
        .iter()
        .filter(|warning| warning.contains("schema 9 is newer than"))
        .collect();
    assert_eq!(newer.len(), 1, "{:?}", summary.warnings);
    // Two tasks of ten cells and four samples.
    assert!(newer[0].contains("80 records left out"), "{}", newer[0]);
    assert!(page.contains("**Before you read the numbers:**"), "{page}");
    assert!(
        summary
            .rows
            .iter()
            .all(|row| row.n == 16 && row.average.is_none())
    );
}

#[test]
fn a_newer_manifest_is_named_at_the_top() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let path = results.path().join("manifest.json");
    let mut manifest: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    manifest["schema"] = 7.into();
    fs::write(&path, manifest.to_string()).unwrap();
    let (summary, _) = report(&[results.path().to_owned()], &folder);
    assert!(
        summary.warnings[0].contains("manifest.json: schema 7 is newer than 1"),
        "{:?}",
        summary.warnings
    );
    assert!(summary.rows.iter().all(|row| row.average.is_some()));
}
