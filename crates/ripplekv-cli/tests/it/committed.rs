//! The committed reference report is what the program makes of the committed reference results.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::program::{Folder, output_of};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Texts of a report's tables, frames, pages and drawings, by name; pixels are left to the eye.
fn texts(report: &Path) -> BTreeMap<String, String> {
    let list = fs::read_to_string(report.join("files.json")).unwrap();
    let names: Vec<String> = serde_json::from_str(&list).unwrap();
    names
        .into_iter()
        .filter(|name| {
            ["md", "csv", "tex", "html", "css", "js", "svg"]
                .iter()
                .any(|end| name.ends_with(&format!(".{end}")))
        })
        .map(|name| {
            let text = fs::read_to_string(report.join(&name)).unwrap();
            (name, text)
        })
        .collect()
}

#[test]
fn the_reference_report_is_made_by_its_command() {
    let folder = Folder::new(1);
    let out = folder.at("report");
    output_of(
        folder
            .real()
            .arg("report")
            .arg(root().join("results/quickstart"))
            .arg("--out")
            .arg(&out),
        0,
    );
    let (made, committed) = (texts(&out), texts(&root().join("reports/quickstart")));
    let names = |texts: &BTreeMap<String, String>| texts.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&made), names(&committed));
    for (name, text) in &made {
        assert!(
            *text == committed[name],
            "reports/quickstart/{name} is not what the program makes\nhint: ripplekv report results/quickstart --out reports/quickstart && cargo xtask generate"
        );
    }
}

/// What everybody who clones the repository carries along.
#[test]
fn the_reference_run_and_its_report_are_under_three_megabytes() {
    let mut bytes = 0;
    let mut open = vec![
        root().join("results/quickstart"),
        root().join("reports/quickstart"),
    ];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            match entry.metadata().unwrap() {
                found if found.is_dir() => open.push(entry.path()),
                found => bytes += found.len(),
            }
        }
    }
    assert!(bytes < 3_000_000, "{bytes} bytes");
}
