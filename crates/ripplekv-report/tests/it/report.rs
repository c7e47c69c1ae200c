//! Whole reports from sound results.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ripplekv_report::{CELL_COLUMNS, SAMPLE_COLUMNS, write_report};
use ripplekv_runner::cell::Query;
use serde_json::json;
use tempfile::TempDir;

use crate::results_folder::{Folder, METHODS, SIXTEEN_TASKS};

/// Every file below a folder with its bytes.
pub(crate) fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

#[test]
fn quickstart_table_on_a_terminal() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let out = TempDir::new().unwrap();
    let mut options = folder.options();
    options.terminal_width = 200;
    let summary = write_report(&[results.path().to_owned()], out.path(), &options).unwrap();
    assert_eq!(summary.warnings, Vec::<String>::new());
    insta::assert_snapshot!(summary.terminal, @"");
}

#[test]
fn a_narrow_terminal_leaves_out_task_columns_and_says_so() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let out = TempDir::new().unwrap();
    let mut options = folder.options();
    options.terminal_width = 100;
    let summary = write_report(&[results.path().to_owned()], out.path(), &options).unwrap();
    assert!(summary.terminal.contains("left out here"));
    assert!(!summary.terminal.contains("logbook_qa"));
    let longest = summary.terminal.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest <= 100, "{longest}:\n{}", summary.terminal);
}

#[test]
fn the_same_results_give_the_same_files() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let folders = [results.path().to_owned()];
    let summary = write_report(&folders, first.path(), &folder.options()).unwrap();
    write_report(&folders, second.path(), &folder.options()).unwrap();
    let files = tree(first.path());
    assert_eq!(files, tree(second.path()));
    let listed: Vec<String> = summary
        .files
        .iter()
        .map(|path| path.strip_prefix(first.path()).unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(listed[0], "report.md");
    let mut sorted = listed.clone();
    sorted.sort();
    assert_eq!(sorted, files.keys().cloned().collect::<Vec<_>>());
    let page = String::from_utf8(files["report.md"].clone()).unwrap();
    for name in files.keys().filter(|name| !name.ends_with(".md")) {
        assert!(page.contains(&format!("({name})")), "{name} is not linked");
    }
}

#[test]
fn frames_have_the_documented_columns_and_all_rows() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let out = TempDir::new().unwrap();
    write_report(&[results.path().to_owned()], out.path(), &folder.options()).unwrap();
    let cells = folder.cells().len();
    for (name, columns, rows) in [
        ("cells.csv", CELL_COLUMNS, cells),
        ("samples.csv", SAMPLE_COLUMNS, cells * folder.samples),
    ] {
        let mut reader = csv::Reader::from_path(out.path().join(name)).unwrap();
        let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        let documented: Vec<&str> = columns.iter().map(|column| column.name).collect();
        assert_eq!(header, documented);
        assert_eq!(reader.records().map(Result::unwrap).count(), rows, "{name}");
    }
}

#[test]
fn scores_are_the_means_of_the_records() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let out = TempDir::new().unwrap();
    let summary = write_report(&[results.path().to_owned()], out.path(), &folder.options()).unwrap();
    assert_eq!(summary.rows.len(), 1 + 3 * folder.budgets.len());
    assert_eq!(summary.rows[0].method, "full");
    assert_eq!(summary.rows[0].budget, None);
    for row in &summary.rows {
        for cell in folder.cells().iter().filter(|cell| {
            cell.method.label == row.method && cell.budget == row.budget
        }) {
            let scores: Vec<f64> = folder
                .records(cell)
                .iter()
                .map(|record| record.score.unwrap())
                .collect();
            let mean = 100.0 * scores.iter().sum::<f64>() / scores.len() as f64;
            assert!((row.tasks[&cell.task] - mean).abs() <= 0.005 + 1e-9);
        }
        let average = row.tasks.values().sum::<f64>() / row.tasks.len() as f64;
        assert!((row.average.unwrap() - average).abs() <= 0.005 + 1e-9);
        let (low, high) = (row.ci_low.unwrap(), row.ci_high.unwrap());
        assert!(low < average && average < high);
        assert_eq!((row.n, row.expected, row.failed), (24, 24, 0));
    }
}

#[test]
fn sixteen_tasks_get_category_means_and_the_papers_average() {
    let folder = Folder {
        tasks: SIXTEEN_TASKS.to_vec(),
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    let results = folder.written();
    let out = TempDir::new().unwrap();
    let summary = write_report(&[results.path().to_owned()], out.path(), &folder.options()).unwrap();
    insta::assert_snapshot!(summary.terminal, @"");
    let fifteen = Folder {
        tasks: SIXTEEN_TASKS[..15].to_vec(),
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    let results = fifteen.written();
    let summary = write_report(&[results.path().to_owned()], out.path(), &folder.options()).unwrap();
    assert!(!summary.terminal.contains("16-task average"));
    assert!(summary.terminal.contains("average of 15 tasks"));
}

#[test]
fn markdown_and_latex_mark_best_and_second() {
    let folder = Folder {
        tasks: SIXTEEN_TASKS[1..4].to_vec(),
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    let results = folder.written();
    let out = TempDir::new().unwrap();
    write_report(&[results.path().to_owned()], out.path(), &folder.options()).unwrap();
    let at = |name: &str| {
        let slug = "smollm2-135m-instruct-q4-aware";
        fs::read_to_string(out.path().join(slug).join(name)).unwrap()
    };
    insta::assert_snapshot!(at("main.md"), @"");
    insta::assert_snapshot!(at("main.csv"), @"");
    insta::assert_snapshot!(at("main.tex"), @"");
    insta::assert_snapshot!(at("differences.md"), @"");
    insta::assert_snapshot!(at("efficiency.csv"), @"");
}

#[test]
fn models_query_modes_and_protocols_never_share_a_table() {
    let aware = Folder {
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    let agnostic = Folder {
        query: Query::Agnostic,
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    let other_model = Folder {
        model: "tiny",
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    let other_protocol = Folder {
        protocol: json!({"chat_template": "off", "bos": "auto", "numerics": 1}),
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    let written: Vec<TempDir> = [&aware, &agnostic, &other_model, &other_protocol]
        .iter()
        .map(|folder| folder.written())
        .collect();
    let folders: Vec<_> = written.iter().map(|folder| folder.path().to_owned()).collect();
    let out = TempDir::new().unwrap();
    let summary = write_report(&folders, out.path(), &aware.options()).unwrap();
    let titles: Vec<&str> = summary
        .terminal
        .lines()
        .filter(|line| line.starts_with("Score by method"))
        .collect();
    insta::assert_snapshot!(titles.join("\n"), @"");
    assert_eq!(summary.rows.len(), 4 * 4);
    assert!(summary.warnings.iter().any(|warning| warning.contains("several protocols")));
}

#[test]
fn methods_stand_in_the_order_of_the_spec() {
    let mut folder = Folder {
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    folder.methods = vec![
        ("snapkv", "snapkv", 0.1),
        ("ripplekv(r=10)", "ripplekv", 0.1),
        ("ripplekv(r=2)", "ripplekv", 0.1),
        METHODS[1],
        METHODS[0],
    ];
    let results = folder.written();
    let out = TempDir::new().unwrap();
    let summary = write_report(&[results.path().to_owned()], out.path(), &folder.options()).unwrap();
    let methods: Vec<&str> = summary.rows.iter().map(|row| row.method.as_str()).collect();
    assert_eq!(
        methods,
        ["full", "snapkv", "ripplekv(r=2)", "ripplekv(r=10)", "streaming-llm"]
    );
}
