//! One prediction line: strict reading, scoring, and its JSON for `--per-sample`.

use std::path::Path;

use rayon::prelude::{IntoParallelRefIterator, ParallelIterator};
use ripplekv_metrics::jieba::Segmenter;
use ripplekv_metrics::{CodeSimilarity, Context, MetricError};
use ripplekv_tasks::{RecordError, TaskInfo, score_record};
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// What a line holds.
pub(crate) struct Prediction {
    pub(crate) text: String,
    pub(crate) answers: Vec<String>,
    pub(crate) length: Option<u64>,
}

/// A scored line.
pub(crate) struct Scored {
    pub(crate) task: &'static str,
    pub(crate) line: usize,
    pub(crate) length: Option<u64>,
    pub(crate) score: f64,
    pub(crate) score_levenshtein: Option<f64>,
}

impl Scored {
    pub(crate) fn json_line(&self) -> String {
        let mut object = json!({"task": self.task, "line": self.line, "score": self.score});
        if let Some(score) = self.score_levenshtein {
            object["score_levenshtein"] = json!(score);
        }
        format!("{object}\n")
    }
}

/// An error at a line.
pub(crate) fn at(path: &Path, number: usize, reason: &str) -> Failure {
    Failure::Data(format!("{}:{number}: {reason}", path.display()))
}

/// The fields of a line, for messages.
const HINT: &str = "\nhint: a line has the fields pred, answers, all_classes and length";

fn object(line: &[u8]) -> Result<Map<String, Value>, String> {
    if line.starts_with("\u{feff}".as_bytes()) {
        return Err(RecordError::ByteOrderMark.to_string());
    }
    match serde_json::from_slice(line) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(format!(
            "expected a JSON object with pred and answers{HINT}"
        )),
        Err(error) => Err(format!(
            "malformed JSON: {error}\nhint: every line holds one whole JSON object"
        )),
    }
}

/// The field `dataset`, where there is one.
pub(crate) fn dataset(line: &[u8]) -> Result<Option<String>, String> {
    Ok(object(line)?
        .get("dataset")
        .and_then(Value::as_str)
        .map(str::to_owned))
}

/// The field `all_classes`; null is none.
pub(crate) fn classes(line: &[u8]) -> Result<Option<Vec<String>>, String> {
    match object(line)?.remove("all_classes") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => texts("all_classes", value).map(Some),
    }
}

fn texts(field: &str, value: Value) -> Result<Vec<String>, String> {
    serde_json::from_value(value).map_err(|_| format!("field `{field}` must be a list of strings\nhint: write it as \"{field}\": [\"first\", \"second\"]"))
}

fn read(line: &[u8]) -> Result<Prediction, String> {
    let mut fields = object(line)?;
    let mut take = |field: &str| {
        fields
            .remove(field)
            .ok_or_else(|| format!("missing field `{field}`{HINT}"))
    };
    let Value::String(text) = take("pred")? else {
        return Err(
            "field `pred` must be a string\nhint: write \"\" for a prediction that is empty"
                .to_owned(),
        );
    };
    let answers = texts("answers", take("answers")?)?;
    if answers.is_empty() {
        return Err(
            "field `answers` is empty\nhint: without an answer nothing can be scored".to_owned(),
        );
    }
    Ok(Prediction {
        text,
        answers,
        length: fields.get("length").and_then(Value::as_u64),
    })
}

/// Scores lines on all threads; the first wrong line in file order is the error.
pub(crate) fn score_batch(
    path: &Path,
    task: &'static TaskInfo,
    lines: &[(usize, Vec<u8>)],
    classes: Option<&[String]>,
    segmenter: Option<&Segmenter>,
) -> Result<Vec<Scored>, Failure> {
    let scored: Vec<Result<Scored, Failure>> = lines
        .par_iter()
        .map(|(number, line)| {
            score_line(task, *number, line, classes, segmenter)
                .map_err(|reason| at(path, *number, &reason))
        })
        .collect();
    scored.into_iter().collect()
}

fn score_line(
    task: &'static TaskInfo,
    number: usize,
    line: &[u8],
    classes: Option<&[String]>,
    segmenter: Option<&Segmenter>,
) -> Result<Scored, String> {
    let prediction = read(line)?;
    let score = |code: CodeSimilarity| {
        let context = Context {
            segmenter,
            code,
            ..Context::default()
        };
        score_record(
            task,
            &prediction.text,
            &prediction.answers,
            classes,
            &context,
        )
        .map_err(|error| match error {
            MetricError::MissingClasses { .. } => {
                format!(
                    "{error}\nhint: the official code takes the last line's; list every label there"
                )
            }
            other => other.to_string(),
        })
    };
    let is_code = task.metric == "code-similarity";
    Ok(Scored {
        task: task.name,
        line: number,
        length: prediction.length,
        score: score(CodeSimilarity::Difflib)?,
        score_levenshtein: if is_code {
            Some(score(CodeSimilarity::Levenshtein)?)
        } else {
            None
        },
    })
}
