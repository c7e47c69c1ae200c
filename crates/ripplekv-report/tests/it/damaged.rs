//! Every way a results folder can be damaged, in one table: the report is made, says so at its top, and what is sound
//! keeps its numbers.

use std::fs;
use std::path::Path;

use ripplekv_report::{ReportSummary, SummaryRow, write_report};
use ripplekv_runner::cell::Query;
use serde_json::json;
use tempfile::TempDir;

use crate::results_folder::Folder;

fn small() -> Folder {
    let mut folder = Folder {
        budgets: vec!["10%"],
        selected: Some(4),
        ..Folder::quickstart()
    };
    folder.tasks.truncate(3);
    folder
}

fn report(folder: &Folder, results: &[&Path]) -> (ReportSummary, String) {
    let out = TempDir::new().unwrap();
    let results: Vec<_> = results.iter().map(|path| (*path).to_owned()).collect();
    let summary = write_report(&results, out.path(), &folder.options()).unwrap();
    let page = fs::read_to_string(out.path().join("report.md")).unwrap();
    (summary, page)
}

/// What is left of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Left {
    /// Every number.
    All,
    /// Tasks that are whole, and no average.
    SomeTasks,
    /// No number.
    Nothing,
}

struct Case {
    name: &'static str,
    damage: fn(&Folder, &Path),
    /// What the report's top must say.
    said: &'static str,
    left: Left,
}

fn records(folder: &Folder, results: &Path) -> std::path::PathBuf {
    folder.path(results, "records", "dossier_qa")
}

fn edit(path: &Path, change: impl Fn(String) -> String) {
    let text = fs::read_to_string(path).unwrap();
    fs::write(path, change(text)).unwrap();
}

const CASES: &[Case] = &[
    Case {
        name: "the records of a task are missing",
        damage: |folder, results| fs::remove_file(records(folder, results)).unwrap(),
        said: "unfinished: dossier_qa n=0/4",
        left: Left::SomeTasks,
    },
    Case {
        name: "they are an empty file",
        damage: |folder, results| fs::write(records(folder, results), "").unwrap(),
        said: "unfinished: dossier_qa n=0/4",
        left: Left::SomeTasks,
    },
    Case {
        name: "they are a folder",
        damage: |folder, results| {
            fs::remove_file(records(folder, results)).unwrap();
            fs::create_dir(records(folder, results)).unwrap();
        },
        said: "w0.jsonl: not read: ",
        left: Left::SomeTasks,
    },
    Case {
        name: "the first line of each is cut off",
        damage: |folder, results| edit(&records(folder, results), |text| text[20..].to_owned()),
        said: "w0.jsonl:1: record left out: ",
        left: Left::SomeTasks,
    },
    Case {
        name: "a line is no text",
        damage: |folder, results| {
            let path = records(folder, results);
            let mut bytes = fs::read(&path).unwrap();
            bytes[3] = 0xff;
            fs::write(&path, bytes).unwrap();
        },
        said: "w0.jsonl:1: line left out: not UTF-8",
        left: Left::SomeTasks,
    },
    Case {
        name: "a field has another kind",
        damage: |folder, results| {
            edit(&records(folder, results), |text| {
                text.replacen("\"prompt_tokens\":", "\"prompt_tokens\":\"x\",\"was\":", 1)
            });
        },
        said: "record left out: invalid type: string",
        left: Left::SomeTasks,
    },
    Case {
        name: "records are of a newer program",
        damage: |folder, results| {
            edit(&records(folder, results), |text| {
                text.replace("\"schema\":1,", "\"schema\":8,")
            });
        },
        said: "16 records left out: their schema 8 is newer than",
        left: Left::SomeTasks,
    },
    Case {
        name: "two writers disagree",
        damage: |folder, results| {
            let path = records(folder, results);
            let text = fs::read_to_string(&path).unwrap();
            let other = text
                .lines()
                .next()
                .unwrap()
                .replace("an answer", "no answer");
            fs::write(path.with_file_name("w1.jsonl"), format!("{other}\n")).unwrap();
        },
        said: "the sample is left out of everything",
        left: Left::SomeTasks,
    },
    Case {
        name: "the manifest is missing",
        damage: |_, results| fs::remove_file(results.join("manifest.json")).unwrap(),
        said: "manifest.json: not read: ",
        left: Left::All,
    },
    Case {
        name: "the manifest is cut",
        damage: |_, results| {
            edit(&results.join("manifest.json"), |text| {
                text[..text.len() / 2].to_owned()
            });
        },
        said: "manifest.json: not read: ",
        left: Left::All,
    },
    Case {
        name: "the manifest is of a newer program",
        damage: |_, results| {
            edit(&results.join("manifest.json"), |text| {
                text.replacen("\"schema\":1", "\"schema\":5", 1)
            });
        },
        said: "manifest.json: schema 5 is newer than 1",
        left: Left::All,
    },
    Case {
        name: "the cells are cut",
        damage: |_, results| {
            edit(&results.join("cells.json"), |text| {
                text[..text.len() / 2].to_owned()
            });
        },
        said: "cells.json: not read: ",
        left: Left::Nothing,
    },
    Case {
        name: "nothing was run yet",
        damage: |_, results| fs::remove_dir_all(results.join("records")).unwrap(),
        said: ": no records",
        left: Left::Nothing,
    },
];

#[test]
fn the_report_says_what_is_wrong_and_goes_on_with_what_is_sound() {
    let folder = small();
    let sound = folder.written();
    let (before, page) = report(&folder, &[sound.path()]);
    assert!(before.warnings.is_empty(), "{:?}", before.warnings);
    assert!(!page.contains("Before you read"));
    for case in CASES {
        let results = folder.written();
        (case.damage)(&folder, results.path());
        let (after, page) = report(&folder, &[results.path()]);
        let top = page.split("\n## ").next().unwrap();
        let plain = top.replace('\\', "");
        assert!(
            top.starts_with("# Report\n\n**Before you read the numbers:**")
                && plain.contains(case.said),
            "{}: {top}",
            case.name
        );
        if case.left == Left::Nothing {
            assert!(after.rows.iter().all(|row| row.n == 0), "{}", case.name);
            assert!(
                after.terminal.contains("No cell has a scored sample"),
                "{}",
                case.name
            );
            continue;
        }
        let mut is_touched = false;
        for row in &after.rows {
            let was = before
                .rows
                .iter()
                .find(|was| (&was.method, &was.budget) == (&row.method, &row.budget));
            let was = was.unwrap();
            for task in ["logbook_qa", "minutes_sum"] {
                assert_eq!(row.tasks[task], was.tasks[task], "{}: {task}", case.name);
            }
            // An average is that of every sample, or none.
            match row.average {
                Some(average) => assert_eq!(
                    (Some(average), row.n),
                    (was.average, was.n),
                    "{}",
                    case.name
                ),
                None => is_touched = true,
            }
        }
        assert_eq!(is_touched, case.left == Left::SomeTasks, "{}", case.name);
    }
}

/// Averages by everything that must never be mixed.
fn averages(rows: &[SummaryRow]) -> Vec<(String, &'static str, String, Option<f64>)> {
    let mut found: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row.model.clone(),
                row.query,
                row.method.clone(),
                row.average,
            )
        })
        .collect();
    found.sort_by(|left, right| left.partial_cmp(right).unwrap());
    found
}

#[test]
fn folders_together_have_the_averages_of_each_alone() {
    let base = small();
    let others = [
        Folder {
            model: "tiny",
            ..small()
        },
        Folder {
            query: Query::Agnostic,
            ..small()
        },
        Folder {
            protocol: json!({"chat_template": "off"}),
            ..small()
        },
        Folder {
            protocol: json!({"chat_template": "auto", "bos": "auto", "numerics": 2}),
            ..small()
        },
        Folder {
            protocol: json!({"chat_template": "auto", "bos": "auto", "numerics": 1, "max_context": 7500}),
            ..small()
        },
    ];
    let first = base.written();
    let (alone, _) = report(&base, &[first.path()]);
    for other in &others {
        let second = TempDir::new().unwrap();
        // Lower scores, so that any mixture would show.
        other.write_with(second.path(), |_, records| {
            for record in records {
                record.score = record.score.map(|score| score / 2.0);
            }
        });
        let (second_alone, _) = report(other, &[second.path()]);
        let (together, page) = report(&base, &[first.path(), second.path()]);
        let mut expected = averages(&alone.rows);
        expected.extend(averages(&second_alone.rows));
        expected.sort_by(|left, right| left.partial_cmp(right).unwrap());
        assert_eq!(averages(&together.rows), expected);
        let tables: std::collections::BTreeSet<&str> =
            together.rows.iter().map(|row| row.table.as_str()).collect();
        assert_eq!(tables.len(), 2);
        let is_told = other.model != base.model || other.query != base.query;
        assert!(
            is_told || page.contains("cells of several protocols"),
            "{page}"
        );
    }
}

#[test]
fn shards_and_machines_add_up_to_the_whole_run() {
    let folder = small();
    let whole = folder.written();
    let (expected, _) = report(&folder, &[whole.path()]);
    let shards = [0, 1].map(|shard| {
        let results = TempDir::new().unwrap();
        folder.write_with(results.path(), |_, records| {
            records.retain(|record| record.index % 2 == shard);
        });
        results
    });
    let (half, _) = report(&folder, &[shards[0].path()]);
    assert!(
        half.rows
            .iter()
            .all(|row| row.average.is_none() && row.n == 6)
    );
    let (both, _) = report(&folder, &[shards[0].path(), shards[1].path()]);
    assert_eq!(both.rows, expected.rows);
    assert_eq!(both.warnings, expected.warnings);
    // Another run of the same cells with other answers: one line for each file, not one for each sample.
    let other = TempDir::new().unwrap();
    folder.write_with(other.path(), |cell, records| {
        for record in records {
            record.score = Some(if cell.task == "logbook_qa" { 0.5 } else { 0.25 });
        }
    });
    let (mixed, _) = report(&folder, &[whole.path(), other.path()]);
    let conflicts = mixed.warnings.iter().filter(|warning| {
        warning.contains("16 samples differ from their lines in ")
            && warning.ends_with("; these samples are left out of everything")
    });
    assert_eq!(conflicts.count(), 3, "{:?}", mixed.warnings);
    assert!(
        mixed
            .rows
            .iter()
            .all(|row| row.n == 0 && row.average.is_none())
    );
    // A shard given twice, or with the whole, counts once.
    let (twice, _) = report(&folder, &[shards[0].path(), whole.path(), shards[0].path()]);
    assert_eq!(twice.rows, expected.rows);
}
