//! Locks between processes on one results folder: who writes which file, and who runs which unit.
//! The operating system frees a lock when its process ends, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::RunnerError;

/// A held lock; dropping it frees it. The file stays, so that all processes lock the same one.
#[derive(Debug)]
pub struct Claim {
    _file: File,
}

/// Opens the lock file `name` below `locks/`.
fn open(folder: &Path, name: &str) -> Result<(File, PathBuf), RunnerError> {
    let path = folder.join("locks").join(name);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)
            .map_err(|source| RunnerError::io("cannot create", parent, source))?;
    }
    // Results may be committed, their locks never.
    let ignore = folder.join("locks/.gitignore");
    if !ignore.exists() {
        std::fs::write(&ignore, "*\n")
            .map_err(|source| RunnerError::io("cannot write", &ignore, source))?;
    }
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|source| RunnerError::io("cannot open the lock", &path, source))?;
    Ok((file, path))
}

/// Takes a lock if it is free.
pub(crate) fn try_claim(folder: &Path, name: &str) -> Result<Option<Claim>, RunnerError> {
    let (file, path) = open(folder, name)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Claim { _file: file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(source)) => Err(RunnerError::io("cannot lock", path, source)),
    }
}

/// Waits for a lock that is only held for moments.
pub(crate) fn claim(folder: &Path, name: &str) -> Result<Claim, RunnerError> {
    let (file, path) = open(folder, name)?;
    file.lock()
        .map_err(|source| RunnerError::io("cannot lock", path, source))?;
    Ok(Claim { _file: file })
}
