//! The profile stage in a run: measured once, resumed, stopped early, and part of the cells that use it.

use std::path::Path;

use ripplekv_runner::RunnerError;
use ripplekv_runner::exit;
use ripplekv_runner::fake::FakeLoader;
use ripplekv_runner::plan::{Plan, PlanOptions};
use ripplekv_runner::profile::{ProfileDocument, profile_path, read_profile};
use ripplekv_runner::run::{Event, RunOptions, RunSummary, StopSignal, run};
use ripplekv_runner::store::read_run;
use tempfile::TempDir;

use crate::pack::{self, execute};

/// One method that needs a profile and one that does not.
pub(crate) const RIPPLE: &str = "
schema: 1
name: demo
models: [tiny]
tasks: {include: [logbook_qa, ticket_class]}
budgets: [25%, 50%]
methods: [full, snapkv, ripplekv]
profile: {samples: 6, sigma_samples: 2, answer_tokens: 5}
";

/// Three records a task to run, and `records` records a task to calibrate on.
pub(crate) fn folder(records: usize) -> TempDir {
    let folder = TempDir::new().unwrap();
    pack::write(&folder.path().join("pack"), 3);
    pack::write(&folder.path().join("calibration"), records);
    folder
}

fn plan(spec: &str, folder: &TempDir) -> Plan {
    pack::plan(spec, folder.path(), PlanOptions::default()).unwrap()
}

fn run_all(
    spec: &str,
    folder: &TempDir,
    loader: &FakeLoader,
) -> Result<(RunSummary, Vec<Event>), RunnerError> {
    let plan = plan(spec, folder);
    execute(&plan, loader, folder.path(), &StopSignal::default(), false)
}

pub(crate) fn stored(folder: &Path) -> ProfileDocument {
    read_profile(&profile_path(&folder.join("out"), "tiny")).unwrap()
}

#[test]
fn a_run_profiles_first_and_only_where_a_method_needs_it() {
    let folder = folder(4);
    let loader = FakeLoader::default();
    let (summary, events) = run_all(RIPPLE, &folder, &loader).unwrap();
    assert_eq!((summary.computed, summary.exit_code()), (30, exit::DONE));
    assert_eq!(loader.loads(), 1, "one engine for profile and cells");
    let names: Vec<String> = loader
        .measured()
        .iter()
        .map(|(name, sigmas, signals)| format!("{name} {sigmas} {signals}"))
        .collect();
    let in_turn = [
        "logbook_qa/logbook_qa-0",
        "ticket_class/ticket_class-0",
        "logbook_qa/logbook_qa-1",
        "ticket_class/ticket_class-1",
        "logbook_qa/logbook_qa-2",
        "ticket_class/ticket_class-2",
    ];
    let mut expected: Vec<String> = in_turn[..2]
        .iter()
        .map(|name| format!("{name} 5 false"))
        .collect();
    expected.extend(in_turn.iter().map(|name| format!("{name} 1 true")));
    assert_eq!(names, expected, "two samples on the ladder, then all alone");
    let document = stored(folder.path());
    assert_eq!(document.sigma.chosen, 0.1, "quadratic up to there");
    assert_eq!(document.samples.len(), 6);
    let order: Vec<usize> = {
        let means = document.mean_sensitivity();
        let mut layers: Vec<usize> = (0..means.len()).collect();
        layers.sort_by(|a, b| means[*a].total_cmp(&means[*b]));
        layers
    };
    assert_eq!(order, [0, 2, 3, 1], "as the fake makes them up");
    assert!(document.sensitivity.iter().all(|layer| {
        layer.low <= layer.mean && layer.mean <= layer.high && layer.low < layer.high
    }));
    assert!(document.reliability.unwrap().spearman_brown > 0.9);

    let place = |wanted: fn(&Event) -> bool| events.iter().position(wanted).unwrap();
    let predicted = place(|event| matches!(event, Event::PredictedRatio { .. }));
    assert!(predicted < place(|event| matches!(event, Event::PromptDone { .. })));
    let ratios = events.iter().filter_map(|event| match event {
        Event::PredictedRatio {
            exponent, ratio, ..
        } => Some((*exponent, ratio.unwrap())),
        _ => None,
    });
    assert_eq!(
        ratios.clone().map(|(e, _)| e).collect::<Vec<_>>(),
        [0.5, 1.0, 2.0]
    );
    assert!(ratios.clone().all(|(_, ratio)| ratio < 0.98));

    let results = read_run(&folder.path().join("out")).unwrap();
    for record in &results.records {
        let needs = results.cells[&record.cell].method.name == "ripplekv";
        let hash = needs.then(|| document.content_hash.clone());
        assert_eq!(record.profile_hash, hash);
    }
    let log = std::fs::read_to_string(folder.path().join("out/log.jsonl")).unwrap();
    assert!(log.contains("profile-sample-done") && !log.contains("profile-layer"));
}

#[test]
fn without_such_a_method_nothing_is_profiled() {
    let folder = folder(4);
    let spec = RIPPLE.replace(", ripplekv", "");
    std::fs::remove_dir_all(folder.path().join("calibration")).unwrap();
    let loader = FakeLoader::default();
    run_all(&spec, &folder, &loader).unwrap();
    assert_eq!(loader.measured(), []);
    assert!(!folder.path().join("out/profiles").exists());
}

#[test]
fn the_recipe_is_part_of_the_keys_that_use_it_and_of_no_other() {
    let folder = folder(4);
    let keys = |spec: &str, name: &str| -> Vec<String> {
        plan(spec, &folder)
            .cells
            .iter()
            .filter(|cell| cell.method.name == name)
            .map(|cell| cell.key.to_string())
            .collect()
    };
    let plain = RIPPLE.replace(", ripplekv", "");
    assert_eq!(keys(&plain, "snapkv"), keys(RIPPLE, "snapkv"));
    assert_eq!(keys(&plain, "full"), keys(RIPPLE, "full"));
    for other in [
        RIPPLE.replace("samples: 6", "samples: 5"),
        RIPPLE.replace("answer_tokens: 5", "answer_tokens: 5, seed: 1"),
        RIPPLE.replace("answer_tokens: 5", "answer_tokens: 5, positions: evictable"),
        RIPPLE.replace("answer_tokens: 5", "answer_tokens: 5, sigma: 0.1"),
        RIPPLE.replace(
            "answer_tokens: 5",
            "answer_tokens: 5, stop_at_reliability: 0.9",
        ),
    ] {
        assert_ne!(
            keys(&other, "ripplekv"),
            keys(RIPPLE, "ripplekv"),
            "{other}"
        );
        assert_eq!(keys(&other, "snapkv"), keys(RIPPLE, "snapkv"));
    }
    let before = keys(RIPPLE, "ripplekv");
    pack::write(&folder.path().join("calibration"), 5);
    assert_ne!(
        keys(RIPPLE, "ripplekv"),
        before,
        "other calibration records"
    );
}

/// Runs until so many samples are measured, then asks to stop.
fn stop_after(samples: usize, folder: &TempDir, loader: &FakeLoader) -> RunSummary {
    let plan = plan(RIPPLE, folder);
    let stop = StopSignal::default();
    let (out, home) = (folder.path().join("out"), folder.path().join("home"));
    let options = RunOptions {
        out: &out,
        home: &home,
        retry_failed: false,
        stop: &stop,
        segmenter: None,
        program_version: "test",
        only_stages: false,
    };
    let catalog = ripplekv_runner::fake::catalog();
    let mut done = 0;
    run(&plan, &catalog, loader, &options, &mut |event: &Event| {
        if matches!(event, Event::ProfileSampleDone { .. }) {
            done += 1;
            if done == samples {
                stop.set();
            }
        }
    })
    .unwrap()
}

fn partial(folder: &Path) -> Option<std::path::PathBuf> {
    let models = std::fs::read_dir(folder.join("home/profiles")).unwrap();
    let files = models.flat_map(|model| std::fs::read_dir(model.unwrap().path()).unwrap());
    files
        .map(|file| file.unwrap().path())
        .find(|path| path.to_string_lossy().ends_with(".partial.jsonl"))
}

#[test]
fn a_stopped_or_killed_profile_goes_on_and_ends_in_the_same_bytes() {
    let whole = folder(4);
    run_all(RIPPLE, &whole, &FakeLoader::default()).unwrap();
    let path = profile_path(&whole.path().join("out"), "tiny");
    let expected = std::fs::read(&path).unwrap();

    let folder = folder(4);
    let loader = FakeLoader::default();
    let summary = stop_after(3, &folder, &loader);
    assert!(summary.interrupted);
    assert_eq!((summary.computed, summary.left), (0, 30));
    assert_eq!(summary.exit_code(), exit::INCOMPLETE);
    assert_eq!(loader.measured().len(), 2 + 3);
    // a kill in the middle of a line
    let file = partial(folder.path()).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &text[..text.len() - 20]).unwrap();
    let again = FakeLoader::default();
    let (summary, events) = run_all(RIPPLE, &folder, &again).unwrap();
    assert_eq!(summary.exit_code(), exit::DONE);
    assert_eq!(again.measured().len(), 4, "the cut sample and three more");
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::ProfileStarted { done: 2, .. }))
    );
    let path = profile_path(&folder.path().join("out"), "tiny");
    assert_eq!(std::fs::read(path).unwrap(), expected);
    assert_eq!(partial(folder.path()), None);
}

#[test]
fn a_profile_is_shared_by_experiments_through_the_cache() {
    let folder = folder(4);
    run_all(RIPPLE, &folder, &FakeLoader::default()).unwrap();
    let path = profile_path(&folder.path().join("out"), "tiny");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_dir_all(folder.path().join("out")).unwrap();
    let loader = FakeLoader::default();
    let (_, events) = run_all(RIPPLE, &folder, &loader).unwrap();
    assert_eq!(loader.measured(), []);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert!(
        events.iter().any(
            |event| matches!(event, Event::ProfileFound { from, .. } if from.contains("home"))
        )
    );
    // another model of the same name has another cache folder
    std::fs::remove_dir_all(folder.path().join("out")).unwrap();
    let other = FakeLoader::default().with_weights("other");
    run_all(RIPPLE, &folder, &other).unwrap();
    assert_eq!(other.measured().len(), 8);
}

#[test]
fn sampling_stops_at_the_wanted_reliability() {
    let folder = folder(8);
    let spec = RIPPLE.replace("samples: 6", "samples: 16, stop_at_reliability: 0.9");
    let loader = FakeLoader::default();
    let (_, events) = run_all(&spec, &folder, &loader).unwrap();
    let document = stored(folder.path());
    assert!(document.stopped_early);
    assert_eq!(document.samples.len(), 4, "two whole rounds over two tasks");
    assert!(events.iter().any(|event| matches!(
        event,
        Event::ProfileFinished {
            stopped_early: true,
            samples: 4,
            ..
        }
    )));
}

#[test]
fn samples_that_cannot_be_used_are_named() {
    let calibration = folder(4);
    let spec = RIPPLE.replace("samples: 6", "samples: 8");
    let loader = FakeLoader::default().with_failing_word("2?");
    let failing = run_all(&spec, &calibration, &loader);
    // what the engine fails on is no property of the sample: it stops the profile and is not kept
    let message = failing.unwrap_err().to_string();
    assert!(
        message.contains("logbook_qa-2") && message.contains("the failing word is in it"),
        "{message}"
    );
    assert!(!profile_path(&calibration.path().join("out"), "tiny").exists());

    // longer than the fake's context of 4,096 tokens: only one sample is left
    let folder = folder(1);
    let long = vec!["w1"; 5000].join(" ");
    let path = folder.path().join("calibration/data/ticket_class.jsonl");
    let line = pack::line("ticket_class", 0);
    let mut record: serde_json::Value = serde_json::from_str(&line).unwrap();
    record["context"] = serde_json::json!(long);
    std::fs::write(path, format!("{record}\n")).unwrap();
    let spec = RIPPLE.replace("answer_tokens: 5", "answer_tokens: 900");
    let error = run_all(&spec, &folder, &FakeLoader::default()).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.exit_code(), exit::SPEC_OR_DATA);
    assert!(
        text.starts_with("model 'tiny': 1 of 2 calibration samples can be used, a profile needs 2; 'ticket_class/ticket_class-0': the prompt of ")
            && text.contains(" and 900 answer tokens are longer than the context of 4096 tokens\nhint: "),
        "{text}"
    );
}

#[test]
fn a_spec_without_methods_runs_its_stages_alone() {
    let folder = folder(4);
    let spec = RIPPLE.replace("methods: [full, snapkv, ripplekv]", "damage: {}");
    let loader = FakeLoader::default();
    let (summary, _) = run_all(&spec, &folder, &loader).unwrap();
    assert_eq!((summary.computed, summary.exit_code()), (0, exit::DONE));
    let asked: Vec<Vec<String>> = loader.calls().into_iter().map(|(_, keys)| keys).collect();
    // the six records twice: layers alone, then all at once
    assert_eq!(asked[..6], vec![vec!["damage".to_owned()]; 6]);
    assert_eq!(asked[6..], vec![vec!["joint damage".to_owned()]; 6]);
    assert_eq!(stored(folder.path()).samples.len(), 6);
}

#[test]
fn without_signals_the_sensitivity_is_the_same() {
    let (bare, whole) = (folder(4), folder(4));
    let spec = RIPPLE.replace("samples: 6", "samples: 6, signals: false");
    let loader = FakeLoader::default();
    run_all(&spec, &bare, &loader).unwrap();
    assert!(loader.measured().iter().all(|(_, _, signals)| !signals));
    run_all(RIPPLE, &whole, &FakeLoader::default()).unwrap();
    let [text, other] = [&bare, &whole].map(|folder| {
        std::fs::read_to_string(profile_path(&folder.path().join("out"), "tiny")).unwrap()
    });
    for field in ["window_entropy", "hidden_change", "all_layers_kl"] {
        assert_eq!(
            (text.contains(field), other.contains(field)),
            (false, true),
            "{field}"
        );
    }
    assert_eq!(
        (
            text.contains("\"signals\": false"),
            other.contains("signals")
        ),
        (true, false),
        "the default is not written, so that recipes keep their hashes"
    );
    let (bare, whole) = (stored(bare.path()), stored(whole.path()));
    assert_eq!(bare.sensitivity, whole.sensitivity);
    assert_eq!(bare.sigma, whole.sigma);
    assert_ne!(bare.recipe_hash, whole.recipe_hash);
}

#[test]
fn calibrating_on_the_benchmark_is_warned_of() {
    let folder = folder(3);
    let warnings = plan(RIPPLE, &folder).warnings;
    assert_eq!(warnings.len(), 2, "the same two record files: {warnings:?}");
    assert!(warnings[0].contains("task 'logbook_qa' has the records of the calibration pack"));
}
