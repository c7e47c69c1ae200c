//! Comparisons in words.

use std::fs;
use std::path::Path;

use ripplekv_report::{CompareFilter, Comparisons, ReportError, Selection};
use ripplekv_runner::cell::Query;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::results_folder::{Folder, SIXTEEN_TASKS};

fn side(folder: &Path, row: Option<(&str, &str)>) -> Selection {
    Selection {
        folder: folder.to_owned(),
        method: row.map(|(method, _)| method.to_owned()),
        budget: row
            .map(|(_, budget)| budget.to_owned())
            .filter(|text| !text.is_empty()),
    }
}

/// Compared with the folder's own options and no filter.
fn compare(
    folder: &Folder,
    left: &Selection,
    right: &Selection,
) -> Result<Comparisons, ReportError> {
    ripplekv_report::compare(left, right, &CompareFilter::default(), &folder.options())
}

fn many() -> Folder {
    Folder {
        tasks: SIXTEEN_TASKS.to_vec(),
        samples: 80,
        ..Folder::quickstart()
    }
}

#[test]
fn a_clear_difference_is_said_with_its_interval() {
    let folder = many();
    let results = folder.written();
    let found = compare(
        &folder,
        &side(results.path(), Some(("snapkv", "10%"))),
        &side(results.path(), Some(("streaming-llm", "10%"))),
    )
    .unwrap();
    assert_eq!(found.rows.len(), 1);
    insta::assert_snapshot!(found.rows[0].sentence, @"snapkv is 21.3 points above streaming-llm at 10% (95% interval 20.9 to 21.8, n = 1,280, 16 tasks); no detectable difference on 0 of 16 tasks.");
    assert_eq!(
        found.rows[0].wins + found.rows[0].ties + found.rows[0].losses,
        found.rows[0].n
    );
    assert_eq!(found.rows[0].n, 16 * 80);
}

#[test]
fn the_other_way_round_it_is_below() {
    let folder = many();
    let results = folder.written();
    let found = compare(
        &folder,
        &side(results.path(), Some(("snapkv", "10%"))),
        &side(results.path(), Some(("full", ""))),
    )
    .unwrap();
    insta::assert_snapshot!(found.rows[0].sentence, @"snapkv at 10% is 7.8 points below full (95% interval 7.6 to 8.0, n = 1,280, 16 tasks); no detectable difference on 0 of 16 tasks.");
}

#[test]
fn no_difference_is_called_so() {
    let folder = many();
    let (one, other) = (folder.written(), TempDir::new().unwrap());
    // The same scores, handed to the samples in another order within each pair: no mean difference.
    folder.write_with(other.path(), |_, records| {
        for pair in records.chunks_mut(2) {
            if let [left, right] = pair {
                std::mem::swap(&mut left.score, &mut right.score);
            }
        }
    });
    let mut found = compare(&folder, &side(one.path(), None), &side(other.path(), None)).unwrap();
    assert_eq!(
        found.rows.len(),
        10,
        "full once, three methods at three budgets"
    );
    let first = found.rows.remove(0);
    assert!(first.difference.abs() < 1e-9);
    assert!(
        first
            .sentence
            .starts_with("no detectable difference between full of ")
    );
    assert!(first.p_value_holm >= first.p_value);
}

#[test]
fn few_samples_are_said_to_be_few() {
    let folder = Folder {
        samples: 1,
        ..Folder::quickstart()
    };
    let results = folder.written();
    let found = compare(
        &folder,
        &side(results.path(), Some(("snapkv", "10%"))),
        &side(results.path(), Some(("full", ""))),
    )
    .unwrap();
    assert!(
        found.rows[0]
            .sentence
            .ends_with("too few samples for an interval.")
    );
}

#[test]
fn empty_sides_are_errors_that_name_what_there_is() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let error = compare(
        &folder,
        &side(results.path(), Some(("snapvk", "10%"))),
        &side(results.path(), Some(("full", ""))),
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("hint: the folder has full, streaming-llm@10%"),
        "{error}"
    );
    let other = Folder {
        model: "tiny",
        ..Folder::quickstart()
    };
    let others = other.written();
    let error = compare(
        &folder,
        &side(results.path(), None),
        &side(others.path(), None),
    )
    .unwrap_err();
    assert!(matches!(error, ReportError::NothingShared { .. }));
}

#[test]
fn tasks_too_small_to_show_anything_are_counted() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let found = compare(
        &folder,
        &side(results.path(), Some(("snapkv", "10%"))),
        &side(results.path(), Some(("streaming-llm", "10%"))),
    )
    .unwrap();
    // Four samples a task: the least p is 2/16, whatever the differences.
    assert!(found.rows[0].detectable);
    assert!(
        found.rows[0].sentence.ends_with(
            "; no detectable difference on 6 of 6 tasks (all have too few samples to show one)."
        ),
        "{}",
        found.rows[0].sentence
    );
}

#[test]
fn before_and_after_name_what_changed_and_what_stayed() {
    let before = Folder {
        protocol: json!({"chat_template": "auto", "numerics": 1}),
        ..Folder::quickstart()
    };
    let after = Folder {
        protocol: json!({"chat_template": "auto", "numerics": 2}),
        model_hash: "weights-b",
        ..Folder::quickstart()
    };
    let (old, new) = (before.written(), TempDir::new().unwrap());
    // The new program answers one sample of snapkv at 10% otherwise, and worse.
    after.write_with(new.path(), |cell, records| {
        for (record, old) in records.iter_mut().zip(scores(&before, cell)) {
            record.score = old;
        }
        let is_worse = cell.method.label == "snapkv" && cell.budget.as_deref() == Some("10%");
        if is_worse && cell.task == "module_line" {
            records[0].output = "another answer".to_owned();
            records[0].score = Some(0.0);
        }
    });
    let cells = before.cells();
    let worse = cells.iter().find(|cell| {
        cell.method.label == "snapkv"
            && cell.budget.as_deref() == Some("10%")
            && cell.task == "module_line"
    });
    let was_correct = before.records(worse.unwrap())[0].score >= Some(0.5);
    let found = compare(&before, &side(new.path(), None), &side(old.path(), None)).unwrap();
    assert_eq!(found.rows.len(), 10);
    for row in &found.rows {
        let is_worse = row.left.method == "snapkv" && row.left.budget.as_deref() == Some("10%");
        assert_eq!(row.same_answers, if is_worse { 23 } else { 24 });
        assert_eq!(row.losses, usize::from(is_worse));
        assert_eq!(row.settings, ["numerics 2 against 1"]);
        assert_eq!(
            row.sentence.contains("have the same score on every sample"),
            !is_worse,
            "{}",
            row.sentence
        );
        let changed = usize::from(is_worse);
        assert!(
            row.sentence.contains(&format!(
                "; {changed} of 24 answers changed, 0 for the better, {changed} for the worse"
            )),
            "{}",
            row.sentence
        );
        if is_worse {
            assert_eq!(row.correct_to_wrong, Some(usize::from(was_correct)));
            assert_eq!(row.worst_task.as_ref().unwrap().task, "module_line");
        }
    }
    let warned = |words: &str| found.warnings.iter().any(|warning| warning.contains(words));
    assert!(
        warned("differ in numerics 2 against 1"),
        "{:?}",
        found.warnings
    );
    assert!(warned("has other weights"), "{:?}", found.warnings);
}

/// Scores of the same cell in another folder, whose keys differ.
fn scores(folder: &Folder, cell: &ripplekv_runner::cell::Cell) -> Vec<Option<f64>> {
    let cells = folder.cells();
    let same = cells.iter().find(|other| {
        (&other.task, &other.method, &other.budget) == (&cell.task, &cell.method, &cell.budget)
    });
    folder
        .records(same.unwrap())
        .iter()
        .map(|record| record.score)
        .collect()
}

#[test]
fn other_questions_are_never_compared() {
    let one = Folder::quickstart();
    for protocol in [
        json!({"chat_template": "off", "bos": "auto", "numerics": 1}),
        json!({"chat_template": "auto", "bos": "auto", "numerics": 1, "max_context": 7500}),
    ] {
        let other = Folder {
            protocol,
            ..Folder::quickstart()
        };
        let (left, right) = (one.written(), other.written());
        let error = compare(&one, &side(left.path(), None), &side(right.path(), None)).unwrap_err();
        assert!(
            matches!(error, ReportError::NothingShared { .. }),
            "{error}"
        );
    }
    let agnostic = Folder {
        query: Query::Agnostic,
        ..Folder::quickstart()
    };
    let (left, right) = (one.written(), agnostic.written());
    assert!(compare(&one, &side(left.path(), None), &side(right.path(), None)).is_err());
}

/// A comparison over fewer tasks than the folders hold says which are missing from it, and why.
#[test]
fn tasks_that_are_not_compared_are_named() {
    let folder = Folder::quickstart();
    let (left, right) = (folder.written(), folder.written());
    let path = right.path().join("cells.json");
    let mut cells: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for cell in cells.as_object_mut().unwrap().values_mut() {
        if cell["task"] == "logbook_qa" {
            cell["protocol"]["chat_template"] = "off".into();
        }
    }
    fs::write(&path, cells.to_string()).unwrap();
    fs::remove_file(folder.path(right.path(), "records", "module_line")).unwrap();
    let sides = [left.path(), right.path()].map(|path| side(path, Some(("snapkv", "10%"))));
    let found = compare(&folder, &sides[0], &sides[1]).unwrap();
    assert_eq!(found.rows[0].n, 16);
    let said = |words: &str| found.warnings.iter().any(|warning| warning.contains(words));
    assert!(
        said(
            "query aware: logbook_qa not compared: the sides differ in chat_template auto against off"
        ),
        "{:?}",
        found.warnings
    );
    assert!(
        said(": module_line not compared: only "),
        "{:?}",
        found.warnings
    );
    // Nothing in common at all: the error says what keeps the sides apart.
    let other = Folder {
        protocol: json!({"chat_template": "off", "bos": "auto", "numerics": 1}),
        ..Folder::quickstart()
    };
    let others = other.written();
    let error = compare(&folder, &sides[0], &side(others.path(), None)).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("differ in chat_template auto against off"),
        "{error}"
    );
}

#[test]
fn one_method_meets_every_other_of_its_folder() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let found = compare(
        &folder,
        &side(results.path(), Some(("snapkv", ""))),
        &side(results.path(), None),
    )
    .unwrap();
    let mut met: Vec<String> = found
        .rows
        .iter()
        .map(|row| format!("{} {}", row.right.method, row.left.budget.as_ref().unwrap()))
        .collect();
    met.sort();
    let mut wanted: Vec<String> = ["full", "pyramidkv", "streaming-llm"]
        .iter()
        .flat_map(|method| ["10%", "20%", "50%"].map(|budget| format!("{method} {budget}")))
        .collect();
    wanted.sort();
    assert_eq!(met, wanted);
    // Nine comparisons are one family.
    assert!(found.rows.iter().all(|row| row.p_value_holm >= row.p_value));
    assert!(found.rows.iter().any(|row| row.p_value_holm > row.p_value));
    let error = compare(
        &folder,
        &side(results.path(), None),
        &side(results.path(), None),
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("\nhint: within one folder name a method: "),
        "{error}"
    );
}

#[test]
fn filters_take_budgets_and_query_modes() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let (left, right) = (
        side(results.path(), Some(("snapkv", ""))),
        side(results.path(), Some(("full", ""))),
    );
    let with = |budgets: &[&str], query| {
        let filter = CompareFilter {
            budgets: budgets.iter().map(|text| (*text).to_owned()).collect(),
            query,
        };
        ripplekv_report::compare(&left, &right, &filter, &folder.options())
    };
    let found = with(&["20%", "50%"], Some(Query::Aware)).unwrap();
    let budgets: Vec<_> = found
        .rows
        .iter()
        .map(|row| row.left.budget.as_deref().unwrap())
        .collect();
    assert_eq!(budgets, ["20%", "50%"]);
    for error in [with(&["64MiB"], None), with(&[], Some(Query::Agnostic))] {
        assert!(matches!(error, Err(ReportError::EmptySelection { .. })));
    }
}

#[test]
fn a_kl_is_compared_beside_the_score_and_lower_is_nearer() {
    let folder = Folder {
        budgets: vec!["10%"],
        samples: 12,
        ..Folder::quickstart()
    };
    let results = TempDir::new().unwrap();
    folder.write_with(results.path(), |cell, records| {
        for (index, record) in records.iter_mut().enumerate() {
            let (own, step) = match cell.method.label.as_str() {
                "snapkv" => (0.25, 0.01),
                _ => (0.5, 0.02),
            };
            record.answer_kl = Some(own + step * (index % 3) as f64);
        }
    });
    let found = compare(
        &folder,
        &side(results.path(), Some(("snapkv", ""))),
        &side(results.path(), Some(("pyramidkv", ""))),
    )
    .unwrap();
    let metrics: Vec<_> = found.rows.iter().map(|row| row.metric).collect();
    assert_eq!(metrics, ["score", "answer_kl"]);
    let kl = &found.rows[1];
    assert!(
        kl.sentence.starts_with(
            "snapkv's answers are 0.260 nats of KL nearer to the full cache than pyramidkv's at 10% (95% interval 0.25"
        ) && kl.sentence.ends_with(", n = 72, 6 tasks); no detectable difference on 0 of 6 tasks."),
        "{}",
        kl.sentence
    );
    assert_eq!((kl.wins, kl.losses, kl.correct_to_wrong), (72, 0, None));
    // The full cache is where a KL is measured from: nothing to compare.
    let found = compare(
        &folder,
        &side(results.path(), Some(("snapkv", ""))),
        &side(results.path(), Some(("full", ""))),
    )
    .unwrap();
    assert_eq!(found.rows.len(), 1);
}
