//! CSV of a table: the numbers alone, unshortened names, one row a line; notes such as `n=10/24` in a last column.

use crate::error::ReportError;
use crate::tables::{MEAN, Table, Value};

/// The whole file.
pub(crate) fn csv_bytes(name: &str, table: &Table) -> Result<Vec<u8>, ReportError> {
    let mut rows = Vec::new();
    let mut header: Vec<String> = Vec::new();
    for column in &table.columns {
        // Only `mean` stands in several groups; task names are unique by themselves.
        let name = if column.name == MEAN {
            format!("{} {MEAN}", column.group)
        } else {
            column.name.clone()
        };
        if column.is_pair {
            header.extend([format!("{name} low"), format!("{name} high")]);
        } else {
            header.push(name);
        }
    }
    header.push("notes".to_owned());
    rows.push(header);
    for row in table.blocks.iter().flat_map(|block| &block.rows) {
        let mut cells: Vec<String> = Vec::new();
        let mut notes = Vec::new();
        for (value, column) in row.iter().zip(&table.columns) {
            match value {
                Value::Empty if column.is_pair => cells.extend([String::new(), String::new()]),
                Value::Empty => cells.push(String::new()),
                Value::Text(text) | Value::Published(text) => cells.push(text.clone()),
                Value::Number {
                    value,
                    decimals,
                    note,
                    ..
                } => {
                    cells.push(format!("{value:.decimals$}"));
                    notes.extend(note.as_ref().map(|note| format!("{} {note}", column.name)));
                }
                Value::Bytes(bytes) => cells.push(format!("{bytes:.0}")),
                Value::Interval {
                    low,
                    high,
                    decimals,
                    ..
                } => {
                    cells.extend([format!("{low:.decimals$}"), format!("{high:.decimals$}")]);
                }
            }
        }
        cells.push(notes.join("; "));
        rows.push(cells);
    }
    csv_rows(name, &rows)
}

/// Rows of equal length as a CSV file.
pub(crate) fn csv_rows(name: &str, rows: &[Vec<String>]) -> Result<Vec<u8>, ReportError> {
    let failed = |source| ReportError::Csv {
        name: name.to_owned(),
        source,
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).map_err(failed)?;
    }
    writer
        .into_inner()
        .map_err(|error| failed(error.into_error().into()))
}
