//! Reads results folders as `../../design.md` 8 lays them out: the union by (cell, sample id) over all writers and folders.
//! Nothing unsound stops it: cut, conflicting, foreign and too new lines are left out and named in the warnings.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use ripplekv_runner::cell::{Cell, CellKey};
use ripplekv_runner::record::{RECORD_SCHEMA, Record, Timing};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::ReportError;
use crate::evidence::{EvidenceReader, StoredEvidence, has_evidence};

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

/// Ids by model and task, as a manifest lists them.
type Selected = BTreeMap<String, BTreeMap<String, Vec<String>>>;

#[derive(Deserialize)]
struct SchemaOnly {
    schema: u32,
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
    warnings: Vec<String>,
}

/// What keeps a folder's records out.
struct Refused {
    /// Models that are not those of the same name read before.
    models: BTreeSet<String>,
    /// Content hash of the folder's profiles, by model.
    profiles: BTreeMap<String, String>,
    /// Records made with another profile than the folder's: how many, by model, method and budget.
    foreign_profile: BTreeMap<String, usize>,
}

struct Stored {
    record: Record,
    place: String,
    conflicting: bool,
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
            for (place, line) in complete_lines(&path, &mut self.warnings) {
                match serde_json::from_str::<Timing>(&line) {
                    Ok(timing) => {
                        self.timings
                            .insert((timing.cell.clone(), timing.sample.clone()), timing);
                    }
                    Err(error) => self.warn(format!("{place}: timing left out: {error}")),
                }
            }
        }
    }

    fn manifest(&mut self, path: &Path) -> Option<Value> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                self.warn(format!("{}: not read: {error}", path.display()));
                return None;
            }
        };
        match serde_json::from_str(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.warn(format!("{}: not read: {error}", path.display()));
                None
            }
        }
    }

    /// Models that an earlier folder knows under the same name but with other weights or another tokenizer:
    /// cell keys do not see that, so their records must not be joined.
    fn foreign_models(&mut self, folder: &Path, manifest: &Option<Value>) -> BTreeSet<String> {
        let models = manifest
            .as_ref()
            .and_then(|manifest| manifest.get("models"))
            .and_then(Value::as_object);
        let mut foreign = BTreeSet::new();
        for (name, identity) in models.into_iter().flatten() {
            let hashes: Vec<String> = ["model_hash", "tokenizer_hash", "template_hash", "dtype"]
                .iter()
                .map(|key| identity.get(key).unwrap_or(&Value::Null).to_string())
                .collect();
            let hashes = hashes.join(" ");
            match self.models.get(name) {
                Some(known) if *known != hashes => {
                    self.warn(format!(
                        "{}: records of `{name}` left out: the model differs from the one of that name read before",
                        folder.display()
                    ));
                    foreign.insert(name.clone());
                }
                Some(_) => {}
                None => {
                    self.models.insert(name.clone(), hashes);
                }
            }
        }
        foreign
    }

    /// Adds what a folder selected to each of its cells.
    fn note_selected(
        &mut self,
        manifest: &Option<Value>,
        keys: &[CellKey],
        refused: &BTreeSet<String>,
    ) {
        let selected = manifest
            .as_ref()
            .and_then(|manifest| manifest.get("selected"))
            .and_then(|selected| serde_json::from_value::<Selected>(selected.clone()).ok());
        for key in keys {
            let Some(cell) = self.cells.get(key) else {
                continue;
            };
            if refused.contains(&cell.model) {
                continue;
            }
            let ids = selected
                .as_ref()
                .and_then(|models| models.get(&cell.model)?.get(&cell.task));
            match ids {
                Some(ids) => {
                    let known = self.selected.entry(key.clone()).or_default();
                    known.extend(ids.iter().cloned());
                }
                None => {
                    self.unlimited.insert(key.clone());
                }
            }
        }
    }

    /// Keys of the sound cells in the file.
    fn cells_file(&mut self, path: &Path) -> Vec<CellKey> {
        let read = fs::read_to_string(path).map_err(|error| error.to_string());
        let map = read.and_then(|text| {
            serde_json::from_str::<Map<String, Value>>(&text).map_err(|error| error.to_string())
        });
        let map = match map {
            Ok(map) => map,
            Err(error) => {
                self.warn(format!("{}: not read: {error}", path.display()));
                return Vec::new();
            }
        };
        let mut keys = Vec::with_capacity(map.len());
        for (key, value) in map {
            match serde_json::from_value::<Cell>(value) {
                Ok(cell) if cell.key.0 == key => {
                    keys.push(cell.key.clone());
                    self.add_cell(path, cell);
                }
                Ok(cell) => self.warn(format!(
                    "{}: cell `{key}` left out: it calls itself `{}`",
                    path.display(),
                    cell.key
                )),
                Err(error) => self.warn(format!(
                    "{}: cell `{key}` left out: {error}",
                    path.display()
                )),
            }
        }
        keys
    }

    fn add_cell(&mut self, path: &Path, cell: Cell) {
        match self.cells.get(&cell.key) {
            Some(known) if *known != cell => self.warn(format!(
                "{}: cell `{}` differs from the one read before; the first is used",
                path.display(),
                cell.key
            )),
            Some(_) => {}
            None => {
                self.cells.insert(cell.key.clone(), cell);
            }
        }
    }

    /// False when the record's cell is not known.
    fn record(&mut self, place: String, line: &str, refused: &mut Refused) -> bool {
        if let Ok(version) = serde_json::from_str::<SchemaOnly>(line)
            && version.schema > RECORD_SCHEMA
        {
            self.warn(format!(
                "{place}: record left out: schema {} is newer than {RECORD_SCHEMA}, the newest this program reads",
                version.schema
            ));
            return true;
        }
        let record = match serde_json::from_str::<Record>(line) {
            Ok(record) => record,
            Err(error) => {
                self.warn(format!("{place}: record left out: {error}"));
                return true;
            }
        };
        let Some(cell) = self.cells.get(&record.cell) else {
            return false;
        };
        if refused.models.contains(&cell.model) {
            return true;
        }
        if let (Some(used), Some(own)) = (&record.profile_hash, refused.profiles.get(&cell.model))
            && used != own
        {
            let row = row_name(cell);
            *refused.foreign_profile.entry(row).or_default() += 1;
            return true;
        }
        if let Some(score) = record.score
            && !(0.0..=1.0).contains(&score)
        {
            self.warn(format!(
                "{place}: record left out: score {score} is not within 0 and 1"
            ));
            return true;
        }
        self.add_record(place, record);
        true
    }

    fn add_record(&mut self, place: String, record: Record) {
        let key = (record.cell.clone(), record.sample.clone());
        let Some(known) = self.records.get_mut(&key) else {
            self.records.insert(
                key,
                Stored {
                    record,
                    place,
                    conflicting: false,
                },
            );
            return;
        };
        // A failed sample that was run again has two lines; the one without an error counts.
        match (known.record.error.is_some(), record.error.is_some()) {
            (false, true) => return,
            (true, _) => {
                known.record = record;
                known.place = place;
                return;
            }
            (false, false) if known.record == record => return,
            (false, false) => {}
        }
        known.conflicting = true;
        let first = known.place.clone();
        self.warn(format!(
            "{place}: sample `{}` of cell `{}` differs from the line at {first}; the sample is left out of everything",
            record.sample, record.cell
        ));
    }

    fn finish(mut self) -> Results {
        let mut samples: BTreeMap<CellKey, Vec<Sample>> = BTreeMap::new();
        for ((cell, id), stored) in std::mem::take(&mut self.records) {
            if stored.conflicting {
                continue;
            }
            let timing = self.timings.remove(&(cell.clone(), id));
            samples.entry(cell).or_default().push(Sample {
                record: stored.record,
                timing,
            });
        }
        for (key, cell) in &self.cells {
            let mixed = samples.get_mut(key).filter(|samples| {
                let hashes: BTreeSet<_> = samples
                    .iter()
                    .filter_map(|sample| sample.record.profile_hash.as_deref())
                    .collect();
                hashes.len() > 1
            });
            if let Some(samples) = mixed {
                samples.clear();
                self.warnings.push(format!(
                    "{} on {}: left out: its records were made with different contents of the profile, which are never mixed",
                    row_name(cell),
                    cell.task
                ));
            }
        }
        let mut cells = Vec::new();
        let mut earlier = 0_usize;
        let mut outside = 0_usize;
        for (key, cell) in std::mem::take(&mut self.cells) {
            let mut samples = samples.remove(&key).unwrap_or_default();
            if !self.all_current && !self.current.contains(&key) {
                earlier += usize::from(!samples.is_empty());
                continue;
            }
            let selected = self
                .selected
                .remove(&key)
                .filter(|_| !self.unlimited.contains(&key));
            if let Some(selected) = &selected {
                let stored = samples.len();
                samples.retain(|sample| selected.contains(&sample.record.sample));
                outside += stored - samples.len();
            }
            samples.sort_by(|left, right| {
                (left.record.index, &left.record.sample)
                    .cmp(&(right.record.index, &right.record.sample))
            });
            cells.push(CellSamples {
                cell,
                samples,
                selected,
            });
        }
        if outside > 0 {
            self.warn(format!(
                "{outside} stored records outside the last selection are left out"
            ));
        }
        if earlier > 0 {
            self.warn(format!(
                "{earlier} cells of earlier specs have records and are left out: the last run's spec does not name them"
            ));
        }
        let evidence = self.evidence.finish(&mut self.warnings);
        Results {
            cells,
            manifests: self.manifests,
            evidence,
            warnings: self.warnings,
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
            Err(_) => warnings.push(format!("{place}: line left out: not UTF-8")),
        }
    }
    lines
}

/// Cells of a folder's last spec.
fn listed_cells(manifest: &Option<Value>) -> Option<Vec<CellKey>> {
    let cells = manifest.as_ref()?.get("cells")?;
    serde_json::from_value(cells.clone()).ok()
}

/// Model, method and budget of a cell, as warnings name it.
fn row_name(cell: &Cell) -> String {
    let budget = cell.budget.as_deref().map(|budget| format!(" at {budget}"));
    format!(
        "{}: {}{}",
        cell.model,
        cell.method.label,
        budget.unwrap_or_default()
    )
}

/// All `*.jsonl` files two folders down (`<model>/<task>/<writer>.jsonl`), in name order.
fn jsonl_files(folder: &Path) -> Vec<PathBuf> {
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
