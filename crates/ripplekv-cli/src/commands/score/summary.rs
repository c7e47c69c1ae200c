//! From lines to task scores, averages and LongBench-E buckets.

use std::path::{Path, PathBuf};

use ripplekv_metrics::{
    BucketScore, category_average, length_bucket_scores, sixteen_task_average, task_score,
};
use ripplekv_tasks::{Category, TASKS, TaskInfo};
use serde_json::{Value, json};

use crate::arguments::ScoreArguments;
use crate::failure::Failure;
use crate::output::Output;
use crate::tables::plain_table;

use super::line::Scored;

/// What a file came to: eight bytes a line and score, so that the official rounding sees every sample.
pub(crate) struct TaskTotal {
    path: PathBuf,
    task: &'static TaskInfo,
    scores: Vec<f64>,
    levenshtein: Vec<f64>,
    lengths: Vec<Option<u64>>,
}

impl TaskTotal {
    pub(crate) fn new(path: &Path, task: &'static TaskInfo) -> Self {
        Self {
            path: path.to_owned(),
            task,
            scores: Vec::new(),
            levenshtein: Vec::new(),
            lengths: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, scored: &Scored) {
        self.scores.push(scored.score);
        self.levenshtein.extend(scored.score_levenshtein);
        self.lengths.push(scored.length);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    fn buckets(&self) -> Result<[BucketScore; 3], Failure> {
        let mut samples = Vec::with_capacity(self.scores.len());
        for (place, (score, length)) in self.scores.iter().zip(&self.lengths).enumerate() {
            let Some(length) = length else {
                return Err(Failure::Data(format!(
                    "{}:{}: missing field `length`\nhint: --e sorts samples by it",
                    self.path.display(),
                    place + 1
                )));
            };
            samples.push((*score, *length));
        }
        Ok(length_bucket_scores(samples))
    }
}

/// Prints the summary as a table or as JSON.
pub(crate) fn summary(
    totals: &[TaskTotal],
    arguments: &ScoreArguments,
    output: Output,
) -> Result<(), Failure> {
    let mut entries = Vec::new();
    for total in totals {
        let mut entry = json!({
            "file": total.path.display().to_string(),
            "task": total.task.name,
            "metric": total.task.metric,
            "n": total.scores.len(),
            "score": task_score(&total.scores),
        });
        if !total.levenshtein.is_empty() {
            entry["score_levenshtein"] = json!(task_score(&total.levenshtein));
        }
        if arguments.e {
            entry["buckets"] = json!(total.buckets()?);
        }
        entries.push(entry);
    }
    let averages = averages(totals);
    if arguments.json {
        output.line(&format!(
            "{:#}",
            json!({"files": entries, "averages": averages})
        ))?;
        return Ok(());
    }
    output.data(&table(&entries, arguments.e))?;
    for (name, value) in averages.as_object().into_iter().flatten() {
        if let Some(value) = value.as_f64() {
            output.line(&format!("{name}: {value:.2}"))?;
        }
    }
    Ok(())
}

fn table(entries: &[Value], with_buckets: bool) -> String {
    let mut columns = vec!["task", "metric", "n", "score", "levenshtein"];
    if with_buckets {
        columns.extend(ripplekv_metrics::LENGTH_BUCKETS);
    }
    let number = |value: &Value| {
        value
            .as_f64()
            .map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
    };
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            let word = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            let mut row = vec![
                word("task"),
                word("metric"),
                entry["n"].to_string(),
                number(&entry["score"]),
                number(&entry["score_levenshtein"]),
            ];
            for bucket in entry["buckets"].as_array().into_iter().flatten() {
                row.push(number(&bucket["score"]));
            }
            row
        })
        .collect();
    plain_table(&columns, &rows)
}

/// The papers' 16-task average and LongBench's category average, each where every task it takes is there once.
fn averages(totals: &[TaskTotal]) -> Value {
    let score_of = |task: &TaskInfo| {
        let mut found = totals.iter().filter(|total| total.task.name == task.name);
        match (found.next(), found.next()) {
            (Some(total), None) => task_score(&total.scores),
            _ => None,
        }
    };
    let of = |wanted: &dyn Fn(&TaskInfo) -> bool| -> Option<Vec<f64>> {
        TASKS
            .iter()
            .filter(|task| wanted(task))
            .map(score_of)
            .collect()
    };
    let sixteen = of(&|task| task.in_average)
        .and_then(|scores| <[f64; 16]>::try_from(scores).ok())
        .map(|scores| sixteen_task_average(&scores));
    let categories: Option<Vec<Vec<f64>>> = Category::ALL
        .into_iter()
        .map(|category| of(&|task| task.in_average && task.category == category))
        .collect();
    let by_category = categories.and_then(|categories| {
        let slices: Vec<&[f64]> = categories.iter().map(Vec::as_slice).collect();
        category_average(&slices)
    });
    json!({"sixteen_task_average": sixteen, "category_average": by_category})
}
