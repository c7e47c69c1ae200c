//! F1 over normalised English words.
//! Follows LongBench `metrics.py`, `qa_f1_score` and `normalize_answer`.

use crate::metric::{Context, MetricError, MetricInfo, best_of};
use crate::python::{is_word, lower, split_whitespace};
use crate::token_f1::TokenCounts;

pub(crate) const INFO: MetricInfo = MetricInfo {
    name: "qa-f1",
    summary: "F1 over words: lower case, no ASCII punctuation, no articles",
    source: "LongBench metrics.py qa_f1_score",
    range: (0.0, 1.0),
    correct_from: Some(0.5),
    needs_segmenter: false,
    needs_classes: false,
    score,
};

fn score(prediction: &str, answers: &[String], _context: &Context<'_>) -> Result<f64, MetricError> {
    let prediction = normalise(prediction);
    let counts = TokenCounts::new(split_whitespace(&prediction));
    Ok(best_of(answers, |answer| {
        let answer = normalise(answer);
        counts.f1(&TokenCounts::new(split_whitespace(&answer)))
    }))
}

/// Lower case, ASCII punctuation deleted (not replaced), then articles replaced by a blank.
fn normalise(text: &str) -> String {
    let mut text = lower(text);
    text.retain(|character| !character.is_ascii_punctuation());
    blank_articles(&text)
}

/// `re.sub(r"\b(a|an|the)\b", " ", text)`: a whole run of word characters that is an article.
fn blank_articles(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    let mut after_word = false;
    while let Some(first) = rest.chars().next() {
        let article = ["the", "an", "a"].into_iter().find(|article| {
            !after_word
                && rest
                    .strip_prefix(article)
                    .is_some_and(|tail| !tail.chars().next().is_some_and(is_word))
        });
        let length = article.map_or(first.len_utf8(), str::len);
        result.push_str(if article.is_some() {
            " "
        } else {
            &rest[..length]
        });
        after_word = article.is_some() || is_word(first);
        rest = &rest[length..];
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f1(prediction: &str, answer: &str) -> f64 {
        score(prediction, &[answer.to_string()], &Context::default()).unwrap()
    }

    #[test]
    fn articles_go_only_as_whole_words() {
        assert_eq!(blank_articles("a an the then an a²b"), "      then   a²b");
        assert_eq!(blank_articles("中a a中 a\u{301}"), "中a a中  \u{301}");
    }

    #[test]
    fn punctuation_is_deleted_before_articles_are_looked_for() {
        assert_eq!(f1("the-end", "theend"), 1.0);
        assert_eq!(f1("a well-known corpus", "well known corpus"), 0.4);
        assert_eq!(f1("3.5 million", "35 million"), 1.0);
    }

    #[test]
    fn an_article_alone_scores_zero_against_itself() {
        assert_eq!(f1("A", "A"), 0.0);
        assert_eq!(f1("", ""), 0.0);
    }
}
