//! Tables on a terminal, readable without colour. A table that is too wide leaves out its detail columns, and says so.

use comfy_table::{Cell, CellAlignment, ContentArrangement, presets};

use crate::render::plain;
use crate::tables::{Mark, Table, Value};

/// Title, table, notes. `width` is in columns; best values carry `*`.
pub(crate) fn terminal(table: &Table, width: usize) -> String {
    let mut drawn = draw(table);
    let mut left_out = false;
    if widest(&drawn) > width && table.columns.iter().any(|column| column.detail) {
        drawn = draw(&table.without_details());
        left_out = true;
    }
    let mut text = format!("{}\n{drawn}\n", table.title);
    let ranked = table
        .blocks
        .iter()
        .flat_map(|block| block.rows.iter().flatten())
        .any(|value| matches!(value, Value::Number { mark: Mark::Best, .. }));
    if ranked {
        text.push_str("* best of its budget\n");
    }
    if left_out {
        text.push_str("Task columns are left out here for want of width; the report has them.\n");
    }
    text
}

fn widest(text: &str) -> usize {
    text.lines()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0)
}

fn draw(table: &Table) -> String {
    let mut drawn = comfy_table::Table::new();
    drawn
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    let header = table.columns.iter().map(|column| {
        let name = if column.group.is_empty() {
            column.name.clone()
        } else {
            format!("{}\n{}", column.group, column.name)
        };
        Cell::new(name).set_alignment(alignment(column.left))
    });
    drawn.set_header(header);
    for block in &table.blocks {
        // An empty line between blocks reads better than a rule and is as easy to cut and paste.
        drawn.add_row(table.columns.iter().map(|_| Cell::new("")));
        for (index, row) in block.rows.iter().enumerate() {
            let cells = row.iter().zip(&table.columns).enumerate().map(
                |(position, (value, column))| {
                    let repeated = position == 0 && index > 0;
                    let text = if repeated {
                        String::new()
                    } else {
                        shown(value)
                    };
                    Cell::new(text).set_alignment(alignment(column.left))
                },
            );
            drawn.add_row(cells);
        }
    }
    drawn
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect::<Vec<_>>()
        .join("\n")
}

fn alignment(left: bool) -> CellAlignment {
    if left {
        CellAlignment::Left
    } else {
        CellAlignment::Right
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Number {
            mark: Mark::Best, ..
        } => format!("*{}", plain(value)),
        _ => plain(value),
    }
}
