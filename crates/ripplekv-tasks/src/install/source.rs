//! Where a pack is installed from: an archive or a folder on this machine, or bytes that were fetched.

use std::fs;
use std::path::{Path, PathBuf};

use super::InstallError;
use super::archive;
use crate::pack::{
    LENGTH_FILE, LONGBENCH_LENGTH_SHA256, LONGBENCH_PROMPT_SHA256, PROMPT_FILE, check_digest,
};
use crate::table::TASKS;
use crate::task::TaskInfo;

/// Where the records are.
#[derive(Debug, Clone, Copy)]
pub enum RecordSource<'a> {
    /// LongBench's `data.zip`, or an archive like it.
    Archive(&'a Path),
    /// A folder with `<task>.jsonl` files.
    Folder(&'a Path),
}

/// The two config files, as bytes.
#[derive(Debug, Clone)]
pub struct ConfigFiles {
    /// `dataset2prompt.json`.
    pub prompts: Vec<u8>,
    /// `dataset2maxlen.json`.
    pub lengths: Vec<u8>,
    /// Where they came from, for the manifest.
    pub from: String,
}

impl ConfigFiles {
    /// Holds both files to the pinned digests.
    ///
    /// # Errors
    /// When one differs from the official file.
    pub fn check(&self) -> Result<(), InstallError> {
        check_digest(
            Path::new(PROMPT_FILE),
            &self.prompts,
            LONGBENCH_PROMPT_SHA256,
        )?;
        check_digest(
            Path::new(LENGTH_FILE),
            &self.lengths,
            LONGBENCH_LENGTH_SHA256,
        )?;
        Ok(())
    }
}

/// What a folder or an archive on this machine offers.
#[derive(Debug, Clone)]
pub struct LocalPack {
    records: PathBuf,
    is_archive: bool,
    config: ConfigFiles,
}

impl LocalPack {
    /// Looks into a folder (`data/` or `data.zip`, and `config/`) or an archive (`config/` in it or beside it).
    ///
    /// # Errors
    /// When the records or the config files are not there.
    pub fn find(from: &Path) -> Result<LocalPack, InstallError> {
        let lacks = |problem: &str| InstallError::NoSource {
            path: from.to_owned(),
            problem: problem.to_owned(),
        };
        let (records, is_archive) = if from.is_dir() {
            let archive = from.join("data.zip");
            match (from.join("data"), archive.is_file()) {
                (data, _) if data.is_dir() => (data, false),
                (_, true) => (archive, true),
                _ => return Err(lacks("no data/ and no data.zip in it")),
            }
        } else if from.is_file() {
            (from.to_owned(), true)
        } else {
            return Err(lacks("no such file or folder"));
        };
        let inside = match is_archive {
            true => archive::config(&records)?,
            false => None,
        };
        let beside = if from.is_dir() {
            Some(from)
        } else {
            from.parent()
        };
        let config = match (inside, beside) {
            (Some(config), _) => config,
            (None, Some(folder)) => config_of_folder(folder, from)?,
            (None, None) => {
                return Err(InstallError::NoConfig {
                    path: from.to_owned(),
                });
            }
        };
        Ok(LocalPack {
            records,
            is_archive,
            config,
        })
    }

    /// The records.
    pub fn records(&self) -> RecordSource<'_> {
        if self.is_archive {
            RecordSource::Archive(&self.records)
        } else {
            RecordSource::Folder(&self.records)
        }
    }

    /// The records' origin in words.
    pub fn records_from(&self) -> String {
        self.records.display().to_string()
    }

    /// The config files.
    pub fn config(&self) -> ConfigFiles {
        self.config.clone()
    }
}

fn config_of_folder(folder: &Path, from: &Path) -> Result<ConfigFiles, InstallError> {
    let read = |name: &str| match fs::read(folder.join(name)) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(InstallError::NoConfig {
            path: from.to_owned(),
        }),
        Err(error) => Err(InstallError::read(&folder.join(name), error)),
    };
    Ok(ConfigFiles {
        prompts: read(PROMPT_FILE)?,
        lengths: read(LENGTH_FILE)?,
        from: folder.join("config").display().to_string(),
    })
}

/// The task of LongBench or LongBench-E that a record file's name stands for.
pub(super) fn task_of_file(name: &str) -> Option<&'static TaskInfo> {
    let stem = name.strip_suffix(".jsonl")?;
    TASKS
        .iter()
        .find(|task| task.name == stem && task.suite.has_pinned_config())
}

/// Copies the record files of known tasks; whatever else lies there is left.
pub(super) fn copy_records(folder: &Path, data: &Path) -> Result<(), InstallError> {
    let mut copied = 0;
    for task in TASKS.iter().filter(|task| task.suite.has_pinned_config()) {
        let name = format!("{}.jsonl", task.name);
        let file = folder.join(&name);
        if file.is_file() {
            let target = data.join(&name);
            let mut reader =
                fs::File::open(&file).map_err(|error| InstallError::read(&file, error))?;
            let mut writer = fs::File::create_new(&target)
                .map_err(|error| InstallError::write(&target, error))?;
            std::io::copy(&mut reader, &mut writer)
                .map_err(|error| InstallError::write(&target, error))?;
            copied += 1;
        }
    }
    if copied == 0 {
        return Err(InstallError::NoSource {
            path: folder.to_owned(),
            problem: "no <task>.jsonl of LongBench in it".to_owned(),
        });
    }
    Ok(())
}
