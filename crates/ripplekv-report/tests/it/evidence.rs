//! Reports of profiles, damage and ablations, sound and unsound. What the figures look like is judged by eye, as in
//! `figures.rs`: `RIPPLEKV_FIGURES=DIR`.

use std::fs;
use std::path::{Path, PathBuf};

use ripplekv_report::{ReportOptions, ReportSummary, write_report};
use ripplekv_runner::cell::Cell;
use serde_json::json;
use tempfile::TempDir;

use crate::evidence_folder::{Layers, content_hash};
use crate::results_folder::{Folder, MethodRow};

fn options() -> ReportOptions {
    ReportOptions {
        bootstrap_resamples: 400,
        ..ReportOptions::default()
    }
}

fn reported(results: &Path, out: &Path) -> ReportSummary {
    write_report(&[results.to_owned()], out, &options()).unwrap()
}

fn read(out: &Path, name: &str) -> String {
    fs::read_to_string(out.join(name)).unwrap()
}

fn shown(name: &str, temporary: &TempDir) -> PathBuf {
    std::env::var_os("RIPPLEKV_FIGURES").map_or_else(
        || temporary.path().to_owned(),
        |folder| PathBuf::from(folder).join(name),
    )
}

const SLUG: &str = "smollm2-135m-instruct-q4-layers";

#[test]
fn profile_and_damage_become_tables_figures_and_findings() {
    let results = TempDir::new().unwrap();
    let layers = Layers::realistic();
    layers.write(results.path());
    let temporary = TempDir::new().unwrap();
    let out = shown("evidence", &temporary);
    let summary = reported(results.path(), &out);
    assert_eq!(summary.warnings, Vec::<String>::new());
    for table in ["profile", "correlation", "regret"] {
        for end in ["md", "csv", "tex"] {
            assert!(
                out.join(SLUG).join(format!("{table}.{end}")).is_file(),
                "{table}.{end}"
            );
        }
    }
    for figure in [
        "sensitivity-and-damage",
        "sensitivity-scatter-10pct",
        "sensitivity-scatter-40pct",
    ] {
        for end in ["svg", "png", "csv"] {
            assert!(
                out.join(SLUG).join(format!("{figure}.{end}")).is_file(),
                "{figure}.{end}"
            );
        }
    }
    let page = read(&out, "report.md");
    assert!(
        !page.contains("NaN") && !read(&out, &format!("{SLUG}/correlation.csv")).contains("NaN")
    );
    // Sixteen profile samples against forty of damage, said with the number.
    assert!(
        page.contains("sensitivity ranks KL, layer compressed alone at 10% with rho 0."),
        "{page}"
    );
    assert!(
        page.contains(
            "16 x 40 samples, 30 layers): established (interval over samples, circular-shift p 0.033)"
        ),
        "{page}"
    );
    assert!(page.contains("monotone is rejected"), "{page}");
    assert!(
        page.contains("sensitivity against uniform: less damage by"),
        "{page}"
    );
    assert!(
        page.contains("where 0 is the oracle and 1 is uniform"),
        "{page}"
    );
    // Damage falls as B^-1.2 by construction.
    assert!(
        page.contains("for p = 1.20 (p measured over the budgets"),
        "{page}"
    );
    assert!(
        summary.terminal.contains("sensitivity ranks"),
        "{}",
        summary.terminal
    );
    let correlation = read(&out, &format!("{SLUG}/correlation.md"));
    assert!(
        correlation.contains("undefined: the task score drop is 0 on every layer"),
        "{correlation}"
    );
    // 4 measures x 3 budgets x 9 signals.
    let rows = read(&out, &format!("{SLUG}/correlation.csv"));
    assert_eq!(rows.lines().count(), 1 + 4 * 3 * 9);
    let regret = read(&out, &format!("{SLUG}/regret.csv"));
    assert!(regret.contains("random (mean of 5 draws)"), "{regret}");
    assert_eq!(regret.lines().count(), 1 + 3 * 11);
    let again = TempDir::new().unwrap();
    reported(results.path(), again.path());
    for name in ["report.md".to_owned(), format!("{SLUG}/correlation.csv")] {
        assert_eq!(read(&out, &name), read(again.path(), &name), "{name}");
    }
}

#[test]
fn damage_that_has_nothing_to_do_with_sensitivity_is_not_established() {
    let results = TempDir::new().unwrap();
    let layers = Layers {
        agreement: 0.0,
        layers: 12,
        budgets: vec!["10%"],
        ..Layers::realistic()
    };
    layers.write(results.path());
    let out = TempDir::new().unwrap();
    reported(results.path(), out.path());
    let page = read(out.path(), "report.md");
    assert!(
        page.contains("(p cannot be measured from these budgets)"),
        "{page}"
    );
    let headline = page
        .lines()
        .find(|line| line.contains("sensitivity ranks"))
        .unwrap();
    assert!(
        headline.contains("not established: the interval holds 0"),
        "{headline}"
    );
}

#[test]
fn one_sample_gives_numbers_without_intervals_and_claims_nothing() {
    let results = TempDir::new().unwrap();
    let layers = Layers {
        profile_samples: 1,
        damage_samples: 1,
        budgets: vec!["10%"],
        ..Layers::realistic()
    };
    layers.write(results.path());
    let out = TempDir::new().unwrap();
    reported(results.path(), out.path());
    let page = read(out.path(), "report.md");
    assert!(page.contains("too few samples"), "{page}");
    assert!(
        !page.contains(": established") && !page.contains("NaN"),
        "{page}"
    );
}

#[test]
fn unsound_files_are_named_and_the_rest_goes_on() {
    let damaged = |change: &dyn Fn(&Path)| {
        let folder = Folder::quickstart();
        let results = folder.written();
        Layers::realistic().write(results.path());
        change(results.path());
        let out = TempDir::new().unwrap();
        let summary = reported(results.path(), out.path());
        assert_eq!(
            summary.rows.len(),
            10,
            "the scores are reported in any case"
        );
        (summary.warnings.join("\n"), read(out.path(), "report.md"))
    };
    let profile = |root: &Path| root.join("profiles/smollm2-135m-instruct-q4.json");
    let samples = |root: &Path| root.join("damage/smollm2-135m-instruct-q4/samples.jsonl");
    let edit = |path: &Path, from: &str, to: &str| {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains(from));
        fs::write(path, text.replacen(from, to, 1)).unwrap();
    };

    let (warnings, page) = damaged(&|root| edit(&profile(root), "\"schema\":1", "\"schema\":9"));
    assert!(
        warnings.contains("smollm2-135m-instruct-q4.json") && warnings.contains("schema"),
        "{warnings}"
    );
    assert!(page.contains("monotone") && !page.contains("sensitivity ranks"));

    let (warnings, _) =
        damaged(&|root| edit(&profile(root), "\"positions\":31", "\"positions\":null"));
    assert!(warnings.contains("positions"), "{warnings}");

    let (warnings, page) = damaged(&|root| {
        let text = fs::read_to_string(samples(root)).unwrap();
        fs::write(samples(root), &text[..text.len() - 20]).unwrap();
    });
    assert!(
        warnings.contains("samples.jsonl") && warnings.contains("39 of 40"),
        "{warnings}"
    );
    assert!(page.contains("16 x 39 samples"), "{page}");

    let (warnings, page) =
        damaged(&|root| edit(&samples(root), "\"positions\":31", "\"positions\":NaN"));
    assert!(warnings.contains("samples.jsonl"), "{warnings}");
    assert!(page.contains("Sensitivity of every layer") && !page.contains("sensitivity ranks"));

    let (warnings, _) = damaged(&|root| {
        fs::remove_file(root.join("damage/smollm2-135m-instruct-q4/recipe.json")).unwrap()
    });
    assert!(warnings.contains("no recipe.json"), "{warnings}");

    let (warnings, page) = damaged(&|root| {
        let layers = Layers::realistic();
        let mut other = layers.profile();
        other.samples.pop();
        other.content_hash = content_hash(&other);
        layers.write_profile(root, &other);
    });
    assert!(
        warnings.contains("its allocations come from another profile"),
        "{warnings}"
    );
    assert!(page.contains("sensitivity ranks") && !page.contains("joint KL at"));
}

#[test]
fn a_profile_without_signals_is_reported_without_them() {
    let results = TempDir::new().unwrap();
    Folder::quickstart().write_with(results.path(), |_, _| ());
    let layers = Layers::realistic();
    let mut bare = layers.profile();
    bare.recipe.signals = false;
    for sample in &mut bare.samples {
        sample.window_entropy.clear();
        sample.hidden_change.clear();
        sample.all_layers_kl = None;
    }
    bare.content_hash = content_hash(&bare);
    layers.write_profile(results.path(), &bare);
    let out = TempDir::new().unwrap();
    let warnings = reported(results.path(), out.path()).warnings;
    let page = read(out.path(), "report.md");
    assert!(
        !warnings.iter().any(|warning| warning.contains("profile")),
        "{warnings:?}"
    );
    assert!(
        page.contains("local response |\n") && page.contains("nor the control were measured"),
        "{page}"
    );
    assert!(!page.contains("| window entropy") && !page.contains("Hidden change:"));
}

#[test]
fn records_of_another_profile_are_left_out_and_named() {
    let folder = Folder::quickstart();
    let results = TempDir::new().unwrap();
    let layers = Layers::realistic();
    let own = layers.profile().content_hash;
    folder.write_with(results.path(), |cell, records| {
        if cell.method.name == "pyramidkv" {
            let foreign = cell.budget.as_deref() == Some("20%");
            for record in records {
                record.profile_hash = Some(if foreign {
                    "other".to_owned()
                } else {
                    own.clone()
                });
            }
        }
    });
    layers.write_profile(results.path(), &layers.profile());
    let out = TempDir::new().unwrap();
    let summary = reported(results.path(), out.path());
    let warnings = summary.warnings.join("\n");
    assert!(
        warnings.contains("24 records of smollm2-135m-instruct-q4: pyramidkv at 20% left out: they were made with another profile"),
        "{warnings}"
    );
    let average = |budget: &str| {
        let row = |row: &&ripplekv_report::SummaryRow| {
            row.method == "pyramidkv" && row.budget.as_deref() == Some(budget)
        };
        summary.rows.iter().find(row).and_then(|row| row.average)
    };
    assert!(average("10%").is_some() && average("20%").is_none());
}

#[test]
fn a_cell_with_records_of_two_profiles_is_left_out() {
    let folder = Folder::quickstart();
    let results = TempDir::new().unwrap();
    folder.write_with(results.path(), |cell, records| {
        if cell.method.name == "pyramidkv" && cell.task == "logbook_qa" {
            for (place, record) in records.iter_mut().enumerate() {
                record.profile_hash = Some(["one", "two"][place % 2].to_owned());
            }
        }
    });
    let out = TempDir::new().unwrap();
    let warnings = reported(results.path(), out.path()).warnings.join("\n");
    assert!(
        warnings.contains("pyramidkv at 10% on logbook_qa: left out"),
        "{warnings}"
    );
    assert!(
        warnings.contains("never mixed") && warnings.contains("n=0/4"),
        "{warnings}"
    );
}

const METHODS_OF_ABLATIONS: &[MethodRow] = &[
    ("full", "full", 0.0),
    ("snapkv", "snapkv", 0.12),
    ("ripplekv", "ripplekv", 0.08),
    ("ripplekv(r=2,gamma=2)", "ripplekv", 0.1),
    ("ripplekv(r=2,gamma=4)", "ripplekv", 0.09),
    ("ripplekv(r=16,gamma=2)", "ripplekv", 0.3),
    ("ripplekv(allocator=local-response)", "ripplekv", 0.4),
];

/// A sweep of r and gamma and other allocators beside plain ripplekv, with kept counts that follow a peak.
fn ablations(results: &Path) -> Folder {
    let folder = Folder {
        methods: METHODS_OF_ABLATIONS.to_vec(),
        budgets: vec!["10%", "20%"],
        samples: 12,
        ..Folder::quickstart()
    };
    folder.write_with(results, |cell, records| {
        let loss = METHODS_OF_ABLATIONS
            .iter()
            .find(|row| row.0 == cell.method.label)
            .map_or(0.0, |row| row.2);
        for (index, record) in records.iter_mut().enumerate() {
            let share = if cell.budget.as_deref() == Some("10%") {
                1.0
            } else {
                0.3
            };
            record.answer_kl = Some(share * loss * (0.2 + 0.03 * (index % 5) as f64));
        }
        if cell.method.name == "ripplekv" {
            for record in records {
                let layers = record.kept_per_layer.len() as f64;
                for (layer, kept) in record.kept_per_layer.iter_mut().enumerate() {
                    let shape = 1.0 - ((layer as f64 / layers - 0.4) * 1.5).abs();
                    *kept = (f64::from(*kept) * (0.4 + shape)) as u32;
                }
            }
        }
    });
    let path = results.join("cells.json");
    let mut cells: std::collections::BTreeMap<String, Cell> =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for cell in cells.values_mut() {
        let label = cell.method.label.clone();
        let number = |key: &str, default: f64| {
            let rest = label.split_once(&format!("{key}=")).map(|parts| parts.1);
            let digits = rest.map(|rest| rest.trim_end_matches(')').split(',').next().unwrap());
            digits.map_or(default, |digits| digits.parse().unwrap())
        };
        cell.method.params = match cell.method.name.as_str() {
            "full" => json!({}),
            "snapkv" => json!({"scorer": "snapkv", "allocator": "uniform", "window": 64}),
            _ if label.contains("local-response") => {
                json!({"scorer": "snapkv", "allocator": "local-response", "r": 4.0, "gamma": 4.0, "window": 64})
            }
            _ => {
                json!({"scorer": "snapkv", "allocator": "ripple", "r": number("r", 4.0), "gamma": number("gamma", 4.0), "window": 64})
            }
        };
    }
    fs::write(path, serde_json::to_string(&cells).unwrap()).unwrap();
    folder
}

#[test]
fn sweeps_and_other_allocators_become_ablations() {
    let results = TempDir::new().unwrap();
    let folder = ablations(results.path());
    let temporary = TempDir::new().unwrap();
    let out = shown("ablations", &temporary);
    let summary = write_report(&[results.path().to_owned()], &out, &folder.options()).unwrap();
    assert!(
        summary
            .terminal
            .contains("KL at 10% (n = 72): ripplekv has the lowest, "),
        "{}",
        summary.terminal
    );
    let place = out.join("smollm2-135m-instruct-q4-aware");
    let grid = fs::read_to_string(place.join("ablation.csv")).unwrap();
    let lines: Vec<&str> = grid.lines().collect();
    assert_eq!(lines[0], "budget,method,value,r,gamma 2,gamma 4,notes");
    // r = 2, 4, 16 at two budgets, scores and differences; r = 16 was not run with gamma 4.
    assert_eq!(lines.len(), 1 + 2 * 2 * 3);
    assert!(
        lines[1].starts_with("10%,ripplekv,score,2,")
            && lines[3].starts_with("10%,ripplekv,score,16,")
            && lines[6].starts_with("10%,ripplekv,minus snapkv,16,"),
        "{grid}"
    );
    assert!(lines[3].split(',').nth(5).unwrap().is_empty(), "{grid}");
    let notes = fs::read_to_string(place.join("ablation.md")).unwrap();
    assert!(
        notes.contains("Widest difference of ripplekv at 10%"),
        "{notes}"
    );
    let signals = fs::read_to_string(place.join("signal-ablation.csv")).unwrap();
    let row = |name: &str| {
        let found = signals
            .lines()
            .find(|line| line.starts_with(&format!("10%,{name}")));
        found.unwrap().to_owned()
    };
    assert!(
        row("ripplekv(allocator=local-response)").contains(",established"),
        "{signals}"
    );
    assert!(row("snapkv").contains(",uniform,"), "{signals}");
    assert!(
        !signals.contains("r=2"),
        "other settings of the same allocator are no signal ablation: {signals}"
    );
    let signals = fs::read_to_string(place.join("signal-ablation-kl.csv")).unwrap();
    assert!(
        signals.contains("using local-response instead of sensitivity raises KL by "),
        "{signals}"
    );
    for frame in ["cells.csv", "samples.csv"] {
        let text = fs::read_to_string(out.join(frame)).unwrap();
        let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        let place = header.iter().position(|name| *name == "answer_kl").unwrap();
        // `full` comes first: KL 0 on every sample.
        let first: Vec<&str> = text.lines().nth(1).unwrap().split(',').collect();
        assert_eq!(first[place], "0", "{frame}");
    }
    for figure in [
        "layer-budgets-10pct",
        "ablation-heatmap-20pct",
        "ablation-heatmap-kl-20pct",
    ] {
        assert!(place.join(format!("{figure}.png")).is_file(), "{figure}");
    }
    let kept = fs::read_to_string(place.join("layer-budgets-10pct.csv")).unwrap();
    assert_eq!(kept.lines().count(), 1 + 6 * 30);
}
