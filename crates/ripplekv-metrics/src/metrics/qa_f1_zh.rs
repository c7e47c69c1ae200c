//! F1 over Chinese words.
//! Follows LongBench `metrics.py`, `qa_f1_zh_score` and `normalize_zh_answer`.

use crate::jieba::Segmenter;
use crate::metric::{Context, MetricError, MetricInfo, best_of, segmenter};
use crate::python::{is_whitespace, lower};
use crate::token_f1::TokenCounts;

pub(crate) const INFO: MetricInfo = MetricInfo {
    name: "qa-f1-zh",
    summary: "F1 over jieba's words: lower case, no ASCII or listed CJK punctuation",
    source: "LongBench metrics.py qa_f1_zh_score, jieba 0.42.1",
    range: (0.0, 1.0),
    correct_from: Some(0.5),
    needs_segmenter: true,
    needs_classes: false,
    score,
};

fn score(prediction: &str, answers: &[String], context: &Context<'_>) -> Result<f64, MetricError> {
    let segmenter = segmenter(context, INFO.name)?;
    let counts = TokenCounts::new(words(segmenter, prediction));
    Ok(best_of(answers, |answer| {
        counts.f1(&TokenCounts::new(words(segmenter, answer)))
    }))
}

/// Words are cut from the raw text and normalised afterwards; those left empty are dropped.
fn words(segmenter: &Segmenter, text: &str) -> Vec<String> {
    segmenter
        .cut(text)
        .into_iter()
        .map(|word| {
            let mut word = lower(word);
            word.retain(|character| !is_punctuation(character) && !is_whitespace(character));
            word
        })
        .filter(|word| !word.is_empty())
        .collect()
}

/// The official set: ASCII punctuation and a list of CJK and general punctuation in which the
/// opening U+300A, both angle brackets before it and the middle dot U+00B7 are missing.
fn is_punctuation(character: char) -> bool {
    character.is_ascii_punctuation()
        || matches!(
            character,
            '\u{2013}'..='\u{2014}'
                | '\u{2018}'..='\u{2019}'
                | '\u{201b}'..='\u{201f}'
                | '\u{2026}'..='\u{2027}'
                | '\u{3001}'..='\u{3003}'
                | '\u{300b}'..='\u{3011}'
                | '\u{3014}'..='\u{301f}'
                | '\u{3030}'
                | '\u{303e}'..='\u{303f}'
                | '\u{fe4f}'
                | '\u{ff01}'..='\u{ff0d}'
                | '\u{ff0f}'
                | '\u{ff1a}'..='\u{ff20}'
                | '\u{ff3b}'..='\u{ff40}'
                | '\u{ff5b}'..='\u{ff64}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_title_mark_is_listed_and_the_opening_one_is_not() {
        assert!(is_punctuation('》') && is_punctuation('。') && is_punctuation('“'));
        assert!(!is_punctuation('《') && !is_punctuation('〈') && !is_punctuation('·'));
        assert!(!is_punctuation('０') && !is_punctuation('Ａ') && !is_punctuation('．'));
    }
}
