//! What can be wrong between an archive and an installed pack.

use std::io;
use std::path::{Path, PathBuf};

use crate::pack_error::PackError;

/// Why a pack could not be installed. Nothing is installed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The target holds something.
    #[error("{}: there is something already\nhint: remove it, or give another folder with --out", path.display())]
    Occupied {
        /// The target.
        path: PathBuf,
    },
    /// Nothing to install from.
    #[error("{}: {problem}\nhint: give the data set's data.zip, or a folder with data/<task>.jsonl (or data.zip) and config/", path.display())]
    NoSource {
        /// What was given.
        path: PathBuf,
        /// What is missing.
        problem: String,
    },
    /// The two config files are not there.
    #[error("{}: no config/dataset2prompt.json and config/dataset2maxlen.json in it or beside it\nhint: they lie in LongBench/config of the authors' repository github.com/THUDM/LongBench", path.display())]
    NoConfig {
        /// Where they were looked for.
        path: PathBuf,
    },
    /// The archive cannot be read.
    #[error("{}: broken archive: {problem}\nhint: get the data set's data.zip again", path.display())]
    BrokenArchive {
        /// The archive.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A name in the archive would leave the folder, or is not a plain file.
    #[error("{}: refused: its entry `{entry}` {problem}\nhint: this is not LongBench's data.zip; nothing of it was unpacked", path.display())]
    UnsafeEntry {
        /// The archive.
        path: PathBuf,
        /// The name in the archive, control characters escaped.
        entry: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// More than the real archive could ever hold.
    #[error("{}: refused: {problem}", path.display())]
    TooLarge {
        /// The archive.
        path: PathBuf,
        /// What is too large.
        problem: String,
    },
    /// A file without the right number of records.
    #[error(
        "`{task}` has {found} records, LongBench has {expected}\nhint: the file is cut or changed; --partial accepts a subset and says so in the manifest"
    )]
    WrongCount {
        /// The task.
        task: &'static str,
        /// Records found.
        found: usize,
        /// Records of the real data set.
        expected: usize,
    },
    /// Tasks without a file.
    #[error(
        "no records for {absent}\nhint: --partial accepts a subset and says so in the manifest"
    )]
    Incomplete {
        /// The tasks.
        absent: String,
    },
    /// The system refused to write.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refused to read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A config file is wrong.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// A record is wrong; the place is one in the pack to be.
    #[error("{0}")]
    Content(String),
}

impl InstallError {
    /// Without the temporary folder, which is gone by the time this is read.
    pub(super) fn content(work: &Path, error: &PackError) -> Self {
        Self::Content(
            error
                .to_string()
                .replace(&format!("{}/", work.display()), ""),
        )
    }

    pub(super) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            source,
        }
    }
}
