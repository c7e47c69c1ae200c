//! Tables on a terminal, readable without colour. A table that is too wide leaves out its detail columns, and says so.

use comfy_table::{Cell, CellAlignment, ContentArrangement, presets};

use crate::render::plain;
use crate::tables::{Column, Mark, Table, Value, Width};

/// Widest line of a header; longer names are folded at blanks, underscores and dashes.
const HEADER_WIDTH: usize = 10;

/// Title, table, notes. `width` is in columns; best values carry `*`.
/// A table that is too wide is shown in two parts, its task columns apart; what fits in neither is named.
pub(crate) fn terminal(table: &Table, width: usize) -> String {
    let whole = draw(table);
    let mut parts = Vec::new();
    let mut left_out: Vec<&str> = Vec::new();
    if widest(&whole) <= width {
        parts.push(whole);
    } else {
        let fits = |keep: &dyn Fn(&Column) -> bool| {
            let drawn = draw(&table.picked(keep));
            (widest(&drawn) <= width).then_some(drawn)
        };
        let named = |wanted: Width| {
            let columns = table
                .columns
                .iter()
                .filter(move |column| column.width == wanted);
            columns.map(|column| column.name.as_str())
        };
        let summary = fits(&|column| column.width != Width::Apart);
        if summary.is_none() {
            left_out.extend(named(Width::Spare));
        }
        parts.push(
            summary.unwrap_or_else(|| draw(&table.picked(|column| column.width == Width::Kept))),
        );
        match fits(&|column| column.left || column.width == Width::Apart) {
            Some(tasks) => parts.push(tasks),
            None => left_out.extend(named(Width::Apart)),
        }
    }
    let mut text = format!("{}\n{}\n", table.title, parts.join("\n\n"));
    let ranked = table
        .blocks
        .iter()
        .flat_map(|block| block.rows.iter().flatten())
        .any(|value| {
            matches!(
                value,
                Value::Number {
                    mark: Mark::Best,
                    ..
                }
            )
        });
    if ranked {
        text.push_str("* best of its budget\n");
    }
    if !left_out.is_empty() {
        text.push_str(&format!(
            "left out here for want of width, but in the report: {}\n",
            left_out.join(", ")
        ));
    }
    text
}

/// Name folded into lines, all groups of a table as high as the highest so that names stand side by side.
fn headers(table: &Table) -> Vec<String> {
    let groups: Vec<Vec<String>> = table
        .columns
        .iter()
        .map(|column| folded(&column.group))
        .collect();
    let height = groups.iter().map(Vec::len).max().unwrap_or(0);
    table
        .columns
        .iter()
        .zip(groups)
        .map(|(column, mut lines)| {
            lines.resize(height, String::new());
            lines.extend(folded(&column.name));
            lines.join("\n")
        })
        .collect()
}

fn folded(name: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for piece in name.split_inclusive([' ', '_', '-']) {
        match lines.last_mut() {
            Some(line)
                if (line.chars().count() + piece.trim_end().chars().count()) <= HEADER_WIDTH =>
            {
                line.push_str(piece);
            }
            _ => lines.push(piece.to_owned()),
        }
    }
    lines
        .iter()
        .map(|line| line.trim_end().to_owned())
        .collect()
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
    let header = headers(table)
        .into_iter()
        .zip(&table.columns)
        .map(|(name, column)| Cell::new(name).set_alignment(alignment(column.left)));
    drawn.set_header(header);
    for block in &table.blocks {
        // An empty line between blocks reads better than a rule and is as easy to cut and paste.
        drawn.add_row(table.columns.iter().map(|_| Cell::new("")));
        for (index, row) in block.rows.iter().enumerate() {
            let cells =
                row.iter()
                    .zip(&table.columns)
                    .enumerate()
                    .map(|(position, (value, column))| {
                        let repeated = position == 0 && index > 0;
                        let text = if repeated {
                            String::new()
                        } else {
                            shown(value)
                        };
                        Cell::new(text).set_alignment(alignment(column.left))
                    });
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
