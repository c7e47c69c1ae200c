//! `ripplekv export`: stored answers as prediction files of other programs.
//! Follows what LongBench's `pred.py` writes and its `eval.py` reads (THUDM/LongBench 2e00731).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use ripplekv_runner::cell::{Cell, CellKey, Query};
use ripplekv_runner::record::Record;
use ripplekv_runner::store::read_run;
use ripplekv_tasks::{Suite, find_task};

use crate::arguments::{ExportArguments, ExportFormat};
use crate::failure::Failure;
use crate::output::Output;

/// The method that keeps everything and takes no budget.
const FULL: &str = "full";

/// One file to write.
#[derive(Debug, Default)]
struct Predictions {
    lines: String,
    records: usize,
    failed: usize,
    from: PathBuf,
    cell: Option<CellKey>,
}

pub(crate) fn export(arguments: &ExportArguments, output: Output) -> Result<(), Failure> {
    match arguments.format {
        ExportFormat::Longbench => {}
    }
    let mut files: BTreeMap<PathBuf, Predictions> = BTreeMap::new();
    for results in &arguments.from {
        collect(results, &mut files, output)?;
    }
    if files.values().all(|file| file.records == 0) {
        return Err(Failure::Data(
            "no records to export\nhint: `ripplekv run` makes them; the folder is results/<name>"
                .to_owned(),
        ));
    }
    let mut strangers = false;
    for (name, file) in &files {
        if file.failed > 0 {
            output.warning(&format!(
                "{}: {} failed samples are left out; the authors' program divides by the lines it finds",
                name.display(),
                file.failed
            ));
        }
        if file.records == 0 {
            continue;
        }
        let path = arguments.dir.join(name);
        write(&path, &file.lines)?;
        output.line(&format!("{} ({} records)", path.display(), file.records))?;
        let stem = name.file_stem().unwrap_or_default().to_string_lossy();
        strangers |= find_task(&stem).is_ok_and(|task| !task.suite.has_pinned_config());
    }
    if strangers {
        output.note("some tasks are not LongBench's: `ripplekv score` knows them, the authors' eval.py does not");
    }
    Ok(())
}

/// Adds the records of one results folder.
fn collect(
    results: &Path,
    files: &mut BTreeMap<PathBuf, Predictions>,
    output: Output,
) -> Result<(), Failure> {
    let run = read_run(results)?;
    for warning in &run.warnings {
        output.warning(warning);
    }
    let current: Vec<&Cell> = run.current_cells().collect();
    let mut places: BTreeMap<&CellKey, PathBuf> = BTreeMap::new();
    for cell in &current {
        let name = place(cell, &current)?;
        let file = files.entry(name.clone()).or_default();
        if let Some(other) = &file.cell
            && *other != cell.key
        {
            return Err(Failure::Data(format!(
                "{}: both {} and {} have answers for it, of different cells\nhint: export them into different folders",
                name.display(),
                file.from.display(),
                results.display()
            )));
        }
        file.cell = Some(cell.key.clone());
        file.from = results.to_owned();
        places.insert(&cell.key, name);
    }
    // The same cell in two results folders is the same experiment: the later folder's records stand.
    for name in places.values() {
        if let Some(file) = files.get_mut(name) {
            file.lines.clear();
            file.records = 0;
            file.failed = 0;
        }
    }
    // Stored in the order of the task's file; lines of different cells go to different files.
    for record in &run.records {
        let Some(file) = places
            .get(&record.cell)
            .and_then(|name| files.get_mut(name))
        else {
            continue;
        };
        if record.error.is_some() {
            file.failed += 1;
        } else {
            file.lines.push_str(&line(record));
            file.records += 1;
        }
    }
    Ok(())
}

/// `pred/<model>/<task>.jsonl`, or `pred_e/` for LongBench-E, whose files have no `_e` in their names.
fn place(cell: &Cell, all: &[&Cell]) -> Result<PathBuf, Failure> {
    let task = find_task(&cell.task).map_err(|error| Failure::Data(error.to_string()))?;
    let (folder, file) = match task.suite {
        Suite::LongBenchE => ("pred_e", task.config_key),
        Suite::LongBench | Suite::Own | Suite::Calibration => ("pred", task.name),
    };
    Ok(Path::new(folder)
        .join(label(cell, all))
        .join(format!("{file}.jsonl")))
}

/// The model's name alone where the experiment has one cell of each of its tasks, else with what sets the cell
/// apart: `<model>__<method>__<budget>`, and the query mode where the question was not part of what is compressed.
fn label(cell: &Cell, all: &[&Cell]) -> String {
    let several = all
        .iter()
        .any(|other| other.model == cell.model && other.task == cell.task && other.key != cell.key);
    let mut label = safe(&cell.model);
    if several {
        let _ = write!(label, "__{}", safe(&cell.method.label));
        if let Some(budget) = &cell.budget {
            let _ = write!(label, "__{}", safe(budget));
        }
        if cell.query == Query::Agnostic && cell.method.name != FULL {
            label.push_str("__agnostic");
        }
    }
    label
}

/// One folder name on every system.
fn safe(text: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || "._-=%+".contains(c);
    let name: String = text
        .chars()
        .map(|c| if kept(c) { c } else { '-' })
        .collect();
    match name.trim_start_matches('.') {
        "" => "unnamed".to_owned(),
        rest => rest.to_owned(),
    }
}

/// A line as Python's `json.dump(..., ensure_ascii=False)` writes it, in the order of `pred.py`.
fn line(record: &Record) -> String {
    let classes = record
        .all_classes
        .as_deref()
        .map_or_else(|| "null".to_owned(), list);
    format!(
        "{{\"pred\": {}, \"answers\": {}, \"all_classes\": {classes}, \"length\": {}}}\n",
        text(&record.output),
        list(&record.answers),
        record.length
    )
}

fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|entry| text(entry)).collect();
    format!("[{}]", texts.join(", "))
}

fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Whole or not at all, and never appended to: the authors' program scores lines that came twice, twice.
fn write(path: &Path, lines: &str) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::Data(format!("cannot write {}: {error}", path.display()));
    let partial = path.with_extension("jsonl.tmp");
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    fs::write(&partial, lines).map_err(failed)?;
    fs::rename(&partial, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_one_folder_below() {
        for (name, folder) in [
            ("smollm2-135m", "smollm2-135m"),
            ("ripplekv r=2 gamma=4", "ripplekv-r=2-gamma=4"),
            ("../../etc", "-..-etc"),
            ("..", "unnamed"),
            ("10%", "10%"),
        ] {
            assert_eq!(safe(name), folder);
        }
    }

    #[test]
    fn texts_are_written_as_python_does() {
        assert_eq!(
            text("说\u{2028}\"\\\n\u{1}\u{7f}é"),
            "\"说\u{2028}\\\"\\\\\\n\\u0001\u{7f}é\""
        );
        assert_eq!(list(&["a".to_owned(), "b".to_owned()]), "[\"a\", \"b\"]");
    }
}
