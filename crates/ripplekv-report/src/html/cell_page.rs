//! A page per cell: its samples, worst first.

use ripplekv_runner::record::Record;
use serde_json::{Value as Json, json};

use crate::group::{FULL, Group, query_name};
use crate::html::names::GroupNames;
use crate::html::text::{folded, number};
use crate::shown::{TaskRow, TaskRows};

pub(super) fn context(
    group: &Group,
    names: &GroupNames,
    row: &TaskRow<'_>,
    rows: &TaskRows<'_>,
) -> Json {
    let summary = row.summary;
    let task = &summary.cell.task;
    let full = rows
        .rows
        .iter()
        .find(|row| row.summary.cell.method.name == FULL);
    let full_score = |record: &Record| {
        let full = full?.records.get(record.sample.as_str())?;
        full.score.map(|score| 100.0 * score)
    };
    let mut records: Vec<&Record> = row.records.values().copied().collect();
    let points = |record: &Record| record.score.map(|score| 100.0 * score);
    // failed samples first, then the largest loss against the full cache, then the lowest score
    let loss = |record: &Record| Some(full_score(record)? - points(record)?);
    records.sort_by(|left, right| {
        let key = |record: &Record| (loss(record).unwrap_or(0.0), points(record).unwrap_or(0.0));
        let ((left_loss, left_points), (right_loss, right_points)) = (key(left), key(right));
        right
            .error
            .is_some()
            .cmp(&left.error.is_some())
            .then(right_loss.total_cmp(&left_loss))
            .then(left_points.total_cmp(&right_points))
            .then((left.index, &left.sample).cmp(&(right.index, &right.sample)))
    });
    let samples: Vec<Json> = records
        .into_iter()
        .map(|record| {
            json!({
                "sample": record.sample,
                "href": names.own_prompt(task, &record.sample).unwrap_or_default(),
                "score": number(points(record), 1),
                "full": number(full_score(record), 1),
                "loss": number(loss(record), 1),
                "kl": number(record.answer_kl, 4),
                "prompt_tokens": record.prompt_tokens,
                "output": folded(&record.output),
                "answers": record.answers.iter().map(|answer| folded(answer)).collect::<Vec<_>>(),
                "notes": notes(record),
            })
        })
        .collect();
    json!({
        "title": format!("{} on {task}", row_name(&summary.label, summary.cell.budget.as_deref())),
        "model": group.model,
        "query": query_name(group.query),
        "protocol": group.protocol_note,
        "task": task,
        "method": summary.label,
        "budget": summary.cell.budget,
        "key": summary.cell.key.0,
        "params": serde_json::to_string(&summary.cell.method.params).unwrap_or_default(),
        "score": number(summary.score, 2),
        "interval": summary.interval.map(|ends| format!("{:.2} to {:.2}", ends.low, ends.high)),
        "n": summary.scored,
        "expected": summary.expected,
        "failed": summary.failed,
        "kl": number(summary.answer_kl, 4),
        "kept_percent": number(summary.kept_percent, 1),
        "samples": samples,
        "list": names.list,
    })
}

/// Method and budget.
pub(super) fn row_name(label: &str, budget: Option<&str>) -> String {
    match budget {
        Some(budget) => format!("{label} at {budget}"),
        None => label.to_owned(),
    }
}

/// What a reader should know of a record besides its score.
pub(super) fn notes(record: &Record) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(error) = &record.error {
        notes.push(format!("failed: {error}"));
    }
    notes.extend(record.warnings.iter().cloned());
    if record.removed_tokens > 0 {
        notes.push(format!(
            "{} tokens cut from the middle of the prompt",
            record.removed_tokens
        ));
    }
    notes
}
