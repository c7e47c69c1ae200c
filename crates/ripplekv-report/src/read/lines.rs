//! Files of a results folder and their lines.

use std::fs;
use std::path::{Path, PathBuf};

/// What is left out of one file: one warning a file, so that a file of ten thousand unreadable lines does not bury the rest.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    count: usize,
    first: String,
}

impl LeftOut {
    /// One more; the text names its place.
    pub(crate) fn add(&mut self, text: String) {
        if self.count == 0 {
            self.first = text;
        }
        self.count += 1;
    }

    /// Says so, where anything was left out.
    pub(crate) fn tell(self, path: &Path, warnings: &mut Vec<String>) {
        match self.count {
            0 => {}
            1 => warnings.push(self.first),
            many => warnings.push(format!(
                "{}: {many} entries left out, the first: {}",
                path.display(),
                self.first
            )),
        }
    }
}

/// Complete lines with their places. A last line without an end was cut by a crash; its prompt will run again.
pub(crate) fn complete_lines(path: &Path, warnings: &mut Vec<String>) -> Vec<(String, String)> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            warnings.push(format!("{}: not read: {error}", path.display()));
            return Vec::new();
        }
    };
    let mut lines = Vec::new();
    let mut left_out = LeftOut::default();
    let pieces: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    for (index, piece) in pieces.iter().enumerate() {
        if piece.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let place = format!("{}:{}", path.display(), index + 1);
        if index + 1 == pieces.len() {
            warnings.push(format!("{place}: cut last line left out"));
            continue;
        }
        match std::str::from_utf8(piece) {
            Ok(text) => lines.push((place, text.to_owned())),
            Err(_) => left_out.add(format!("{place}: line left out: not UTF-8")),
        }
    }
    left_out.tell(path, warnings);
    lines
}

/// All `*.jsonl` files two folders down (`<model>/<task>/<writer>.jsonl`), in name order.
pub(super) fn jsonl_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for model in children(folder) {
        for task in children(&model) {
            files.extend(
                children(&task)
                    .into_iter()
                    .filter(|path| path.extension().is_some_and(|end| end == "jsonl")),
            );
        }
    }
    files
}

pub(crate) fn children(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
