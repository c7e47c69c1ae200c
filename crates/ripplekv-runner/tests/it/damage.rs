//! The damage stage: what it stores, and that nothing is measured twice.

use std::fs;
use std::io::Write;

use ripplekv_runner::damage::{DamageProgress, joint_names, models_with_damage, read_damage};
use ripplekv_runner::engine::FirstToken;
use ripplekv_runner::exit;
use ripplekv_runner::fake::FakeLoader;
use ripplekv_runner::select::Limit;

use crate::damage_setup::Bench;

#[test]
fn both_passes_store_one_line_a_sample_in_turn_over_tasks() {
    let bench = Bench::new(3);
    assert_eq!(bench.status().unwrap().left, 12);
    let outcome = bench.run().unwrap();
    assert_eq!(outcome.passes(), (6, 6));
    let summary = outcome.summary;
    assert_eq!(
        (summary.samples, summary.measured, summary.measured_jointly),
        (6, 6, 6)
    );
    assert_eq!((summary.left, summary.exit_code()), (0, exit::DONE));
    assert!(
        outcome
            .events
            .contains(&DamageProgress::Layer { done: 4, of: 4 })
    );

    assert_eq!(models_with_damage(&bench.out()).unwrap(), ["tiny"]);
    let stored = bench.stored();
    assert!(stored.warnings.is_empty(), "{:?}", stored.warnings);
    let order: Vec<&str> = stored
        .samples
        .iter()
        .map(|line| line.sample.as_str())
        .collect();
    let expected = [
        "logbook_qa-0",
        "ticket_class-0",
        "logbook_qa-1",
        "ticket_class-1",
        "logbook_qa-2",
        "ticket_class-2",
    ];
    assert_eq!(order, expected);
    assert_eq!(stored.head.selected[1], "ticket_class/ticket_class-0");
    for line in &stored.samples {
        assert_eq!(line.recipe, stored.head.recipe_hash);
        assert_eq!((line.positions, line.dropped.as_ref()), (4, None));
        assert_eq!(line.budgets.keys().collect::<Vec<_>>(), ["25%", "50%"]);
        for damage in line.budgets.values() {
            assert_eq!(damage.layer_tokens.len(), 4);
            for numbers in [
                &damage.kl,
                &damage.leave_in_kl,
                &damage.reference_nll_change,
                &damage.score_drop,
            ] {
                assert_eq!(numbers.len(), 4);
            }
        }
    }
    for (line, half) in stored.joint.iter().zip([0, 0, 1, 1, 0, 0]) {
        assert_eq!(line.half, half);
        for by_name in line.budgets.values() {
            let mut names = joint_names();
            names.sort();
            assert_eq!(by_name.keys().cloned().collect::<Vec<_>>(), names);
        }
    }
}

#[test]
fn what_the_recipe_leaves_out_is_not_measured() {
    let mut bench = Bench::new(2);
    bench.recipe.leave_in = false;
    bench.recipe.reference_nll = false;
    bench.recipe.task_score = false;
    bench.recipe.joint = false;
    let outcome = bench.run().unwrap();
    assert_eq!((outcome.passes(), outcome.summary.left), ((4, 0), 0));
    assert!(!bench.file("joint.jsonl").exists());
    for line in bench.stored().samples {
        assert_eq!(line.full_score, None);
        let damage = &line.budgets["25%"];
        assert_eq!(damage.kl.len(), 4);
        assert!(damage.leave_in_kl.is_empty() && damage.reference_nll_change.is_empty());
        assert!(damage.score_drop.is_empty());
    }
}

#[test]
fn a_stopped_stage_goes_on_where_it_was_and_ends_in_the_same_bytes() {
    let whole = Bench::new(3);
    whole.run().unwrap();
    for stop_after in [1, 4, 6, 8] {
        let bench = Bench::new(3);
        let first = bench.run_with(None, stop_after).unwrap();
        assert_eq!(first.calls.len(), stop_after);
        assert!(first.summary.interrupted);
        assert_eq!(
            (first.summary.left, first.summary.exit_code()),
            (12 - stop_after, exit::INCOMPLETE)
        );
        assert_eq!(bench.status().unwrap().left, 12 - stop_after);
        let second = bench.run().unwrap();
        assert_eq!(second.calls.len(), 12 - stop_after, "nothing twice");
        assert_eq!(second.summary.stored_before, stop_after.min(6));
        assert_eq!(second.summary.exit_code(), exit::DONE);
        for name in ["recipe.json", "samples.jsonl", "joint.jsonl"] {
            assert_eq!(bench.bytes(name), whole.bytes(name), "{name}");
        }
        assert_eq!(bench.run().unwrap().calls.len(), 0);
    }
}

#[test]
fn cut_lines_are_measured_again() {
    let bench = Bench::new(2);
    bench.run().unwrap();
    let whole = (bench.bytes("samples.jsonl"), bench.bytes("joint.jsonl"));
    for name in ["samples.jsonl", "joint.jsonl"] {
        let bytes = bench.bytes(name);
        fs::write(bench.file(name), &bytes[..bytes.len() - 9]).unwrap();
    }
    assert_eq!(
        bench.stored().warnings.len(),
        3,
        "two cuts, and the joint lines lack a sample"
    );
    let outcome = bench.run().unwrap();
    assert!(outcome.warnings()[0].contains("samples.jsonl: the last line was cut"));
    assert!(outcome.warnings()[1].contains("joint.jsonl: the last line was cut"));
    assert_eq!(outcome.passes(), (1, 1));
    assert_eq!(
        (bench.bytes("samples.jsonl"), bench.bytes("joint.jsonl")),
        whole
    );
}

#[test]
fn samples_of_another_recipe_or_model_are_refused() {
    let mut bench = Bench::new(2);
    bench.run_with(None, 1).unwrap();
    let before = (bench.bytes("recipe.json"), bench.bytes("samples.jsonl"));
    bench.recipe.answer_tokens = 3;
    bench.recipe.seed = 8;
    let error = bench.run().map(|_| ()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("tiny/samples.jsonl: holds samples"), "{text}");
    assert!(
        text.contains("another recipe: answer_tokens, seed changed"),
        "{text}"
    );
    assert!(text.contains("start afresh with --out DIR"), "{text}");
    assert_eq!(error.exit_code(), exit::SPEC_OR_DATA);

    let mut bench = Bench {
        recipe: Bench::new(1).recipe,
        ..bench
    };
    bench.loader = FakeLoader::default().with_weights("other");
    let text = bench.run().map(|_| ()).unwrap_err().to_string();
    assert!(
        text.contains("the profile of model 'tiny' is of another model: its model_hash"),
        "{text}"
    );
    bench.profile = crate::damage_setup::profile(&bench.loader);
    let text = bench.run().map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("model_hash changed"), "{text}");
    assert_eq!(
        (bench.bytes("recipe.json"), bench.bytes("samples.jsonl")),
        before,
        "left alone"
    );
}

#[test]
fn a_failing_sample_is_stored_with_its_reason_and_the_stage_goes_on() {
    let mut bench = Bench::new(4);
    bench.loader = FakeLoader::default().with_failing_word("2");
    let outcome = bench.run().unwrap();
    assert_eq!(outcome.passes(), (8, 6));
    assert_eq!((outcome.summary.failed, outcome.summary.left), (2, 0));
    assert_eq!(outcome.summary.exit_code(), exit::FAILED_SAMPLES);
    let stored = bench.stored();
    let failed = &stored.samples[4];
    assert_eq!(failed.sample, "logbook_qa-2");
    assert_eq!(failed.dropped.as_deref(), Some("the failing word is in it"));
    assert_eq!((failed.positions, failed.budgets.len()), (0, 0));
    assert_eq!((stored.samples.len(), stored.joint.len()), (8, 6));
    assert_eq!(bench.run().unwrap().calls.len(), 0);
}

#[test]
fn short_answers_are_dropped_without_being_failures() {
    let mut bench = Bench::new(2);
    bench.recipe.answer_tokens = 2;
    bench.recipe.first_token = FirstToken::Skip;
    let outcome = bench.run().unwrap();
    assert_eq!((outcome.passes(), outcome.summary.left), ((4, 0), 0));
    assert_eq!((outcome.summary.dropped, outcome.summary.failed), (4, 0));
    assert_eq!(outcome.summary.exit_code(), exit::DONE);
    let reason = bench.stored().samples[0].dropped.clone().unwrap();
    assert_eq!(
        reason,
        "the full model's answer is too short: 1 positions to compare, at least 2 are needed"
    );
    assert!(
        outcome.warnings()[0].contains("joint damage is left out"),
        "{:?}",
        outcome.warnings()
    );
}

#[test]
fn joint_damage_follows_the_profile_and_the_selection() {
    let mut bench = Bench::new(3);
    bench.options.limit = Some(Limit::First(2));
    bench.run().unwrap();
    let first = bench.bytes("samples.jsonl");
    bench.profile.content_hash = "another".to_owned();
    assert_eq!(bench.status().unwrap().left, 4);
    let outcome = bench.run().unwrap();
    assert_eq!(outcome.passes(), (0, 4), "single layers stay");
    assert!(outcome.warnings()[0].contains("joint.jsonl: belongs to another profile"));
    assert_eq!(
        (bench.bytes("samples.jsonl"), bench.stored().joint.len()),
        (first, 4)
    );

    bench.options.limit = None;
    let outcome = bench.run().unwrap();
    assert_eq!(outcome.passes(), (2, 6));
    assert_eq!((bench.stored().joint.len(), outcome.summary.left), (6, 0));
    bench.options.limit = Some(Limit::First(2));
    assert_eq!(bench.run().unwrap().passes(), (0, 4));
    let stored = bench.stored();
    assert_eq!(
        (stored.samples.len(), stored.joint.len()),
        (4, 4),
        "of the selection alone"
    );
    assert!(stored.warnings.is_empty());
}

#[test]
fn one_process_measures_a_model_at_a_time() {
    let bench = Bench::new(2);
    let folder = bench.out().join("locks/damage");
    fs::create_dir_all(&folder).unwrap();
    let lock = fs::File::create(folder.join("tiny.lock")).unwrap();
    lock.try_lock().unwrap();
    let outcome = bench.run().unwrap();
    assert_eq!((outcome.calls.len(), outcome.summary.left), (0, 8));
    assert_eq!(outcome.summary.exit_code(), exit::INCOMPLETE);
    assert!(outcome.warnings()[0].contains("another process measures the damage of model 'tiny'"));
    drop(lock);
    assert_eq!(bench.run().unwrap().summary.left, 0);
}

#[test]
fn the_reader_ignores_equal_lines_and_refuses_what_does_not_fit() {
    let bench = Bench::new(2);
    assert_eq!(read_damage(&bench.out(), "tiny").unwrap(), None);
    assert!(models_with_damage(&bench.out()).unwrap().is_empty());
    bench.run().unwrap();
    let before = bench.stored();
    let whole = fs::read_to_string(bench.file("samples.jsonl")).unwrap();
    let last = whole.lines().last().unwrap();
    let append = |line: &str| {
        fs::write(bench.file("samples.jsonl"), &whole).unwrap();
        let mut file = fs::OpenOptions::new()
            .append(true)
            .open(bench.file("samples.jsonl"))
            .unwrap();
        writeln!(file, "{line}").unwrap();
    };
    append(last);
    assert_eq!(bench.stored(), before);
    let refused = |line: &str, message: &str| {
        append(line);
        let text = read_damage(&bench.out(), "tiny").unwrap_err().to_string();
        assert!(
            text.contains("samples.jsonl") && text.contains(message),
            "{text}"
        );
    };
    refused(
        &last.replace("\"positions\":4", "\"positions\":2"),
        "stored twice with different contents",
    );
    refused(
        &last.replace("\"schema\":1", "\"schema\":2"),
        "has schema 2, this program reads 1",
    );
    let recipe = &before.head.recipe_hash;
    refused(
        &last.replace(recipe.as_str(), "other"),
        "measured with another recipe",
    );
    refused("{}", "damaged line");
}
