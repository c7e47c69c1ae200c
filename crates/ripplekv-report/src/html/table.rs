//! A report's table as a context of `table.html`.

use serde_json::{Value as Json, json};

use crate::render::plain;
use crate::tables::{Mark, Table, Value, is_published};

pub(super) fn context(table: &Table) -> Json {
    let columns: Vec<Json> = table
        .columns
        .iter()
        .map(|column| json!({"group": column.group, "name": column.name, "left": column.left}))
        .collect();
    let blocks: Vec<Json> = table
        .blocks
        .iter()
        .map(|block| {
            let rows: Vec<Vec<Json>> = block
                .rows
                .iter()
                .map(|row| {
                    let is_published = is_published(row);
                    row.iter().map(|value| cell(value, is_published)).collect()
                })
                .collect();
            json!(rows)
        })
        .collect();
    let is_ranked = table.columns.iter().any(|column| column.ranked.is_some());
    json!({
        "title": table.title,
        "columns": columns,
        "blocks": blocks,
        "notes": table.notes,
        "is_ranked": is_ranked,
    })
}

fn cell(value: &Value, is_published: bool) -> Json {
    let mark = match value {
        _ if is_published => "published",
        Value::Number {
            mark: Mark::Best, ..
        } => "best",
        Value::Number {
            mark: Mark::Second, ..
        } => "second",
        _ => "",
    };
    json!({"text": plain(value), "mark": mark})
}
