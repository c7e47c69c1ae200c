//! Every figure with data that strains its layout: texts must neither overlap nor leave the picture.

use ripplekv_runner::kept::KeptBits;
use ripplekv_runner::record::Timing;
use serde_json::json;

use crate::figures::scene::check::texts_are_readable;
use crate::figures::{Build, FIGURES, Figure, FigureInfo, png, svg};
use crate::group::Group;
use crate::made_up;
use crate::options::ReportOptions;
use crate::read::CellSamples;
use crate::shown::KeptPrompt;

/// Made-up group: `full` and the given methods, each budget a little better than the one before.
fn group(tasks: &[String], budgets: &[&str], methods: &[String], samples: u64) -> Group {
    grouped(cells(tasks, budgets, methods, samples))
}

fn cells(tasks: &[String], budgets: &[&str], methods: &[String], samples: u64) -> Vec<CellSamples> {
    let mut cells = Vec::new();
    for task in tasks {
        cells.push(cell(task, "full", None, 0.9, samples));
        for (place, method) in methods.iter().enumerate() {
            for (size, budget) in budgets.iter().enumerate() {
                let level = 0.2 + 0.07 * place as f64 + 0.05 * size as f64;
                cells.push(cell(task, method, Some(budget), level, samples));
            }
        }
    }
    cells
}

fn grouped(cells: Vec<CellSamples>) -> Group {
    made_up::group(cells, &options())
}

fn options() -> ReportOptions {
    ReportOptions {
        bootstrap_resamples: 50,
        ..ReportOptions::default()
    }
}

fn cell(task: &str, method: &str, budget: Option<&str>, level: f64, samples: u64) -> CellSamples {
    let model = "a-model-with-a-rather-long-name-of-its-own-8b-instruct";
    let values: Vec<(f64, Option<f64>)> = (0..samples)
        .map(|index| {
            let score = (level + 0.02 * (index % 5) as f64).min(1.0);
            (score, Some(0.02 * (1.0 - score)))
        })
        .collect();
    made_up::with_samples(made_up::cell(model, task, method, budget), &values)
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|index| format!("{prefix}{index}")).collect()
}

fn assert_all_readable(group: &Group, least: usize) {
    let mut drawn = 0;
    for info in FIGURES {
        let Build::Group(build) = &info.build else {
            continue;
        };
        for figure in build(group, &options()) {
            texts_are_readable(&figure.scene);
            for row in &figure.data.rows {
                assert_eq!(row.len(), figure.data.header.len(), "{}", info.name);
            }
            assert!(!figure.data.rows.is_empty() && !figure.description.is_empty());
            drawn += 1;
        }
    }
    assert_eq!(drawn, least);
}

fn first_figure(group: &Group) -> Figure {
    let Build::Group(build) = &FIGURES[0].build else {
        panic!("the first figure is about scores");
    };
    build(group, &options()).remove(0)
}

#[test]
fn one_of_everything() {
    let group = group(&names("t", 1), &["10%"], &names("m", 1), 1);
    assert_all_readable(&group, 3);
}

#[test]
fn twelve_methods_with_long_labels_and_sixteen_tasks() {
    let methods = names(
        "ripplekv(r=8,gamma=4,center=geometric,profile=calibration-large)-",
        12,
    );
    let group = group(
        &names("passage_retrieval_with_a_long_name_", 16),
        &["10%", "20%", "30%"],
        &methods,
        5,
    );
    assert_all_readable(&group, 7);
}

#[test]
fn many_budgets_close_together() {
    let budgets = [
        "1%", "1.5%", "2%", "2.5%", "3%", "3.5%", "4%", "90%", "95%", "100%",
    ];
    assert_all_readable(&group(&names("t", 3), &budgets, &names("m", 3), 4), 21);
}

#[test]
fn all_kinds_of_budgets_and_names_outside_latin() {
    let budgets = ["10%", "64", "128", "4096", "16MiB", "1GiB", "odd"];
    let methods = vec!["方法".to_owned(), "<b>&\"\u{7}".to_owned()];
    let group = group(&names("t", 2), &budgets, &methods, 3);
    assert_all_readable(&group, 4 + 7 + 7);
    let figure = first_figure(&group);
    let text = svg(&figure.scene).unwrap();
    assert!(text.contains("&lt;b&gt;&amp;") && !text.contains('\u{7}'));
}

/// The same cells, timed: every sample a thousand tokens longer than the one before.
fn timed(mut cells: Vec<CellSamples>, alone: bool) -> Group {
    for data in &mut cells {
        for sample in &mut data.samples {
            sample.record.prompt_tokens = 1000 * (sample.record.index + 1);
            sample.timing = Some(Timing {
                cell: data.cell.key.clone(),
                sample: sample.record.sample.clone(),
                prefill_ms: 2.0 * sample.record.prompt_tokens as f64,
                compress_ms: 30.0,
                decode_ms: 470.0,
                peak_rss_bytes: 900_000_000,
                alone,
            });
        }
    }
    grouped(cells)
}

#[test]
fn costs_against_prompt_length_are_readable() {
    let efficiency = |group: &Group| -> Vec<Figure> {
        let kinds = FIGURES
            .iter()
            .filter(|info| info.name.starts_with("efficiency-"));
        let build = |info: &FigureInfo| match &info.build {
            Build::Group(build) => build(group, &options()),
            _ => Vec::new(),
        };
        kinds.flat_map(build).collect()
    };
    for (budgets, methods) in [(1, 1), (3, 4), (5, 12)] {
        let texts: Vec<String> = (1..=budgets).map(|place| format!("{place}0%")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let cells = cells(&names("t", 2), &texts, &names("a-method-", methods), 4);
        let figures = efficiency(&timed(cells.clone(), true));
        assert_eq!(figures.len(), 4);
        for figure in &figures {
            texts_are_readable(&figure.scene);
            // the full cache stands in every panel; two tasks have a prompt of each length
            assert_eq!(figure.data.rows.len(), 4 * budgets * (methods + 1));
            assert!(figure.data.rows.iter().all(|row| row[4] == "2"));
        }
        let values = |place: usize| -> Vec<&str> {
            let rows = &figures[place].data.rows[..2];
            rows.iter().map(|row| row[3].as_str()).collect()
        };
        assert_eq!(values(0), ["2.5000", "4.5000"], "seconds");
        assert_eq!(values(1)[0], "14.8936", "7 steps in 470 ms");
        assert_eq!(values(2)[0], "900.0000", "MB");
        assert!(efficiency(&timed(cells, false)).is_empty(), "shared times");
    }
}

#[test]
fn a_sweep_with_holes_is_readable() {
    let mut group = group(&names("t", 2), &["10%"], &names("ripplekv#", 5), 4);
    let settings = [("1", 1.5), ("2", 1.5), ("16", 2.0), ("0.5", 4.0)];
    for ((label, _, _), cell) in &mut group.cells {
        let place = label
            .strip_prefix("ripplekv#")
            .and_then(|text| text.parse::<usize>().ok());
        if let Some((r, gamma)) = place.and_then(|place| settings.get(place)) {
            cell.cell.method.name = "ripplekv".to_owned();
            cell.cell.method.params = json!({"r": r, "gamma": gamma, "scorer": "snapkv"});
        }
    }
    // The heat maps of the sweep by score and by KL come on top of score, dumbbell and budgets.
    assert_all_readable(&group, 5);
    let heatmap = |name: &str| {
        let info = FIGURES.iter().find(|info| info.name == name).unwrap();
        let Build::Group(build) = &info.build else {
            panic!("{name} is about a group");
        };
        build(&group, &options()).remove(0).data
    };
    let (scores, kls) = (heatmap("ablation-heatmap"), heatmap("ablation-heatmap-kl"));
    assert_eq!((scores.header[4], kls.header[4]), ("score", "answer_kl"));
    // By construction the best score has the lowest KL: 0.02 nats less each point in 100.
    for (score, kl) in scores.rows.iter().zip(&kls.rows) {
        let (score, kl): (f64, f64) = (score[4].parse().unwrap(), kl[4].parse().unwrap());
        assert!(
            (kl - 0.02 * (1.0 - score / 100.0)).abs() < 1e-6,
            "{score} {kl}"
        );
    }
}

/// A prompt of which every method keeps the first entry and each layer's share of the rest from the end.
fn kept_prompt(layers: usize, heads: usize, tokens: usize, methods: &[String]) -> KeptPrompt {
    let sets = |place: usize| {
        let from = |layer: usize| {
            tokens.saturating_sub((layer + place + 1) * tokens / (2 * layers + place + 1))
        };
        let head_set = |layer: usize| {
            let kept = (0..tokens).filter(|position| *position == 0 || *position >= from(layer));
            kept.map(|position| position as u32).collect::<Vec<u32>>()
        };
        (0..layers)
            .map(|layer| vec![head_set(layer); heads])
            .collect()
    };
    let of_method = |(place, label): (usize, &String)| {
        (
            label.clone(),
            place,
            KeptBits::new(&sets(place), tokens).unwrap(),
        )
    };
    KeptPrompt {
        group: "a model, query aware".to_owned(),
        task: "passage_retrieval_with_a_long_name".to_owned(),
        sample: "<b>&\"\u{7} ".repeat(20),
        budget: "10%".to_owned(),
        methods: methods.iter().enumerate().map(of_method).collect(),
    }
}

#[test]
fn kept_positions_of_short_and_long_prompts_are_readable() {
    let long = names(
        "ripplekv(r=8,gamma=4,center=geometric,profile=calibration-large)-",
        7,
    );
    for (layers, heads, tokens, methods) in [
        (1, 1, 1, &names("m", 1)),
        (4, 2, 30, &names("m", 2)),
        (30, 3, 2_380, &names("m", 4)),
        (126, 1, 31_500, &long),
    ] {
        let prompt = kept_prompt(layers, heads, tokens, methods);
        for info in FIGURES {
            let Build::Kept(build) = &info.build else {
                continue;
            };
            let figure = build(&prompt).remove(0);
            texts_are_readable(&figure.scene);
            let share = |row: &Vec<String>| row[4].parse::<f64>().unwrap();
            assert!(
                figure
                    .data
                    .rows
                    .iter()
                    .all(|row| (0.0..=1.0).contains(&share(row)))
            );
            // counted back from the bins, the figure shows as many entries as are kept
            let shown: f64 = figure
                .data
                .rows
                .iter()
                .map(|row| {
                    let width = row[3].parse::<f64>().unwrap() - row[2].parse::<f64>().unwrap();
                    share(row) * width * heads as f64
                })
                .sum();
            let kept: usize = prompt
                .methods
                .iter()
                .map(|(_, _, bits)| bits.sets().iter().flatten().map(Vec::len).sum::<usize>())
                .sum();
            assert!(
                (shown / kept as f64 - 1.0).abs() < 1e-3,
                "{shown} shown of {kept}"
            );
        }
    }
    let nothing = kept_prompt(0, 0, 10, &names("m", 1));
    assert!(FIGURES.iter().all(|info| match &info.build {
        Build::Kept(build) => build(&nothing).is_empty(),
        _ => true,
    }));
}

#[test]
fn layers_of_a_small_and_of_a_deep_model_are_readable() {
    for (layers, budgets) in [(1, 1), (2, 2), (30, 3), (126, 9)] {
        let evidence = crate::evidence::tests::made_up(layers, budgets);
        let mut drawn = 0;
        for info in FIGURES {
            let Build::Layers(build) = &info.build else {
                continue;
            };
            for figure in build(&evidence) {
                texts_are_readable(&figure.scene);
                assert!(!figure.data.rows.is_empty() && !figure.description.is_empty());
                drawn += 1;
            }
        }
        assert_eq!(drawn, 1 + budgets, "{layers} layers");
    }
}

#[test]
fn several_models_have_a_panel_each_and_their_greatest_layer_is_one() {
    let build = FIGURES.iter().find_map(|info| match &info.build {
        Build::Models(build) => Some(build),
        _ => None,
    });
    let build = build.unwrap();
    let model = |name: &str, layers, budgets| {
        let mut evidence = crate::evidence::tests::made_up(layers, budgets);
        evidence.model = name.to_owned();
        evidence
    };
    let long = "a-model-with-a-rather-long-name-of-its-own-and-more-of-it-8b-instruct";
    let models = [
        model("one", 30, 2),
        model(long, 126, 1),
        model("without-damage", 2, 0),
    ];
    assert!(
        build(&models[..1]).is_empty(),
        "one model has its own figure"
    );
    let figure = &build(&models)[0];
    texts_are_readable(&figure.scene);
    let text = svg(&figure.scene).unwrap();
    assert!(text.contains("\none (n = ") && text.contains("\ndamage at "));
    for name in ["one", long, "without-damage"] {
        let shares = figure.data.rows.iter().filter(|row| row[0] == name);
        let greatest = shares.map(|row| row[4].parse::<f64>().unwrap());
        assert_eq!(greatest.fold(0.0, f64::max), 1.0, "{name}");
    }
}

#[test]
fn pictures_repeat_byte_for_byte_and_hold_something() {
    let group = group(&names("t", 2), &["10%", "20%"], &names("m", 2), 4);
    let figure = first_figure(&group);
    assert_eq!(svg(&figure.scene).unwrap(), svg(&figure.scene).unwrap());
    let folder = tempfile::TempDir::new().unwrap();
    let paths = [folder.path().join("a.png"), folder.path().join("b.png")];
    for path in &paths {
        png(&figure.scene, path).unwrap();
    }
    let [first, second] = paths.map(|path| std::fs::read(path).unwrap());
    assert_eq!(first, second);
    assert!(
        first.len() > 10_000,
        "{} bytes: an empty picture?",
        first.len()
    );
}
