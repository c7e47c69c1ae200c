//! A small results folder whose every text tries to break out of a page, with stored prompts and kept positions.

use std::fs;
use std::path::Path;

use ripplekv_report::{ReportOptions, write_report};
use ripplekv_runner::cell::{Cell, CellKey, Query};
use ripplekv_runner::kept::{KeptBits, KeptLine, kept_hash, kept_lines};
use ripplekv_runner::prompt_text::{PROMPT_SCHEMA, PromptText};
use ripplekv_runner::record::Record;
use serde_json::json;
use tempfile::TempDir;

use crate::results_folder::{Folder, MethodRow, line};

/// Texts that a page must show and never obey.
pub(crate) const HOSTILE: &[&str] = &[
    "<script>window.stolen = 1</script>",
    "</script><script>window.stolen = 1</script>",
    "\"><img src=x onerror=\"window.stolen = 1\">",
    "' onmouseover='window.stolen = 1' x='",
    "{{ 7 * 7 }} {% raw %} ${7 * 7} <!-- ]]> -->",
    "\u{202e}turned around \u{2067}and isolated \u{200f}mark",
    "nul \0 bell \u{7} escape \u{1b}[31m delete \u{7f} c1 \u{85} end",
    "javascript:window.stolen=1",
    "a\r\nb\tc\u{2028}d",
];

const TASKS: &[(&str, &str)] = &[
    ("<img src=x onerror=stolen=1>", "single_doc_qa"),
    ("logbook_qa", "single_doc_qa"),
];

const METHODS: &[MethodRow] = &[
    ("full", "full", 0.0),
    ("</script><script>window.stolen=1</script>", "snapkv", 0.3),
    ("\u{202e}\"><b onclick='stolen=1'>\0", "ripplekv", 0.1),
];

/// Layers, KV heads and prompt tokens of what is stored.
pub(crate) const SHAPE: (usize, usize, usize) = (6, 2, 300);

/// A word wider than any screen.
fn long_word() -> String {
    "W".repeat(3_000)
}

fn folder() -> Folder {
    Folder {
        model: "model-<b>bold</b>",
        query: Query::Aware,
        tasks: TASKS.to_vec(),
        budgets: vec!["10%", "50%"],
        methods: METHODS.to_vec(),
        samples: 5,
        protocol: json!({"chat_template": "auto"}),
        model_hash: "weights",
        selected: None,
    }
}

/// Positions that a cell keeps: a share of them, other ones for every cell, layer and head.
fn kept(cell: &Cell) -> Vec<Vec<Vec<u32>>> {
    let (layers, heads, tokens) = SHAPE;
    let every = if cell.budget.as_deref() == Some("10%") {
        10
    } else {
        2
    };
    let shift = cell.method.label.len();
    let positions = |layer: usize, head: usize| {
        let is_kept =
            |position: &usize| (position + layer * 3 + head + shift).is_multiple_of(every);
        (0..tokens)
            .filter(is_kept)
            .map(|position| position as u32)
            .collect()
    };
    (0..layers)
        .map(|layer| (0..heads).map(|head| positions(layer, head)).collect())
        .collect()
}

fn spoil(cell: &Cell, records: &mut [Record]) {
    for (place, record) in records.iter_mut().enumerate() {
        let text = HOSTILE[(place + cell.method.label.len()) % HOSTILE.len()];
        record.prompt_tokens = SHAPE.2 as u64;
        record.sample = format!("{place} {}", HOSTILE[place]);
        record.output = match place {
            0 => long_word(),
            1 => format!("{text} {}", "many words ".repeat(2_000)),
            _ => text.to_owned(),
        };
        record.answers = HOSTILE.iter().map(|text| (*text).to_owned()).collect();
        record.all_classes = Some(vec![HOSTILE[0].to_owned(), long_word()]);
        record.warnings = vec![HOSTILE[2].to_owned()];
        if cell.budget.is_some() {
            record.kept_hash = kept_hash(Some(&kept(cell)));
        } else {
            record.kept_hash = kept_hash(None);
        }
        if place == 0 {
            // the sample with stored positions is the worst
            record.score = Some(if cell.budget.is_some() { 0.0 } else { 1.0 });
        }
        if place == 3 && cell.budget.is_some() {
            record.error = Some(HOSTILE[1].to_owned());
            record.score = None;
        }
    }
}

/// Writes the folder and its report; the first sample of each task has stored texts and kept positions.
pub(crate) fn report(out: &Path) -> TempDir {
    let made = folder();
    let results = TempDir::new().unwrap();
    made.write_with(results.path(), |cell, records| spoil(cell, records));
    let cells = made.cells();
    for (task, _) in TASKS {
        let path = |kind: &str| {
            let folder = results.path().join(kind).join(made.model).join(task);
            fs::create_dir_all(&folder).unwrap();
            folder.join("w0.jsonl")
        };
        let of_task: Vec<&Cell> = cells
            .iter()
            .filter(|cell| cell.task == *task && cell.budget.is_some())
            .collect();
        let sample = format!("0 {}", HOSTILE[0]);
        let bits: Vec<KeptBits> = of_task
            .iter()
            .map(|cell| KeptBits::new(&kept(cell), SHAPE.2).unwrap())
            .collect();
        let keys = of_task.iter().map(|cell| &cell.key);
        let lines: Vec<KeptLine> = kept_lines(&sample, keys.zip(&bits)).unwrap();
        fs::write(path("kept"), lines.iter().map(line).collect::<String>()).unwrap();
        let text = PromptText {
            schema: PROMPT_SCHEMA,
            sample,
            task: (*task).to_owned(),
            query: Query::Aware,
            prompt_hash: "p".repeat(16),
            prompt_tokens: SHAPE.2,
            head: format!("{} {}", HOSTILE.join("\n"), long_word()),
            left_out_characters: 12,
            tail: HOSTILE.concat(),
            pieces: Some(
                (0..SHAPE.2)
                    .map(|place| format!(" {}", HOSTILE[place % HOSTILE.len()]))
                    .collect(),
            ),
        };
        fs::write(path("prompts"), line(&text)).unwrap();
    }
    let options = ReportOptions {
        prompt_pages: 4,
        ..made.options()
    };
    write_report(&[results.path().to_owned()], out, &options).unwrap();
    results
}

/// The key of a compressed cell of the second task.
pub(crate) fn some_cell() -> CellKey {
    let cells = folder().cells();
    let found = cells
        .iter()
        .find(|cell| cell.task == "logbook_qa" && cell.budget.is_some());
    found.unwrap().key.clone()
}
