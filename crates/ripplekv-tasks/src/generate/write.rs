//! A generated pack as a folder: LongBench's config and data files and a manifest.
//! The manifest is written last, so a folder with one is whole.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::prompts::PROMPTS;
use super::{AnswerPosition, Candidate, GENERATOR_VERSION, PackKind, generate_candidates};
use crate::groups::find_task;
use crate::pack::{LENGTH_FILE, MANIFEST_FILE, PROMPT_FILE};

const MANIFEST_SCHEMA: u32 = 1;

/// How a generated pack was made; with the program it makes the same bytes again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this file's form.
    pub schema: u32,
    /// The pack's name.
    pub name: String,
    /// Which pack it is.
    pub kind: PackKind,
    /// [`GENERATOR_VERSION`] of the program that made it.
    pub generator_version: u32,
    /// The seed of all records.
    pub seed: u64,
    /// What stands in `data/`, by task.
    pub tasks: BTreeMap<String, TaskManifest>,
}

/// The records of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskManifest {
    /// BLAKE3 (hex) of the record file's bytes.
    pub blake3: String,
    /// The records in file order.
    pub records: Vec<KeptRecord>,
}

/// One record of the pack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptRecord {
    /// Its id.
    pub id: String,
    /// Where its answer lies.
    pub position: AnswerPosition,
    /// The full cache's score by which it was kept, where it was chosen by score.
    pub full_score: Option<f64>,
}

/// Why a pack could not be written or its manifest read.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The operating system refused.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The manifest is not one.
    #[error("{}: {reason}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Writes records (in their order, tasks one after the other) as a pack into `dir`.
/// `full_scores` are those the records were chosen by, if they were.
pub fn write_pack(
    dir: impl AsRef<Path>,
    kind: PackKind,
    seed: u64,
    records: &[Candidate],
    full_scores: Option<&BTreeMap<String, f64>>,
) -> Result<Manifest, WriteError> {
    let dir = dir.as_ref();
    let mut lines: BTreeMap<&str, String> = BTreeMap::new();
    let mut tasks: BTreeMap<String, TaskManifest> = BTreeMap::new();
    for candidate in records {
        let name = candidate.task.name;
        lines
            .entry(name)
            .or_default()
            .push_str(&candidate.record.to_line());
        let id = &candidate.record.id;
        tasks
            .entry(name.to_owned())
            .or_insert_with(|| TaskManifest {
                blake3: String::new(),
                records: Vec::new(),
            })
            .records
            .push(KeptRecord {
                id: id.clone(),
                position: candidate.position.clone(),
                full_score: full_scores.and_then(|scores| scores.get(id)).copied(),
            });
    }
    for (name, task) in &mut tasks {
        let bytes = lines[name.as_str()].as_bytes();
        task.blake3 = blake3::hash(bytes).to_hex().to_string();
        write(&dir.join("data").join(format!("{name}.jsonl")), bytes)?;
    }
    let (prompts, lengths) = config_of(&tasks);
    write_json(&dir.join(PROMPT_FILE), &prompts)?;
    write_json(&dir.join(LENGTH_FILE), &lengths)?;
    let manifest = Manifest {
        schema: MANIFEST_SCHEMA,
        name: kind.name().to_owned(),
        kind,
        generator_version: GENERATOR_VERSION,
        seed,
        tasks,
    };
    write_json(&dir.join(MANIFEST_FILE), &manifest)?;
    Ok(manifest)
}

/// Generates the study pack into `dir`: every record, none chosen.
pub fn write_study(dir: impl AsRef<Path>, seed: u64) -> Result<Manifest, WriteError> {
    write_all(dir, PackKind::Study, seed)
}

/// Generates the calibration pack into `dir`: every record, none chosen.
pub fn write_calibration(dir: impl AsRef<Path>, seed: u64) -> Result<Manifest, WriteError> {
    write_all(dir, PackKind::Calibration, seed)
}

fn write_all(dir: impl AsRef<Path>, kind: PackKind, seed: u64) -> Result<Manifest, WriteError> {
    write_pack(dir, kind, seed, &generate_candidates(kind, seed), None)
}

/// The manifest of a generated pack.
pub fn read_manifest(dir: impl AsRef<Path>) -> Result<Manifest, WriteError> {
    let path = dir.as_ref().join(MANIFEST_FILE);
    let bytes = fs::read(&path).map_err(|reason| WriteError::Io {
        path: path.clone(),
        reason,
    })?;
    serde_json::from_slice(&bytes).map_err(|error| WriteError::Manifest {
        path,
        reason: error.to_string(),
    })
}

type Config = (
    BTreeMap<&'static str, &'static str>,
    BTreeMap<&'static str, usize>,
);

fn config_of(tasks: &BTreeMap<String, TaskManifest>) -> Config {
    PROMPTS
        .iter()
        .filter(|prompt| tasks.contains_key(prompt.task))
        .filter_map(|prompt| {
            let info = find_task(prompt.task).ok()?;
            Some((
                (info.config_key, prompt.template),
                (info.config_key, info.max_new_tokens),
            ))
        })
        .unzip()
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), WriteError> {
    let mut text = serde_json::to_string_pretty(value).map_err(|error| WriteError::Manifest {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    text.push('\n');
    write(path, text.as_bytes())
}

/// Writes beside the file and renames, so that a killed run leaves no half file.
fn write(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let failed = |reason| WriteError::Io {
        path: path.to_owned(),
        reason,
    };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let beside = path.with_extension("tmp");
    fs::write(&beside, bytes).map_err(failed)?;
    fs::rename(&beside, path).map_err(failed)
}
