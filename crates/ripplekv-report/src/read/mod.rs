//! Reads results folders as `../../design.md` 8 lays them out: the union by (cell, sample id) over all writers and folders.
//! Nothing unsound stops it: cut, conflicting, foreign and too new lines are left out and named in the warnings.

mod cells;
mod lines;
mod manifest;
mod records;
mod union;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ripplekv_runner::cell::{Cell, CellKey};
use ripplekv_runner::record::{RECORD_SCHEMA, Record, Timing};
use serde_json::Value;

use crate::error::ReportError;
use crate::evidence::{EvidenceReader, StoredEvidence, has_evidence};

use lines::jsonl_files;
pub(crate) use lines::{LeftOut, children, complete_lines};
use manifest::listed_cells;
pub(crate) use manifest::model_hashes;
use records::{Refused, Stored};

/// One sample of one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The stored line.
    pub record: Record,
    /// Its times, where they were kept.
    pub timing: Option<Timing>,
}

/// A cell with everything stored for it.
#[derive(Debug, Clone, PartialEq)]
pub struct CellSamples {
    /// The cell.
    pub cell: Cell,
    /// Its samples in the order of the task's file, those of the last selection only.
    pub samples: Vec<Sample>,
    /// Ids of the samples it should have; `None` where a manifest older than that list names the cell.
    pub selected: Option<BTreeSet<String>>,
}

/// Everything sound in the folders that were read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// All cells, ordered by key.
    pub cells: Vec<CellSamples>,
    /// Manifests in the order of the folders.
    pub manifests: Vec<Value>,
    /// Profiles and damage by model.
    pub evidence: BTreeMap<String, StoredEvidence>,
    /// What was left out, and why.
    pub warnings: Vec<String>,
}

#[derive(Default)]
struct Reader {
    cells: BTreeMap<CellKey, Cell>,
    records: BTreeMap<(CellKey, String), Stored>,
    timings: BTreeMap<(CellKey, String), Timing>,
    manifests: Vec<Value>,
    /// Hashes of the models read so far, by name.
    models: BTreeMap<String, String>,
    /// Cells of the folders' last specs; empty where a manifest names none.
    current: BTreeSet<CellKey>,
    /// Whether some folder does not say which cells are current.
    all_current: bool,
    /// Samples that the folders which name a cell selected for it.
    selected: BTreeMap<CellKey, BTreeSet<String>>,
    /// Cells of a folder that does not say what it selected.
    unlimited: BTreeSet<CellKey>,
    evidence: EvidenceReader,
    /// Samples with two lines that differ: how many, and the first in words, by the two files.
    conflicts: BTreeMap<(String, String), (usize, String)>,
    warnings: Vec<String>,
}

/// Reads and joins results folders.
///
/// # Errors
/// When no folder is named, or one does not exist or is no results folder.
pub fn read_results(folders: &[PathBuf]) -> Result<Results, ReportError> {
    if folders.is_empty() {
        return Err(ReportError::NoFolders);
    }
    let mut reader = Reader::default();
    for folder in folders {
        if !folder.is_dir() {
            return Err(ReportError::MissingFolder {
                path: folder.clone(),
            });
        }
        let has = |name: &str| folder.join(name).is_file();
        let has_cells = has("manifest.json") || has("cells.json");
        if !has_cells && !has_evidence(folder) {
            return Err(ReportError::NoResults {
                path: folder.clone(),
            });
        }
        let profiles = reader.evidence.folder(folder, &mut reader.warnings);
        if has_cells {
            reader.folder(folder, profiles);
        }
    }
    Ok(reader.finish())
}

impl Reader {
    fn warn(&mut self, text: String) {
        self.warnings.push(text);
    }

    fn folder(&mut self, folder: &Path, profiles: BTreeMap<String, String>) {
        let manifest = self.manifest(&folder.join("manifest.json"));
        let mut refused = Refused {
            models: self.foreign_models(folder, &manifest),
            profiles,
            foreign_profile: BTreeMap::new(),
            newer: BTreeMap::new(),
            lines: LeftOut::default(),
        };
        let listed = listed_cells(&manifest);
        let in_file = self.cells_file(&folder.join("cells.json"));
        self.note_selected(
            &manifest,
            listed.as_ref().unwrap_or(&in_file),
            &refused.models,
        );
        match listed {
            Some(keys) => self.current.extend(keys),
            None => self.all_current = true,
        }
        self.manifests.extend(manifest);
        let records = jsonl_files(&folder.join("records"));
        // A folder of a profile or damage stage alone has none, which is right.
        if records.is_empty() && !has_evidence(folder) {
            self.warn(format!("{}: no records", folder.display()));
        }
        let mut unknown = 0_usize;
        for path in records {
            for (place, line) in complete_lines(&path, &mut self.warnings) {
                unknown += usize::from(!self.record(place, &line, &mut refused));
            }
            std::mem::take(&mut refused.lines).tell(&path, &mut self.warnings);
        }
        for (schema, count) in &refused.newer {
            self.warn(format!(
                "{}: {count} records left out: their schema {schema} is newer than {RECORD_SCHEMA}, the newest this program reads; a newer ripplekv wrote them",
                folder.display()
            ));
        }
        for (row, count) in &refused.foreign_profile {
            self.warn(format!(
                "{}: {count} records of {row} left out: they were made with another profile than the folder's",
                folder.display()
            ));
        }
        if unknown > 0 {
            self.warn(format!(
                "{}: {unknown} records left out: their cells are not in cells.json",
                folder.display()
            ));
        }
        for path in jsonl_files(&folder.join("timings")) {
            let mut left_out = LeftOut::default();
            for (place, line) in complete_lines(&path, &mut self.warnings) {
                match serde_json::from_str::<Timing>(&line) {
                    Ok(timing) => {
                        self.timings
                            .insert((timing.cell.clone(), timing.sample.clone()), timing);
                    }
                    Err(error) => left_out.add(format!("{place}: timing left out: {error}")),
                }
            }
            left_out.tell(&path, &mut self.warnings);
        }
    }
}
