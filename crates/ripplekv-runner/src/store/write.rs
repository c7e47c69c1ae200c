//! The writing side of a results folder: one writer a process, whole prompts in one append.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cell::{Cell, CellKey, Query};
use crate::engine::ModelIdentity;
use crate::error::RunnerError;
use crate::prompt_text::PromptText;
use crate::record::{Record, Timing};
use crate::store::lines;
use crate::store::locks::{self, Claim};
use crate::store::manifest::Manifest;
use crate::store::read::read_json;

const WRITABLE_HINT: &str = "choose another folder with --out DIR, or free the space or rights";

/// An open results folder. Holds this process's writer name.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    writer: String,
    log: File,
    files: BTreeMap<PathBuf, File>,
    warnings: Vec<String>,
    _writer_lock: Claim,
}

impl Store {
    /// Whether a run may write here: the folder, or the one above that it would be made in, takes files, and
    /// its records have the manifest that says what made them. Leaves nothing behind.
    ///
    /// # Errors
    /// [`RunnerError::Io`] when the folder cannot be written, [`RunnerError::Stored`] for records without a manifest.
    pub fn check_folder(dir: &Path) -> Result<(), RunnerError> {
        let mut nearest = dir;
        while !nearest.exists() {
            nearest = match nearest.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            };
        }
        let probe = tempfile::Builder::new()
            .prefix(".probe")
            .suffix(".tmp")
            .tempfile_in(nearest)
            .map_err(|source| not_writable(dir, source))?;
        drop(probe);
        let manifest = dir.join("manifest.json");
        if !manifest.is_file() && !lines::files(&dir.join("records"))?.is_empty() {
            return Err(RunnerError::Stored {
                path: manifest,
                line: None,
                message: "is missing beside records, so which model made them is unknown"
                    .to_owned(),
                hint: "restore the file, or start afresh with --out DIR".to_owned(),
            });
        }
        Ok(())
    }

    /// Opens or creates the folder and takes the first free writer name.
    ///
    /// # Errors
    /// As [`Store::check_folder`].
    pub fn open(dir: &Path) -> Result<Self, RunnerError> {
        Self::check_folder(dir)?;
        std::fs::create_dir_all(dir).map_err(|source| not_writable(dir, source))?;
        let mut number = 0;
        let (writer, lock) = loop {
            let name = format!("w{number}");
            if let Some(lock) = locks::try_claim(dir, &format!("writer-{name}"))? {
                break (name, lock);
            }
            number += 1;
        };
        let (log, _) = lines::open_append(&dir.join("log.jsonl"))?;
        Ok(Self {
            dir: dir.to_owned(),
            writer,
            log,
            files: BTreeMap::new(),
            warnings: Vec::new(),
            _writer_lock: lock,
        })
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Name of this process's files.
    #[must_use]
    pub fn writer(&self) -> &str {
        &self.writer
    }

    /// What came up since the last call, such as cut lines.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Writes the manifest and adds cells; model identities of earlier runs stay, and so does what
    /// they selected in tasks of the plan that this run leaves out.
    ///
    /// # Errors
    /// When a file is damaged or cannot be written.
    pub fn write_plan(&self, manifest: &Manifest, cells: &[Cell]) -> Result<(), RunnerError> {
        let _lock = locks::claim(&self.dir, "manifest")?;
        let path = self.dir.join("cells.json");
        let mut known: BTreeMap<CellKey, Cell> = if path.is_file() {
            read_json(&path)?
        } else {
            BTreeMap::new()
        };
        for cell in cells {
            known.insert(cell.key.clone(), cell.clone());
        }
        write_json(&path, &known)?;
        let path = self.dir.join("manifest.json");
        let mut manifest = manifest.clone();
        if path.is_file() {
            let stored: Manifest = read_json(&path)?;
            manifest.peak_rss_bytes = stored.peak_rss_bytes;
            for (name, identity) in stored.models {
                manifest.models.entry(name).or_insert(identity);
            }
            for (model, tasks) in stored.selected {
                for (task, ids) in tasks {
                    let is_planned = |cell: &Cell| cell.model == model && cell.task == task;
                    if cells.iter().any(is_planned) {
                        let of_model = manifest.selected.entry(model.clone()).or_default();
                        of_model.entry(task).or_insert(ids);
                    }
                }
            }
        }
        write_json(&path, &manifest)
    }

    /// Notes the greatest memory seen, in bytes, where it is above what is stored.
    ///
    /// # Errors
    /// When the manifest is damaged or cannot be written.
    pub fn note_peak_memory(&self, bytes: u64) -> Result<(), RunnerError> {
        let _lock = locks::claim(&self.dir, "manifest")?;
        let path = self.dir.join("manifest.json");
        let mut manifest: Manifest = read_json(&path)?;
        if bytes <= manifest.peak_rss_bytes {
            return Ok(());
        }
        manifest.peak_rss_bytes = bytes;
        write_json(&path, &manifest)
    }

    /// Notes which model was loaded, or refuses one that differs from the one that made the stored records.
    ///
    /// # Errors
    /// [`RunnerError::Stored`] for another model under the same name.
    pub fn check_identity(&self, identity: &ModelIdentity) -> Result<(), RunnerError> {
        let _lock = locks::claim(&self.dir, "manifest")?;
        let path = self.dir.join("manifest.json");
        if !path.is_file() {
            // only a stage ran here so far; its own documents name the model
            return Ok(());
        }
        let mut manifest: Manifest = read_json(&path)?;
        if let Some(stored) = manifest.models.get(&identity.name) {
            let has_records = lines::files(&self.dir.join("records"))?
                .iter()
                .any(|(model, _, _)| *model == identity.name);
            if let Some((what, before, now)) = difference(stored, identity)
                && has_records
            {
                return Err(RunnerError::Stored {
                    path,
                    line: None,
                    message: format!(
                        "model '{}': its {what} was {before} when the stored records were made and is {now} now",
                        identity.name
                    ),
                    hint: "restore what it was, or start afresh with --out DIR".to_owned(),
                });
            }
        }
        manifest
            .models
            .insert(identity.name.clone(), identity.clone());
        write_json(&path, &manifest)
    }

    /// Takes a unit (model, task, block of prompts) if no other process has it.
    ///
    /// # Errors
    /// When the lock file cannot be made.
    pub fn claim(
        &self,
        model: &str,
        task: &str,
        block: usize,
    ) -> Result<Option<Claim>, RunnerError> {
        locks::try_claim(&self.dir, &format!("{model}/{task}/{block}"))
    }

    /// Stores all cells of one prompt.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn append(
        &mut self,
        model: &str,
        task: &str,
        records: &[Record],
        timings: &[Timing],
    ) -> Result<(), RunnerError> {
        self.append_lines("timings", model, task, timings)?;
        self.append_lines("records", model, task, records)
    }

    /// Appends values to this process's file of a kind; a file without lines is not made.
    pub(crate) fn append_lines<T: Serialize>(
        &mut self,
        kind: &str,
        model: &str,
        task: &str,
        values: &[T],
    ) -> Result<(), RunnerError> {
        if values.is_empty() {
            return Ok(());
        }
        let path = self
            .dir
            .join(kind)
            .join(model)
            .join(task)
            .join(format!("{}.jsonl", self.writer));
        if !self.files.contains_key(&path) {
            let (file, was_cut) = lines::open_append(&path)?;
            if was_cut {
                self.warnings.push(format!(
                    "{}: the last line was cut by a killed process and was removed",
                    path.display()
                ));
            }
            self.files.insert(path.clone(), file);
        }
        match self.files.get_mut(&path) {
            Some(file) => lines::append(file, &path, values),
            None => Ok(()),
        }
    }

    /// Prompts of a task whose texts are stored, by every writer.
    ///
    /// # Errors
    /// When a file is damaged.
    pub(crate) fn known_prompts(
        &self,
        model: &str,
        task: &str,
    ) -> Result<BTreeSet<KnownPrompt>, RunnerError> {
        let folder = self.dir.join("prompts").join(model).join(task);
        let mut known = BTreeSet::new();
        for name in lines::names(&folder)? {
            if name.ends_with(".jsonl") {
                let texts = lines::read::<PromptText>(&folder.join(name), &mut Vec::new())?;
                known.extend(texts.into_iter().map(KnownPrompt::from));
            }
        }
        Ok(known)
    }

    /// Adds a line to `log.jsonl`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn log<T: Serialize>(&mut self, entry: &T) -> Result<(), RunnerError> {
        let path = self.dir.join("log.jsonl");
        lines::append(&mut self.log, &path, std::slice::from_ref(entry))
    }
}

/// What tells stored prompt texts apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KnownPrompt {
    pub(crate) sample: String,
    pub(crate) query: Query,
    pub(crate) prompt_hash: String,
    pub(crate) has_pieces: bool,
}

impl From<PromptText> for KnownPrompt {
    fn from(text: PromptText) -> Self {
        Self {
            sample: text.sample,
            query: text.query,
            prompt_hash: text.prompt_hash,
            has_pieces: text.pieces.is_some(),
        }
    }
}

fn not_writable(dir: &Path, source: std::io::Error) -> RunnerError {
    RunnerError::Io {
        action: "cannot write the results folder",
        path: dir.to_owned(),
        source,
        hint: Some(WRITABLE_HINT),
    }
}

/// `cuda` of `cuda:1`: cards of one kind give the same numbers.
fn device_kind(device: &str) -> String {
    device.split(':').next().unwrap_or_default().to_owned()
}

/// First thing in which two models differ that can change an output.
fn difference(
    stored: &ModelIdentity,
    now: &ModelIdentity,
) -> Option<(&'static str, String, String)> {
    let none = || "absent".to_owned();
    [
        (
            "weights' hash",
            stored.model_hash.clone(),
            now.model_hash.clone(),
        ),
        (
            "tokenizer's hash",
            stored.tokenizer_hash.clone(),
            now.tokenizer_hash.clone(),
        ),
        (
            "chat template's hash",
            stored.template_hash.clone().unwrap_or_else(none),
            now.template_hash.clone().unwrap_or_else(none),
        ),
        ("number format", stored.dtype.clone(), now.dtype.clone()),
        (
            "kind of device",
            device_kind(&stored.device),
            device_kind(&now.device),
        ),
    ]
    .into_iter()
    .find(|(_, before, now)| before != now)
}

/// Writes a file whole: beside it first, then renamed over it.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), RunnerError> {
    let failed = |source| RunnerError::Io {
        action: "cannot write",
        path: path.to_owned(),
        source,
        hint: Some(WRITABLE_HINT),
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut text = serde_json::to_string_pretty(value).map_err(|error| failed(error.into()))?;
    text.push('\n');
    let mut builder = tempfile::Builder::new();
    builder.prefix(".new").suffix(".tmp");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    let mut file = builder.tempfile_in(folder).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}
