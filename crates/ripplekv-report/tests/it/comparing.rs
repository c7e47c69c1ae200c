//! Comparisons in words.

use std::path::Path;

use ripplekv_report::{ReportError, Selection, compare};
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
        &side(results.path(), Some(("snapkv", "10%"))),
        &side(results.path(), Some(("streaming-llm", "10%"))),
        &folder.options(),
    )
    .unwrap();
    assert_eq!(found.len(), 1);
    insta::assert_snapshot!(found[0].sentence, @"snapkv is 21.3 points above streaming-llm at 10% (95% interval 20.9 to 21.8, n = 1,280, 16 tasks); no detectable difference on 0 of 16 tasks.");
    assert_eq!(found[0].wins + found[0].ties + found[0].losses, found[0].n);
    assert_eq!(found[0].n, 16 * 80);
}

#[test]
fn the_other_way_round_it_is_below() {
    let folder = many();
    let results = folder.written();
    let found = compare(
        &side(results.path(), Some(("snapkv", "10%"))),
        &side(results.path(), Some(("full", ""))),
        &folder.options(),
    )
    .unwrap();
    insta::assert_snapshot!(found[0].sentence, @"snapkv at 10% is 7.8 points below full (95% interval -8.0 to -7.6, n = 1,280, 16 tasks); no detectable difference on 0 of 16 tasks.");
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
    let mut found = compare(
        &side(one.path(), None),
        &side(other.path(), None),
        &folder.options(),
    )
    .unwrap();
    assert_eq!(found.len(), 10, "full once, three methods at three budgets");
    let first = found.remove(0);
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
        &side(results.path(), Some(("snapkv", "10%"))),
        &side(results.path(), Some(("full", ""))),
        &folder.options(),
    )
    .unwrap();
    assert!(
        found[0]
            .sentence
            .ends_with("too few samples for an interval.")
    );
}

#[test]
fn empty_sides_are_errors_that_name_what_there_is() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let error = compare(
        &side(results.path(), Some(("snapvk", "10%"))),
        &side(results.path(), Some(("full", ""))),
        &folder.options(),
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
        &side(results.path(), None),
        &side(others.path(), None),
        &folder.options(),
    )
    .unwrap_err();
    assert!(matches!(error, ReportError::NothingShared { .. }));
}
