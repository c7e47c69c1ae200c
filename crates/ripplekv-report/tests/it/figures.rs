//! Figures with edge data: every one must be drawn, with its data. What they look like is judged by eye:
//! `RIPPLEKV_FIGURES=DIR cargo test --release -p ripplekv-report -- figures` leaves them in DIR.
//! That texts neither overlap nor leave a figure is checked on the scenes, in `src/figures`.

use std::fs;
use std::path::PathBuf;

use ripplekv_report::write_report;
use tempfile::TempDir;

use crate::results_folder::{Folder, MethodRow, SIXTEEN_TASKS};

const EIGHT: &[MethodRow] = &[
    ("full", "full", 0.0),
    ("streaming-llm", "streaming-llm", 0.45),
    ("snapkv", "snapkv", 0.12),
    ("pyramidkv", "pyramidkv", 0.15),
    ("ripplekv(r=2,gamma=2)", "ripplekv", 0.08),
    ("ripplekv(r=4,gamma=4)", "ripplekv", 0.07),
    (
        "ripplekv(r=8,gamma=4,center=geometric,profile=calibration-large)",
        "ripplekv",
        0.1,
    ),
    ("h2o", "h2o", 0.25),
    ("random", "random", 0.6),
];

fn drawn(name: &str, folder: &Folder) {
    let results = folder.written();
    let kept = std::env::var_os("RIPPLEKV_FIGURES").map(PathBuf::from);
    let temporary = TempDir::new().unwrap();
    let out = kept
        .unwrap_or_else(|| temporary.path().to_owned())
        .join(name);
    let summary = write_report(&[results.path().to_owned()], &out, &folder.options()).unwrap();
    let pictures: Vec<&PathBuf> = summary
        .files
        .iter()
        .filter(|file| file.extension().is_some_and(|end| end == "png"))
        .collect();
    assert!(!pictures.is_empty());
    for png in pictures {
        let bytes = fs::read(png).unwrap();
        assert_eq!(&bytes[1..4], b"PNG");
        let svg = fs::read_to_string(png.with_extension("svg")).unwrap();
        assert!(svg.starts_with("<svg width=\"") && svg.trim_end().ends_with("</svg>"));
        assert!(
            fs::read_to_string(png.with_extension("csv"))
                .unwrap()
                .lines()
                .count()
                > 1
        );
    }
}

#[test]
fn realistic() {
    drawn(
        "realistic",
        &Folder {
            samples: 20,
            ..Folder::quickstart()
        },
    );
}

#[test]
fn one_budget_one_task() {
    drawn(
        "one",
        &Folder {
            tasks: vec![("logbook_qa", "single_doc_qa")],
            budgets: vec!["10%"],
            samples: 20,
            ..Folder::quickstart()
        },
    );
}

#[test]
fn eight_methods_sixteen_tasks_long_labels() {
    drawn(
        "many",
        &Folder {
            tasks: SIXTEEN_TASKS.to_vec(),
            budgets: vec!["5%", "10%", "20%", "40%"],
            methods: EIGHT.to_vec(),
            samples: 25,
            ..Folder::quickstart()
        },
    );
}

#[test]
fn one_budget_eight_methods() {
    drawn(
        "one-budget-many",
        &Folder {
            budgets: vec!["10%"],
            methods: EIGHT.to_vec(),
            samples: 25,
            ..Folder::quickstart()
        },
    );
}

#[test]
fn tokens_and_percent_have_axes_of_their_own() {
    let folder = Folder {
        budgets: vec!["5%", "20%", "64", "128", "512", "1024"],
        samples: 20,
        ..Folder::quickstart()
    };
    drawn("kinds", &folder);
}
