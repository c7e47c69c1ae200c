//! Reads a results folder: the union of all writers' files, each cell and sample once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::cell::{Cell, CellKey};
use crate::error::RunnerError;
use crate::record::{RECORD_SCHEMA, Record, Timing};
use crate::store::lines;
use crate::store::manifest::Manifest;

/// Everything stored in a results folder.
#[derive(Debug, Clone)]
pub struct StoredRun {
    /// The folder.
    pub dir: PathBuf,
    /// What was run.
    pub manifest: Manifest,
    /// Every cell that ever was part of this experiment.
    pub cells: BTreeMap<CellKey, Cell>,
    /// Records, each cell and sample once, ordered by model folder, task, place in the file and cell key.
    pub records: Vec<Record>,
    /// The last timing of every cell and sample.
    pub timings: BTreeMap<(CellKey, String), Timing>,
    /// What a reader should know: cut lines, records of unknown cells.
    pub warnings: Vec<String>,
}

impl StoredRun {
    /// Cells of the last run's spec, in plan order.
    pub fn current_cells(&self) -> impl Iterator<Item = &Cell> {
        self.manifest
            .cells
            .iter()
            .filter_map(|key| self.cells.get(key))
    }
}

/// Reads a results folder.
///
/// # Errors
/// A folder that is none, a damaged file, or two different records of one cell and sample.
pub fn read_run(dir: &Path) -> Result<StoredRun, RunnerError> {
    let manifest_path = dir.join("manifest.json");
    if !manifest_path.is_file() {
        return Err(RunnerError::Stored {
            path: dir.to_owned(),
            line: None,
            message: "no results folder: it has no manifest.json".to_owned(),
            hint: "give a folder such as results/quickstart; `ripplekv run` makes it".to_owned(),
        });
    }
    let manifest: Manifest = read_json(&manifest_path)?;
    let cells: BTreeMap<CellKey, Cell> = read_json(&dir.join("cells.json"))?;
    let mut warnings = Vec::new();
    let mut records = Vec::new();
    let mut by_task: BTreeMap<(String, String), Vec<PathBuf>> = BTreeMap::new();
    for (model, task, path) in lines::files(&dir.join("records"))? {
        by_task.entry((model, task)).or_default().push(path);
    }
    for (_, paths) in by_task {
        let mut of_task = read_records(&paths, &mut warnings)?;
        of_task.sort_by(|left, right| (left.index, &left.cell).cmp(&(right.index, &right.cell)));
        records.extend(of_task);
    }
    let before = records.len();
    records.retain(|record| cells.contains_key(&record.cell));
    if records.len() < before {
        warnings.push(format!(
            "{}: {} records belong to no cell of cells.json and were left out",
            dir.display(),
            before - records.len()
        ));
    }
    let mut timings = BTreeMap::new();
    for (_, _, path) in lines::files(&dir.join("timings"))? {
        for timing in lines::read::<Timing>(&path, &mut Vec::new())? {
            timings.insert((timing.cell.clone(), timing.sample.clone()), timing);
        }
    }
    Ok(StoredRun {
        dir: dir.to_owned(),
        manifest,
        cells,
        records,
        timings,
        warnings,
    })
}

pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, RunnerError> {
    let bytes =
        std::fs::read(path).map_err(|source| RunnerError::io("cannot read", path, source))?;
    serde_json::from_slice(&bytes).map_err(|error| RunnerError::Stored {
        path: path.to_owned(),
        line: Some(error.line()).filter(|line| *line > 0),
        message: format!("damaged file: {error}"),
        hint: "was it edited? `ripplekv run` writes it again from the spec".to_owned(),
    })
}

/// The union of several writers' files of one task. A record without an error wins over one with;
/// otherwise two records of one cell and sample must be equal.
pub(crate) fn read_records(
    paths: &[PathBuf],
    warnings: &mut Vec<String>,
) -> Result<Vec<Record>, RunnerError> {
    let mut records: Vec<Record> = Vec::new();
    let mut places: BTreeMap<(CellKey, String), usize> = BTreeMap::new();
    for path in paths {
        for record in lines::read::<Record>(path, warnings)? {
            if record.schema > RECORD_SCHEMA {
                return Err(RunnerError::Stored {
                    path: path.clone(),
                    line: None,
                    message: format!(
                        "a record has schema {}, this program reads up to {RECORD_SCHEMA}",
                        record.schema
                    ),
                    hint: "use a newer ripplekv".to_owned(),
                });
            }
            let id = (record.cell.clone(), record.sample.clone());
            let Some(place) = places.get(&id) else {
                places.insert(id, records.len());
                records.push(record);
                continue;
            };
            let known = &mut records[*place];
            match (known.error.is_some(), record.error.is_some()) {
                (true, _) => *known = record,
                (false, true) => {}
                (false, false) if *known == record => {}
                (false, false) => {
                    return Err(RunnerError::Stored {
                        path: path.clone(),
                        line: None,
                        message: format!(
                            "sample '{}' of cell {} is stored twice with different contents",
                            record.sample, record.cell
                        ),
                        hint: "results of two builds or machines were mixed; keep one of the files"
                            .to_owned(),
                    });
                }
            }
        }
    }
    Ok(records)
}

/// What is stored of one model and task, by every writer. A folder that does not exist holds nothing.
///
/// # Errors
/// When a file is damaged.
pub fn read_done(dir: &Path, model: &str, task: &str) -> Result<DoneIndex, RunnerError> {
    let folder = dir.join("records").join(model).join(task);
    let paths: Vec<PathBuf> = lines::names(&folder)?
        .into_iter()
        .filter(|name| name.ends_with(".jsonl"))
        .map(|name| folder.join(name))
        .collect();
    // A cut line of another process may be one it is writing now; our own is mended on opening.
    let records = read_records(&paths, &mut Vec::new())?;
    Ok(DoneIndex::new(&records))
}

/// Which cells and samples of one task are stored already.
#[derive(Debug, Clone, Default)]
pub struct DoneIndex {
    done: BTreeSet<(CellKey, String)>,
    failed: BTreeSet<(CellKey, String)>,
    prompts: BTreeMap<String, (String, CellKey)>,
    profiles: BTreeMap<CellKey, String>,
}

impl DoneIndex {
    pub(crate) fn new(records: &[Record]) -> Self {
        let mut index = Self::default();
        for record in records {
            index.add(record);
        }
        index
    }

    pub(crate) fn add(&mut self, record: &Record) {
        let id = (record.cell.clone(), record.sample.clone());
        if record.error.is_some() {
            self.failed.insert(id);
        } else {
            if let Some(hash) = &record.profile_hash {
                self.profiles.insert(record.cell.clone(), hash.clone());
            }
            self.failed.remove(&id);
            self.done.insert(id);
        }
        self.prompts.insert(
            record.sample.clone(),
            (record.prompt_hash.clone(), record.cell.clone()),
        );
    }

    /// Whether a record without error is stored.
    #[must_use]
    pub fn is_done(&self, cell: &CellKey, sample: &str) -> bool {
        self.done.contains(&(cell.clone(), sample.to_owned()))
    }

    /// Whether only a failed record is stored.
    #[must_use]
    pub fn is_failed(&self, cell: &CellKey, sample: &str) -> bool {
        self.failed.contains(&(cell.clone(), sample.to_owned()))
    }

    /// Content hash of the profile that a cell's stored records came from.
    #[must_use]
    pub(crate) fn profile_hash(&self, cell: &CellKey) -> Option<&String> {
        self.profiles.get(cell)
    }

    /// Hash of a sample's prompt as some cell of `cells` stored it.
    #[must_use]
    pub(crate) fn prompt_hash(&self, sample: &str) -> Option<&(String, CellKey)> {
        self.prompts.get(sample)
    }
}
