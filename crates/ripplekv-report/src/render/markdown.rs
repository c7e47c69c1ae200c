//! Markdown tables (GitHub flavour): best in bold, second in italics, columns padded so that the source reads well too.

use crate::render::plain;
use crate::tables::{Mark, Table, Value};

/// The table with its title and notes.
pub(crate) fn markdown(table: &Table) -> String {
    let header: Vec<String> = table
        .columns
        .iter()
        .map(|column| {
            let name = escape(&column.name);
            if column.group.is_empty() {
                name
            } else {
                format!("{}<br>{name}", escape(&column.group))
            }
        })
        .collect();
    let rows: Vec<Vec<String>> = table
        .blocks
        .iter()
        .flat_map(|block| &block.rows)
        .map(|row| row.iter().map(cell).collect())
        .collect();
    let widths: Vec<usize> = (0..header.len())
        .map(|index| {
            rows.iter()
                .map(|row| row[index].chars().count())
                .chain([header[index].chars().count(), 3])
                .max()
                .unwrap_or(3)
        })
        .collect();
    let mut text = String::new();
    line(&mut text, &header, &widths, table);
    text.push('|');
    for (column, width) in table.columns.iter().zip(&widths) {
        let dashes = "-".repeat(width + 1);
        text.push_str(&if column.left {
            format!("{dashes}-|")
        } else {
            format!("{dashes}:|")
        });
    }
    text.push('\n');
    for row in &rows {
        line(&mut text, row, &widths, table);
    }
    for note in &table.notes {
        text.push_str(&format!("\n{}\n", escape(note)));
    }
    text
}

fn line(text: &mut String, cells: &[String], widths: &[usize], table: &Table) {
    text.push('|');
    for ((cell, width), column) in cells.iter().zip(widths).zip(&table.columns) {
        let padding = " ".repeat(width - cell.chars().count());
        text.push_str(&if column.left {
            format!(" {cell}{padding} |")
        } else {
            format!(" {padding}{cell} |")
        });
    }
    text.push('\n');
}

fn cell(value: &Value) -> String {
    let text = escape(&plain(value));
    match value {
        Value::Number {
            mark: Mark::Best, ..
        } => format!("**{text}**"),
        Value::Number {
            mark: Mark::Second, ..
        } => format!("*{text}*"),
        _ => text,
    }
}

/// Names come from users and files: nothing in them may end a cell or become markup.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '|' | '*' | '<' | '>' | '[' | ']' | '\\' => {
                escaped.push('\\');
                escaped.push(character);
            }
            '\n' | '\r' => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}
