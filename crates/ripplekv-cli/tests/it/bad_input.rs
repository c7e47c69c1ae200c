//! Wrong input, as a user meets it: one message on standard error, exit code 3, nothing on standard output.

use crate::program::{Folder, SPEC, output_of};

/// Standard error of `run` over a changed spec.
fn error_of(from: &str, to: &str) -> String {
    let folder = Folder::new(2);
    assert!(SPEC.contains(from));
    folder.write("demo.yaml", &SPEC.replace(from, to));
    // the real catalog: its methods, budgets and models
    let (stdout, stderr) = output_of(folder.real().args(["run", "demo.yaml"]), 3);
    assert_eq!(stdout, "");
    assert!(
        !folder.at("results").exists(),
        "found before anything is written"
    );
    assert!(!stderr.contains("panicked"), "{stderr}");
    stderr
}

#[test]
fn names() {
    assert_eq!(
        error_of("budgets:", "budgetts:"),
        "error: demo.yaml:6: budgetts: unknown key\nhint: did you mean 'budgets'? valid: schema, name, models, tasks, protocol, timing, budgets, methods, prefill, store_kept, profile, damage\n"
    );
    let error = error_of("[tiny]", "[smollm2-135m-instruct]");
    assert!(
        error.starts_with("error: demo.yaml:4: models[0]: unknown model 'smollm2-135m-instruct'\nhint: did you mean 'smollm2-135m-instruct-q4'? valid: "),
        "{error}"
    );
    let spec = SPEC.replace("[tiny]", "[smollm2-135m-instruct-q4]");
    for (from, to, message) in [
        (
            "snapkv]",
            "snpakv]",
            "error: demo.yaml:7: methods[2]: unknown method 'snpakv'\nhint: did you mean 'snapkv'? valid: full, streaming-llm, snapkv, knorm, tova, keydiff, h2o, observed-attention, pyramidkv",
        ),
        (
            "snapkv]",
            "{name: snapkv, params: {windwo: 3}}]",
            "error: demo.yaml:7: methods[2].params.windwo: unknown parameter\nhint: did you mean 'window'? valid: window",
        ),
        (
            "snapkv]",
            "{name: snapkv, allocator: pyramyd}]",
            "error: demo.yaml:7: methods[2].allocator: unknown allocator 'pyramyd'\nhint: did you mean 'pyramid'? valid: uniform, pyramid",
        ),
        (
            "snapkv]",
            "{name: snapkv, params: {window: -3}}]",
            "error: demo.yaml:7: methods[2].params.window: ",
        ),
        (
            "{pack: ./pack}",
            "{pack: ./pack, include: [logbok_qa]}",
            "error: demo.yaml:5: tasks.include[0]: unknown task `logbok_qa`\nhint: did you mean `logbook_qa`?",
        ),
    ] {
        let folder = Folder::new(1);
        assert!(spec.contains(from));
        folder.write("demo.yaml", &spec.replace(from, to));
        let (_, stderr) = output_of(folder.real().args(["run", "demo.yaml"]), 3);
        assert!(stderr.starts_with(message), "{stderr}");
    }
}

#[test]
fn budgets() {
    let spec = SPEC.replace("[tiny]", "[smollm2-135m-instruct-q4]");
    for (text, message) in [
        ("0%", "budget `0%`: must be above zero"),
        (
            "200%",
            "budget `200%`: a share of the prompt cannot be above 100%",
        ),
        ("-5", "budget `-5`: must be above zero"),
        (
            "'99999999999999999999'",
            "budget `99999999999999999999`: is too large",
        ),
        ("0.0000001%", "budget `0.0000001%`: has at most 6 decimals"),
        (
            "ten",
            "budget `ten`: not a budget; write a share `10%`, tokens `512` or memory `64MiB`",
        ),
    ] {
        let folder = Folder::new(1);
        folder.write(
            "demo.yaml",
            &spec.replace("[25%, 50%]", &format!("[25%, {text}]")),
        );
        let (_, stderr) = output_of(folder.real().args(["run", "demo.yaml"]), 3);
        assert!(
            stderr.starts_with(&format!(
                "error: demo.yaml:6: budgets[1]: {message}\nhint: "
            )),
            "{stderr}"
        );
    }
}

#[test]
fn budget_below_the_must_keep_set() {
    let folder = Folder::new(1);
    folder.write(
        "demo.yaml",
        &format!("{SPEC}protocol: {{short_prompts: error}}\n").replace("25%", "5%"),
    );
    let (_, stderr) = output_of(folder.fake().args(["run", "demo.yaml"]), 3);
    assert!(
        stderr.contains("a budget of 5% of")
            && stderr.contains("below the must-keep set of 8 a layer\nhint: raise the budget"),
        "{stderr}"
    );
}

#[test]
fn packs_and_records() {
    let folder = Folder::new(1);
    let run = || output_of(folder.fake().args(["run", "demo.yaml"]), 3).1;
    let good = std::fs::read_to_string(folder.at("pack/data/logbook_qa.jsonl")).unwrap();
    folder.write("pack/data/logbook_qa.jsonl", &format!("{good}{{\"input\":"));
    let stderr = run();
    assert!(
        stderr.contains("error: ./pack/data/logbook_qa.jsonl:2: malformed JSON: "),
        "{stderr}"
    );
    folder.write(
        "pack/data/logbook_qa.jsonl",
        &good.replace("[\"w0\"]", "[]"),
    );
    let stderr = run();
    assert!(
        stderr.contains(
            "error: ./pack/data/logbook_qa.jsonl:1: record `logbook_qa-0` has no answers\nhint: "
        ),
        "{stderr}"
    );
    std::fs::remove_dir_all(folder.at("pack/data")).unwrap();
    let stderr = run();
    assert!(
        stderr.contains("error: ./pack: empty pack, no data/<task>.jsonl in it\nhint: "),
        "{stderr}"
    );
    std::fs::remove_dir_all(folder.at("pack")).unwrap();
    let stderr = run();
    assert!(
        stderr.contains("error: no pack folder at ./pack\nhint: ")
            && stderr.contains("; looked in ./pack, ")
            && stderr.contains("; --pack DIR names another place\n"),
        "{stderr}"
    );
}

#[test]
fn cut_gguf_files_and_unwritable_folders() {
    let folder = Folder::new(1);
    std::fs::write(folder.at("model.gguf"), b"GGUF\x03\0\0\0").unwrap();
    folder.write(
        "demo.yaml",
        &SPEC.replace("[tiny]", "[{path: ./model.gguf}]"),
    );
    let (_, stderr) = output_of(folder.real().args(["run", "demo.yaml"]), 3);
    assert!(stderr.contains("is cut"), "{stderr}");
    assert!(stderr.contains("\nhint: "), "{stderr}");
    assert!(!folder.at("results").exists());
    for arguments in [
        ["man", "demo.yaml/x"].as_slice(),
        &["fetch", "study", "--out", "demo.yaml/x"],
        &["score", "absent.jsonl", "--task", "qasper"],
    ] {
        let (_, stderr) = output_of(folder.real().args(arguments), 3);
        assert!(stderr.contains("\nhint: "), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_model_that_is_not_run_is_not_said_to_be_fetched() {
    let folder = Folder::new(1);
    let set = ["--set", "models=[qwen2.5-7b-instruct]"];
    let with = |verb: &str, code| {
        let arguments = [verb, "demo.yaml"];
        output_of(folder.real().args(arguments).args(set), code)
    };
    let reason = "its architecture `qwen2` is not run yet";
    assert!(with("plan", 0).1.contains(reason));
    let (_, stderr) = with("run", 3);
    assert!(
        stderr.contains(reason) && !stderr.contains("fetching"),
        "{stderr}"
    );
}

#[test]
fn prompts_below_a_must_keep_set_are_told() {
    let folder = Folder::new(1);
    folder.write("demo.yaml", &SPEC.replace("25%", "5%"));
    for verb in ["check", "plan"] {
        let (stdout, _) = output_of(folder.fake().args([verb, "demo.yaml"]), 0);
        assert!(stdout.contains(" 2 below a must-keep set"), "{stdout}");
    }
}

#[test]
fn a_prompt_longer_than_the_context() {
    let folder = Folder::new(1);
    let words: Vec<String> = (0..5000).map(|word| format!("w{word}")).collect();
    let good = std::fs::read_to_string(folder.at("pack/data/logbook_qa.jsonl")).unwrap();
    folder.write(
        "pack/data/logbook_qa.jsonl",
        &good.replace("w0 w7", &words.join(" ")),
    );
    folder.write(
        "demo.yaml",
        &format!("{SPEC}protocol: {{max_context: 20000}}\n"),
    );
    let (_, stderr) = output_of(folder.fake().args(["run", "demo.yaml"]), 3);
    assert!(
        stderr.contains("are longer than the context of model 'tiny' (4096 tokens)\nhint: set protocol.max_context"),
        "{stderr}"
    );
}

#[test]
fn a_results_folder_that_cannot_be_written() {
    let folder = Folder::new(1);
    folder.write("results", "a file in the way");
    let (stdout, stderr) = output_of(folder.fake().args(["run", "demo.yaml"]), 3);
    assert_eq!(stdout, "");
    assert!(
        stderr.contains("error: cannot write the results folder results/demo: ")
            && stderr.contains("\nhint: choose another folder with --out DIR"),
        "{stderr}"
    );
    assert!(!stderr.contains("loading"), "{stderr}");
}

#[test]
fn models_that_are_none() {
    let folder = Folder::new(1);
    folder.write("model.gguf", "PK\u{3}\u{4} not a model");
    folder.write(
        "demo.yaml",
        &SPEC.replace("[tiny]", "[{path: ./model.gguf}]"),
    );
    let (_, stderr) = output_of(folder.real().args(["run", "demo.yaml"]), 3);
    assert!(
        stderr.starts_with("error: model 'model': ./model.gguf is not a GGUF file")
            && stderr.contains("\nhint: "),
        "{stderr}"
    );
    folder.write("model.gguf", "GGUF");
    let (_, stderr) = output_of(folder.real().args(["run", "demo.yaml"]), 3);
    assert!(
        stderr.starts_with("error: model 'model': ") && stderr.contains("model.gguf"),
        "{stderr}"
    );
    folder.write("demo.yaml", &SPEC.replace("[tiny]", "[{path: ./nowhere}]"));
    let (_, stderr) = output_of(folder.real().args(["run", "demo.yaml"]), 3);
    assert!(
        stderr.starts_with("error: model 'nowhere': ./nowhere does not exist\nhint: "),
        "{stderr}"
    );
    let (_, stderr) = output_of(folder.real().args(["run", "absent.yaml"]), 3);
    assert!(
        stderr.starts_with("error: cannot read the spec absent.yaml: "),
        "{stderr}"
    );
}

#[test]
fn check_reads_several_specs_and_goes_on() {
    let folder = Folder::new(2);
    folder.write("wrong.yaml", &SPEC.replace("snapkv]", "snapk]"));
    folder.write("absent.yaml", &SPEC.replace("[tiny]", "[absent]"));
    folder.write("unfetched.yaml", &SPEC.replace("./pack", "longbench"));
    let (stdout, stderr) = output_of(
        folder.fake().args([
            "check",
            "wrong.yaml",
            "demo.yaml",
            "absent.yaml",
            "unfetched.yaml",
        ]),
        3,
    );
    assert_eq!(
        stdout,
        "demo.yaml: ok\n  10 cells over 2 tasks\n  tiny: 4 prompts, cut at 3500 tokens, 0 below a must-keep set\n\
         absent.yaml: ok\n  10 cells over 2 tasks\n  absent: not checked: the weights are not here\n\
         unfetched.yaml: ok\n  not checked: the pack 'longbench' is not here; --pack DIR names a folder that has it\n"
    );
    assert!(
        stderr.contains("error: wrong.yaml:7: methods[2]: unknown method 'snapk'"),
        "{stderr}"
    );
    output_of(folder.fake().args(["check", "demo.yaml"]), 0);
}

#[test]
fn check_reads_published_values_too() {
    let folder = Folder::new(1);
    let committed = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/reference/ripplekv-llama-3.1-8b-instruct.yaml"
    );
    let text = std::fs::read_to_string(committed).unwrap();
    folder.write("published.yaml", &text);
    folder.write(
        "wrong.yaml",
        &text.replace("average: 35.07", "average: 350.7"),
    );
    folder.write("unknown.yaml", &text.replace("notes:", "note:"));
    let (stdout, stderr) = output_of(
        folder
            .fake()
            .args(["check", "published.yaml", "wrong.yaml", "unknown.yaml"]),
        3,
    );
    assert_eq!(
        stdout,
        "published.yaml: ok\n  published values: 1 rows of llama-3.1-8b-instruct, RippleKV, arXiv 2608.08684, abstract\n"
    );
    assert!(
        stderr.contains(
            "error: wrong.yaml: rows[0] (ripplekv at 10%): 350.7 is not within 0 and 100"
        ),
        "{stderr}"
    );
    assert!(
        stderr.contains("error: unknown.yaml: ") && stderr.contains("unknown field `note`"),
        "{stderr}"
    );
}
