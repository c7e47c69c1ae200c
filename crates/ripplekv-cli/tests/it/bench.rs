//! `ripplekv bench`: what it measures, keeps and shows. Times are not looked at.

use serde_json::{Value, json};

use crate::program::{Folder, output_of};

fn prompts(folder: &Folder) {
    let prompt = |tokens: usize| json!({"tokens": tokens, "ids": vec![7; tokens]});
    let prompts = json!({"schema": 1, "prompts": [prompt(32), prompt(64)]});
    folder.write("prompts.json", &prompts.to_string());
}

#[test]
fn measurements_add_up_in_one_file_and_stand_beside_the_peers() {
    let folder = Folder::new(1);
    prompts(&folder);
    let peers = json!({
        "versions": {"torch": "2.15.0"},
        "threads": 2,
        "forward": [{"tokens": 32, "prefill_seconds": [4.0, 2.0, 3.0], "decode_milliseconds": 9.0, "peak_rss_bytes": 1}],
        "attention": [{"tokens": 64, "gflop_per_second": 100.0}],
        "grid": [],
    });
    folder.write("peers.json", &peers.to_string());
    let bench = |rest: &[&str]| {
        let fixed = [
            "bench",
            "--prompts",
            "prompts.json",
            "--model",
            "tiny",
            "--out",
            "ours.json",
        ];
        output_of(folder.fake().args(fixed).args(rest), 0)
    };
    bench(&["--parts", "forward", "--repeats", "2"]);
    bench(&["--parts", "profile,attention", "--lengths", "64"]);
    let stored: Value = serde_json::from_str(&folder.read("ours.json")).unwrap();
    let lengths: Vec<&Value> = stored["forward"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["tokens"])
        .collect();
    assert_eq!(lengths, [32, 64]);
    assert_eq!(
        stored["forward"][0]["prefill_seconds"],
        json!([0.001, 0.001])
    );
    assert_eq!(stored["commands"].as_array().unwrap().len(), 2);
    let (text, _) = bench(&[
        "--parts",
        "forward",
        "--lengths",
        "32",
        "--json",
        "--peers",
        "peers.json",
    ]);
    let shown: Value = serde_json::from_str(&text).unwrap();
    let line = |work: &str| {
        let lines = shown["lines"].as_array().unwrap();
        lines
            .iter()
            .find(|line| line["work"] == work)
            .cloned()
            .unwrap()
    };
    let prefill = line("prefill, 32 tokens");
    assert_eq!(prefill["peer"], 32.0 / 3.0);
    assert_eq!(prefill["times_better"], 3.0 / 0.001);
    assert_eq!(line("prefill, 64 tokens")["peer"], Value::Null);
    assert_eq!(
        line("decode, one row after 32 tokens")["times_better"],
        9.0 / (0.5 / 64.0)
    );
    let profile = line("profile of sensitivity of one sample alone, 64 tokens, answer of 32");
    assert_eq!(profile["unit"], "own prefills");
    let of_all = "profile with signals and control of each of 4 samples, 64 tokens, answer of 32";
    assert_eq!(line(of_all)["target"], "under 2");
    let attention = line("attention of one layer, 64 tokens");
    assert_eq!(attention["peer"], 100.0);
    assert!(attention["ours"].as_f64().unwrap() > 0.0);
    let (text, _) = bench(&[
        "--parts",
        "forward",
        "--lengths",
        "32",
        "--peers",
        "peers.json",
    ]);
    assert!(
        text.contains("| prefill, 32 tokens | tokens/s | 32000 | 10.7 | 3000 | at least as good |"),
        "{text}"
    );
}

#[test]
fn wrong_files_and_lengths_are_named() {
    let folder = Folder::new(1);
    prompts(&folder);
    let error = |rest: &[&str]| {
        let fixed = ["bench", "--parts", "forward"];
        output_of(folder.fake().args(fixed).args(rest), 3).1
    };
    let no_length = error(&[
        "--model",
        "tiny",
        "--prompts",
        "prompts.json",
        "--lengths",
        "33",
    ]);
    assert!(
        no_length.contains("none has 33 tokens\nhint: lengths there are: [32, 64]"),
        "{no_length}"
    );
    assert!(error(&["--prompts", "absent.json"]).contains("absent.json: "));
    folder.write("peers.json", "{}");
    let wrong_peers = error(&[
        "--model",
        "tiny",
        "--prompts",
        "prompts.json",
        "--peers",
        "peers.json",
    ]);
    assert!(
        wrong_peers.contains("peers.json: missing field"),
        "{wrong_peers}"
    );
    folder.write("ours.json", r#"{"schema": 1, "forward": []}"#);
    let older = error(&["--model", "tiny", "--out", "ours.json"]);
    assert!(
        older.contains("ours.json: schema: this program reads 2, the file has 1\nhint: remove"),
        "{older}"
    );
    let unknown = error(&["--prompts", "prompts.json", "--model", "tinny"]);
    assert!(unknown.contains("unknown model 'tinny'"), "{unknown}");
}
