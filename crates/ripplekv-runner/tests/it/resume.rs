//! Running again: nothing twice, nothing lost.

use ripplekv_runner::exit;
use ripplekv_runner::fake::FakeLoader;
use ripplekv_runner::plan::PlanOptions;
use ripplekv_runner::run::{Event, RunOptions, StopSignal, run};
use ripplekv_runner::select::{Limit, Only};
use ripplekv_runner::store::read_run;
use ripplekv_runner::{RunnerError, fake};
use tempfile::TempDir;

use crate::pack::{self, SPEC, execute, run_spec};

fn folder(records: usize) -> TempDir {
    let folder = TempDir::new().unwrap();
    pack::write(&folder.path().join("pack"), records);
    folder
}

fn limit(count: usize) -> PlanOptions {
    PlanOptions {
        limit: Some(Limit::First(count)),
        ..PlanOptions::default()
    }
}

fn only(text: &str) -> PlanOptions {
    PlanOptions {
        only: Only::parse(&[text]).unwrap(),
        ..PlanOptions::default()
    }
}

#[test]
fn a_limited_run_is_a_part_of_the_full_one() {
    let folder = folder(10);
    let loader = FakeLoader::default();
    let first = run_spec(SPEC, folder.path(), &loader, limit(2)).unwrap();
    assert_eq!(
        (first.computed, first.left, first.exit_code()),
        (20, 0, exit::DONE)
    );
    assert_eq!(loader.calls().len(), 4, "two prompts of two tasks");
    let second = run_spec(SPEC, folder.path(), &loader, PlanOptions::default()).unwrap();
    assert_eq!((second.stored_before, second.computed), (20, 80));
    assert_eq!(loader.calls().len(), 20, "the two are computed once");
    let third = run_spec(SPEC, folder.path(), &loader, PlanOptions::default()).unwrap();
    assert_eq!((third.computed, third.exit_code()), (0, exit::DONE));
    assert_eq!(loader.loads(), 2, "nothing missing, no weights read");
}

#[test]
fn new_methods_run_alone_over_one_prefill() {
    let folder = folder(3);
    let loader = FakeLoader::default();
    run_spec(SPEC, folder.path(), &loader, only("method=full")).unwrap();
    run_spec(SPEC, folder.path(), &loader, PlanOptions::default()).unwrap();
    let cells: Vec<usize> = loader.calls().iter().map(|(_, keys)| keys.len()).collect();
    assert_eq!(cells, [1, 1, 1, 1, 1, 1, 4, 4, 4, 4, 4, 4]);
}

#[test]
fn cells_alone_have_a_prefill_each_and_the_same_records() {
    let (together, apart) = (folder(2), folder(2));
    run_spec(
        SPEC,
        together.path(),
        &FakeLoader::default(),
        PlanOptions::default(),
    )
    .unwrap();
    let loader = FakeLoader::default();
    let alone = format!("{SPEC}timing: alone\n");
    let summary = run_spec(&alone, apart.path(), &loader, PlanOptions::default()).unwrap();
    assert_eq!((summary.computed, summary.exit_code()), (20, exit::DONE));
    let calls: Vec<Vec<String>> = loader.calls().into_iter().map(|(_, keys)| keys).collect();
    assert!(calls.iter().all(|keys| keys.len() == 1));
    assert_eq!(calls.len(), 21, "one to warm up, then every cell");
    assert_eq!(calls[0], calls[1]);
    let stored = |folder: &TempDir| read_run(&folder.path().join("out")).unwrap();
    let (shared, own) = (stored(&together), stored(&apart));
    assert_eq!(shared.records, own.records);
    assert!(shared.timings.values().all(|timing| !timing.alone));
    assert!(own.timings.values().all(|timing| timing.alone));
    assert_eq!(own.timings.len(), 20);
}

#[test]
fn a_stop_finishes_the_prompt_in_hand() {
    let folder = folder(5);
    let plan = pack::plan(SPEC, folder.path(), PlanOptions::default()).unwrap();
    let loader = FakeLoader::default();
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
    let mut prompts = 0;
    let summary = run(
        &plan,
        &fake::catalog(),
        &loader,
        &options,
        &mut |event: &Event| {
            if matches!(event, Event::PromptDone { .. }) {
                prompts += 1;
                if prompts == 3 {
                    stop.set();
                }
            }
        },
    )
    .unwrap();
    assert_eq!(loader.calls().len(), 3);
    assert!(summary.interrupted);
    assert_eq!((summary.computed, summary.left), (15, 35));
    assert_eq!(summary.exit_code(), exit::INCOMPLETE);
    assert_eq!(read_run(&out).unwrap().records.len(), 15);
    let rest = run_spec(SPEC, folder.path(), &loader, PlanOptions::default()).unwrap();
    assert_eq!((rest.computed, rest.exit_code()), (35, exit::DONE));
}

#[test]
fn failed_samples_are_stored_and_tried_again_on_demand() {
    let folder = folder(4);
    let plan = pack::plan(SPEC, folder.path(), PlanOptions::default()).unwrap();
    let failing = FakeLoader::default().with_failing_word("2");
    let stop = StopSignal::default();
    let (summary, events) = execute(&plan, &failing, folder.path(), &stop, false).unwrap();
    assert_eq!(
        (summary.computed, summary.failed),
        (40, 10),
        "sample 2 of two tasks"
    );
    assert_eq!(summary.exit_code(), exit::FAILED_SAMPLES);
    assert!(events.iter().any(|event| matches!(
        event,
        Event::SampleFailed { sample, error, .. }
            if sample == "logbook_qa-2" && error == "the failing word is in it"
    )));
    let again = FakeLoader::default();
    let (summary, _) = execute(&plan, &again, folder.path(), &stop, false).unwrap();
    assert_eq!(
        (summary.computed, summary.failed, again.calls().len()),
        (0, 10, 0)
    );
    let (summary, _) = execute(&plan, &failing, folder.path(), &stop, true).unwrap();
    assert_eq!(
        (summary.computed, summary.failed, summary.left),
        (10, 10, 0),
        "tried once, not forever"
    );
    let (summary, _) = execute(&plan, &again, folder.path(), &stop, true).unwrap();
    assert_eq!(
        (summary.computed, summary.failed, again.calls().len()),
        (10, 0, 2)
    );
    assert_eq!(summary.exit_code(), exit::DONE);
    let stored = read_run(&folder.path().join("out")).unwrap();
    assert!(stored.records.iter().all(|record| record.error.is_none()));
}

#[test]
fn another_model_under_the_same_name_is_refused() {
    let folder = folder(3);
    run_spec(SPEC, folder.path(), &FakeLoader::default(), limit(1)).unwrap();
    let other = FakeLoader::default().with_weights("other");
    let error = run_spec(SPEC, folder.path(), &other, PlanOptions::default()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("model 'tiny': its weights' hash was")
            && text.contains("hint: restore what it was"),
        "{text}"
    );
    assert_eq!(error.exit_code(), exit::SPEC_OR_DATA);
    assert_eq!(other.calls().len(), 0);
}

#[test]
fn nothing_selected_says_so() {
    let folder = folder(3);
    let loader = FakeLoader::default();
    let error = run_spec(SPEC, folder.path(), &loader, only("method=nothing")).unwrap_err();
    assert!(matches!(error, RunnerError::NothingSelected(_)), "{error}");
    assert_eq!(error.exit_code(), exit::NOTHING_SELECTED);
    let beyond = PlanOptions {
        limit: Some(Limit::Range(50, 60)),
        ..PlanOptions::default()
    };
    let error = run_spec(SPEC, folder.path(), &loader, beyond).unwrap_err();
    assert_eq!(error.exit_code(), exit::NOTHING_SELECTED, "{error}");
}
