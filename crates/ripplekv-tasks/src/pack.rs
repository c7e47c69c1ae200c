//! A pack: a folder of prompts, limits and records in LongBench's own formats.
//! Follows the layout of THUDM/LongBench 2e00731 (`config/`, `data/<task>.jsonl`).

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::groups::{UnknownTask, expand_tasks, find_group, find_task};
use crate::pack_error::{PackError, hint_for};
use crate::record::{Record, RecordError};
use crate::render::Template;
use crate::table::TASKS;
use crate::task::TaskInfo;

/// File with the prompt texts, below a pack's folder.
pub const PROMPT_FILE: &str = "config/dataset2prompt.json";
/// File with the most new tokens per task, below a pack's folder.
pub const LENGTH_FILE: &str = "config/dataset2maxlen.json";
/// Optional file that names the pack and says how it was made.
pub const MANIFEST_FILE: &str = "manifest.json";

/// SHA-256 of LongBench's official `dataset2prompt.json`.
pub const LONGBENCH_PROMPT_SHA256: &str =
    "56d22ad4f382169c2b8a11ff4c982a4a1bea096c8152b0f0b85b64686b157c30";
/// SHA-256 of LongBench's official `dataset2maxlen.json`.
pub const LONGBENCH_LENGTH_SHA256: &str =
    "72966b3c0933e214591637fb085798c5e687ebff4ddaab5d99bbc31120532022";

/// An opened pack: configuration read and checked, records still on disk.
#[derive(Debug, Clone)]
pub struct Pack {
    dir: PathBuf,
    name: String,
    tasks: Vec<PackTask>,
}

#[derive(Debug, Clone)]
struct PackTask {
    info: &'static TaskInfo,
    template: String,
    max_new_tokens: usize,
}

/// What names select from a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The tasks to run, in table order.
    pub tasks: Vec<&'static TaskInfo>,
    /// Members of the named groups, of a suite the pack has, that the pack lacks: to be told.
    pub absent: Vec<&'static TaskInfo>,
}

#[derive(Deserialize)]
struct ManifestName {
    name: Option<String>,
}

impl Pack {
    /// Opens the folder: reads both config files, finds the record files, checks that they agree.
    /// Where LongBench's tasks are among them, both config files must be the official ones.
    pub fn open(dir: impl AsRef<Path>) -> Result<Pack, PackError> {
        let dir = dir.as_ref();
        if !dir.is_dir() {
            return Err(PackError::NoFolder {
                path: dir.to_owned(),
                hint: hint_for(dir),
            });
        }
        let infos = record_files(dir)?;
        let prompt_path = dir.join(PROMPT_FILE);
        let length_path = dir.join(LENGTH_FILE);
        let prompt_bytes = read(&prompt_path)?;
        let length_bytes = read(&length_path)?;
        if infos.iter().any(|info| info.suite.has_pinned_config()) {
            check_digest(&prompt_path, &prompt_bytes, LONGBENCH_PROMPT_SHA256)?;
            check_digest(&length_path, &length_bytes, LONGBENCH_LENGTH_SHA256)?;
        }
        let templates: BTreeMap<String, String> = parse_config(&prompt_path, &prompt_bytes)?;
        let lengths: BTreeMap<String, usize> = parse_config(&length_path, &length_bytes)?;
        let mut tasks = Vec::with_capacity(infos.len());
        for info in infos {
            let template = entry(&templates, info, &prompt_path)?;
            Template::parse(template).map_err(|reason| PackError::Template {
                path: prompt_path.clone(),
                task: info.name,
                reason,
            })?;
            let max_new_tokens = *entry(&lengths, info, &length_path)?;
            if max_new_tokens == 0 {
                return Err(PackError::Config {
                    path: length_path,
                    reason: format!("`{}` allows 0 new tokens", info.config_key),
                });
            }
            tasks.push(PackTask {
                info,
                template: template.clone(),
                max_new_tokens,
            });
        }
        Ok(Pack {
            name: pack_name(dir, &tasks)?,
            dir: dir.to_owned(),
            tasks,
        })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The name in `manifest.json`, or that of the suite the tasks come from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tasks that have a record file, in table order.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = &'static TaskInfo> + '_ {
        self.tasks.iter().map(|task| task.info)
    }

    /// The task of that name.
    pub fn task(&self, name: &str) -> Result<&'static TaskInfo, PackError> {
        let info = find_task(name)?;
        self.find(info).map(|task| task.info)
    }

    /// Task and group names to tasks of this pack. A task named by itself must be there; of a
    /// group those that are there are taken, and at least one must be.
    pub fn select<S: AsRef<str>>(&self, names: &[S]) -> Result<Selection, PackError> {
        let mut wanted = vec![false; TASKS.len()];
        for name in names {
            let name = name.as_ref();
            let is_group = find_group(name).is_some();
            let mut found = false;
            for info in expand_tasks(&[name])? {
                if let Some(index) = TASKS.iter().position(|task| task.name == info.name) {
                    wanted[index] = true;
                }
                match self.find(info) {
                    Ok(_) => found = true,
                    Err(error) if !is_group => return Err(error),
                    Err(_) => {}
                }
            }
            if !found {
                return Err(PackError::NothingSelected {
                    group: name.to_owned(),
                    path: self.dir.clone(),
                    present: self.names(),
                });
            }
        }
        let all = TASKS
            .iter()
            .zip(wanted)
            .filter_map(|(task, wanted)| wanted.then_some(task));
        let (tasks, lacking): (Vec<_>, Vec<_>) = all.partition(|info| self.find(info).is_ok());
        let has_suite = |info: &&TaskInfo| {
            tasks
                .iter()
                .any(|task: &&TaskInfo| task.suite == info.suite)
        };
        let absent = lacking.into_iter().filter(has_suite).collect();
        Ok(Selection { tasks, absent })
    }

    /// The prompt text of a task, with `{context}` and `{input}` in it.
    pub fn template(&self, task: &TaskInfo) -> Result<&str, PackError> {
        Ok(&self.find(task)?.template)
    }

    /// The most new tokens of a task, from `dataset2maxlen.json`.
    pub fn max_new_tokens(&self, task: &TaskInfo) -> Result<usize, PackError> {
        Ok(self.find(task)?.max_new_tokens)
    }

    /// The file with a task's records.
    pub fn record_path(&self, task: &TaskInfo) -> PathBuf {
        self.dir.join("data").join(format!("{}.jsonl", task.name))
    }

    /// Reads the records one by one; every line is checked as it comes.
    pub fn records(&self, task: &TaskInfo) -> Result<Records, PackError> {
        let info = self.find(task)?.info;
        let path = self.record_path(info);
        let file = File::open(&path).map_err(|reason| PackError::Read {
            path: path.clone(),
            reason,
        })?;
        Ok(Records {
            reader: BufReader::new(file),
            path,
            info,
            line: 0,
            seen: HashMap::new(),
            buffer: Vec::new(),
            finished: false,
        })
    }

    /// All records of a task.
    pub fn load(&self, task: &TaskInfo) -> Result<Vec<Record>, PackError> {
        self.records(task)?.collect()
    }

    /// BLAKE3 (hex) of the bytes of a task's record file.
    pub fn hash(&self, task: &TaskInfo) -> Result<String, PackError> {
        let path = self.record_path(self.find(task)?.info);
        let mut hasher = blake3::Hasher::new();
        File::open(&path)
            .and_then(|file| hasher.update_reader(file).map(|_| ()))
            .map_err(|reason| PackError::Read { path, reason })?;
        Ok(hasher.finalize().to_hex().to_string())
    }

    fn find(&self, info: &TaskInfo) -> Result<&PackTask, PackError> {
        self.tasks
            .iter()
            .find(|task| task.info.name == info.name)
            .ok_or_else(|| PackError::NotInPack {
                task: info.name,
                path: self.dir.clone(),
                present: self.names(),
                belongs_to: info.pack_name(),
            })
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.tasks().map(|task| task.name).collect();
        names.join(", ")
    }
}

/// The records of one task, read line by line. Ends after the first error.
#[derive(Debug)]
pub struct Records {
    reader: BufReader<File>,
    path: PathBuf,
    info: &'static TaskInfo,
    line: usize,
    seen: HashMap<String, usize>,
    buffer: Vec<u8>,
    finished: bool,
}

impl Records {
    fn read_next(&mut self) -> Result<Option<Record>, PackError> {
        self.buffer.clear();
        let read = self
            .reader
            .read_until(b'\n', &mut self.buffer)
            .map_err(|reason| PackError::Read {
                path: self.path.clone(),
                reason,
            })?;
        if read == 0 {
            if self.line == 0 {
                return Err(PackError::NoRecords {
                    path: self.path.clone(),
                });
            }
            return Ok(None);
        }
        self.line += 1;
        let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        let record = Record::parse(line).map_err(|reason| self.at_line(reason))?;
        if self.info.metric == "classification" && record.all_classes.is_none() {
            return Err(self.at_line(RecordError::NoClasses { id: record.id }));
        }
        if let Some(first_line) = self.seen.insert(record.id.clone(), self.line) {
            return Err(PackError::DuplicateId {
                path: self.path.clone(),
                line: self.line,
                first_line,
                id: record.id,
            });
        }
        Ok(Some(record))
    }

    fn at_line(&self, reason: RecordError) -> PackError {
        PackError::Record {
            path: self.path.clone(),
            line: self.line,
            reason,
        }
    }
}

impl Iterator for Records {
    type Item = Result<Record, PackError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let next = self.read_next().transpose();
        self.finished = !matches!(next, Some(Ok(_)));
        next
    }
}

fn read(path: &Path) -> Result<Vec<u8>, PackError> {
    fs::read(path).map_err(|reason| match reason.kind() {
        std::io::ErrorKind::NotFound => PackError::MissingFile {
            path: path.to_owned(),
        },
        _ => PackError::Read {
            path: path.to_owned(),
            reason,
        },
    })
}

fn record_files(dir: &Path) -> Result<Vec<&'static TaskInfo>, PackError> {
    let data = dir.join("data");
    let empty = || PackError::EmptyPack {
        path: dir.to_owned(),
    };
    if !data.is_dir() {
        return Err(empty());
    }
    let unreadable = |reason| PackError::Read {
        path: data.clone(),
        reason,
    };
    let mut stems = Vec::new();
    for file in fs::read_dir(&data).map_err(unreadable)? {
        let path = file.map_err(unreadable)?.path();
        if path.extension().is_some_and(|end| end == "jsonl") {
            stems.extend(
                path.file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned()),
            );
        }
    }
    stems.sort_unstable();
    if let Some(stranger) = stems.iter().find(|stem| find_task(stem).is_err()) {
        let reason = find_task(stranger).map_or_else(|error| error, |_| unreachable!());
        return Err(PackError::StrangeFile {
            path: data.join(format!("{stranger}.jsonl")),
            reason,
        });
    }
    if stems.is_empty() {
        return Err(empty());
    }
    Ok(TASKS
        .iter()
        .filter(|task| stems.iter().any(|stem| stem == task.name))
        .collect())
}

pub(crate) fn check_digest(
    path: &Path,
    bytes: &[u8],
    expected: &'static str,
) -> Result<(), PackError> {
    let found = hex(&Sha256::digest(bytes));
    if found == expected {
        return Ok(());
    }
    Err(PackError::NotOfficial {
        path: path.to_owned(),
        expected,
        found,
    })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_config<T: serde::de::DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
) -> Result<BTreeMap<String, T>, PackError> {
    serde_json::from_slice(bytes).map_err(|error| PackError::Config {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

fn entry<'a, T>(
    entries: &'a BTreeMap<String, T>,
    info: &TaskInfo,
    path: &Path,
) -> Result<&'a T, PackError> {
    entries
        .get(info.config_key)
        .ok_or_else(|| PackError::NoEntry {
            path: path.to_owned(),
            key: info.config_key,
        })
}

fn pack_name(dir: &Path, tasks: &[PackTask]) -> Result<String, PackError> {
    let path = dir.join(MANIFEST_FILE);
    let from_suite = tasks.first().map_or("", |task| task.info.pack_name());
    if !path.is_file() {
        return Ok(from_suite.to_owned());
    }
    let manifest: ManifestName =
        serde_json::from_slice(&read(&path)?).map_err(|error| PackError::Config {
            path,
            reason: error.to_string(),
        })?;
    Ok(manifest.name.unwrap_or_else(|| from_suite.to_owned()))
}

impl From<UnknownTask> for PackError {
    fn from(reason: UnknownTask) -> Self {
        PackError::UnknownTask(reason)
    }
}
