//! Tables as text: terminal, Markdown, CSV, LaTeX. All four print the same numbers.
//! To add a format: one file here, one line in `report.rs` where the others are written.

mod csv_text;
mod latex;
mod markdown;
mod terminal;

pub(crate) use csv_text::{csv_bytes, csv_rows};
pub(crate) use latex::latex;
pub(crate) use markdown::{escape as escape_markdown, markdown};
pub(crate) use terminal::terminal;

use crate::tables::Value;

/// What a reader sees, without marks of rank.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Empty => String::new(),
        Value::Text(text) | Value::Published(text) => text.clone(),
        Value::Number {
            value,
            decimals,
            signed,
            note,
            ..
        } => {
            let number = number(*value, *decimals, *signed);
            match note {
                Some(note) => format!("{number} {note}"),
                None => number,
            }
        }
        Value::Bytes(bytes) => human_bytes(*bytes),
        Value::Interval {
            low,
            high,
            decimals,
            signed,
        } => format!(
            "{} to {}",
            number(*low, *decimals, *signed),
            number(*high, *decimals, *signed)
        ),
    }
}

fn number(value: f64, decimals: usize, signed: bool) -> String {
    let text = if signed {
        format!("{value:+.decimals$}")
    } else {
        format!("{value:.decimals$}")
    };
    // A rounded zero has no sign worth showing.
    let is_zero = text
        .chars()
        .all(|character| !matches!(character, '1'..='9'));
    if is_zero {
        text.trim_start_matches(['+', '-']).to_owned()
    } else {
        text
    }
}

/// Bytes with three or four digits and a binary unit.
pub(crate) fn human_bytes(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value:.0} B"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_sign_only_where_it_says_something() {
        assert_eq!(number(-0.001, 2, true), "0.00");
        assert_eq!(number(1.2, 2, true), "+1.20");
        assert_eq!(number(-1.2, 2, false), "-1.20");
        assert_eq!(human_bytes(1536.0), "1.5 KiB");
        assert_eq!(human_bytes(12.0), "12 B");
    }
}
