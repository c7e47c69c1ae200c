//! Files of a report: whole or not at all (write beside, then rename), with names that are safe everywhere.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::error::ReportError;

/// Lists the report's other files, so that the next report can remove those it does not make again.
const LIST: &str = "files.json";

/// Writes files under one folder and remembers their names.
pub(crate) struct Output {
    folder: PathBuf,
    names: Vec<String>,
}

impl Output {
    pub(crate) fn new(folder: &Path) -> Output {
        Output {
            folder: folder.to_owned(),
            names: Vec::new(),
        }
    }

    /// Writes `folder/name`; `name` may have folders in it.
    pub(crate) fn write(&mut self, name: &str, contents: &[u8]) -> Result<(), ReportError> {
        self.write_by(name, |unfinished| {
            fs::write(unfinished, contents).map_err(|source| ReportError::Write {
                path: unfinished.to_owned(),
                source,
            })
        })
    }

    /// As [`Output::write`], for libraries that want a path (with the file's own end).
    pub(crate) fn write_by(
        &mut self,
        name: &str,
        write: impl FnOnce(&Path) -> Result<(), ReportError>,
    ) -> Result<(), ReportError> {
        let path = self.folder.join(name);
        let failed = |source| ReportError::Write {
            path: path.clone(),
            source,
        };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let unfinished = path.with_file_name(format!(
            ".{}.tmp.{}",
            std::process::id(),
            path.file_name().unwrap_or_default().to_string_lossy()
        ));
        let result =
            write(&unfinished).and_then(|()| fs::rename(&unfinished, &path).map_err(failed));
        if let Err(error) = result {
            // The unfinished file is of no use to anyone; the first error is the one to show.
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        self.names.push(name.to_owned());
        Ok(())
    }

    /// Removes files of the report that stood here before and were not written again, then lists the new ones.
    /// Gives back all files in the order they were written.
    pub(crate) fn finish(mut self) -> Result<Vec<PathBuf>, ReportError> {
        let list = self.folder.join(LIST);
        let earlier: Vec<String> = match fs::read(&list) {
            // A list that is no list of ours names nothing to remove.
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        for name in earlier {
            if !self.names.contains(&name) && stays_inside(&name) {
                self.remove(&name)?;
            }
        }
        let mut sorted = self.names.clone();
        sorted.sort();
        let mut text = serde_json::to_string_pretty(&sorted).map_err(|error| {
            let path = list.clone();
            let source = error.into();
            ReportError::Write { path, source }
        })?;
        text.push('\n');
        self.write(LIST, text.as_bytes())?;
        Ok(self
            .names
            .iter()
            .map(|name| self.folder.join(name))
            .collect())
    }

    fn remove(&self, name: &str) -> Result<(), ReportError> {
        let path = self.folder.join(name);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(ReportError::Remove { path, source });
            }
            _ => {}
        }
        if let Some(parent) = path.parent().filter(|parent| *parent != self.folder) {
            // Refused where something else is left in it, which is right.
            let _ = fs::remove_dir(parent);
        }
        Ok(())
    }
}

/// Whether a listed name is a plain path below the folder: the list may have been edited.
fn stays_inside(name: &str) -> bool {
    let mut parts = Path::new(name).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// A name of letters, digits, dots, underscores and single dashes.
pub(crate) fn slug(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_alphanumeric() || matches!(character, '.' | '_') {
            name.push(character.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    let name = name.trim_matches(['-', '.']).to_owned();
    if name.is_empty() {
        "unnamed".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_never_leave_the_folder() {
        assert_eq!(slug("../../etc/passwd"), "etc-passwd");
        assert_eq!(slug("Llama 3.1 (8B)"), "llama-3.1-8b");
        assert_eq!(slug("模型"), "unnamed");
    }
}
