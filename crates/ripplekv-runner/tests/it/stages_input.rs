//! Wrong settings of the stages: each names its place and says what to do, before a model loads.

use ripplekv_runner::exit;
use ripplekv_runner::fake::FakeLoader;
use ripplekv_runner::plan::PlanOptions;
use tempfile::TempDir;

use crate::pack::{self, SPEC, run_spec};

fn error_in(folder: &TempDir, spec: &str) -> String {
    let loader = FakeLoader::default();
    let error = run_spec(spec, folder.path(), &loader, PlanOptions::default())
        .expect_err("the spec is wrong");
    assert_eq!(error.exit_code(), exit::SPEC_OR_DATA, "{error}");
    assert_eq!(loader.loads(), 0, "found before a model loads");
    error
        .to_string()
        .replace(&folder.path().display().to_string(), "DIR")
}

fn error_of(spec: &str) -> String {
    let folder = TempDir::new().unwrap();
    pack::write(&folder.path().join("pack"), 2);
    pack::write(&folder.path().join("calibration"), 2);
    error_in(&folder, spec)
}

#[test]
fn settings_of_the_profile() {
    for (setting, message) in [
        (
            "sigma: 0",
            "sigma: a noise scale of 0 perturbs nothing\nhint: write auto, or a number above zero such as 0.1",
        ),
        (
            "sigma: -0.5",
            "sigma: a noise scale of -0.5 perturbs nothing\nhint: write auto, or a number above zero such as 0.1",
        ),
        (
            "sigma: small",
            "sigma: expected auto or a number above zero, found 'small'",
        ),
        (
            "draws: 3",
            "draws: 3 draws do not make antithetic pairs\nhint: write an even number above zero; 2 is the default",
        ),
        (
            "draws: 0",
            "draws: 0 draws do not make antithetic pairs\nhint: write an even number above zero; 2 is the default",
        ),
        (
            "samples: 1",
            "samples: one sample cannot tell layers from chance\nhint: write at least 2; 16 is the default",
        ),
        (
            "samples: 0",
            "samples: expected a whole number of at least 1, found 0",
        ),
        (
            "answer_tokens: 0",
            "answer_tokens: expected a whole number of at least 2, found 0",
        ),
        (
            "answer_tokens: 2",
            "answer_tokens: 2 tokens without the first leave one position to average, 2 are needed\nhint: write at least 3, or first_token: reread",
        ),
        (
            "sigma_samples: 0",
            "sigma_samples: the noise scale is picked on at least one sample\nhint: write a number above zero, or give `sigma`",
        ),
        (
            "stop_at_reliability: 1",
            "stop_at_reliability: expected none or a number between 0 and 1, found 1",
        ),
        ("signals: 1", "signals: expected true or false, found 1"),
        (
            "norm: tokn",
            "norm: expected one of token, head, layer, found 'tokn'\nhint: did you mean 'token'? valid: token, head, layer",
        ),
        (
            "injct: cache",
            "injct: unknown key\nhint: did you mean 'inject'? valid: calibration, samples, answer_tokens, sigma, sigma_samples, draws, seed, norm, positions, inject, first_token, stop_at_reliability, signals",
        ),
    ] {
        assert_eq!(
            error_of(&format!("{SPEC}profile:\n  {setting}\n")),
            format!("demo.yaml:9: profile.{message}")
        );
    }
}

#[test]
fn settings_of_the_damage() {
    for (setting, message) in [
        (
            "scorer: snpakv",
            "scorer: no method with a scorer is called 'snpakv'\nhint: did you mean 'snapkv'? valid: streaming-llm, snapkv, pyramidkv, ripplekv",
        ),
        (
            "params: {windw: 4}",
            "params.windw: unknown parameter\nhint: did you mean 'window'? valid: window, kernel",
        ),
        (
            "budgets: [10%, 0%]",
            "budgets[1]: budget '0%' is none\nhint: write a share such as 10%, tokens a layer such as 512, or memory such as 64MiB",
        ),
        (
            "gamma: 0.5",
            "gamma: expected a number of at least 1, found 0.5",
        ),
        ("r: 0", "r: expected a number above zero, found 0"),
        ("r: -2", "r: expected a number above zero, found -2"),
        (
            "answer_tokens: 1",
            "answer_tokens: expected a whole number of at least 2, found 1",
        ),
        (
            "center: middle",
            "center: expected one of none, mean, geometric, found 'middle'\nhint: valid: none, mean, geometric",
        ),
        ("joint: 1", "joint: expected true or false, found 1"),
    ] {
        assert_eq!(
            error_of(&format!("{SPEC}damage:\n  {setting}\n")),
            format!("demo.yaml:9: damage.{message}")
        );
    }
    let bare = "{schema: 1, name: demo, models: [tiny]";
    assert_eq!(
        error_of(&format!("{bare}, damage: {{}}}}")),
        "demo.yaml:1: damage: no budget is given, neither here nor at the top\nhint: write budgets: [10%]"
    );
    assert_eq!(
        error_of(&format!("{SPEC}damage: {{}}\nprofile:\n  signals: false\n")),
        "demo.yaml:10: profile.signals: `damage` ranks layers by these signals as well, so they are needed\nhint: leave `signals` out, or leave `damage` out"
    );
    assert_eq!(
        error_of(&format!("{bare}}}")),
        "demo.yaml: the key 'methods' is missing",
        "without `damage` nothing would be left to do"
    );
}

#[test]
fn calibration_packs() {
    let spec = SPEC.replace("snapkv]", "ripplekv]");
    let folder = TempDir::new().unwrap();
    pack::write(&folder.path().join("pack"), 2);
    assert_eq!(
        error_in(&folder, &format!("{spec}profile: {{calibration: mine}}\n")),
        "demo.yaml:8: profile.calibration: no calibration pack at DIR/calibration\nhint: name a pack or its folder; `default` is datasets/calibration"
    );
    pack::write(&folder.path().join("calibration"), 1);
    std::fs::write(
        folder.path().join("calibration/data/ticket_class.jsonl"),
        "",
    )
    .unwrap();
    let error = error_in(&folder, &format!("{spec}profile: {{samples: 4}}\n"));
    assert!(
        error.contains("ticket_class.jsonl") || error.contains("has 1 record"),
        "{error}"
    );
    std::fs::write(
        folder.path().join("calibration/data/ticket_class.jsonl"),
        "{\"input\"\n",
    )
    .unwrap();
    let error = error_in(&folder, &spec);
    assert!(error.contains("ticket_class.jsonl:1"), "{error}");
}
