//! Reads a prediction file line by line, and remembers which lines came twice.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Duplicate lines named one by one; more are counted.
const DUPLICATES_NAMED: usize = 3;

/// Lines of a file, with their numbers from 1. Split at `\n` only, as records may hold other line ends.
pub(crate) struct LineSource {
    reader: BufReader<File>,
    path: PathBuf,
    number: usize,
    seen: HashMap<u64, usize>,
    duplicates: Vec<(usize, usize)>,
}

impl LineSource {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|error| failed(path, &error))?;
        Ok(Self {
            reader: BufReader::new(file),
            path: path.to_owned(),
            number: 0,
            seen: HashMap::new(),
            duplicates: Vec::new(),
        })
    }

    /// The next line without its end.
    pub(crate) fn next(&mut self) -> Result<Option<(usize, Vec<u8>)>, Failure> {
        let mut line = Vec::new();
        let read = self
            .reader
            .read_until(b'\n', &mut line)
            .map_err(|error| failed(&self.path, &error))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if line.ends_with(b"\n") {
            line.pop();
        }
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        match self.seen.entry(hasher.finish()) {
            std::collections::hash_map::Entry::Occupied(first) => {
                self.duplicates.push((self.number, *first.get()));
            }
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(self.number);
            }
        }
        Ok(Some((self.number, line)))
    }

    /// Up to `count` lines.
    pub(crate) fn batch(&mut self, count: usize) -> Result<Vec<(usize, Vec<u8>)>, Failure> {
        let mut lines = Vec::with_capacity(count);
        while lines.len() < count {
            match self.next()? {
                Some(line) => lines.push(line),
                None => break,
            }
        }
        Ok(lines)
    }

    /// Warnings about equal lines.
    pub(crate) fn duplicates(&self, path: &Path) -> Vec<String> {
        let mut texts: Vec<String> = self
            .duplicates
            .iter()
            .take(DUPLICATES_NAMED)
            .map(|(line, first)| {
                format!(
                    "{}:{line}: equals line {first}; was the file written twice?",
                    path.display()
                )
            })
            .collect();
        if self.duplicates.len() > DUPLICATES_NAMED {
            texts.push(format!(
                "{}: {} equal lines in all; all are scored, as the official code does",
                path.display(),
                self.duplicates.len()
            ));
        }
        texts
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Data(format!(
        "{}: {error}\nhint: give a readable file of JSON lines, such as pred/<model>/qasper.jsonl",
        path.display()
    ))
}

/// The last line of a file, found from its end; `None` for an empty file.
pub(crate) fn last_line(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    const CHUNK: u64 = 64 * 1024;
    let read = |file: &mut File| -> std::io::Result<Option<Vec<u8>>> {
        let mut start = file.metadata()?.len();
        let mut tail: Vec<u8> = Vec::new();
        while start > 0 {
            let from = start.saturating_sub(CHUNK);
            file.seek(SeekFrom::Start(from))?;
            let mut chunk = Vec::new();
            Read::by_ref(file)
                .take(start - from)
                .read_to_end(&mut chunk)?;
            chunk.append(&mut tail);
            tail = chunk;
            start = from;
            let body = tail.strip_suffix(b"\n").unwrap_or(&tail);
            if let Some(place) = body.iter().rposition(|byte| *byte == b'\n') {
                return Ok(Some(body[place + 1..].to_vec()));
            }
        }
        let body = tail.strip_suffix(b"\n").unwrap_or(&tail);
        Ok((!body.is_empty()).then(|| body.to_vec()))
    };
    File::open(path)
        .and_then(|mut file| read(&mut file))
        .map_err(|error| failed(path, &error))
}
