//! A folder to work in, with a pack and a spec, and the program started in it.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin;
use tempfile::TempDir;

/// Two tasks, three methods, two budgets: ten cells.
pub(crate) const SPEC: &str = "
schema: 1
name: demo
models: [tiny]
tasks: {pack: ./pack}
budgets: [25%, 50%]
methods: [full, streaming-llm, snapkv]
";

/// A folder with `pack/` and `demo.yaml`.
pub(crate) struct Folder(TempDir);

impl Folder {
    /// `records` records in each of two tasks.
    pub(crate) fn new(records: usize) -> Self {
        let folder = Self(TempDir::new().unwrap());
        folder.write("demo.yaml", SPEC);
        folder.write(
            "pack/config/dataset2prompt.json",
            r#"{"logbook_qa": "Read. {context} Question: {input} Answer:", "ticket_class": "{context} {input}"}"#,
        );
        folder.write(
            "pack/config/dataset2maxlen.json",
            r#"{"logbook_qa": 6, "ticket_class": 6}"#,
        );
        for task in ["logbook_qa", "ticket_class"] {
            let lines: String = (0..records).map(|number| record(task, number)).collect();
            folder.write(&format!("pack/data/{task}.jsonl"), &lines);
        }
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap()
    }

    /// The program in this folder, with the fake engine.
    pub(crate) fn fake(&self) -> Command {
        let mut command = self.real();
        command.env("RIPPLEKV_FAKE_ENGINE", "1");
        command
    }

    /// The program in this folder, with the real catalog and an empty home.
    pub(crate) fn real(&self) -> Command {
        let mut command = Command::new(program());
        command
            .current_dir(self.path())
            .env("RIPPLEKV_HOME", self.at("home"))
            .env("HF_HOME", self.at("hf"))
            .env_remove("RIPPLEKV_FAKE_ENGINE");
        command
    }

    /// All stored records of `results/demo`, one JSON text a line.
    pub(crate) fn records(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for task in ["logbook_qa", "ticket_class"] {
            for writer in 0..4 {
                let path = self.at(&format!("results/demo/records/tiny/{task}/w{writer}.jsonl"));
                let text = std::fs::read_to_string(path).unwrap_or_default();
                lines.extend(text.lines().map(str::to_owned));
            }
        }
        lines
    }
}

/// The built program.
pub(crate) fn program() -> PathBuf {
    cargo_bin!("ripplekv").to_owned()
}

fn record(task: &str, number: usize) -> String {
    let words: Vec<String> = (0..60)
        .map(|word| format!("w{}", (word * 7 + number) % 40))
        .collect();
    let record = serde_json::json!({
        "input": format!("where is thing {number}?"),
        "context": words.join(" "),
        "answers": [format!("w{}", number % 40)],
        "length": words.len(),
        "dataset": task,
        "language": "en",
        "all_classes": ["w1", "w2"],
        "_id": format!("{task}-{number}"),
    });
    format!("{record}\n")
}

/// Standard output and standard error of a command that ended with `code`.
pub(crate) fn output_of(command: &mut Command, code: i32) -> (String, String) {
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{stdout}\n{stderr}");
    (stdout, stderr)
}
