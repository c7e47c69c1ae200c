//! Reads what runs store for readers besides records: prompt texts and kept positions (`ripplekv_runner::prompt_text`,
//! `ripplekv_runner::kept`). One task at a time and unpacked one prompt at a time, because `store_kept: all` stores a lot.
//! Kept positions count only where their hash is the one of the record beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ripplekv_runner::cell::{CellKey, Query};
use ripplekv_runner::kept::{KEPT_SCHEMA, KeptBits, KeptLine, kept_hash};
use ripplekv_runner::prompt_text::{PROMPT_SCHEMA, PromptText};
use ripplekv_runner::record::Record;
use serde::de::DeserializeOwned;

use crate::group::Group;
use crate::read::{CellSamples, LeftOut, Results, children, complete_lines};
use crate::summary::CellSummary;

/// What is stored of the prompts of one model and task.
#[derive(Debug, Default)]
pub(crate) struct TaskTexts {
    texts: BTreeMap<(String, Query), PromptText>,
    /// Lines in file order, by sample and file.
    kept: BTreeMap<String, BTreeMap<PathBuf, Vec<KeptLine>>>,
    /// Lines that cannot be read.
    pub(crate) warnings: Vec<String>,
}

impl TaskTexts {
    /// Reads the lines of some samples from all folders and writers.
    pub(crate) fn read(
        folders: &[PathBuf],
        model: &str,
        task: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> TaskTexts {
        let mut read = TaskTexts::default();
        for folder in folders {
            let files = |kind: &str| children(&folder.join(kind).join(model).join(task));
            for path in files("prompts") {
                for text in read.lines::<PromptText>(&path) {
                    if text.schema <= PROMPT_SCHEMA && is_wanted(&text.sample) {
                        read.add(text);
                    }
                }
            }
            for path in files("kept") {
                for line in read.lines::<KeptLine>(&path) {
                    if line.schema <= KEPT_SCHEMA && is_wanted(&line.sample) {
                        let of_sample = read.kept.entry(line.sample.clone()).or_default();
                        of_sample.entry(path.clone()).or_default().push(line);
                    }
                }
            }
        }
        read
    }

    fn lines<T: DeserializeOwned>(&mut self, path: &Path) -> Vec<T> {
        if path.extension().is_none_or(|end| end != "jsonl") {
            return Vec::new();
        }
        let mut values = Vec::new();
        let mut left_out = LeftOut::default();
        for (place, line) in complete_lines(path, &mut self.warnings) {
            match serde_json::from_str(&line) {
                Ok(value) => values.push(value),
                Err(error) => left_out.add(format!("{place}: line left out: {error}")),
            }
        }
        left_out.tell(path, &mut self.warnings);
        values
    }

    /// Of two texts of one prompt the one with pieces counts.
    fn add(&mut self, text: PromptText) {
        let key = (text.sample.clone(), text.query);
        let known = self.texts.get(&key);
        if known.is_none_or(|known| known.pieces.is_none() && text.pieces.is_some()) {
            self.texts.insert(key, text);
        }
    }

    /// The text of a prompt, where it is stored and is the one of these token ids.
    pub(crate) fn text(
        &self,
        sample: &str,
        query: Query,
        prompt_hash: &str,
    ) -> Option<&PromptText> {
        let text = self.texts.get(&(sample.to_owned(), query))?;
        (text.prompt_hash == prompt_hash).then_some(text)
    }

    /// What the cells of a sample kept; lines that are damaged or not those of the record are left out with a note.
    pub(crate) fn kept(
        &self,
        sample: &str,
        rows: &TaskRows<'_>,
        notes: &mut Vec<String>,
    ) -> BTreeMap<CellKey, KeptBits> {
        let mut sound = BTreeMap::new();
        for lines in self.kept.get(sample).into_iter().flat_map(BTreeMap::values) {
            let mut known: BTreeMap<&CellKey, KeptBits> = BTreeMap::new();
            for line in lines {
                let like = line.like.as_ref().and_then(|cell| known.get(cell));
                match line.unpack(like) {
                    Ok(bits) => {
                        known.insert(&line.cell, bits);
                    }
                    Err(error) => {
                        notes.push(format!("kept positions of cell {}: {error}", line.cell))
                    }
                }
            }
            for (cell, bits) in known {
                let Some(record) = rows.record(cell, sample) else {
                    continue;
                };
                if kept_hash(Some(&bits.sets())) == record.kept_hash {
                    sound.insert(cell.clone(), bits);
                } else {
                    notes.push(format!(
                        "kept positions of cell {cell} are not those of its record"
                    ));
                }
            }
        }
        sound
    }
}

/// The cells of one task of a group, in table order, with their records.
pub(crate) struct TaskRows<'a> {
    pub(crate) rows: Vec<TaskRow<'a>>,
}

/// One cell with its records by sample.
pub(crate) struct TaskRow<'a> {
    pub(crate) summary: &'a CellSummary,
    pub(crate) records: BTreeMap<&'a str, &'a Record>,
}

impl<'a> TaskRows<'a> {
    pub(crate) fn new(group: &'a Group, task: &str, results: &'a Results) -> TaskRows<'a> {
        let by_key: BTreeMap<&CellKey, &CellSamples> = results
            .cells
            .iter()
            .map(|data| (&data.cell.key, data))
            .collect();
        let summaries = group.ordered_cells().into_iter();
        let rows = summaries
            .filter(|summary| summary.cell.task == task)
            .map(|summary| {
                let samples = by_key
                    .get(&summary.cell.key)
                    .map_or(&[][..], |data| &data.samples);
                let records = samples.iter().map(|sample| &sample.record);
                TaskRow {
                    summary,
                    records: records
                        .map(|record| (record.sample.as_str(), record))
                        .collect(),
                }
            })
            .collect();
        TaskRows { rows }
    }

    /// Record of a cell.
    pub(crate) fn record(&self, cell: &CellKey, sample: &str) -> Option<&'a Record> {
        let row = self.rows.iter().find(|row| row.summary.cell.key == *cell)?;
        row.records.get(sample).copied()
    }

    /// Samples in file order.
    pub(crate) fn samples(&self) -> Vec<&'a str> {
        let records = self.rows.iter().flat_map(|row| row.records.values());
        let ordered: BTreeSet<(u64, &str)> = records
            .map(|record| (record.index, record.sample.as_str()))
            .collect();
        let mut seen = BTreeSet::new();
        let samples = ordered.into_iter().map(|(_, sample)| sample);
        samples.filter(|sample| seen.insert(*sample)).collect()
    }
}

/// One prompt with what the methods kept of it at one budget: what the kept-position map shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeptPrompt {
    /// Title of the group it belongs to.
    pub(crate) group: String,
    pub(crate) task: String,
    pub(crate) sample: String,
    pub(crate) budget: String,
    /// Method, its place among the group's methods with budgets, and what it kept.
    pub(crate) methods: Vec<(String, usize, KeptBits)>,
}

/// First prompts of each task in which kept positions are looked for: `store_kept: all` stores too many to read them all.
const LOOKED_AT: usize = 4;

/// The first prompt of a group, in task and file order, that has kept positions; at the smallest budget that has them.
pub(crate) fn kept_prompt(
    group: &Group,
    results: &Results,
    folders: &[PathBuf],
) -> Option<KeptPrompt> {
    let labels = group.budgeted_methods();
    for task in &group.tasks {
        let rows = TaskRows::new(group, &task.name, results);
        let mut samples = rows.samples();
        samples.truncate(LOOKED_AT);
        let is_wanted = |sample: &str| samples.contains(&sample);
        let texts = TaskTexts::read(folders, &group.model, &task.name, is_wanted);
        for sample in &samples {
            let kept = texts.kept(sample, &rows, &mut Vec::new());
            for budget in &group.budgets {
                let of_label = |(place, label): (usize, &&str)| {
                    let cell = group.cell(label, Some(&budget.text), &task.name)?;
                    Some((
                        (*label).to_owned(),
                        place,
                        kept.get(&cell.cell.key)?.clone(),
                    ))
                };
                let methods: Vec<_> = labels.iter().enumerate().filter_map(of_label).collect();
                if !methods.is_empty() {
                    return Some(KeptPrompt {
                        group: group.title(),
                        task: task.name.clone(),
                        sample: (*sample).to_owned(),
                        budget: budget.text.clone(),
                        methods,
                    });
                }
            }
        }
    }
    None
}
