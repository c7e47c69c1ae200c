//! Python's character classes and lower case over all of Unicode that its version knows.

use ripplekv_metrics::python::{digit_runs, is_whitespace, is_word, lower};
use serde::Deserialize;

use crate::support::fixture;

#[derive(Deserialize)]
struct PythonText {
    assigned: Vec<(u32, u32)>,
    whitespace: Vec<(u32, u32)>,
    word: Vec<(u32, u32)>,
    digit: Vec<(u32, u32)>,
    lower: Vec<(char, String)>,
}

fn holds(ranges: &[(u32, u32)], character: char) -> bool {
    let point = u32::from(character);
    let after = ranges.partition_point(|(first, _)| *first <= point);
    after > 0 && ranges[after - 1].1 >= point
}

#[test]
fn character_classes_agree_on_every_assigned_character() {
    let python: PythonText = fixture("python-text.json");
    let mut checked = 0;
    for character in '\0'..=char::MAX {
        // Our tables are newer: what Python does not know yet may have become a letter.
        if !holds(&python.assigned, character) {
            continue;
        }
        checked += 1;
        let text = character.to_string();
        let of = |ranges: &[(u32, u32)]| holds(ranges, character);
        assert_eq!(is_whitespace(character), of(&python.whitespace), "{text:?}");
        assert_eq!(is_word(character), of(&python.word), "{text:?}");
        assert_eq!(
            digit_runs(&text).next().is_some(),
            of(&python.digit),
            "{text:?}"
        );
    }
    assert!(checked > 140_000);
}

#[test]
fn lower_case_agrees_on_every_assigned_character() {
    let python: PythonText = fixture("python-text.json");
    let mut expected = python.lower.iter().peekable();
    let mut checked = 0;
    for character in '\0'..=char::MAX {
        let listed = expected.next_if(|(upper, _)| *upper == character);
        if !holds(&python.assigned, character) {
            continue;
        }
        let text = character.to_string();
        let theirs = listed.map_or(text.clone(), |(_, lower)| lower.clone());
        assert_eq!(lower(&text), theirs, "{character:?}");
        checked += usize::from(listed.is_some());
    }
    assert!(checked > 1_000);
}
