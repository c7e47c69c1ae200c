//! The numbers of the damage stage: scores, reference answers, oracles, and what is refused as none.

use std::fs;

use ripplekv_runner::damage::joint_names;
use ripplekv_runner::engine::{DamageOutput, DamageRequest, FirstToken};
use ripplekv_runner::select::Limit;
use ripplekv_tasks::Tokenise;

use crate::damage_setup::Bench;

/// The answer of the record that a prompt was made of.
fn answer_of(text: &str) -> String {
    let number = text
        .split("where is thing ")
        .nth(1)
        .unwrap()
        .split('?')
        .next()
        .unwrap();
    format!("w{number}")
}

#[test]
fn numbers_that_are_none_drop_the_sample() {
    let bench = Bench::new(4);
    let script =
        |request: &DamageRequest<'_>, tokenizer: &dyn Tokenise, output: &mut DamageOutput| {
            let text = tokenizer.decode(request.ids, false).unwrap();
            if request.single_layers && answer_of(&text) == "w3" {
                output.budgets[1].kl[2] = f64::NAN;
            }
            if !request.single_layers {
                output.budgets[0].joint_kl.pop();
            }
        };
    let outcome = bench.run_with(Some(&script), usize::MAX).unwrap();
    let stored = bench.stored();
    let dropped: Vec<&str> = stored
        .samples
        .iter()
        .filter_map(|line| line.dropped.as_deref())
        .collect();
    assert_eq!(dropped.len(), 2);
    assert_eq!(
        dropped[0],
        "budget 50%: the engine did not give 4 finite numbers as kl"
    );
    assert_eq!(stored.joint.len(), 6);
    assert!(stored.joint.iter().all(|line| line.budgets.is_empty()));
    assert_eq!(outcome.summary.failed, 2 + 6);
    assert!(
        outcome
            .warnings()
            .iter()
            .any(|text| text.contains("no joint damage: budget 25%"))
    );
}

#[test]
fn score_drops_are_those_of_the_tasks_metric() {
    let bench = Bench::new(2);
    let script =
        |request: &DamageRequest<'_>, tokenizer: &dyn Tokenise, output: &mut DamageOutput| {
            if !request.single_layers {
                return;
            }
            let right = answer_of(&tokenizer.decode(request.ids, false).unwrap());
            let encode = |text: &str| tokenizer.encode(text, false).unwrap();
            output.output_ids = encode(&format!("{right}<end>"));
            output.budgets[0].outputs = vec![
                None,
                Some(encode(&format!("{right} extra"))),
                Some(encode("wrong")),
                Some(encode(&format!("{right}\nextra words"))),
            ];
        };
    bench.run_with(Some(&script), usize::MAX).unwrap();
    let stored = bench.stored();
    let [question, class] = [2, 3].map(|place| &stored.samples[place]);
    // F1 of "w1" against "w1 extra" is 2/3, against "w1\nextra words" 1/2.
    assert_eq!(question.sample, "logbook_qa-1");
    assert_eq!(question.full_score, Some(100.0));
    let drops = &question.budgets["25%"].score_drop;
    assert_eq!(drops[0], 0.0);
    assert!((drops[1] - 100.0 / 3.0).abs() < 1e-9, "{drops:?}");
    assert_eq!(drops[2..], [100.0, 50.0]);
    // Classification looks at the first line alone.
    assert_eq!(class.sample, "ticket_class-1");
    assert_eq!(class.full_score, Some(100.0));
    assert_eq!(class.budgets["25%"].score_drop, [0.0, 0.0, 100.0, 0.0]);
}

#[test]
fn the_oracle_of_a_half_comes_from_the_other_half_alone() {
    let bench = Bench::new(3);
    let outcome = bench.run().unwrap();
    let stored = bench.stored();
    let joint: Vec<_> = outcome
        .calls
        .iter()
        .filter(|call| !call.single_layers)
        .collect();
    assert_eq!(joint.len(), stored.joint.len());
    for (call, line) in joint.iter().zip(&stored.joint) {
        assert!(call.text.contains(&format!(
            "thing {}?",
            line.sample.split('-').nth(1).unwrap()
        )));
        let weights = |name: &str| {
            &call
                .allocations
                .iter()
                .find(|(known, _)| known == name)
                .unwrap()
                .1
        };
        assert_eq!(weights("uniform"), &[1.0; 4]);
        assert_eq!(weights("sensitivity"), &[102.0, 103.0, 104.0, 105.0]);
        assert_ne!(weights("random-0"), weights("random-1"));
        for (place, budget) in ["25%", "50%"].iter().enumerate() {
            // Halves by hand: the middle sample of each task is the one half, the others are the other.
            let other: Vec<_> = stored
                .samples
                .iter()
                .filter(|sample| sample.sample.ends_with("-1") != line.sample.ends_with("-1"))
                .collect();
            let oracle = weights(&format!("oracle@{budget}"));
            for (layer, weight) in oracle.iter().enumerate() {
                let sum: f64 = other
                    .iter()
                    .map(|sample| sample.budgets[*budget].kl[layer])
                    .sum();
                assert!((weight - 100.0 - sum / other.len() as f64).abs() < 1e-12);
            }
            let by_name = &line.budgets[*budget];
            assert_eq!(
                by_name.len(),
                joint_names().len(),
                "the other budgets' oracles are left out"
            );
            // The fake's loss of an allocation, worked out for the weights it was asked with.
            let sample = stored
                .samples
                .iter()
                .find(|sample| sample.sample == line.sample)
                .unwrap();
            let share = [0.25, 0.5][place];
            let n = sample.prompt_tokens as f64;
            let share = (share * n * 4.0).round() / (n * 4.0);
            let kl = &sample.budgets[*budget].kl;
            let expected: f64 = kl
                .iter()
                .zip(oracle)
                .map(|(kl, weight)| {
                    let kept = share * 4.0 * weight / oracle.iter().sum::<f64>();
                    kl / (1.0 - share) * (1.0 - kept)
                })
                .sum();
            assert!(
                (by_name["oracle"] - expected).abs() < 1e-9,
                "{} {expected}",
                by_name["oracle"]
            );
        }
    }
}

#[test]
fn a_reference_answer_that_says_nothing_is_left_out_and_said() {
    let mut bench = Bench::new(2);
    let data = bench.folder.path().join("pack/data/logbook_qa.jsonl");
    let text = fs::read_to_string(&data)
        .unwrap()
        .replace(r#"["w1"]"#, r#"[""]"#);
    fs::write(&data, text).unwrap();
    let outcome = bench.run().unwrap();
    let stored = bench.stored();
    assert_eq!(stored.samples[2].sample, "logbook_qa-1");
    assert!(
        stored.samples[2].budgets["25%"]
            .reference_nll_change
            .is_empty()
    );
    assert_eq!(
        stored.samples[2].warnings,
        ["the reference answer is empty: its likelihood was not measured"]
    );
    assert!(outcome.calls[2].reference_ids.is_empty());
    assert_eq!(outcome.calls[0].reference_ids.len(), 1);
    assert_eq!(
        stored.samples[0].budgets["25%"].reference_nll_change.len(),
        4
    );

    bench.options.limit = Some(Limit::First(1));
    bench.recipe.first_token = FirstToken::Skip;
    fs::remove_dir_all(bench.out()).unwrap();
    bench.run().unwrap();
    let sample = &bench.stored().samples[0];
    assert!(sample.budgets["25%"].reference_nll_change.is_empty());
    let expected =
        "no token of the reference answer depends on the cache: its likelihood was not measured";
    assert_eq!(
        sample.warnings,
        [expected],
        "one token, which the dense prefill gives"
    );
}
