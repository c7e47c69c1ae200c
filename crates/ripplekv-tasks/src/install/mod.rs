//! Puts the LongBench pack into a folder: records out of the hub's `data.zip` or a folder, the two official
//! config files beside them. Follows the data set THUDM/LongBench and the repository THUDM/LongBench 2e00731.

mod archive;
mod error;
mod source;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

pub use error::InstallError;
pub use source::{ConfigFiles, LocalPack, RecordSource};

use crate::pack::{
    LENGTH_FILE, LONGBENCH_LENGTH_SHA256, LONGBENCH_PROMPT_SHA256, MANIFEST_FILE, PROMPT_FILE,
    Pack, hex,
};
use crate::pack_error::PackError;
use crate::table::TASKS;
use crate::task::{Suite, TaskInfo};

/// Commit of the authors' repository whose config files are pinned.
pub const LONGBENCH_COMMIT: &str = "2e00731f8d0bff23dc4325161044d0ed8af94c1e";

/// Version of the manifest's form.
const MANIFEST_SCHEMA: u32 = 1;

/// What an archive may hold at most. The real one has 34 files and some hundred megabytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) entries: usize,
    pub(crate) file_bytes: u64,
    pub(crate) total_bytes: u64,
}

impl Limits {
    pub(crate) const REAL: Limits = Limits {
        entries: 4_096,
        file_bytes: 1 << 30,
        total_bytes: 4 << 30,
    };
}

/// One task in the manifest of an installed pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InstalledTask {
    /// Records of the task.
    pub records: usize,
    /// BLAKE3 (hex) of its file.
    pub blake3: String,
}

/// `manifest.json` of an installed pack: what it holds and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InstalledPack {
    /// Version of this form.
    pub schema: u32,
    /// Always `longbench`.
    pub name: &'static str,
    /// Where the records came from.
    pub records_from: String,
    /// Where the config files came from.
    pub config_from: String,
    /// SHA-256 (hex) of the archive; none where the records came from a folder.
    pub archive_sha256: Option<String>,
    /// SHA-256 (hex) of the two config files, the pinned ones.
    pub config_sha256: BTreeMap<&'static str, &'static str>,
    /// True where records are missing and `partial` allowed it.
    pub partial: bool,
    /// Every task with a record file.
    pub tasks: BTreeMap<&'static str, InstalledTask>,
}

/// What to install.
#[derive(Debug, Clone)]
pub struct InstallRequest<'a> {
    /// The records.
    pub records: RecordSource<'a>,
    /// The records' origin in words, for the manifest.
    pub records_from: String,
    /// The config files.
    pub config: ConfigFiles,
    /// Accept a subset of the tasks and records; the manifest then says so.
    pub partial: bool,
}

/// Makes the pack in a folder beside `target`, checks it, and renames it: `target` either has the whole pack or is
/// not there. `target` may be an empty folder, but nothing else.
///
/// # Errors
/// Whatever is wrong with the archive, a record, a count or a config file; nothing is left behind then.
pub fn install_longbench(
    request: &InstallRequest<'_>,
    target: &Path,
) -> Result<InstalledPack, InstallError> {
    check_free(target)?;
    request.config.check()?;
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(|source| InstallError::write(parent, source))?;
    let work = tempfile::Builder::new()
        .prefix("longbench-")
        .suffix(".tmp")
        .tempdir_in(parent)
        .map_err(|source| InstallError::write(parent, source))?;
    write_config(work.path(), &request.config)?;
    let data = work.path().join("data");
    make_folder(&data)?;
    let archive_sha256 = match request.records {
        RecordSource::Archive(path) => {
            archive::unpack(path, &data, Limits::REAL)?;
            Some(digest_of(path)?)
        }
        RecordSource::Folder(folder) => {
            source::copy_records(folder, &data)?;
            None
        }
    };
    let tasks = check_records(work.path(), request.partial)?;
    let missing = |task: &TaskInfo| {
        tasks
            .get(task.name)
            .is_none_or(|t| t.records != task.expected_records)
    };
    let installed = InstalledPack {
        schema: MANIFEST_SCHEMA,
        name: Suite::LongBench.pack_name(),
        records_from: request.records_from.clone(),
        config_from: request.config.from.clone(),
        archive_sha256,
        config_sha256: BTreeMap::from([
            (PROMPT_FILE, LONGBENCH_PROMPT_SHA256),
            (LENGTH_FILE, LONGBENCH_LENGTH_SHA256),
        ]),
        partial: TASKS
            .iter()
            .filter(|task| task.suite == Suite::LongBench)
            .any(missing),
        tasks,
    };
    write_manifest(work.path(), &installed)?;
    finish(work, target)?;
    Ok(installed)
}

/// SHA-256 (hex) of a file.
fn digest_of(path: &Path) -> Result<String, InstallError> {
    let mut hasher = Sha256::new();
    let mut read = || -> io::Result<()> {
        let mut file = File::open(path)?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let count = io::Read::read(&mut file, &mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            hasher.update(&buffer[..count]);
        }
    };
    read().map_err(|source| InstallError::read(path, source))?;
    Ok(hex(&hasher.finalize()))
}

fn check_free(target: &Path) -> Result<(), InstallError> {
    let occupied = || InstallError::Occupied {
        path: target.to_owned(),
    };
    match fs::read_dir(target) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(occupied()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(_) => Err(occupied()),
    }
}

fn make_folder(path: &Path) -> Result<(), InstallError> {
    fs::create_dir_all(path).map_err(|source| InstallError::write(path, source))
}

fn write_config(pack: &Path, config: &ConfigFiles) -> Result<(), InstallError> {
    for (name, bytes) in [
        (PROMPT_FILE, &config.prompts),
        (LENGTH_FILE, &config.lengths),
    ] {
        let path = pack.join(name);
        make_folder(path.parent().unwrap_or(pack))?;
        fs::write(&path, bytes).map_err(|source| InstallError::write(&path, source))?;
    }
    Ok(())
}

/// Reads every record once: keys, types and ids are checked by the reader, counts here.
fn check_records(
    pack: &Path,
    partial: bool,
) -> Result<BTreeMap<&'static str, InstalledTask>, InstallError> {
    let below = |error: PackError| InstallError::content(pack, &error);
    let opened = Pack::open(pack).map_err(below)?;
    let mut tasks = BTreeMap::new();
    for info in opened.tasks() {
        let mut records = 0;
        for record in opened.records(info)? {
            record.map_err(below)?;
            records += 1;
        }
        if records != info.expected_records && !partial {
            return Err(InstallError::WrongCount {
                task: info.name,
                found: records,
                expected: info.expected_records,
            });
        }
        let blake3 = opened.hash(info)?;
        tasks.insert(info.name, InstalledTask { records, blake3 });
    }
    let absent: Vec<&str> = TASKS
        .iter()
        .filter(|task| task.suite == Suite::LongBench && !tasks.contains_key(task.name))
        .map(|task| task.name)
        .collect();
    if !absent.is_empty() && !partial {
        return Err(InstallError::Incomplete {
            absent: absent.join(", "),
        });
    }
    Ok(tasks)
}

fn write_manifest(pack: &Path, installed: &InstalledPack) -> Result<(), InstallError> {
    let path = pack.join(MANIFEST_FILE);
    let mut text = serde_json::to_string_pretty(installed)
        .unwrap_or_else(|error| unreachable!("texts and numbers always serialise: {error}"));
    text.push('\n');
    fs::write(&path, text).map_err(|source| InstallError::write(&path, source))
}

/// The one step that makes the pack appear.
fn finish(work: tempfile::TempDir, target: &Path) -> Result<(), InstallError> {
    // Temporary folders are closed to others; a pack is as open as any folder.
    open_to_others(work.path()).map_err(|source| InstallError::write(work.path(), source))?;
    fs::rename(work.path(), target).map_err(|source| InstallError::write(target, source))?;
    // Its content now lies under the other name; nothing is there to be removed.
    let _ = work.keep();
    Ok(())
}

#[cfg(unix)]
fn open_to_others(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn open_to_others(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests;
