//! `index.html`: what was run, warnings, tables, figures, and the way to every cell and prompt.

use serde_json::{Value as Json, json};

use crate::group::Group;
use crate::html::names::GroupNames;
use crate::html::text::number;
use crate::html::{Site, table};
use crate::tables::Table;

/// Tables and figures under one title, in reading order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) slug: String,
    pub(crate) findings: Vec<String>,
    pub(crate) parts: Vec<Part>,
}

impl Section {
    pub(crate) fn new(title: String, slug: &str) -> Section {
        Section {
            title,
            slug: slug.to_owned(),
            ..Section::default()
        }
    }
}

/// A piece of a section; `name` is its file without an end.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Table { name: String, table: Table },
    Figure { name: String, description: String },
}

pub(super) fn context(site: &Site<'_>, names: &[GroupNames]) -> Json {
    let sections: Vec<Json> = site
        .sections
        .iter()
        .enumerate()
        .map(|(place, section)| {
            let group = site.groups.get(place).zip(names.get(place));
            section_context(section, group)
        })
        .collect();
    json!({
        "title": title(site),
        "what_was_run": site.what_was_run,
        "warnings": site.warnings,
        "sections": sections,
    })
}

/// Names of the experiments.
fn title(site: &Site<'_>) -> String {
    let named = site.results.manifests.iter();
    let names: Vec<&str> = named
        .filter_map(|manifest| manifest.get("name")?.as_str())
        .collect();
    if names.is_empty() {
        "Report".to_owned()
    } else {
        format!("Report of {}", names.join(", "))
    }
}

fn section_context(section: &Section, group: Option<(&Group, &GroupNames)>) -> Json {
    let mut parts: Vec<Json> = section
        .parts
        .iter()
        .map(|part| match part {
            Part::Table { name, table } => {
                json!({"kind": "table", "name": name, "table": table::context(table)})
            }
            Part::Figure { name, description } => {
                json!({"kind": "figure", "name": name, "description": description})
            }
        })
        .collect();
    // the first table is what most readers came for; the others unfold
    let first = parts.iter().position(|part| part["kind"] == "table");
    let main = first.map(|place| parts.remove(place));
    json!({
        "title": section.title,
        "slug": section.slug,
        "findings": section.findings,
        "main": main,
        "figures": parts.iter().filter(|part| part["kind"] == "figure").collect::<Vec<_>>(),
        "tables": parts.iter().filter(|part| part["kind"] == "table").collect::<Vec<_>>(),
        "grid": group.map(|(group, names)| grid(group, names)),
        "prompts": group.map(|(_, names)| names.list.clone()),
    })
}

/// Scores of all cells with the ways to their pages.
fn grid(group: &Group, names: &GroupNames) -> Json {
    let tasks: Vec<&String> = group.tasks.iter().map(|task| &task.name).collect();
    let mut rows = Vec::new();
    for budget in group.rows_of_budgets() {
        for label in group.methods_at(budget) {
            let cells: Vec<Json> = tasks
                .iter()
                .map(|task| match group.cell(label, budget, task) {
                    Some(cell) => json!({
                        "href": names.cell(&cell.cell.key),
                        "text": cell.score.map_or_else(|| "no score".to_owned(), |score| number(Some(score), 2)),
                    }),
                    None => json!({"href": "", "text": ""}),
                })
                .collect();
            rows.push(json!({"label": label, "budget": budget, "cells": cells}));
        }
    }
    json!({"tasks": tasks, "rows": rows})
}
