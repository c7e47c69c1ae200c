//! `manifest.json`: what was run, by which program, on which machine, with which files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cell::CellKey;
use crate::engine::ModelIdentity;
use crate::store::environment::{GitState, Host};

/// Version of [`Manifest`].
pub const MANIFEST_SCHEMA: u32 = 1;

/// The program that wrote last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProgramState {
    /// Version of the program.
    pub version: String,
    /// State of the checkout around the folder it was started in, which need not be the program's own.
    #[serde(alias = "git")]
    pub working_folder_git: Option<GitState>,
    /// Version of the numeric code.
    pub numerics_version: u32,
    /// Version of the scores.
    pub metric_version: u32,
}

/// One task's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskState {
    /// blake3 of the record file.
    pub data_hash: String,
    /// blake3 of the prompt text.
    pub template_hash: String,
    /// Records in the file.
    pub records: usize,
}

/// The pack.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PackState {
    /// Name of the pack.
    pub name: String,
    /// Its tasks that the plan uses.
    pub tasks: BTreeMap<String, TaskState>,
}

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`MANIFEST_SCHEMA`] when it was written.
    pub schema: u32,
    /// Name of the experiment.
    pub name: String,
    /// The spec with every default written out, as of the last run.
    pub spec: Value,
    /// Keys of the spec's cells in plan order, as of the last run; older cells stay in `cells.json` only.
    pub cells: Vec<CellKey>,
    /// Ids of the samples that the last run selected in all its shards, by model and task, in file order.
    /// A task that `--only` left out keeps its earlier list; a manifest older than this field has none.
    #[serde(default)]
    pub selected: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// Tokens before truncation, by model.
    pub max_context: BTreeMap<String, usize>,
    /// Program of the last run.
    pub program: ProgramState,
    /// Machine of the last run.
    pub host: Host,
    /// Greatest resident memory of a process that worked on this folder, in bytes; 0 where none is known.
    #[serde(default)]
    pub peak_rss_bytes: u64,
    /// Models that were loaded, by name.
    pub models: BTreeMap<String, ModelIdentity>,
    /// The pack.
    pub pack: PackState,
}
