//! Unpacks record files out of a zip archive. Target names are made here from the task table, never taken from the
//! archive, and every name in it is looked at before anything is written.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Write as _};
use std::path::Path;

use zip::ZipArchive;

use super::source::task_of_file;
use super::{ConfigFiles, InstallError, Limits};
use crate::pack::{LENGTH_FILE, PROMPT_FILE};

/// Config files are some kilobytes.
const CONFIG_BYTES: u64 = 1 << 20;

type Archive = ZipArchive<BufReader<File>>;

/// File type bits of a Unix mode, and that of a plain file.
const TYPE_BITS: u32 = 0o170_000;
const PLAIN_FILE: u32 = 0o100_000;

fn open(path: &Path) -> Result<Archive, InstallError> {
    let file = File::open(path).map_err(|error| InstallError::read(path, error))?;
    ZipArchive::new(BufReader::new(file)).map_err(|error| broken(path, &error))
}

fn broken(path: &Path, error: &dyn std::fmt::Display) -> InstallError {
    InstallError::BrokenArchive {
        path: path.to_owned(),
        problem: error.to_string(),
    }
}

/// What keeps a name from being used, whether it is wanted or not.
fn danger(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("has no name")
    } else if name.contains(['\\', '\0']) {
        Some("has a character that no file of the data set has")
    } else if name.starts_with('/')
        || name
            .split('/')
            .next()
            .is_some_and(|part| part.contains(':'))
    {
        Some("is an absolute path")
    } else if name.split('/').any(|part| part == "..") {
        Some("leaves the folder")
    } else {
        None
    }
}

/// `data/<file>` or `<anything>/data/<file>` or `<file>`: the file's name.
fn record_file(name: &str) -> Option<&str> {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let parent = folder.rsplit('/').next().unwrap_or_default();
    (folder.is_empty() || parent == "data").then_some(file)
}

/// Looks at every entry; the places of those that hold records, with the file name each gets.
fn wanted(
    path: &Path,
    archive: &mut Archive,
    limits: Limits,
) -> Result<Vec<(usize, String)>, InstallError> {
    let too_large = |problem: String| InstallError::TooLarge {
        path: path.to_owned(),
        problem,
    };
    if archive.len() > limits.entries {
        return Err(too_large(format!("{} entries", archive.len())));
    }
    let mut places: Vec<(usize, String)> = Vec::new();
    for place in 0..archive.len() {
        let entry = archive
            .by_index_raw(place)
            .map_err(|error| broken(path, &error))?;
        let name = entry.name().map_err(|error| broken(path, &error))?;
        let name = name.as_ref();
        let refuse = |problem| InstallError::UnsafeEntry {
            path: path.to_owned(),
            entry: name.escape_debug().to_string(),
            problem,
        };
        if let Some(problem) = danger(name) {
            return Err(refuse(problem));
        }
        if entry.is_dir() {
            continue;
        }
        let kind = entry.unix_mode().unwrap_or_default() & TYPE_BITS;
        if entry.is_symlink() || (kind != 0 && kind != PLAIN_FILE) {
            return Err(refuse("is a link or a device"));
        }
        let Some(task) = record_file(name).and_then(task_of_file) else {
            continue;
        };
        if entry.size() > limits.file_bytes {
            return Err(too_large(format!("{name} has {} bytes", entry.size())));
        }
        let file = format!("{}.jsonl", task.name);
        if places.iter().any(|(_, known)| *known == file) {
            return Err(refuse("is a second file of its task"));
        }
        places.push((place, file));
    }
    if places.is_empty() {
        return Err(broken(path, &"no data/<task>.jsonl of LongBench in it"));
    }
    Ok(places)
}

/// Writes every record file of the archive into `data`.
pub(super) fn unpack(path: &Path, data: &Path, limits: Limits) -> Result<(), InstallError> {
    let mut archive = open(path)?;
    let mut left = limits.total_bytes;
    for (place, name) in wanted(path, &mut archive, limits)? {
        let target = data.join(&name);
        let entry = archive
            .by_index(place)
            .map_err(|error| broken(path, &error))?;
        // The sizes in the directory are claims; what comes out is counted.
        let allowed = left.min(limits.file_bytes);
        let mut reader = entry.take(allowed + 1);
        let mut writer =
            File::create_new(&target).map_err(|error| InstallError::write(&target, error))?;
        let mut buffer = vec![0; 1 << 18];
        let mut written = 0;
        loop {
            let count = reader
                .read(&mut buffer)
                .map_err(|error| broken(path, &error))?;
            if count == 0 {
                break;
            }
            written += count as u64;
            if written > allowed {
                return Err(InstallError::TooLarge {
                    path: path.to_owned(),
                    problem: format!("{name} unpacks to more than {allowed} bytes"),
                });
            }
            writer
                .write_all(&buffer[..count])
                .map_err(|error| InstallError::write(&target, error))?;
        }
        writer
            .sync_all()
            .map_err(|error| InstallError::write(&target, error))?;
        left -= written;
    }
    Ok(())
}

/// The two config files, where the archive has both.
pub(super) fn config(path: &Path) -> Result<Option<ConfigFiles>, InstallError> {
    let mut archive = open(path)?;
    let mut read = |wanted: &str| -> Result<Option<Vec<u8>>, InstallError> {
        let place = (0..archive.len()).find(|place| {
            archive
                .name_for_index(*place)
                .and_then(Result::ok)
                .is_some_and(|name| name == wanted || name.ends_with(&format!("/{wanted}")))
        });
        let Some(place) = place else { return Ok(None) };
        let entry = archive
            .by_index(place)
            .map_err(|error| broken(path, &error))?;
        let mut bytes = Vec::new();
        let read: io::Result<usize> = entry.take(CONFIG_BYTES).read_to_end(&mut bytes);
        read.map_err(|error| broken(path, &error))?;
        Ok(Some(bytes))
    };
    Ok(match (read(PROMPT_FILE)?, read(LENGTH_FILE)?) {
        (Some(prompts), Some(lengths)) => Some(ConfigFiles {
            prompts,
            lengths,
            from: path.display().to_string(),
        }),
        _ => None,
    })
}
