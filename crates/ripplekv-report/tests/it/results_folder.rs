//! Writes results folders in the layout of `design.md` 8, through the runner's own types.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ripplekv_report::{ReportOptions, TaskLabel};
use ripplekv_runner::cell::{Cell, CellKey, Query, ResolvedMethod};
use ripplekv_runner::engine::Finish;
use ripplekv_runner::record::{RECORD_SCHEMA, Record, Timing};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const LAYERS: usize = 30;

/// A method of the made-up grid: label, name, how much of the full score it loses at a budget of 10%.
pub(crate) type MethodRow = (&'static str, &'static str, f64);

/// A results folder to be.
pub(crate) struct Folder {
    pub(crate) model: &'static str,
    pub(crate) query: Query,
    pub(crate) tasks: Vec<(&'static str, &'static str)>,
    pub(crate) budgets: Vec<&'static str>,
    pub(crate) methods: Vec<MethodRow>,
    pub(crate) samples: usize,
    pub(crate) protocol: Value,
    pub(crate) model_hash: &'static str,
    /// How many samples a task selected; `None` writes a manifest as programs did before it listed them.
    pub(crate) selected: Option<usize>,
}

pub(crate) const METHODS: &[MethodRow] = &[
    ("full", "full", 0.0),
    ("streaming-llm", "streaming-llm", 0.45),
    ("snapkv", "snapkv", 0.12),
    ("pyramidkv", "pyramidkv", 0.15),
];

pub(crate) const QUICKSTART_TASKS: &[(&str, &str)] = &[
    ("logbook_qa", "single_doc_qa"),
    ("dossier_qa", "multi_doc_qa"),
    ("minutes_sum", "summarization"),
    ("ticket_class", "few_shot"),
    ("paragraph_find", "synthetic"),
    ("module_line", "code"),
];

pub(crate) const SIXTEEN_TASKS: &[(&str, &str)] = &[
    ("narrativeqa", "single_doc_qa"),
    ("qasper", "single_doc_qa"),
    ("multifieldqa_en", "single_doc_qa"),
    ("hotpotqa", "multi_doc_qa"),
    ("2wikimqa", "multi_doc_qa"),
    ("musique", "multi_doc_qa"),
    ("gov_report", "summarization"),
    ("qmsum", "summarization"),
    ("multi_news", "summarization"),
    ("trec", "few_shot"),
    ("triviaqa", "few_shot"),
    ("samsum", "few_shot"),
    ("passage_count", "synthetic"),
    ("passage_retrieval_en", "synthetic"),
    ("lcc", "code"),
    ("repobench-p", "code"),
];

impl Folder {
    /// Six tasks, three budgets, four methods, four samples a task.
    pub(crate) fn quickstart() -> Folder {
        Folder {
            model: "smollm2-135m-instruct-q4",
            query: Query::Aware,
            tasks: QUICKSTART_TASKS.to_vec(),
            budgets: vec!["10%", "20%", "50%"],
            methods: METHODS.to_vec(),
            samples: 4,
            protocol: json!({"chat_template": "auto", "bos": "auto", "numerics": 1}),
            model_hash: "weights-a",
            selected: None,
        }
    }

    /// Tasks and their categories as the command line would pass them; resampling kept short.
    pub(crate) fn options(&self) -> ReportOptions {
        ReportOptions {
            tasks: self
                .tasks
                .iter()
                .map(|(name, category)| TaskLabel {
                    name: (*name).to_owned(),
                    category: (*category).to_owned(),
                    in_average: SIXTEEN_TASKS.contains(&(*name, *category)),
                    metric: "qa-f1".to_owned(),
                })
                .collect(),
            bootstrap_resamples: 500,
            ..ReportOptions::default()
        }
    }

    pub(crate) fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (task, _) in &self.tasks {
            for (label, name, _) in &self.methods {
                let budgets: Vec<Option<&str>> = if *name == "full" {
                    vec![None]
                } else {
                    self.budgets.iter().map(|budget| Some(*budget)).collect()
                };
                for budget in budgets {
                    cells.push(self.cell(task, label, name, budget));
                }
            }
        }
        cells
    }

    fn cell(&self, task: &str, label: &str, name: &str, budget: Option<&str>) -> Cell {
        let mut protocol = self.protocol.clone();
        protocol["data"] = json!(format!("data of {task}"));
        protocol["short_prompts"] = budget.map_or(Value::Null, |_| json!("shrink"));
        let identity = format!(
            "{} {task} {label} {budget:?} {:?} {protocol}",
            self.model, self.query
        );
        Cell {
            key: CellKey(format!("{:016x}", hash(&identity))),
            model: self.model.to_owned(),
            task: task.to_owned(),
            method: ResolvedMethod {
                name: name.to_owned(),
                label: label.to_owned(),
                params: json!({"window": 64}),
            },
            budget: budget.map(str::to_owned),
            query: self.query,
            protocol,
        }
    }

    pub(crate) fn records(&self, cell: &Cell) -> Vec<Record> {
        (0..self.samples)
            .map(|index| self.record(cell, index))
            .collect()
    }

    fn record(&self, cell: &Cell, index: usize) -> Record {
        let sample = format!("{}-{index}", cell.task);
        let prompt_tokens = 1500 + hash(&sample) % 1500;
        let share = share(cell.budget.as_deref(), prompt_tokens);
        let loss = self
            .methods
            .iter()
            .find(|(label, _, _)| *label == cell.method.label)
            .map_or(0.0, |(_, _, loss)| loss * (0.1 / share).min(1.0));
        // The same luck for every method on a sample, so that pairing means something.
        let luck = (hash(&sample) % 1000) as f64 / 1000.0;
        let own = (hash(&format!("{sample}{}", cell.key)) % 1000) as f64 / 1000.0;
        let score = match cell.budget {
            None => 0.3 + 0.7 * luck,
            Some(_) => ((0.3 + 0.7 * luck) * (1.0 - loss) + 0.1 * (own - 0.5)).clamp(0.0, 1.0),
        };
        let kept = (share * prompt_tokens as f64).round() as u32;
        Record {
            schema: RECORD_SCHEMA,
            cell: cell.key.clone(),
            // Of one word that no other sample shares, so that no fixed answer scores anything.
            answers: vec![sample.clone()],
            sample,
            index: index as u64,
            prompt_hash: "p".repeat(16),
            prompt_tokens,
            removed_tokens: 0,
            budget_entries: cell
                .budget
                .as_ref()
                .map(|_| u64::from(kept) * LAYERS as u64),
            kept_per_layer: vec![kept; LAYERS],
            cache_bytes: u64::from(kept) * LAYERS as u64 * 3 * 64 * 2 * 4,
            kept_hash: "k".repeat(16),
            must_keep_tokens: 64,
            short_prompt: false,
            profile_hash: None,
            calibrated: None,
            answer_kl: None,
            output_tokens: 12,
            finish: Some(Finish::Stop),
            output: "an answer, with a comma".to_owned(),
            all_classes: None,
            length: 1000,
            score: Some(score),
            score_levenshtein: None,
            edit_similarity: Some(0.5),
            warnings: Vec::new(),
            error: None,
        }
    }

    /// Writes everything, after `change` had its way with the records.
    pub(crate) fn write_with(
        &self,
        folder: &Path,
        mut change: impl FnMut(&Cell, &mut Vec<Record>),
    ) {
        let cells = self.cells();
        let map: BTreeMap<&str, &Cell> = cells
            .iter()
            .map(|cell| (cell.key.0.as_str(), cell))
            .collect();
        fs::create_dir_all(folder).unwrap();
        fs::write(
            folder.join("cells.json"),
            serde_json::to_string_pretty(&map).unwrap(),
        )
        .unwrap();
        let methods: Vec<Value> = self
            .methods
            .iter()
            .map(|(label, name, _)| json!({"name": name, "label": label, "params": {}}))
            .collect();
        let mut manifest = json!({
            "schema": 1,
            "name": "made-up",
            "spec": {"methods": methods, "budgets": self.budgets},
            "cells": cells.iter().map(|cell| &cell.key).collect::<Vec<_>>(),
            "models": {self.model: {"model_hash": self.model_hash, "dtype": "f32"}},
        });
        if let Some(count) = self.selected {
            let ids = |task: &str| -> Vec<String> {
                (0..count).map(|index| format!("{task}-{index}")).collect()
            };
            let tasks: BTreeMap<&str, Vec<String>> = self
                .tasks
                .iter()
                .map(|(task, _)| (*task, ids(task)))
                .collect();
            manifest["selected"] = json!({ self.model: tasks });
        }
        fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
        for (task, _) in &self.tasks {
            let (mut records, mut timings) = (String::new(), String::new());
            for cell in cells.iter().filter(|cell| cell.task == *task) {
                let mut of_cell = self.records(cell);
                change(cell, &mut of_cell);
                for record in of_cell {
                    records.push_str(&line(&record));
                    timings.push_str(&line(&timing(&record)));
                }
            }
            self.write_lines(folder, "records", task, &records);
            self.write_lines(folder, "timings", task, &timings);
        }
    }

    fn write_lines(&self, folder: &Path, kind: &str, task: &str, text: &str) {
        let path = self.path(folder, kind, task);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn path(&self, folder: &Path, kind: &str, task: &str) -> PathBuf {
        folder
            .join(kind)
            .join(self.model.replace(['/', '|', '.'], "_"))
            .join(task)
            .join("w0.jsonl")
    }

    /// A folder of its own, complete and sound.
    pub(crate) fn written(&self) -> TempDir {
        let folder = TempDir::new().unwrap();
        self.write_with(folder.path(), |_, _| {});
        folder
    }
}

pub(crate) fn line(value: &impl serde::Serialize) -> String {
    format!("{}\n", serde_json::to_string(value).unwrap())
}

fn timing(record: &Record) -> Timing {
    Timing {
        cell: record.cell.clone(),
        sample: record.sample.clone(),
        prefill_ms: 4000.0,
        compress_ms: 8.5,
        decode_ms: 600.0,
        peak_rss_bytes: 700 << 20,
        alone: false,
    }
}

fn share(budget: Option<&str>, prompt_tokens: u64) -> f64 {
    match budget {
        None => 1.0,
        Some(text) => match text.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().unwrap() / 100.0,
            None => text.parse::<f64>().unwrap() / prompt_tokens as f64,
        },
    }
}

/// FNV-1a, so that made-up scores never change with a library.
fn hash(text: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    text.bytes().fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    }) >> 16
}
