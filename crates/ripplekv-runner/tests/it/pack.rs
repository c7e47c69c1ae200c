//! Small packs of our own tasks, written into a temporary folder, and the usual steps over them.

use std::path::Path;

use ripplekv_runner::RunnerError;
use ripplekv_runner::fake::{self, FakeLoader};
use ripplekv_runner::plan::{Plan, PlanOptions};
use ripplekv_runner::run::{Event, RunOptions, RunSummary, StopSignal, run};
use ripplekv_runner::spec::Spec;

/// A spec over the two tasks of [`write`].
pub(crate) const SPEC: &str = "
schema: 1
name: demo
models: [tiny]
tasks: {include: [logbook_qa, ticket_class]}
budgets: [25%, 50%]
methods: [full, streaming-llm, snapkv]
";

/// Writes a pack: `records` records each of `logbook_qa` and `ticket_class`.
pub(crate) fn write(folder: &Path, records: usize) {
    std::fs::create_dir_all(folder.join("config")).unwrap();
    std::fs::create_dir_all(folder.join("data")).unwrap();
    std::fs::write(
        folder.join("config/dataset2prompt.json"),
        r#"{"logbook_qa": "Read. {context} Question: {input} Answer:", "ticket_class": "{context} {input}"}"#,
    )
    .unwrap();
    std::fs::write(
        folder.join("config/dataset2maxlen.json"),
        r#"{"logbook_qa": 6, "ticket_class": 6}"#,
    )
    .unwrap();
    for task in ["logbook_qa", "ticket_class"] {
        let lines: String = (0..records).map(|number| line(task, number)).collect();
        std::fs::write(folder.join(format!("data/{task}.jsonl")), lines).unwrap();
    }
}

/// One record of 60 to 100 words.
pub(crate) fn line(task: &str, number: usize) -> String {
    let words: Vec<String> = (0..60 + number % 5 * 10)
        .map(|word| format!("w{}", (word * 7 + number) % 40))
        .collect();
    let record = serde_json::json!({
        "input": format!("where is thing {number}?"),
        "context": words.join(" "),
        "answers": [format!("w{}", number % 40)],
        "length": words.len(),
        "dataset": task,
        "language": "en",
        "all_classes": ["w1", "w2"],
        "_id": format!("{task}-{number}"),
    });
    format!("{record}\n")
}

/// Plans `spec` over the pack in `folder/pack`.
pub(crate) fn plan(spec: &str, folder: &Path, options: PlanOptions) -> Result<Plan, RunnerError> {
    let spec = Spec::parse(spec, Some(Path::new("demo.yaml")), &[])?;
    let options = PlanOptions {
        calibration: folder.join("calibration"),
        ..options
    };
    Plan::new(&spec, &fake::catalog(), &folder.join("pack"), options)
}

/// Runs a plan into `folder/out`; gives the events too.
pub(crate) fn execute(
    plan: &Plan,
    loader: &FakeLoader,
    folder: &Path,
    stop: &StopSignal,
    retry_failed: bool,
) -> Result<(RunSummary, Vec<Event>), RunnerError> {
    let mut events = Vec::new();
    let (out, home) = (folder.join("out"), folder.join("home"));
    let options = RunOptions {
        out: &out,
        home: &home,
        retry_failed,
        stop,
        segmenter: None,
        program_version: "test",
        only_stages: false,
    };
    let summary = run(
        plan,
        &fake::catalog(),
        loader,
        &options,
        &mut |event: &Event| {
            events.push(event.clone());
        },
    )?;
    Ok((summary, events))
}

/// Plans and runs in one go, without interruption.
pub(crate) fn run_spec(
    spec: &str,
    folder: &Path,
    loader: &FakeLoader,
    options: PlanOptions,
) -> Result<RunSummary, RunnerError> {
    let plan = plan(spec, folder, options)?;
    execute(&plan, loader, folder, &StopSignal::default(), false).map(|(summary, _)| summary)
}
