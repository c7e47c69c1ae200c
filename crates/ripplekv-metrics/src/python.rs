//! Python's notions of text and rounding, where Rust's differ.
//! Follows CPython 3 `str.split`, `str.lower`, `str.isalnum`, `re`, `round` and `numpy.round`.

use std::sync::LazyLock;

use regex::Regex;

/// Python's `re` counts a character as `\w` if `str.isalnum` does or it is an underscore;
/// `isalnum` is general category L or N, so marks and joiners are no word characters.
static LETTER_OR_NUMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\A[\p{L}\p{N}]").expect("a valid constant pattern"));

/// `\d+` in both languages is a run of general category Nd.
static DIGIT_RUN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\d+").expect("a valid constant pattern"));

/// Whether `str.split` and `\s` treat the character as whitespace.
///
/// Unicode White_Space and U+001C to U+001F.
pub fn is_whitespace(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}

/// The pieces of `text.split()`: never empty.
pub fn split_whitespace(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_whitespace).filter(|piece| !piece.is_empty())
}

/// `text.lower()`: full Unicode mapping, with the final sigma and the dotted capital I.
pub fn lower(text: &str) -> String {
    text.to_lowercase()
}

/// Whether `\w` matches the character.
pub fn is_word(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphanumeric() || character == '_';
    }
    LETTER_OR_NUMBER.is_match(character.encode_utf8(&mut [0; 4]))
}

/// `re.findall(r"\d+", text)`.
pub fn digit_runs(text: &str) -> impl Iterator<Item = &str> {
    DIGIT_RUN.find_iter(text).map(|run| run.as_str())
}

/// The first `(\d+)` that directly follows `label`, as `re.findall(label + r"(\d+)", text)[0]`.
pub fn number_after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.match_indices(label).find_map(|(start, _)| {
        let rest = &text[start + label.len()..];
        let run = DIGIT_RUN.find(rest)?;
        (run.start() == 0).then(|| run.as_str())
    })
}

/// Python's `round(value, 2)`: the nearest two-decimal number to the exact binary value,
/// ties to even.
pub fn round_2(value: f64) -> f64 {
    // Rust's formatting rounds the exact binary value half to even, as CPython's dtoa does.
    format!("{value:.2}")
        .parse()
        .expect("a formatted number parses")
}

/// `numpy.round(value, 2)`: multiplies, rounds half to even, divides.
pub fn numpy_round_2(value: f64) -> f64 {
    (value * 100.0).round_ties_even() / 100.0
}

/// `numpy.mean` of a contiguous float64 array, `None` when empty (numpy gives NaN).
pub fn numpy_mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| pairwise_sum(values) / values.len() as f64)
}

/// numpy's pairwise summation: eight accumulators in blocks of up to 128 values.
fn pairwise_sum(values: &[f64]) -> f64 {
    const BLOCK: usize = 128;
    let count = values.len();
    if count < 8 {
        return values.iter().fold(0.0, |sum, value| sum + value);
    }
    if count > BLOCK {
        let mut half = count / 2;
        half -= half % 8;
        return pairwise_sum(&values[..half]) + pairwise_sum(&values[half..]);
    }
    let mut lanes = [0.0; 8];
    lanes.copy_from_slice(&values[..8]);
    let whole = count - count % 8;
    for chunk in values[8..whole].chunks_exact(8) {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    let sum = ((a + b) + (c + d)) + ((e + f) + (g + h));
    values[whole..].iter().fold(sum, |sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn information_separators_are_whitespace_but_zero_width_space_is_not() {
        let words: Vec<_> = split_whitespace("a\u{1c}b\u{1f}\u{a0}c\u{3000}d\u{200b}e").collect();
        assert_eq!(words, ["a", "b", "c", "d\u{200b}e"]);
    }

    #[test]
    fn lower_knows_sigma_and_dotted_i() {
        assert_eq!(lower("ΟΔΟΣ ΣΑΣ"), "οδος σας");
        assert_eq!(lower("İ").chars().count(), 2);
    }

    #[test]
    fn superscripts_are_word_characters_and_marks_are_not() {
        assert!(is_word('²') && is_word('½') && is_word('中') && is_word('_'));
        assert!(!is_word('\u{301}') && !is_word('\u{200d}') && !is_word('’'));
    }

    #[test]
    fn number_after_takes_the_first_label_with_a_number() {
        assert_eq!(
            number_after("Paragraph x, Paragraph 17 and Paragraph 2", "Paragraph "),
            Some("17")
        );
        assert_eq!(number_after("paragraph 17", "Paragraph "), None);
    }

    #[test]
    fn rounding_differs_between_python_and_numpy() {
        assert_eq!(round_2(0.125), 0.12);
        assert_eq!(round_2(0.375), 0.38);
        assert_eq!(round_2(2.675), 2.67);
        assert_eq!(round_2(93.255), 93.25);
        assert_eq!(numpy_round_2(93.255), 93.26);
    }
}
