//! The committed reference report is what the program makes of the committed reference results.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::program::{Folder, output_of};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Texts of a report's tables, frames and page, by name; pictures are left to the eye.
fn texts(report: &Path) -> BTreeMap<String, String> {
    let list = fs::read_to_string(report.join("files.json")).unwrap();
    let names: Vec<String> = serde_json::from_str(&list).unwrap();
    names
        .into_iter()
        .filter(|name| {
            ["md", "csv", "tex"]
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
    let bytes = |folder: &Path| -> u64 {
        let list = fs::read_to_string(folder.join("files.json")).unwrap();
        let names: Vec<String> = serde_json::from_str(&list).unwrap();
        let files = names
            .iter()
            .map(|name| fs::metadata(folder.join(name)).unwrap().len());
        files.sum()
    };
    assert!(bytes(&root().join("reports/quickstart")) < 3 << 20);
}
