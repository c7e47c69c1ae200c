//! `run`, `plan`, `report`: exit codes, resuming, what goes where.

use std::process::Stdio;

use crate::program::{Folder, output_of};

#[test]
fn a_run_ends_with_the_table_and_the_report() {
    let folder = Folder::new(3);
    let (stdout, stderr) = output_of(folder.fake().args(["run", "demo.yaml"]), 0);
    for method in ["full", "streaming-llm", "snapkv"] {
        assert!(stdout.contains(method), "{stdout}");
    }
    let end = "report: reports/demo/report.md\npages: reports/demo/index.html\n";
    assert!(stdout.ends_with(end), "{stdout}");
    assert!(folder.at("reports/demo/index.html").is_file());
    assert!(folder.at("reports/demo/report.md").is_file());
    assert!(folder.at("results/demo/manifest.json").is_file());
    assert_eq!(folder.records().len(), 2 * 3 * 5);
    assert!(stderr.contains("10 cells, 6 prompts"), "{stderr}");
}

#[test]
fn running_again_computes_nothing_twice() {
    let folder = Folder::new(4);
    output_of(folder.fake().args(["run", "demo.yaml", "--limit", "2"]), 0);
    assert_eq!(folder.records().len(), 2 * 2 * 5);
    let (_, stderr) = output_of(folder.fake().args(["run", "demo.yaml"]), 0);
    assert!(stderr.contains("to do: 20 cells of 4 prompts"), "{stderr}");
    assert_eq!(folder.records().len(), 2 * 4 * 5);
    let (stdout, stderr) = output_of(folder.fake().args(["run", "demo.yaml", "-q"]), 0);
    assert!(
        stdout.ends_with("pages: reports/demo/index.html\n"),
        "{stdout}"
    );
    assert!(!stderr.contains("cells"), "quiet: {stderr}");
    let lines = folder.records();
    let unique: std::collections::BTreeSet<&String> = lines.iter().collect();
    assert_eq!((lines.len(), unique.len()), (40, 40));
}

#[test]
fn plan_and_dry_run_tell_what_is_left_and_write_nothing() {
    let folder = Folder::new(4);
    let (stdout, _) = output_of(folder.fake().args(["plan", "demo.yaml"]), 0);
    assert!(
        stdout.starts_with("demo: 10 cells; pack quickstart in ./pack; results in results/demo\n"),
        "{stdout}"
    );
    assert!(stdout.contains("to do"), "{stdout}");
    assert!(!folder.at("results").exists());
    output_of(
        folder
            .fake()
            .args(["run", "demo.yaml", "--only", "task=logbook_qa"]),
        0,
    );
    let (stdout, _) = output_of(folder.fake().args(["run", "demo.yaml", "--dry-run"]), 0);
    let row = |task: &str| -> Vec<String> {
        let line = stdout.lines().find(|line| line.contains(task)).unwrap();
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(row("logbook_qa")[6..], ["20", "0", "0", "done"]);
    assert_eq!(row("ticket_class")[6..], ["0", "0", "20", "to", "do"]);
    assert!(stdout.contains("tokens to prefill"), "{stdout}");
    let (stdout, _) = output_of(folder.fake().args(["plan", "demo.yaml", "--json"]), 0);
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(json["cells"].as_array().unwrap().len(), 10);
    assert_eq!(json["spec"]["protocol"]["chat_template"], "auto");
}

#[test]
fn plan_tells_what_damage_takes() {
    let folder = Folder::new(4);
    let calibration = folder.path().join("pack");
    let plan = |settings: &[&str]| {
        let own = format!("profile.calibration={}", calibration.display());
        let settings = settings.iter().flat_map(|setting| ["--set", *setting]);
        let arguments = ["plan", "demo.yaml", "--set", own.as_str()];
        output_of(folder.fake().args(arguments).args(settings), 0).0
    };
    let line = |text: &str| {
        let lines = text.lines().find(|line| line.contains(": damage of "));
        lines.unwrap_or_default().to_owned()
    };
    let megabytes = |line: &str| -> u32 {
        let (_, behind) = line.split_once("peak memory about ").unwrap();
        behind.split_once(" MB").unwrap().0.parse().unwrap()
    };
    assert_eq!(line(&plan(&[])), "");
    let whole = line(&plan(&["damage.budgets=[50%]"]));
    assert!(whole.starts_with("tiny: damage of 8 prompts, "), "{whole}");
    // long answers that are scored, and caches by every signal, are held as well
    let less = line(&plan(&[
        "damage={budgets: [50%], joint: false, task_score: false}",
    ]));
    assert!(megabytes(&whole) > megabytes(&less), "{whole} {less}");
}

#[test]
fn selection_options_reach_the_run() {
    let folder = Folder::new(4);
    let arguments = [
        "run",
        "demo.yaml",
        "--set",
        "methods=[full]",
        "--only",
        "task=ticket*",
        "--limit",
        "2-3",
        "--out",
        "elsewhere",
        "--pack",
        "pack",
        "--threads",
        "1",
    ];
    let (stdout, _) = output_of(folder.fake().args(arguments), 0);
    assert!(
        stdout.ends_with("pages: elsewhere/report/index.html\n"),
        "{stdout}"
    );
    let text =
        std::fs::read_to_string(folder.at("elsewhere/records/tiny/ticket_class/w0.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 2);
    assert!(text.contains("ticket_class-1") && text.contains("ticket_class-2"));
}

#[test]
fn shards_leave_the_report_to_the_user() {
    let folder = Folder::new(20);
    for shard in ["1/2", "2/2"] {
        let (stdout, stderr) = output_of(
            folder.fake().args(["run", "demo.yaml", "--shard", shard]),
            0,
        );
        assert_eq!(stdout, "");
        assert!(
            stderr.contains("when all are: ripplekv report results/demo"),
            "{stderr}"
        );
    }
    assert_eq!(folder.records().len(), 2 * 20 * 5);
    let (stdout, _) = output_of(folder.fake().args(["report", "results/demo", "--json"]), 0);
    let rows: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 5);
}

#[test]
fn nothing_selected_is_4_and_usage_is_2() {
    let folder = Folder::new(2);
    let run = |arguments: &[&str], code| {
        output_of(
            folder.fake().args(["run", "demo.yaml"]).args(arguments),
            code,
        )
        .1
    };
    let stderr = run(&["--only", "method=nothing"], 4);
    assert!(
        stderr.contains("nothing selected: no cell passes --only method=nothing"),
        "{stderr}"
    );
    run(&["--limit", "7-9"], 4);
    run(&["--limit", "none"], 2);
    run(&["--shard", "3/2"], 2);
    run(&["--only", "colour=red"], 2);
    run(&["--set", "tasks.limit"], 2);
    run(&["--no-such-option"], 2);
}

#[test]
fn a_closed_pipe_is_success() {
    let folder = Folder::new(1);
    let mut child = std::process::Command::new(crate::program::program())
        .args(["ls", "tasks", "--json"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn two_results_folders_of_one_name_keep_their_reports() {
    let folder = Folder::new(1);
    for out in ["a/x", "b/x"] {
        let (stdout, _) = output_of(folder.fake().args(["run", "demo.yaml", "--out", out]), 0);
        assert!(
            stdout.ends_with(&format!("pages: {out}/report/index.html\n")),
            "{stdout}"
        );
    }
    let (stdout, _) = output_of(folder.fake().args(["report", "a/x"]), 0);
    assert!(
        stdout.ends_with("pages: a/x/report/index.html\n"),
        "{stdout}"
    );
    assert!(!folder.at("reports").exists());
}

#[test]
fn a_report_of_a_smaller_selection_counts_that_selection() {
    let folder = Folder::new(4);
    output_of(folder.fake().args(["run", "demo.yaml"]), 0);
    let (_, stderr) = output_of(folder.fake().args(["run", "demo.yaml", "--limit", "2"]), 0);
    assert!(
        stderr.contains("20 stored records outside the last selection are left out"),
        "{stderr}"
    );
    let (stdout, _) = output_of(folder.fake().args(["report", "results/demo", "--json"]), 0);
    let rows: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    for row in rows.as_array().unwrap() {
        assert_eq!((&row["n"], &row["expected"]), (&4.into(), &4.into()));
    }
}

#[test]
fn a_report_of_another_folder_is_3() {
    let folder = Folder::new(1);
    let (_, stderr) = output_of(folder.fake().args(["report", "pack"]), 3);
    assert!(
        stderr.contains("pack: not a results folder: no manifest.json"),
        "{stderr}"
    );
    assert!(stderr.contains("hint: "), "{stderr}");
    assert!(!folder.at("pack/report").exists());
}
