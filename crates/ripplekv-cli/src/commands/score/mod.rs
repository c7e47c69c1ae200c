//! `ripplekv score`: LongBench prediction files to scores, as the authors' `eval.py` gives them.
//! Lines stream through in batches: memory does not grow with the file.

mod file;
mod line;
mod summary;

use std::path::Path;

use ripplekv_metrics::jieba::Segmenter;
use ripplekv_tasks::{TaskInfo, find_task};

use crate::arguments::ScoreArguments;
use crate::failure::Failure;
use crate::output::Output;
use crate::wiring;

use file::{LineSource, last_line};
use line::Scored;
use summary::{TaskTotal, summary};

/// Lines scored at once.
const BATCH_LINES: usize = 256;

pub(crate) fn score(arguments: &ScoreArguments, output: Output) -> Result<(), Failure> {
    let given = arguments
        .task
        .as_deref()
        .map(find_task)
        .transpose()
        .map_err(|error| Failure::Data(error.to_string()))?;
    let mut segmenter: Option<Segmenter> = None;
    let mut totals = Vec::new();
    for path in &arguments.files {
        let task = task_of(path, given)?;
        if task.metric_info().needs_segmenter && segmenter.is_none() {
            segmenter = Some(wiring::segmenter()?);
        }
        totals.push(score_file(
            path,
            task,
            segmenter.as_ref(),
            arguments.per_sample,
            output,
        )?);
    }
    if !arguments.per_sample {
        summary(&totals, arguments, output)?;
    }
    Ok(())
}

/// The task of a file: `--task`, the file's name, or the field `dataset` of its first line.
fn task_of(path: &Path, given: Option<&'static TaskInfo>) -> Result<&'static TaskInfo, Failure> {
    if let Some(task) = given {
        return Ok(task);
    }
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
    let unknown_stem = match find_task(&stem) {
        Ok(task) => return Ok(task),
        Err(error) => error,
    };
    let mut lines = LineSource::open(path)?;
    let dataset = match lines.next()? {
        Some((number, text)) => {
            line::dataset(&text).map_err(|reason| line::at(path, number, &reason))?
        }
        None => None,
    };
    match dataset {
        Some(name) => find_task(&name)
            .map_err(|error| line::at(path, 1, &format!("field `dataset`: {error}"))),
        None => Err(Failure::Data(format!(
            "{}: the file's name tells no task: {unknown_stem}",
            path.display()
        ))),
    }
}

fn score_file(
    path: &Path,
    task: &'static TaskInfo,
    segmenter: Option<&Segmenter>,
    per_sample: bool,
    output: Output,
) -> Result<TaskTotal, Failure> {
    // The official code takes the classes of the last line for the whole file.
    let classes = match task.metric_info().needs_classes {
        true => last_line(path)?
            .map(|text| line::classes(&text).map_err(|reason| at_end(path, &reason)))
            .transpose()?
            .flatten(),
        false => None,
    };
    let mut lines = LineSource::open(path)?;
    let mut total = TaskTotal::new(path, task);
    loop {
        let batch = lines.batch(BATCH_LINES)?;
        if batch.is_empty() {
            break;
        }
        let scored = line::score_batch(path, task, &batch, classes.as_deref(), segmenter)?;
        if per_sample {
            let text: String = scored.iter().map(Scored::json_line).collect();
            output.data(&text)?;
        }
        for one in &scored {
            total.add(one);
        }
    }
    if total.is_empty() {
        return Err(Failure::Data(format!(
            "{}: empty file, nothing to score\nhint: every line holds one JSON object with pred, answers, all_classes and length",
            path.display()
        )));
    }
    for text in lines.duplicates(path) {
        output.warning(&text);
    }
    Ok(total)
}

fn at_end(path: &Path, reason: &str) -> Failure {
    Failure::Data(format!("{}: last line: {reason}", path.display()))
}
