//! What holds for any texts.

use proptest::prelude::*;
use ripplekv_metrics::{
    CodeSimilarity, Context, METRICS, MetricError, find_metric, first_line, score,
};

use crate::support::segmenter;

/// Texts with what the metrics look at: dots, digits, classes, labels, blanks, Han, any Unicode.
const TEXT: &str =
    "(\\PC|\\s|[.。]|[0-9]{1,3}|[a-c ]{1,5}|the |Paragraph |段落|[一-龥]{1,3}|#|//|`|\\n){0,40}";

fn scores(prediction: &str, answers: &[String]) -> Vec<(&'static str, Result<f64, MetricError>)> {
    let classes = ["a", "ab", "b c", "中"].map(String::from);
    let mut results = Vec::new();
    for code in [CodeSimilarity::Difflib, CodeSimilarity::Levenshtein] {
        let context = Context {
            all_classes: &classes,
            segmenter: segmenter(),
            code,
        };
        for metric in METRICS {
            if metric.needs_segmenter && context.segmenter.is_none() {
                continue;
            }
            let result = score(metric, prediction, answers, &context);
            results.push((metric.name, result));
        }
    }
    results
}

proptest! {
    #[test]
    fn any_texts_score_between_zero_and_one(
        prediction in TEXT,
        answers in prop::collection::vec(TEXT, 0..3),
    ) {
        for (name, result) in scores(&prediction, &answers) {
            match result {
                Ok(value) => prop_assert!((0.0..=1.0).contains(&value), "{name}: {value}"),
                Err(MetricError::AnswerWithoutNumber { .. }) => {
                    prop_assert!(name.starts_with("retrieval"));
                }
                Err(error) => prop_assert!(false, "{name}: {error}"),
            }
        }
    }

    #[test]
    fn labelled_answers_always_score(prediction in TEXT, number in 0_u32..2000) {
        let answers = [format!("Paragraph {number} 段落{number}")];
        for (name, result) in scores(&prediction, &answers) {
            prop_assert!(result.is_ok(), "{name}");
        }
    }

    #[test]
    fn another_answer_never_lowers_a_score(
        prediction in TEXT,
        answers in prop::collection::vec("[a-c. 0-9]{0,12}Paragraph 3 段落4", 2),
    ) {
        let one = scores(&prediction, &answers[..1]);
        let both = scores(&prediction, &answers);
        for ((name, one), (_, both)) in one.into_iter().zip(both) {
            prop_assert!(one.unwrap() <= both.unwrap(), "{name}");
        }
    }

    /// Words that are no articles and hold something besides punctuation; the text holds numbers,
    /// classes and labels of its own, so that every metric can find itself.
    #[test]
    fn identical_texts_reach_the_maximum(words in prop::collection::vec("[e-z]{1,6}[.]?|[a-z]{5}|潮汐|码头", 2..30)) {
        let text = words.join(" ");
        let answers = [text.clone()];
        for name in ["qa-f1", "qa-f1-zh", "code-similarity"] {
            for (found, value) in scores(&text, &answers) {
                if found == name {
                    prop_assert_eq!(value, Ok(1.0), "{}", name);
                }
            }
        }
        for (name, value) in scores(&text, &answers) {
            if name == "rouge-1" || name == "rouge-2" {
                // Epsilon in the denominator: 2 / (2 + 1e-8).
                prop_assert!((value.unwrap() - 0.999_999_995).abs() < 1e-12, "{}", name);
            }
        }
    }

    /// ROUGE-L takes a path through each pair of sentences; one sentence finds itself whole.
    #[test]
    fn identical_sentences_reach_the_maximum(words in prop::collection::vec("[a-z]{1,6}|潮汐", 1..40)) {
        let text = words.join(" ");
        for (name, value) in scores(&text, std::slice::from_ref(&text)) {
            if name.starts_with("rouge-l") {
                prop_assert!((value.unwrap() - 0.999_999_995).abs() < 1e-12, "{}", name);
            }
        }
    }

    #[test]
    fn a_number_alone_is_found(number in 0_u32..100_000) {
        let digits = number.to_string();
        let answers = [digits.clone(), format!("Paragraph {digits}"), format!("段落{digits}")];
        for (name, answer) in [("count", 0), ("retrieval", 1), ("retrieval-zh", 2)] {
            let metric = find_metric(name).unwrap();
            let answer = std::slice::from_ref(&answers[answer]);
            prop_assert_eq!(score(metric, &digits, answer, &Context::default()), Ok(1.0));
        }
    }

    #[test]
    fn the_first_line_is_a_part_without_newlines(text in "[a\\n\\r ]{0,30}") {
        let line = first_line(&text);
        prop_assert!(!line.contains('\n'));
        prop_assert!(text.trim_start_matches('\n').starts_with(line));
        prop_assert_eq!(first_line(line), line);
    }
}

#[test]
fn a_class_of_its_own_is_found() {
    let metric = find_metric("classification").unwrap();
    let classes = ["quay", "mole", "pier"].map(String::from);
    let context = Context {
        all_classes: &classes,
        ..Context::default()
    };
    for class in &classes {
        let answers = std::slice::from_ref(class);
        assert_eq!(score(metric, class, answers, &context), Ok(1.0));
    }
}

#[test]
fn very_long_sentences_need_no_large_table() {
    // 200,000 words without a full stop on both sides would need 160 GB as a whole table.
    let long = "oar keel ".repeat(100_000);
    let metric = find_metric("rouge-l").unwrap();
    let answers = [long.clone()];
    let result = score(metric, &long, &answers, &Context::default());
    assert_eq!(result, Ok(0.0));
}
