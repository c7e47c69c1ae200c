//! Every wrong input gives one message with its place and a hint, and exit code 3.

use std::path::Path;
use std::sync::Arc;

use ripplekv_runner::catalog::MethodEntry;
use ripplekv_runner::exit;
use ripplekv_runner::fake::{self, FakeLoader};
use ripplekv_runner::plan::{Plan, PlanOptions, check_names};
use ripplekv_runner::spec::Spec;
use tempfile::TempDir;

use crate::pack::{self, SPEC, line, run_spec};

/// The error of running `spec` over a good pack of three records a task.
fn error_of(spec: &str) -> String {
    let folder = TempDir::new().unwrap();
    pack::write(&folder.path().join("pack"), 3);
    error_in(spec, folder.path())
}

fn error_in(spec: &str, folder: &Path) -> String {
    let error = run_spec(spec, folder, &FakeLoader::default(), PlanOptions::default())
        .expect_err("the spec is wrong");
    assert_eq!(error.exit_code(), exit::SPEC_OR_DATA, "{error}");
    error
        .to_string()
        .replace(&folder.display().to_string(), "DIR")
}

fn with(from: &str, to: &str) -> String {
    assert!(SPEC.contains(from));
    SPEC.replace(from, to)
}

#[test]
fn unknown_keys() {
    assert_eq!(
        error_of(&with("budgets:", "budgetts:")),
        "demo.yaml:6: budgetts: unknown key\nhint: did you mean 'budgets'? valid: schema, name, models, tasks, protocol, timing, budgets, methods, prefill, store_kept, profile, damage"
    );
    assert_eq!(
        error_of(&with("{include:", "{inclde:")),
        "demo.yaml:5: tasks.inclde: unknown key\nhint: did you mean 'include'? valid: pack, include, limit, max_prompt_tokens, samples"
    );
    assert_eq!(
        error_of(&with("snapkv]", "{name: snapkv, parms: {}}]")),
        "demo.yaml:7: methods[2].parms: unknown key\nhint: did you mean 'params'? valid: name, label, scorer, allocator, params"
    );
    assert_eq!(
        error_of(&format!("{SPEC}protocol:\n  chat: on\n")),
        "demo.yaml:9: protocol.chat: unknown key\nhint: did you mean 'chat_template'? valid: query, chat_template, max_context, bos, clean_up_spaces, min_new_tokens, code_similarity, short_prompts, answer_kl_tokens"
    );
}

#[test]
fn budgets_that_need_all_layers_first_need_a_snapshot() {
    let mut catalog = fake::catalog();
    let late = MethodEntry {
        name: "late",
        needs_all_layers: Arc::new(|params| params["beta"] != 2),
        ..catalog.methods[3].clone()
    };
    catalog.methods.push(late);
    let check = |method: &str, prefill: &str| {
        let text = format!("{}{prefill}\n", with("snapkv]", &format!("{method}]")));
        let spec = Spec::parse(&text, Some(Path::new("demo.yaml")), &[]).unwrap();
        check_names(&spec, &catalog).map_err(|error| error.to_string())
    };
    let refused = Err("demo.yaml:7: methods[2]: 'late' sees all layers before it gives one a budget, so none can be compressed while prefilling\nhint: write prefill: snapshot".to_owned());
    // the default is refused like the word itself: nothing falls back in silence
    assert_eq!(check("late", ""), refused);
    assert_eq!(check("late", "prefill: stream"), refused);
    assert_eq!(check("late", "prefill: snapshot"), Ok(()));
    // parameters decide, as an allocator can be exchanged
    assert_eq!(check("{name: late, params: {beta: 2}}", ""), Ok(()));
    assert_eq!(check("snapkv", "prefill: stream"), Ok(()));
}

#[test]
fn times_of_cells_alone_need_cells_alone() {
    let alone = |rest: &str| error_of(&format!("{SPEC}timing: alone{rest}\n"));
    assert_eq!(
        alone("\nprotocol: {answer_kl_tokens: 8}"),
        "demo.yaml:8: timing: 'alone' cannot stand beside protocol.answer_kl_tokens, for which the full cache decodes along\nhint: leave answer_kl_tokens out, or measure times in an experiment of their own"
    );
    assert!(alone("ly").contains("timing: "));
}

#[test]
fn unknown_methods_and_parameters() {
    assert_eq!(
        error_of(&with("snapkv]", "snpakv]")),
        "demo.yaml:7: methods[2]: unknown method 'snpakv'\nhint: did you mean 'snapkv'? valid: full, streaming-llm, snapkv, pyramidkv, ripplekv"
    );
    assert_eq!(
        error_of(&with(
            "methods: [full, streaming-llm, snapkv]",
            "methods:\n  - name: snapkv\n    params:\n      windwo: 3"
        )),
        "demo.yaml:10: methods[0].params.windwo: unknown parameter\nhint: did you mean 'window'? valid: window, kernel"
    );
    assert_eq!(
        error_of(&with(
            "snapkv]",
            "{name: snapkv, params: {window: [4, -1]}}]"
        )),
        "demo.yaml:7: methods[2].params.window: must be a whole number of at least 1\nhint: window: a number of the fake engine; default 8"
    );
    assert_eq!(
        error_of(&with(
            "snapkv]",
            "snapkv, {name: snapkv, params: {window: 4}}]"
        )),
        "demo.yaml:7: methods[3]: two different methods are called 'snapkv'\nhint: give one of them a `label`"
    );
}

#[test]
fn unknown_tasks_and_models() {
    assert_eq!(
        error_of(&with("logbook_qa,", "logbok_qa,")),
        "demo.yaml:5: tasks.include[0]: unknown task `logbok_qa`\nhint: did you mean `logbook_qa`? `ripplekv ls tasks` lists them all"
    );
    assert_eq!(
        error_of(&with("logbook_qa,", "qasper,")),
        "demo.yaml:5: tasks.include[0]: task `qasper` is not in the pack at DIR/pack (it has logbook_qa, ticket_class)\nhint: it belongs to the pack `longbench`"
    );
    assert_eq!(
        error_of(&with("[tiny]", "[tyni]")),
        "demo.yaml:4: models[0]: unknown model 'tyni'\nhint: did you mean 'tiny'? valid: tiny, absent; a local model is written {path: ./folder-or-file.gguf}"
    );
    assert_eq!(
        error_of(&with("[tiny]", "[{path: ./nowhere}]")),
        "model 'nowhere': ./nowhere: no such file or folder"
    );
    assert_eq!(
        error_of(&with("[tiny]", "[tiny, tiny]")),
        "demo.yaml:4: models[1]: this model is listed twice"
    );
}

#[test]
fn wrong_budgets() {
    for text in ["0%", "200%", "-5", "ten"] {
        assert_eq!(
            error_of(&with("[25%, 50%]", &format!("[25%, {text}]"))),
            format!(
                "demo.yaml:6: budgets[1]: budget '{text}' is none\nhint: write a share such as 10%, tokens a layer such as 512, or memory such as 64MiB"
            )
        );
    }
    assert_eq!(
        error_of(&with("budgets: [25%, 50%]\n", "")),
        "demo.yaml: the key 'budgets' is missing; 'streaming-llm' needs one\nhint: write budgets: [10%, 20%, 30%]"
    );
}

#[test]
fn budget_below_the_must_keep_set() {
    let spec = format!("{SPEC}protocol: {{short_prompts: error}}\n").replace("25%", "5%");
    assert_eq!(
        error_of(&spec),
        "task 'logbook_qa', sample 'logbook_qa-0', method 'snapkv': a budget of 5% of 78 tokens is 16 entries over 4 layers, below the must-keep set of 8 a layer\nhint: raise the budget, make the window smaller, or set protocol.short_prompts to shrink or full"
    );
    // 5% of 78 tokens leaves entries for a smaller window, 1% and one token a layer leave none
    for budget in ["1%", "1"] {
        let spec = with("25%", budget).replace("{include:", "{limit: 1, include:");
        assert_eq!(
            error_of(&spec),
            format!(
                "task 'logbook_qa', method 'streaming-llm': a budget of {budget} leaves less than two entries a layer on each of 1 prompts; the must-keep set is 4\nhint: raise the budget, or set protocol.short_prompts to full"
            )
        );
    }
}

#[test]
fn wrong_values() {
    for (from, to, message) in [
        (
            "schema: 1",
            "schema: 2",
            "demo.yaml:2: schema: this program reads schema 1, the file has 2",
        ),
        ("schema: 1\n", "", "demo.yaml: the key 'schema' is missing"),
        (
            "name: demo",
            "name: ../demo",
            "demo.yaml:3: name: '../demo' cannot be the name of a folder\nhint: use letters, digits, '-', '_' and '.', starting with a letter or digit",
        ),
        (
            "{include:",
            "{limit: 0, include:",
            "demo.yaml:5: tasks.limit: '0' is no limit\nhint: write a number `10`, places `10-20` or a share `5%`, above zero",
        ),
        ("[tiny]", "[]", "demo.yaml:4: models: the list is empty"),
        (
            "[tiny]",
            "[{hub: qwen}]",
            "demo.yaml:4: models[0].hub: expected 'org/name', found 'qwen'\nhint: write for example {hub: Qwen/Qwen2.5-7B-Instruct}; a local model is {path: ./folder-or-file.gguf}",
        ),
        (
            "{include:",
            "{samples: [x], include:",
            "demo.yaml:5: tasks.samples[0]: no selected task has a record 'x'\nhint: an id is the field `_id` of a record in DIR/pack/data",
        ),
    ] {
        assert_eq!(error_of(&with(from, to)), message);
    }
    for (protocol, message) in [
        (
            "min_new_tokens: 7",
            "demo.yaml:8: protocol.min_new_tokens: 7 is above the most new tokens of task 'logbook_qa', 6\nhint: write at most 6, or leave the task out",
        ),
        (
            "clean_up_spaces: yes",
            "demo.yaml:8: protocol.clean_up_spaces: expected true or false, found 'yes'",
        ),
        (
            "query: [aware, agnostic]",
            "demo.yaml:8: protocol.query[1]: 'agnostic' is not implemented in this version\nhint: use 'aware', the official LongBench protocol",
        ),
        (
            "short_prompts: shrnk",
            "demo.yaml:8: protocol.short_prompts: expected one of shrink, full, error, found 'shrnk'\nhint: did you mean 'shrink'? valid: shrink, full, error",
        ),
        (
            "max_context: 1",
            "demo.yaml:8: protocol.max_context: expected a whole number of at least 2, found 1",
        ),
    ] {
        assert_eq!(
            error_of(&format!("{SPEC}protocol: {{{protocol}}}\n")),
            message
        );
    }
}

#[test]
fn overrides_are_named_as_the_cause() {
    let error_of = |spec: &str, assignment: &str| {
        let folder = TempDir::new().unwrap();
        pack::write(&folder.path().join("pack"), 1);
        let spec = Spec::parse(spec, Some(Path::new("demo.yaml")), &[assignment.to_owned()]);
        let planned = spec.and_then(|spec| {
            let pack = folder.path().join("pack");
            Plan::new(&spec, &fake::catalog(), &pack, PlanOptions::default())
        });
        planned.expect_err("something is wrong").to_string()
    };
    let error = |assignment: &str| error_of(SPEC, assignment);
    assert_eq!(
        error("tasks.limit=0"),
        "demo.yaml: tasks.limit: '0' is no limit (through --set tasks.limit=0)\nhint: write a number `10`, places `10-20` or a share `5%`, above zero"
    );
    assert!(
        error("models=[tyni]")
            .contains("unknown model 'tyni' (through --set models=[tyni])\nhint: ")
    );
    assert!(
        error("methods[2]={name: snapkv, params: {window: 0}}")
            .contains("(through --set methods[2]=")
    );
    let elsewhere = error_of(&with("[tiny]", "[tyni]"), "tasks.limit=1");
    assert!(!elsewhere.contains("--set"), "{elsewhere}");
}

#[test]
fn a_failed_preparation_leaves_no_folder() {
    let folder = TempDir::new().unwrap();
    pack::write(&folder.path().join("pack"), 1);
    error_in(&with("25%", "1%"), folder.path());
    assert!(!folder.path().join("out").exists());
}

#[test]
fn no_yaml_at_all() {
    let error = error_of("schema: 1\nmethods: [full\n");
    assert!(error.starts_with("demo.yaml:3: no valid YAML: "), "{error}");
    let error = error_of(&with("50%", "99999999999999999999"));
    assert!(
        error.starts_with("demo.yaml:6: a number is too large: budgets[1]: ")
            && error.contains("\nhint: write a smaller one"),
        "{error}"
    );
    let error = error_of("schema: 1\nschema: 1\n");
    assert!(error.contains("duplicate"), "{error}");
    assert_eq!(
        error_of("just text"),
        "demo.yaml: a spec is a mapping of keys\nhint: see experiments/quickstart.yaml for an example"
    );
}

#[test]
fn broken_packs() {
    let folder = TempDir::new().unwrap();
    let pack = folder.path().join("pack");
    assert_eq!(
        error_in(SPEC, folder.path()),
        "no pack folder at DIR/pack\nhint: give the folder that holds config/ and data/"
    );
    std::fs::create_dir_all(&pack).unwrap();
    assert_eq!(
        error_in(SPEC, folder.path()),
        "DIR/pack: empty pack, no data/<task>.jsonl in it\nhint: is this the right folder? `ripplekv fetch` brings packs"
    );
    pack::write(&pack, 3);
    let file = pack.join("data/logbook_qa.jsonl");
    let good = line("logbook_qa", 0);
    std::fs::write(&file, format!("{good}{{\"input\": \"cut")).unwrap();
    let error = error_in(SPEC, folder.path());
    assert!(
        error.starts_with("DIR/pack/data/logbook_qa.jsonl:2: malformed JSON: "),
        "{error}"
    );
    let without = good.replace("[\"w0\"]", "[]");
    std::fs::write(&file, format!("{good}{without}")).unwrap();
    let error = error_in(SPEC, folder.path());
    assert_eq!(
        error,
        "DIR/pack/data/logbook_qa.jsonl:2: record `logbook_qa-0` has no answers\nhint: without an answer nothing can be scored; add one or drop the record"
    );
}

#[test]
fn prompts_that_fit_nowhere() {
    let folder = TempDir::new().unwrap();
    let pack = folder.path().join("pack");
    pack::write(&pack, 1);
    let long: Vec<String> = (0..5000).map(|word| format!("w{word}")).collect();
    let record = line("logbook_qa", 0).replace("w0 w7", &long.join(" "));
    std::fs::write(pack.join("data/logbook_qa.jsonl"), record).unwrap();
    let spec = format!("{SPEC}protocol: {{max_context: 9000}}\n");
    let error = error_in(&spec, folder.path());
    assert!(
        error.starts_with("task 'logbook_qa', sample 'logbook_qa-0': the prompt of 9007 tokens")
            && error.contains("longer than the context of model 'tiny' (4096 tokens)\nhint: set protocol.max_context"),
        "{error}"
    );
    let spec = with("{include:", "{max_prompt_tokens: 20, include:");
    assert_eq!(
        error_in(&spec, folder.path()),
        "model 'tiny', task 'logbook_qa': no prompt has at most 20 tokens\nhint: raise tasks.max_prompt_tokens, or leave the task out"
    );
}

#[test]
fn results_folder_that_cannot_be_written() {
    let folder = TempDir::new().unwrap();
    pack::write(&folder.path().join("pack"), 1);
    std::fs::write(folder.path().join("out"), "a file in the way").unwrap();
    let loader = FakeLoader::default();
    let error = run_spec(SPEC, folder.path(), &loader, PlanOptions::default()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("cannot write the results folder ")
            && text.ends_with(
                "\nhint: choose another folder with --out DIR, or free the space or rights"
            ),
        "{text}"
    );
    assert_eq!(error.exit_code(), exit::SPEC_OR_DATA);
    assert_eq!(loader.loads(), 0, "found before the model loads");
}
