//! Files of a report: whole or not at all (write beside, then rename), with names that are safe everywhere.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::ReportError;

/// Writes files under one folder and remembers their names.
pub(crate) struct Output {
    folder: PathBuf,
    written: Vec<PathBuf>,
}

impl Output {
    pub(crate) fn new(folder: &Path) -> Output {
        Output {
            folder: folder.to_owned(),
            written: Vec::new(),
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
        self.written.push(path);
        Ok(())
    }

    pub(crate) fn into_written(self) -> Vec<PathBuf> {
        self.written
    }
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
