//! `ripplekv profile`: a table on standard output, a file in the results folder, and the same again.

use crate::program::{Folder, output_of};

const SPEC: &str = "
schema: 1
name: demo
models: [tiny]
tasks: {pack: longbench}
budgets: [25%]
methods: [full, ripplekv]
profile: {calibration: ./pack, samples: 6, answer_tokens: 5}
";

#[test]
fn the_verb_needs_no_benchmark_and_repeats_itself() {
    let folder = Folder::new(3);
    folder.write("ripple.yaml", SPEC);
    let (table, notes) = output_of(folder.fake().args(["profile", "ripple.yaml"]), 0);
    let columns: Vec<&str> = table.lines().nth(1).unwrap().split("  ").collect();
    assert!(columns[0].starts_with("layer"), "{table}");
    assert!(table.contains("tiny: mean KL in nats of 6 samples, 0 left out"));
    assert!(table.contains("\nsigma: 0.1 (largest quadratic)\nreliability: "));
    assert!(table.contains(" at exponent 0.5, ") && table.contains(" at exponent 2\n"));
    assert!(table.ends_with("profile: results/demo/profiles/tiny.json\n"));
    assert!(
        notes.contains("profile of tiny: 6 calibration samples, 4 layers"),
        "{notes}"
    );
    let path = folder.at("results/demo/profiles/tiny.json");
    let bytes = std::fs::read(&path).unwrap();
    let (again, notes) = output_of(folder.fake().args(["profile", "ripple.yaml"]), 0);
    assert_eq!(again, table);
    assert!(
        notes.contains("profile of tiny: found at results/demo/"),
        "{notes}"
    );
    std::fs::remove_dir_all(folder.at("results")).unwrap();
    let (_, notes) = output_of(folder.fake().args(["profile", "ripple.yaml"]), 0);
    assert!(
        notes.contains("found at ") && notes.contains("home"),
        "{notes}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn wrong_settings_end_the_verb() {
    let folder = Folder::new(2);
    folder.write("ripple.yaml", SPEC);
    let set = ["profile", "ripple.yaml", "--set", "profile.sigma=0"];
    let (_, error) = output_of(folder.fake().args(set), 3);
    assert!(
        error.contains(
            "profile.sigma: a noise scale of 0 perturbs nothing (through --set profile.sigma=0)"
        ),
        "{error}"
    );
    let only = ["profile", "ripple.yaml", "--only", "model=other"];
    let (_, error) = output_of(folder.fake().args(only), 4);
    assert!(
        error.contains("no model passes --only model=other"),
        "{error}"
    );
}
