//! Texts from models and data, made fit for a page: no invisible characters that break it, long ones cut.

use serde::Serialize;
use serde_json::Value;

/// Characters of an output or reference that stand in the open; the rest unfolds.
const OPEN_CHARACTERS: usize = 160;

/// Most characters of an output or reference on a page; the records have it whole.
const MOST_CHARACTERS: usize = 4_000;

/// Control characters become their pictures (U+2400), except tab and newline: NUL is not allowed in HTML, and the others cannot
/// be seen. The marks that turn the direction of all text after them are spelled out, because they would turn ours too.
pub(super) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\t' | '\n' => cleaned.push(character),
            '\0'..='\u{1f}' => cleaned.extend(char::from_u32(0x2400 + character as u32)),
            '\u{7f}' => cleaned.push('\u{2421}'),
            '\u{80}'..='\u{9f}' => cleaned.push(char::REPLACEMENT_CHARACTER),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                cleaned.push_str(&format!("[U+{:X}]", character as u32));
            }
            other => cleaned.push(other),
        }
    }
    cleaned
}

/// [`clean`] on every text of a context.
pub(super) fn clean_all(value: &mut Value) {
    match value {
        Value::String(text) => *text = clean(text),
        Value::Array(values) => values.iter_mut().for_each(clean_all),
        Value::Object(fields) => fields.values_mut().for_each(clean_all),
        _ => {}
    }
}

/// A long text in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Folded {
    /// In the open.
    open: String,
    /// Unfolds.
    rest: String,
    /// Characters that the page leaves out.
    left_out: usize,
}

/// Cuts a text at character limits.
pub(super) fn folded(text: &str) -> Folded {
    let mut characters = text.chars();
    let open = characters.by_ref().take(OPEN_CHARACTERS).collect();
    let rest = characters
        .by_ref()
        .take(MOST_CHARACTERS - OPEN_CHARACTERS)
        .collect();
    Folded {
        open,
        rest,
        left_out: characters.count(),
    }
}

/// A number for a page and for sorting; an empty text where there is none.
pub(super) fn number(value: Option<f64>, decimals: usize) -> String {
    match value {
        Some(value) => {
            let text = format!("{value:.decimals$}");
            if text
                .trim_start_matches('-')
                .chars()
                .all(|digit| matches!(digit, '0' | '.'))
            {
                text.trim_start_matches('-').to_owned()
            } else {
                text
            }
        }
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible_and_long_texts_fold() {
        assert_eq!(
            clean("a\0b\r\n\t\u{1b}\u{7f}\u{85}ß\u{202e}\u{200f}"),
            "a␀b␍\n\t␛␡\u{fffd}ß[U+202E]\u{200f}"
        );
        let long: String = "ü".repeat(MOST_CHARACTERS + 5);
        let folded = folded(&long);
        assert_eq!(folded.open.chars().count(), OPEN_CHARACTERS);
        assert_eq!(folded.left_out, 5);
        assert_eq!(folded.open.len() + folded.rest.len() + 10, long.len());
        assert_eq!(
            (number(Some(-0.0001), 2), number(None, 2)),
            ("0.00".to_owned(), String::new())
        );
    }
}
