//! The 4,750 published predictions and the 112 cases, where the shared folder is there.

use std::collections::BTreeMap;

use ripplekv_metrics::{
    CodeSimilarity, Context, MetricInfo, find_metric, first_line, score, task_score,
};
use serde::Deserialize;

use crate::support::{lines, segmenter, shared_longbench};

/// The official metric's name, ours.
const NAMES: [(&str, &str); 9] = [
    ("qa_f1_score", "qa-f1"),
    ("qa_f1_zh_score", "qa-f1-zh"),
    ("rouge_score", "rouge-l"),
    ("rouge_zh_score", "rouge-l-zh"),
    ("classification_score", "classification"),
    ("retrieval_score", "retrieval"),
    ("retrieval_zh_score", "retrieval-zh"),
    ("count_score", "count"),
    ("code_sim_score", "code-similarity"),
];

/// Tasks that score the first line only.
const FIRST_LINE_TASKS: [&str; 4] = ["trec", "triviaqa", "samsum", "lsht"];

#[derive(Deserialize)]
struct Record {
    #[serde(alias = "task")]
    dataset: String,
    metric: String,
    #[serde(alias = "prediction")]
    pred: String,
    answers: Vec<String>,
    all_classes: Option<Vec<String>>,
    /// For code with python-Levenshtein.
    score: f64,
    score_difflib: Option<f64>,
    #[serde(default)]
    note: String,
}

impl Record {
    fn metric(&self) -> &'static MetricInfo {
        let (_, ours) = NAMES.iter().find(|(name, _)| *name == self.metric).unwrap();
        find_metric(ours).unwrap()
    }

    fn ours(&self, code: CodeSimilarity) -> f64 {
        let context = Context {
            all_classes: self.all_classes.as_deref().unwrap_or_default(),
            segmenter: segmenter(),
            code,
        };
        let prediction = if FIRST_LINE_TASKS.contains(&self.dataset.as_str()) {
            first_line(&self.pred)
        } else {
            &self.pred
        };
        score(self.metric(), prediction, &self.answers, &context).unwrap()
    }

    /// Our difflib and Levenshtein scores after comparing both with the official ones.
    fn check(&self) -> (f64, f64) {
        let levenshtein = self.ours(CodeSimilarity::Levenshtein);
        let difflib = self.ours(CodeSimilarity::Difflib);
        let expected_difflib = self.score_difflib.unwrap_or(self.score);
        for (ours, official) in [(levenshtein, self.score), (difflib, expected_difflib)] {
            assert_eq!(
                ours, official,
                "{} {}\n{:?}\n{:?}",
                self.dataset, self.note, self.pred, self.answers
            );
        }
        assert_eq!(
            self.score_difflib.is_some(),
            self.metric().name == "code-similarity"
        );
        (difflib, levenshtein)
    }

    fn can_be_scored(&self) -> bool {
        !self.metric().needs_segmenter || segmenter().is_some()
    }
}

#[test]
fn all_published_predictions_score_as_published() {
    let Some(folder) = shared_longbench() else {
        return;
    };
    let folder = folder.join("scored-predictions/llama2-7b-chat-4k");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert_eq!(files.len(), 21);
    let mut samples = 0;
    for file in files {
        let records: Vec<Record> = lines(&std::fs::read_to_string(&file).unwrap());
        samples += records.len();
        if !records[0].can_be_scored() {
            continue;
        }
        let (difflib, levenshtein): (Vec<_>, Vec<_>) = records.iter().map(Record::check).unzip();
        // The published totals are those of the published sample scores.
        let of =
            |score: fn(&Record) -> f64| task_score(&records.iter().map(score).collect::<Vec<_>>());
        assert_eq!(task_score(&levenshtein), of(|record| record.score));
        assert_eq!(
            task_score(&difflib),
            of(|record| record.score_difflib.unwrap_or(record.score))
        );
        let published = BTreeMap::from([
            ("lcc", (58.65, 60.87)),
            ("repobench-p", (52.08, 54.45)),
            ("multifieldqa_zh", (11.85, 11.85)),
        ]);
        if let Some((clean, with_levenshtein)) = published.get(records[0].dataset.as_str()) {
            assert_eq!(task_score(&difflib), Some(*clean));
            assert_eq!(task_score(&levenshtein), Some(*with_levenshtein));
        }
    }
    assert_eq!(samples, 4750);
}

#[test]
fn all_shared_cases_score_as_documented() {
    let Some(folder) = shared_longbench() else {
        return;
    };
    let text = std::fs::read_to_string(folder.join("metric-cases.jsonl")).unwrap();
    let records: Vec<Record> = lines(&text);
    assert_eq!(records.len(), 112);
    for record in records.iter().filter(|record| record.can_be_scored()) {
        record.check();
    }
}
