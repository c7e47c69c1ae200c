//! What a cell key depends on, and what it does not.

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::{ProptestConfig, any, proptest};
use proptest::{prop_assert_eq, prop_assert_ne};
use ripplekv_runner::cell::CellKey;
use ripplekv_runner::fake;
use ripplekv_runner::plan::{Plan, PlanOptions};
use ripplekv_runner::select::Limit;
use ripplekv_runner::spec::Spec;
use tempfile::TempDir;

use crate::pack::{self, SPEC};

fn keys(spec: &str, pack: &Path, options: PlanOptions) -> Vec<CellKey> {
    let spec = Spec::parse(spec, None, &[]).unwrap();
    let plan = Plan::new(&spec, &fake::catalog(), pack, options).unwrap();
    plan.cells.into_iter().map(|cell| cell.key).collect()
}

fn pack() -> TempDir {
    let folder = TempDir::new().unwrap();
    pack::write(folder.path(), 2);
    folder
}

#[test]
fn full_is_one_cell_and_duplicates_are_one() {
    let folder = pack();
    let found = keys(SPEC, folder.path(), PlanOptions::default());
    assert_eq!(
        found.len(),
        2 * (1 + 2 * 2),
        "two tasks; full once, two methods at two budgets"
    );
    let repeated = SPEC.replace("[25%, 50%]", "[25%, 50%, 25%]").replace(
        "snapkv]",
        "snapkv, snapkv, full, {name: snapkv, params: {window: 8}}]",
    );
    assert_eq!(
        keys(&repeated, folder.path(), PlanOptions::default()),
        found
    );
    let unique: BTreeSet<&CellKey> = found.iter().collect();
    assert_eq!(unique.len(), found.len());
}

#[test]
fn a_list_is_a_sweep() {
    let folder = pack();
    let spec = SPEC.replace(
        "methods: [full, streaming-llm, snapkv]",
        "methods: [{name: snapkv, params: {window: [4, 8], kernel: [3, 5]}}]",
    );
    let spec = Spec::parse(&spec, None, &[]).unwrap();
    let plan = Plan::new(
        &spec,
        &fake::catalog(),
        folder.path(),
        PlanOptions::default(),
    )
    .unwrap();
    let labels: Vec<&str> = plan
        .cells_of("tiny", "logbook_qa")
        .filter(|cell| cell.budget.as_deref() == Some("25%"))
        .map(|cell| cell.method.label.as_str())
        .collect();
    assert_eq!(
        labels,
        [
            "snapkv(window=4,kernel=3)",
            "snapkv(window=4,kernel=5)",
            "snapkv(window=8,kernel=3)",
            "snapkv(window=8,kernel=5)"
        ]
    );
}

#[test]
fn what_changes_the_output_changes_every_key() {
    let folder = pack();
    let before = keys(SPEC, folder.path(), PlanOptions::default());
    for spec in [
        format!("{SPEC}protocol: {{chat_template: off}}\n"),
        format!("{SPEC}protocol: {{max_context: 64}}\n"),
        format!("{SPEC}protocol: {{min_new_tokens: 1}}\n"),
        SPEC.replace("[tiny]", "[absent]"),
    ] {
        let after = keys(&spec, folder.path(), PlanOptions::default());
        assert!(before.iter().all(|key| !after.contains(key)), "{spec}");
    }
    // what touches compressed cells only leaves `full` alone
    let after = keys(
        &format!("{SPEC}protocol: {{short_prompts: full}}\n"),
        folder.path(),
        PlanOptions::default(),
    );
    let same = before.iter().filter(|key| after.contains(key)).count();
    assert_eq!(same, 2, "`full` of two tasks");
    // other data is another cell
    std::fs::write(
        folder.path().join("data/logbook_qa.jsonl"),
        pack::line("logbook_qa", 9),
    )
    .unwrap();
    let after = keys(SPEC, folder.path(), PlanOptions::default());
    let same = before.iter().filter(|key| after.contains(key)).count();
    assert_eq!(same, before.len() / 2, "the other task's");
}

#[test]
fn the_spelling_of_a_path_does_not_matter() {
    let folder = pack();
    let of = |path: &str| {
        let spec = SPEC.replace("[tiny]", &format!("[{{path: {path}}}]"));
        keys(&spec, folder.path(), PlanOptions::default())
    };
    let plain = of("./mm");
    assert_eq!(of("mm/"), plain);
    assert_eq!(of("/elsewhere/mm.gguf"), plain);
    assert_ne!(of("./nn"), plain);
    let named = keys(SPEC, folder.path(), PlanOptions::default());
    assert_ne!(
        of("tiny"),
        named,
        "a local model is not the known one of its name"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn order_defaults_and_selection_do_not_matter(
        window_first in any::<bool>(),
        write_defaults in any::<bool>(),
        protocol_first in any::<bool>(),
        window in 1_u64..40,
        limit in 1_usize..5,
    ) {
        let folder = pack();
        let plain = format!(
            "{{schema: 1, name: a, models: [tiny], budgets: [50%], methods: [{{name: snapkv, params: {{window: {window}}}}}]}}"
        );
        let params = match (write_defaults, window_first) {
            (false, _) => format!("window: {window}"),
            (true, true) => format!("window: {window}, kernel: 5"),
            (true, false) => format!("kernel: 5, window: {window}"),
        };
        let protocol = "protocol: {short_prompts: shrink, bos: auto, max_context: auto, query: aware, clean_up_spaces: false}";
        let methods = format!("methods: [{{params: {{{params}}}, label: other, name: snapkv}}]");
        let (first, second) = if protocol_first { (protocol, methods.as_str()) } else { (methods.as_str(), protocol) };
        let written = format!("{{{first}, budgets: 50%, name: b, {second}, models: tiny, schema: 1, tasks: {{limit: 1}}}}");
        let options = PlanOptions { limit: Some(Limit::First(limit)), ..PlanOptions::default() };
        let plain_keys = keys(&plain, folder.path(), PlanOptions::default());
        prop_assert_eq!(&keys(&written, folder.path(), options), &plain_keys);
        let other = plain.replace(&format!("window: {window}"), &format!("window: {}", window + 1));
        prop_assert_ne!(keys(&other, folder.path(), PlanOptions::default()), plain_keys);
    }
}
