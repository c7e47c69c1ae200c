//! A real signal to a real process.

#![cfg(unix)]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{Folder, output_of, program};

/// Starts a run whose prompts take `milliseconds`, and waits until the first is stored.
fn start(folder: &Folder, milliseconds: &str) -> Child {
    let child = Command::new(program())
        .args(["run", "demo.yaml", "--set", "budgets=[25%, 50%]"])
        .current_dir(folder.path())
        .env("RIPPLEKV_FAKE_ENGINE", "1")
        .env("RIPPLEKV_FAKE_DELAY_MS", milliseconds)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while folder.records().is_empty() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "no record came"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

#[test]
fn the_first_signal_finishes_the_prompt_in_hand() {
    for name in ["INT", "TERM", "USR1"] {
        let folder = Folder::new(8);
        let child = start(&folder, "300");
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(5), "{name}: {stderr}");
        assert!(output.stdout.is_empty());
        assert!(
            stderr.contains("finishing the prompt in hand; Ctrl-C again stops at once\n"),
            "{stderr}"
        );
        assert!(
            stderr.contains("to continue: ripplekv run demo.yaml --set 'budgets=[25%, 50%]'"),
            "{stderr}"
        );
        let stored = folder.records().len();
        assert!(
            stored > 0 && stored < 80 && stored.is_multiple_of(5),
            "whole prompts: {stored}"
        );
        output_of(folder.fake().args(["run", "demo.yaml"]), 0);
        assert_eq!(
            folder.records().len(),
            80,
            "{name}: nothing twice, nothing lost"
        );
    }
}

#[test]
fn the_second_signal_ends_the_program_at_once() {
    let folder = Folder::new(8);
    let child = start(&folder, "3000");
    signal(&child, "INT");
    std::thread::sleep(Duration::from_millis(30));
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        !stderr.contains("to continue"),
        "it had no time to say so: {stderr}"
    );
    output_of(folder.fake().args(["run", "demo.yaml"]), 0);
    assert_eq!(folder.records().len(), 80);
}

#[test]
fn two_processes_share_one_folder() {
    let folder = Folder::new(24);
    let spawn = || {
        Command::new(program())
            .args(["run", "demo.yaml", "-q"])
            .current_dir(folder.path())
            .env("RIPPLEKV_FAKE_ENGINE", "1")
            .env("RIPPLEKV_FAKE_DELAY_MS", "20")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut children = [spawn(), spawn()];
    let codes: Vec<Option<i32>> = children
        .iter_mut()
        .map(|child| child.wait().unwrap().code())
        .collect();
    assert!(codes.contains(&Some(0)), "{codes:?}");
    assert!(
        codes.iter().all(|code| matches!(code, Some(0 | 5))),
        "{codes:?}"
    );
    let lines = folder.records();
    let unique: std::collections::BTreeSet<&String> = lines.iter().collect();
    assert_eq!((lines.len(), unique.len()), (240, 240));
}
