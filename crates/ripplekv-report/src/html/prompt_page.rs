//! The list of a group's prompts, and a page per prompt with all its cells side by side.

use std::collections::BTreeMap;

use ripplekv_runner::cell::CellKey;
use ripplekv_runner::kept::{EVERYTHING, KeptBits, KeptLine, kept_lines};
use ripplekv_runner::record::Record;
use serde_json::{Value as Json, json};

use crate::error::ReportError;
use crate::group::{FULL, Group, query_name};
use crate::html::Site;
use crate::html::cell_page::{notes, row_name};
use crate::html::names::GroupNames;
use crate::html::rank::{ORDER, RankedPrompt, ranked};
use crate::html::text::{folded, number};
use crate::shown::{TaskRow, TaskRows, TaskTexts};
use crate::summary::kept_percent_of;

/// Characters of packed kept positions on a page beyond which no further budget is added; the smallest is always there.
const KEPT_CHARACTERS: usize = 32 * 1024;

/// Parts of a prompt in the table of what was kept where.
const TENTHS: usize = 10;

/// What a prompt's page is made from.
pub(super) struct Page<'a> {
    pub(super) group: &'a Group,
    pub(super) names: &'a GroupNames,
    pub(super) task: &'a str,
    pub(super) rows: &'a TaskRows<'a>,
    /// The prompts of the task that have a page, and which of them this is.
    pub(super) worst: &'a [RankedPrompt<'a>],
    pub(super) place: usize,
    pub(super) texts: &'a TaskTexts,
}

/// The prompts of all tasks of a group, worst first within each task.
pub(super) fn list(group: &Group, names: &GroupNames, site: &Site<'_>) -> Json {
    let mut prompts = Vec::new();
    let mut without_page = 0_usize;
    for task in &group.tasks {
        let rows = TaskRows::new(group, &task.name, site.results);
        for prompt in ranked(&rows) {
            let Some(href) = names.own_prompt(&task.name, prompt.sample) else {
                without_page += 1;
                continue;
            };
            prompts.push(json!({
                "task": task.name,
                "rank": prompt.rank,
                "sample": prompt.sample,
                "href": href,
                "full": number(prompt.full, 1),
                "compressed": number(prompt.compressed, 1),
                "drop": number(prompt.drop, 1),
                "failed": prompt.failed,
            }));
        }
    }
    json!({
        "title": format!("Prompts: {}", group.title()),
        "order": ORDER,
        "prompts": prompts,
        "without_page": without_page,
        "pages_a_task": site.options.prompt_pages,
    })
}

pub(super) fn context(page: &Page<'_>) -> Result<Json, ReportError> {
    let prompt = &page.worst[page.place];
    let rows: Vec<(&TaskRow<'_>, &Record)> = page
        .rows
        .rows
        .iter()
        .filter_map(|row| Some((row, *row.records.get(prompt.sample)?)))
        .collect();
    let any = rows.first().map(|(_, record)| *record);
    let text = any.and_then(|record| {
        page.texts
            .text(prompt.sample, page.group.query, &record.prompt_hash)
    });
    let mut kept_notes = page.texts.warnings.clone();
    let kept = page.texts.kept(prompt.sample, page.rows, &mut kept_notes);
    let cells: Vec<Json> = rows
        .iter()
        .map(|(row, record)| cell_context(page, row, record, prompt.full))
        .collect();
    let beside = |place: Option<usize>| {
        let other = page.worst.get(place?)?;
        Some(page.names.prompt(page.task, other.sample))
    };
    let pieces = text.and_then(|text| text.pieces.as_ref());
    let marked = match pieces {
        Some(pieces) => marks(page, &rows, &kept, pieces)?,
        None => None,
    };
    Ok(json!({
        "title": format!("{}: {}", page.task, prompt.sample),
        "model": page.group.model,
        "query": query_name(page.group.query),
        "protocol": page.group.protocol_note,
        "task": page.task,
        "sample": prompt.sample,
        "rank": prompt.rank,
        "of": page.rows.samples().len(),
        "full": number(prompt.full, 1),
        "compressed": number(prompt.compressed, 1),
        "drop": number(prompt.drop, 1),
        "order": ORDER,
        "prompt_tokens": any.map_or(0, |record| record.prompt_tokens),
        "answers": any.map_or_else(Vec::new, |record| record.answers.iter().map(|answer| folded(answer)).collect()),
        "classes": any.and_then(|record| record.all_classes.clone()),
        "text": text.map(|text| json!({
            "head": text.head,
            "left_out": text.left_out_characters,
            "tail": text.tail,
        })),
        "cells": cells,
        "tenths": tenths(&rows, &kept),
        "marked": marked,
        "kept_notes": kept_notes,
        "previous": beside(page.place.checked_sub(1)),
        "next": beside(Some(page.place + 1)),
        "list": page.names.list,
    }))
}

fn cell_context(page: &Page<'_>, row: &TaskRow<'_>, record: &Record, full: Option<f64>) -> Json {
    let points = record.score.map(|score| 100.0 * score);
    let is_full = row.summary.cell.method.name == FULL;
    json!({
        "method": row.summary.label,
        "budget": row.summary.cell.budget,
        "href": page.names.cell(&row.summary.cell.key),
        "score": number(points, 1),
        "difference": number(points.zip(full).filter(|_| !is_full).map(|(points, full)| points - full), 1),
        "kl": number(record.answer_kl, 4),
        "kept_percent": number(kept_percent_of(record), 1),
        "output": folded(&record.output),
        "notes": notes(record),
    })
}

/// Percent of entries kept in each tenth of the prompt, over all layers and KV heads.
fn tenths(rows: &[(&TaskRow<'_>, &Record)], kept: &BTreeMap<CellKey, KeptBits>) -> Vec<Json> {
    let of_cell = |(row, record): &(&TaskRow<'_>, &Record)| {
        let shares = match kept.get(&row.summary.cell.key) {
            Some(bits) => shares(bits),
            None if record.kept_hash == EVERYTHING && !kept.is_empty() => vec![100.0; TENTHS],
            None => return None,
        };
        let shares: Vec<String> = shares.iter().map(|share| number(Some(*share), 0)).collect();
        Some(json!({
            "name": row_name(&row.summary.label, row.summary.cell.budget.as_deref()),
            "shares": shares,
        }))
    };
    rows.iter().filter_map(of_cell).collect()
}

fn shares(bits: &KeptBits) -> Vec<f64> {
    let tokens = bits.prompt_tokens();
    let share = |tenth: usize| {
        let (from, to) = (tenth * tokens / TENTHS, (tenth + 1) * tokens / TENTHS);
        let rows = bits.layers() * bits.kv_heads();
        let kept = (0..bits.layers())
            .flat_map(|layer| (0..bits.kv_heads()).map(move |head| (layer, head)))
            .map(|(layer, head)| {
                (from..to)
                    .filter(|position| bits.keeps(layer, head, *position))
                    .count()
            })
            .sum::<usize>();
        if to > from && rows > 0 {
            100.0 * kept as f64 / (rows * (to - from)) as f64
        } else {
            0.0
        }
    };
    (0..TENTHS).map(share).collect()
}

/// What `report.js` marks tokens from: pieces, and packed kept positions as in the results, whole budgets from small to large
/// while they are not too heavy.
fn marks(
    page: &Page<'_>,
    rows: &[(&TaskRow<'_>, &Record)],
    kept: &BTreeMap<CellKey, KeptBits>,
    pieces: &[String],
) -> Result<Option<Json>, ReportError> {
    let mut lines: Vec<(String, KeptLine)> = Vec::new();
    let mut left_out = Vec::new();
    for budget in page.group.rows_of_budgets() {
        let of_budget: Vec<(&CellKey, &KeptBits)> = rows
            .iter()
            .filter(|(row, _)| row.summary.cell.budget.as_deref() == budget)
            .filter_map(|(row, _)| kept.get_key_value(&row.summary.cell.key))
            .filter(|(_, bits)| bits.prompt_tokens() == pieces.len())
            .collect();
        if of_budget.is_empty() {
            continue;
        }
        let packed = kept_lines("", of_budget).map_err(|message| ReportError::Page {
            page: page
                .names
                .prompt(page.task, page.worst[page.place].sample)
                .to_owned(),
            message,
        })?;
        let so_far: usize = lines.iter().map(|(_, line)| line.bits.len()).sum();
        let weight: usize = packed.iter().map(|line| line.bits.len()).sum();
        if !lines.is_empty() && so_far + weight > KEPT_CHARACTERS {
            left_out.push(budget.unwrap_or_default().to_owned());
            continue;
        }
        for line in packed {
            let row = rows
                .iter()
                .find(|(row, _)| row.summary.cell.key == line.cell);
            let name = row.map_or_else(String::new, |(row, _)| {
                row_name(&row.summary.label, row.summary.cell.budget.as_deref())
            });
            lines.push((name, line));
        }
    }
    let Some((_, first)) = lines.first() else {
        return Ok(None);
    };
    let (layers, heads) = (first.layers, first.kv_heads);
    let place_of = |cell: &CellKey| lines.iter().position(|(_, line)| line.cell == *cell);
    let cells: Vec<Json> = lines
        .iter()
        .map(|(name, line)| {
            json!({"name": name, "like": line.like.as_ref().and_then(place_of), "bits": line.bits})
        })
        .collect();
    let data = json!({"pieces": pieces, "layers": layers, "heads": heads, "cells": cells});
    Ok(Some(json!({"data": data, "left_out": left_out})))
}
