//! Files of JSON lines: appended in one write, read with a cut last line dropped.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::RunnerError;

/// Opens a file for appending. What follows the last newline was cut by a killed process: it is removed,
/// and true is returned.
pub(crate) fn open_append(path: &Path) -> Result<(File, bool), RunnerError> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)
            .map_err(|source| RunnerError::io("cannot create", parent, source))?;
    }
    let failed = |source| RunnerError::io("cannot write", path, source);
    let mut file = OpenOptions::new()
        .create(true)
        .read(true)
        .append(true)
        .open(path)
        .map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let whole = whole_length(&mut file, length).map_err(failed)?;
    if whole < length {
        file.set_len(whole).map_err(failed)?;
    }
    Ok((file, whole < length))
}

/// Length up to and with the last newline.
fn whole_length(file: &mut File, length: u64) -> std::io::Result<u64> {
    const CHUNK: u64 = 64 * 1024;
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(CHUNK);
        file.seek(SeekFrom::Start(start))?;
        let mut chunk = Vec::new();
        (&*file).take(end - start).read_to_end(&mut chunk)?;
        if let Some(place) = chunk.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + place as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Appends values as lines in one write.
pub(crate) fn append<T: Serialize>(
    file: &mut File,
    path: &Path,
    values: &[T],
) -> Result<(), RunnerError> {
    let mut text = String::new();
    for value in values {
        let line = serde_json::to_string(value)
            .map_err(|error| RunnerError::io("cannot write", path, error.into()))?;
        text.push_str(&line);
        text.push('\n');
    }
    file.write_all(text.as_bytes())
        .and_then(|()| file.flush())
        .map_err(|source| RunnerError::io("cannot write", path, source))
}

/// Reads all lines of a file. A last line without newline is dropped with a warning.
pub(crate) fn read<T: DeserializeOwned>(
    path: &Path,
    warnings: &mut Vec<String>,
) -> Result<Vec<T>, RunnerError> {
    let failed = |source| RunnerError::io("cannot read", path, source);
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let mut values = Vec::new();
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            return Ok(values);
        }
        number += 1;
        if !line.ends_with(b"\n") {
            warnings.push(format!(
                "{}:{number}: the last line is cut and was left out; its prompt will run again",
                path.display()
            ));
            return Ok(values);
        }
        values.push(
            serde_json::from_slice(&line).map_err(|error| RunnerError::Stored {
                path: path.to_owned(),
                line: Some(number),
                message: format!("damaged line: {error}"),
                hint: "remove the line; its prompt will run again".to_owned(),
            })?,
        );
    }
}

/// Every `.jsonl` file below `folder/<model>/<task>/`, with model and task, sorted.
pub(crate) fn files(folder: &Path) -> Result<Vec<(String, String, PathBuf)>, RunnerError> {
    let mut found = Vec::new();
    for model in names(folder)? {
        for task in names(&folder.join(&model))? {
            let inside = folder.join(&model).join(&task);
            for file in names(&inside)? {
                if file.ends_with(".jsonl") {
                    found.push((model.clone(), task.clone(), inside.join(file)));
                }
            }
        }
    }
    Ok(found)
}

/// Sorted names in a folder; none where it does not exist.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>, RunnerError> {
    let failed = |source| RunnerError::io("cannot read", folder, source);
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(
            entry
                .map_err(failed)?
                .file_name()
                .to_string_lossy()
                .into_owned(),
        );
    }
    names.sort();
    Ok(names)
}
