//! Tables and sentences by KL, against numbers worked out by hand.

use serde_json::{Value as Json, json};

use crate::group::Group;
use crate::kl_findings::findings;
use crate::made_up;
use crate::options::ReportOptions;
use crate::read::CellSamples;
use crate::render::{csv_bytes, markdown};
use crate::tables::{Build, TABLES, Table};

const SNAPKV: [[f64; 4]; 2] = [[0.10, 0.20, 0.30, 0.40], [0.50, 0.60, 0.70, 0.80]];
/// Less than `SNAPKV` by 0.035 and 0.045 on average: 0.04.
const RIPPLEKV: [[f64; 4]; 2] = [[0.08, 0.17, 0.26, 0.35], [0.46, 0.55, 0.66, 0.75]];
/// More than `RIPPLEKV` by 0.06 and 0.11 on average: 0.085.
const BY_INDEX: [[f64; 4]; 2] = [[0.11, 0.22, 0.33, 0.44], [0.55, 0.66, 0.77, 0.88]];

fn options() -> ReportOptions {
    ReportOptions {
        bootstrap_resamples: 2_000,
        ..ReportOptions::default()
    }
}

fn params(allocator: &str, r: f64) -> Json {
    json!({"scorer": "snapkv", "allocator": allocator, "r": r, "gamma": 4.0})
}

/// Cells of tasks `a` and `b` with these KLs, and of `c`, whose answers are too short for one.
fn cells(label: &str, params: &Json, budget: Option<&str>, kls: [[f64; 4]; 2]) -> Vec<CellSamples> {
    let tasks = [
        ("a", kls[0].map(Some)),
        ("b", kls[1].map(Some)),
        ("c", [None; 4]),
    ];
    tasks
        .map(|(task, kls)| {
            let mut cell = made_up::cell("m", task, label, budget);
            cell.method.params = params.clone();
            made_up::with_samples(cell, &kls.map(|kl| (0.5, kl)))
        })
        .into()
}

fn all_cells() -> Vec<CellSamples> {
    let at = Some("10%");
    let rows = [
        cells("full", &json!({}), None, [[0.0; 4]; 2]),
        cells("snapkv", &params("uniform", 1.0), at, SNAPKV),
        cells("ripplekv", &params("ripple", 2.0), at, RIPPLEKV),
        cells("ripplekv(r=1)", &params("ripple", 1.0), at, SNAPKV),
        cells("ripplekv(index)", &params("layer-index", 2.0), at, BY_INDEX),
    ];
    rows.into_iter().flatten().collect()
}

fn group(cells: Vec<CellSamples>) -> Group {
    made_up::group(cells, &options())
}

fn table(group: &Group, name: &str) -> Option<Table> {
    let info = TABLES.iter().find(|info| info.name == name).unwrap();
    let Build::Group(build) = &info.build else {
        panic!("{name} is about scores");
    };
    build(group, &options())
}

fn csv(group: &Group, name: &str) -> String {
    let table = table(group, name).unwrap();
    String::from_utf8(csv_bytes(name, &table).unwrap()).unwrap()
}

/// The line of a CSV that starts so, and its fields.
fn line<'a>(csv: &'a str, start: &str) -> Vec<&'a str> {
    let found = csv.lines().find(|line| line.starts_with(start));
    found
        .unwrap_or_else(|| panic!("no `{start}` in {csv}"))
        .split(',')
        .collect()
}

#[test]
fn the_main_table_ranks_kl_from_the_lowest() {
    let group = group(all_cells());
    let main = csv(&group, "main");
    let place = line(&main, "budget")
        .iter()
        .position(|name| *name == "KL")
        .unwrap();
    // Means over tasks a and b of their means: 0.25 and 0.65, 0.215 and 0.605, 0.275 and 0.715.
    for (row, kl) in [
        ("-,full", "0.00"),
        ("10%,snapkv", "0.450"),
        ("10%,ripplekv,", "0.410"),
        ("10%,ripplekv(index)", "0.495"),
    ] {
        assert_eq!(line(&main, row)[place], kl, "{main}");
    }
    let text = markdown(&table(&group, "main").unwrap());
    assert!(
        text.contains("**0.410**") && !text.contains("**0.495**"),
        "{text}"
    );
    assert!(text.contains("2 of 3 tasks, 8 of 12 samples"), "{text}");
}

#[test]
fn differences_of_kl_are_against_snapkv_and_lower_wins() {
    let group = group(all_cells());
    let differences = csv(&group, "differences-kl");
    let row = line(&differences, "10%,ripplekv,");
    assert_eq!(row[2], "-0.040", "{differences}");
    let (low, high): (f64, f64) = (row[3].parse().unwrap(), row[4].parse().unwrap());
    assert!(low < -0.04 && -0.04 < high && high < 0.0, "{differences}");
    // Wins, ties, losses; the worst task; n.
    assert_eq!(row[7..11], ["8", "0", "0", "a -0.035"], "{differences}");
    assert_eq!(row[13], "8", "{differences}");
    assert!(
        row[14].starts_with(
            "ripplekv's answers are nearer to the full cache than snapkv's: KL lower by 0.040 (0.03"
        ),
        "{differences}"
    );
    let row = line(&differences, "10%,ripplekv(r=1)");
    assert_eq!(row[7..10], ["0", "8", "0"], "{differences}");
    assert_eq!(row[14], "no difference on any sample", "{differences}");
    let row = line(&differences, "10%,ripplekv(index)");
    assert_eq!((row[2], row[9]), ("0.045", "8"), "{differences}");
    assert!(
        row[14].contains("farther from the full cache"),
        "{differences}"
    );
    // Scores are all alike; their table keeps its baseline.
    let scores = csv(&group, "differences");
    assert_eq!(line(&scores, "10%,snapkv")[2], "0.00", "{scores}");
}

#[test]
fn a_grid_by_kl_is_measured_from_uniform_budgets() {
    let with_snapkv = group(all_cells());
    let grid = csv(&with_snapkv, "ablation-kl");
    assert_eq!(line(&grid, "10%,ripplekv,KL,1")[4], "0.450", "{grid}");
    assert_eq!(line(&grid, "10%,ripplekv,KL,2")[4], "0.410", "{grid}");
    assert_eq!(
        line(&grid, "10%,ripplekv,minus snapkv,1")[4],
        "0.000",
        "{grid}"
    );
    assert_eq!(
        line(&grid, "10%,ripplekv,minus snapkv,2")[4],
        "-0.040",
        "{grid}"
    );
    let notes = table(&with_snapkv, "ablation-kl").unwrap().notes.join("\n");
    assert!(
        notes.contains(
            "KL of ripplekv against snapkv at 10%: 1 established as better, 0 as worse, of 2 settings"
        ),
        "{notes}"
    );
    let mut others = all_cells();
    others.retain(|data| data.cell.method.name != "snapkv");
    let grid = csv(&group(others), "ablation-kl");
    assert_eq!(
        line(&grid, "10%,ripplekv,minus r = 1,2")[4],
        "-0.040",
        "{grid}"
    );
    assert!(!grid.contains("minus r = 1,1,"), "{grid}");
}

#[test]
fn another_signal_that_raises_kl_hurts() {
    let signals = csv(&group(all_cells()), "signal-ablation-kl");
    let row = line(&signals, "10%,ripplekv,ripple");
    assert_eq!((row[3], row[6]), ("0.410", ""), "{signals}");
    let row = line(&signals, "10%,ripplekv(index)");
    assert_eq!((row[3], row[6]), ("0.495", "0.085"), "{signals}");
    let words = row[12];
    assert!(
        words.starts_with("using layer-index instead of sensitivity raises KL by 0.085 (0.0")
            && words.ends_with("): hurts"),
        "{signals}"
    );
    let row = line(&signals, "10%,snapkv");
    assert!(row[12].starts_with("using uniform instead of"), "{signals}");
}

#[test]
fn the_lowest_kl_is_said_with_its_distance_to_the_second() {
    let lines = findings(&group(all_cells()), &options());
    assert_eq!(lines.len(), 2);
    assert!(
        lines[0].starts_with("KL at 10% (n = 8): ripplekv has the lowest, 0.410 nats (95% 0."),
        "{lines:?}"
    );
    assert!(
        lines[0].contains("; ripplekv(r=1) is second, higher by 0.040 (0.03")
            && lines[0].ends_with("): established"),
        "{lines:?}"
    );
    let mut two = all_cells();
    two.retain(|data| {
        !data.cell.method.label.contains("ripplekv") || data.cell.method.label == "ripplekv(r=1)"
    });
    let lines = findings(&group(two), &options());
    assert_eq!(
        lines.len(),
        1,
        "two methods are no choice among several: {lines:?}"
    );
    assert!(
        lines[0].ends_with("no difference on any sample"),
        "{lines:?}"
    );
}

#[test]
fn a_row_without_some_kl_is_partial_and_none_means_no_kl_at_all() {
    let mut missing = all_cells();
    for data in &mut missing {
        if data.cell.method.label == "ripplekv" && data.cell.task == "a" {
            data.samples[0].record.answer_kl = None;
        }
    }
    // Without its first sample, task a has mean 0.26.
    let main = csv(&group(missing), "main");
    let row = line(&main, "10%,ripplekv,").join(",");
    assert!(row.contains(",0.432,") || row.contains(",0.433,"), "{main}");
    assert!(row.ends_with("KL partial"), "{main}");

    let mut none = all_cells();
    for sample in none.iter_mut().flat_map(|data| &mut data.samples) {
        sample.record.answer_kl = None;
    }
    let group = group(none);
    for name in ["differences-kl", "ablation-kl", "signal-ablation-kl"] {
        assert_eq!(table(&group, name), None, "{name}");
    }
    assert!(!csv(&group, "main").contains("KL"));
    assert!(findings(&group, &options()).is_empty());
}
