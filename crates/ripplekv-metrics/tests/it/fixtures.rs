//! Every metric on texts of our own, scored by the packages LongBench calls.

use std::collections::BTreeMap;

use ripplekv_metrics::{CodeSimilarity, Context, METRICS, find_metric, score};
use serde::Deserialize;

use crate::support::{fixture_text, lines, segmenter};

#[derive(Deserialize)]
struct Case {
    metric: String,
    prediction: String,
    answers: Vec<String>,
    #[serde(default)]
    all_classes: Vec<String>,
    score: f64,
    score_levenshtein: Option<f64>,
    note: String,
}

#[test]
fn every_case_scores_as_the_official_packages_do() {
    let cases: Vec<Case> = lines(&fixture_text("metric-cases.jsonl"));
    assert!(cases.len() >= 150);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for case in &cases {
        let metric = find_metric(&case.metric).unwrap();
        let segmenter = if metric.needs_segmenter {
            let Some(segmenter) = segmenter() else {
                continue;
            };
            Some(segmenter)
        } else {
            None
        };
        let flavours = [
            (CodeSimilarity::Difflib, Some(case.score)),
            (CodeSimilarity::Levenshtein, case.score_levenshtein),
        ];
        for (code, expected) in flavours {
            let Some(expected) = expected else {
                assert_ne!(metric.name, "code-similarity");
                continue;
            };
            let context = Context {
                all_classes: &case.all_classes,
                segmenter,
                code,
            };
            let ours = score(metric, &case.prediction, &case.answers, &context).unwrap();
            assert_eq!(
                ours, expected,
                "{} ({})\n{:?}\n{:?}",
                case.metric, case.note, case.prediction, case.answers
            );
        }
        *counts.entry(metric.name).or_default() += 1;
    }
    for metric in METRICS {
        if metric.needs_segmenter && segmenter().is_none() {
            continue;
        }
        let count = counts.get(metric.name).copied().unwrap_or(0);
        assert!(count >= 5, "{} has {count} cases", metric.name);
    }
}
