//! What can be wrong with a pack, each with the place and what to do.
//! Texts are lower case, name the file and line first, and end with a hint where one helps.

use std::path::{Path, PathBuf};

use crate::groups::UnknownTask;
use crate::record::RecordError;
use crate::render::RenderError;

/// Why a pack or one of its records cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// The folder is not there.
    #[error("no pack folder at {}\nhint: {hint}", path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
        /// How to get it.
        hint: String,
    },
    /// A config file is not there.
    #[error("{}: no such file\nhint: a pack has config/dataset2prompt.json, config/dataset2maxlen.json and data/<task>.jsonl", path.display())]
    MissingFile {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused to read.
    #[error("{}: {reason}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// No record files at all.
    #[error("{}: empty pack, no data/<task>.jsonl in it\nhint: is this the right folder? `ripplekv fetch` brings packs", path.display())]
    EmptyPack {
        /// The folder.
        path: PathBuf,
    },
    /// A record file without records.
    #[error("{}: no records in the file\nhint: remove the file or fetch the pack again", path.display())]
    NoRecords {
        /// The file.
        path: PathBuf,
    },
    /// A config file that is not what it should be.
    #[error("{}: {reason}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A config file of LongBench that differs from the official one.
    #[error("{}: not LongBench's official file (sha256 {found}, expected {expected})\nhint: `ripplekv fetch longbench` brings the official one; scores with other prompts are not LongBench scores", path.display())]
    NotOfficial {
        /// The file.
        path: PathBuf,
        /// The pinned digest.
        expected: &'static str,
        /// The digest of the file.
        found: String,
    },
    /// A task has records but no prompt or no length.
    #[error("{}: no entry for `{key}`\nhint: every data/<task>.jsonl needs an entry in both config files", path.display())]
    NoEntry {
        /// The config file.
        path: PathBuf,
        /// The absent key.
        key: &'static str,
    },
    /// A prompt text that cannot be rendered.
    #[error("{}: prompt of `{task}`: {reason}", path.display())]
    Template {
        /// The config file.
        path: PathBuf,
        /// The task.
        task: &'static str,
        /// What is wrong.
        reason: RenderError,
    },
    /// A line that is not a record.
    #[error("{}:{line}: {reason}", path.display())]
    Record {
        /// The record file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: RecordError,
    },
    /// Two records of a task with one id.
    #[error("{}:{line}: id `{id}` is already used on line {first_line}\nhint: results are kept by id, so every record of a task needs its own", path.display())]
    DuplicateId {
        /// The record file.
        path: PathBuf,
        /// The second line, from 1.
        line: usize,
        /// The first line, from 1.
        first_line: usize,
        /// The id.
        id: String,
    },
    /// A name that is no task.
    #[error(transparent)]
    UnknownTask(UnknownTask),
    /// A record file of no known task.
    #[error("{}: {reason}", path.display())]
    StrangeFile {
        /// The file.
        path: PathBuf,
        /// Which name is unknown.
        reason: UnknownTask,
    },
    /// A known task that this pack lacks.
    #[error("task `{task}` is not in the pack at {} (it has {present})\nhint: it belongs to the pack `{belongs_to}`", path.display())]
    NotInPack {
        /// The task.
        task: &'static str,
        /// The pack's folder.
        path: PathBuf,
        /// The tasks the pack has.
        present: String,
        /// The pack that has it.
        belongs_to: &'static str,
    },
    /// A group of which the pack has no task.
    #[error("no task of `{group}` is in the pack at {} (it has {present})", path.display())]
    NothingSelected {
        /// The group.
        group: String,
        /// The pack's folder.
        path: PathBuf,
        /// The tasks the pack has.
        present: String,
    },
}

pub(crate) fn hint_for(dir: &Path) -> String {
    match dir.file_name().and_then(|name| name.to_str()) {
        Some(name @ ("longbench" | "study")) => format!("`ripplekv fetch {name}` brings it"),
        _ => "give the folder that holds config/ and data/".to_owned(),
    }
}
