//! The writing side of `damage/<model>/`: the head, and files of lines that are carried on or refused.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::canonical::{canonical_hash, canonical_json};
use crate::damage::document::{DAMAGE_SCHEMA, DamageHead, DamageSample, JointSample};
use crate::damage::job::DamageJob;
use crate::damage::visit::{Place, places, sample_id};
use crate::error::RunnerError;
use crate::store::{lines, read_json, write_json};

/// Folder of one model.
pub(super) fn folder(results: &Path, model: &str) -> PathBuf {
    results.join("damage").join(model)
}

pub(super) fn head_path(folder: &Path) -> PathBuf {
    folder.join("recipe.json")
}

pub(super) fn samples_path(folder: &Path) -> PathBuf {
    folder.join("samples.jsonl")
}

pub(super) fn joint_path(folder: &Path) -> PathBuf {
    folder.join("joint.jsonl")
}

/// The head of a job; the model is the profile's.
pub(super) fn head(job: &DamageJob<'_>) -> Result<DamageHead, RunnerError> {
    let model = &job.profile.model;
    Ok(DamageHead {
        schema: DAMAGE_SCHEMA,
        recipe_hash: canonical_hash(&value(job.recipe)?),
        recipe: job.recipe.clone(),
        model: job.model().to_owned(),
        model_hash: model.model_hash.clone(),
        tokenizer_hash: model.tokenizer_hash.clone(),
        layers: model.layers,
        profile_hash: job.profile.content_hash.clone(),
        selected: places(job).iter().map(Place::id).collect(),
    })
}

fn value<T: Serialize>(of: &T) -> Result<Value, RunnerError> {
    serde_json::to_value(of).map_err(|error| RunnerError::Data {
        message: format!("damage: {error}"),
        hint: "check the section 'damage' of the spec".to_owned(),
    })
}

/// Recipe of the joint lines: their allocations depend on the profile and, through the oracle, on the single-layer
/// damage of all selected samples that were not dropped, here in visiting order.
pub(super) fn joint_recipe<'a>(
    head: &DamageHead,
    usable: impl Iterator<Item = &'a DamageSample>,
) -> Result<String, RunnerError> {
    let mut samples = blake3::Hasher::new();
    for sample in usable {
        samples.update(canonical_json(&value(sample)?).as_bytes());
    }
    Ok(canonical_hash(&json!({
        "recipe": head.recipe_hash,
        "profile": head.profile_hash,
        "selected": head.selected,
        "samples": samples.finalize().to_hex().as_str(),
    })))
}

/// What the folder holds already.
pub(super) struct Stored {
    pub(super) head: Option<DamageHead>,
    pub(super) samples: Vec<DamageSample>,
    pub(super) joint: Vec<JointSample>,
}

/// Reads the folder, and refuses it where its samples could not stand beside those of `now`: another recipe or model.
pub(super) fn stored(folder: &Path, now: &DamageHead) -> Result<Stored, RunnerError> {
    // Cut lines are told when the files are opened for writing.
    let mut cut = Vec::new();
    let stored = Stored {
        head: read_head(folder)?,
        samples: read_lines(&samples_path(folder), &mut cut)?,
        joint: read_lines(&joint_path(folder), &mut cut)?,
    };
    let mut changed = Vec::new();
    let foreign = |sample: &DamageSample| sample.recipe != now.recipe_hash;
    if stored.samples.iter().any(foreign) {
        if let Some(before) = &stored.head {
            changed = changed_keys(&value(&before.recipe)?, &value(&now.recipe)?);
        }
        if changed.is_empty() {
            changed.push("recipe.json".to_owned());
        }
    }
    if let Some(before) = &stored.head {
        let hashes = [
            ("model_hash", &before.model_hash, &now.model_hash),
            (
                "tokenizer_hash",
                &before.tokenizer_hash,
                &now.tokenizer_hash,
            ),
        ];
        let differ = hashes.iter().filter(|(_, before, now)| before != now);
        changed.extend(differ.map(|(name, _, _)| (*name).to_owned()));
    }
    if stored.samples.is_empty() || changed.is_empty() {
        return Ok(stored);
    }
    Err(RunnerError::Stored {
        path: samples_path(folder),
        line: None,
        message: format!(
            "holds samples that were measured with another recipe: {} changed",
            changed.join(", ")
        ),
        hint: "restore what it was, or start afresh with --out DIR".to_owned(),
    })
}

/// The head of a folder, `None` where it has none.
pub(super) fn read_head(folder: &Path) -> Result<Option<DamageHead>, RunnerError> {
    let path = head_path(folder);
    if !path.is_file() {
        return Ok(None);
    }
    let head: DamageHead = read_json(&path)?;
    check_schema(&path, head.schema)?;
    Ok(Some(head))
}

/// A line with a version.
pub(super) trait Line: DeserializeOwned {
    fn schema(&self) -> u32;

    /// See [`sample_id`].
    fn id(&self) -> String;
}

impl Line for DamageSample {
    fn schema(&self) -> u32 {
        self.schema
    }

    fn id(&self) -> String {
        sample_id(&self.task, &self.sample)
    }
}

impl Line for JointSample {
    fn schema(&self) -> u32 {
        self.schema
    }

    fn id(&self) -> String {
        sample_id(&self.task, &self.sample)
    }
}

/// All lines of a file; none where it does not exist.
pub(super) fn read_lines<T: Line>(
    path: &Path,
    warnings: &mut Vec<String>,
) -> Result<Vec<T>, RunnerError> {
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let values: Vec<T> = lines::read(path, warnings)?;
    for value in &values {
        check_schema(path, value.schema())?;
    }
    Ok(values)
}

fn check_schema(path: &Path, schema: u32) -> Result<(), RunnerError> {
    if schema == DAMAGE_SCHEMA {
        return Ok(());
    }
    Err(RunnerError::Stored {
        path: path.to_owned(),
        line: None,
        message: format!("has schema {schema}, this program reads {DAMAGE_SCHEMA}"),
        hint: "use the ripplekv that wrote it, or start afresh with --out DIR".to_owned(),
    })
}

/// Top-level keys whose values differ.
fn changed_keys(before: &Value, after: &Value) -> Vec<String> {
    let keys = before.as_object().into_iter().flatten();
    keys.filter(|(key, value)| after[key.as_str()] != **value)
        .map(|(key, _)| key.clone())
        .collect()
}

/// Writes the head where it differs from the stored one.
pub(super) fn write_head(folder: &Path, head: &DamageHead) -> Result<(), RunnerError> {
    if read_head(folder)?.as_ref() == Some(head) {
        return Ok(());
    }
    std::fs::create_dir_all(folder)
        .map_err(|source| RunnerError::io("cannot create", folder, source))?;
    write_json(&head_path(folder), head)
}

/// A file of lines, open for appending.
pub(super) struct LineFile {
    file: File,
    path: PathBuf,
}

impl LineFile {
    /// Opens a file; true beside it where a cut last line was removed.
    pub(super) fn open(path: PathBuf) -> Result<(Self, bool), RunnerError> {
        let (file, was_cut) = lines::open_append(&path)?;
        Ok((Self { file, path }, was_cut))
    }

    /// Removes every line.
    pub(super) fn clear(&mut self) -> Result<(), RunnerError> {
        self.file
            .set_len(0)
            .map_err(|source| RunnerError::io("cannot write", &self.path, source))
    }

    /// Adds one line in one write.
    pub(super) fn append<T: Serialize>(&mut self, value: &T) -> Result<(), RunnerError> {
        lines::append(&mut self.file, &self.path, std::slice::from_ref(value))
    }
}
