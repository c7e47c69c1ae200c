//! One record of a pack, and the strict reading of its JSON line.
//! Follows LongBench's data format: eight keys, strings never trimmed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One question with its context, in LongBench's format (fields in file order).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The question or the last, unanswered example; may be empty.
    pub input: String,
    /// The long text.
    pub context: String,
    /// Every accepted answer; at least one.
    pub answers: Vec<String>,
    /// LongBench's own measure of length (words or characters); read, never recomputed.
    pub length: u64,
    /// The data set the record says it belongs to.
    pub dataset: String,
    /// `en`, `zh` or a programming language.
    pub language: String,
    /// The labels of a classification task.
    pub all_classes: Option<Vec<String>>,
    /// The record's name; unique within a task.
    #[serde(rename = "_id")]
    pub id: String,
}

/// Why a line is not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The line is not JSON, or not valid UTF-8.
    #[error(
        "malformed JSON: {reason}\nhint: every line holds one whole JSON object; a cut or joined line breaks it"
    )]
    Malformed {
        /// What the parser said.
        reason: String,
    },
    /// The line begins with the mark that some editors put in front of UTF-8.
    #[error(
        "the line begins with a UTF-8 byte-order mark (BOM)\nhint: save the file as UTF-8 without BOM"
    )]
    ByteOrderMark,
    /// The line is JSON, but not an object.
    #[error(
        "expected a JSON object, found {found}\nhint: every line holds one record as LongBench writes it"
    )]
    NotAnObject {
        /// The kind of value found.
        found: &'static str,
    },
    /// A key is absent.
    #[error(
        "missing field `{field}`\nhint: a record has the keys input, context, answers, length, dataset, language, all_classes, _id"
    )]
    MissingField {
        /// The absent key.
        field: &'static str,
    },
    /// A key holds the wrong kind of value.
    #[error(
        "field `{field}` must be {expected}, found {found}\nhint: write it as \"{field}\": {}",
        example(field)
    )]
    WrongType {
        /// The key.
        field: &'static str,
        /// What belongs there.
        expected: &'static str,
        /// The kind of value found.
        found: &'static str,
    },
    /// `answers` is an empty list.
    #[error(
        "record `{id}` has no answers\nhint: without an answer nothing can be scored; add one or drop the record"
    )]
    NoAnswers {
        /// The record's id.
        id: String,
    },
    /// A classification record without its labels.
    #[error(
        "record `{id}` of a classification task has no `all_classes`\nhint: list every label in `all_classes`"
    )]
    NoClasses {
        /// The record's id.
        id: String,
    },
    /// `_id` is the empty string.
    #[error(
        "field `_id` is empty\nhint: give every record an id that no other record of its task has"
    )]
    EmptyId,
}

/// How a field is written.
fn example(field: &str) -> &'static str {
    match field {
        "answers" | "all_classes" => r#"["first", "second"]"#,
        "length" => "1200",
        _ => r#""text""#,
    }
}

const TEXT: &str = "a string";
const TEXTS: &str = "a list of strings";

impl Record {
    /// Reads one line (without its newline).
    pub fn parse(line: &[u8]) -> Result<Record, RecordError> {
        if line.starts_with("\u{feff}".as_bytes()) {
            return Err(RecordError::ByteOrderMark);
        }
        let value: Value =
            serde_json::from_slice(line).map_err(|error| RecordError::Malformed {
                reason: error.to_string(),
            })?;
        let Value::Object(mut fields) = value else {
            return Err(RecordError::NotAnObject {
                found: kind(&value),
            });
        };
        let record = Record {
            input: text(&mut fields, "input")?,
            context: text(&mut fields, "context")?,
            answers: texts("answers", take(&mut fields, "answers")?)?,
            length: length(take(&mut fields, "length")?)?,
            dataset: text(&mut fields, "dataset")?,
            language: text(&mut fields, "language")?,
            all_classes: match take(&mut fields, "all_classes")? {
                Value::Null => None,
                list => Some(texts("all_classes", list)?),
            },
            id: text(&mut fields, "_id")?,
        };
        if record.id.is_empty() {
            return Err(RecordError::EmptyId);
        }
        if record.answers.is_empty() {
            return Err(RecordError::NoAnswers { id: record.id });
        }
        Ok(record)
    }

    /// The record as one line of a pack file, newline included.
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_else(|error| {
            unreachable!("strings, integers and lists always serialise: {error}")
        });
        line.push('\n');
        line
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => TEXT,
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn take(fields: &mut Map<String, Value>, field: &'static str) -> Result<Value, RecordError> {
    fields
        .remove(field)
        .ok_or(RecordError::MissingField { field })
}

fn text(fields: &mut Map<String, Value>, field: &'static str) -> Result<String, RecordError> {
    string(field, TEXT, take(fields, field)?)
}

fn string(
    field: &'static str,
    expected: &'static str,
    value: Value,
) -> Result<String, RecordError> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(RecordError::WrongType {
            field,
            expected,
            found: kind(&other),
        }),
    }
}

fn texts(field: &'static str, value: Value) -> Result<Vec<String>, RecordError> {
    match value {
        Value::Array(values) => values
            .into_iter()
            .map(|value| string(field, TEXTS, value))
            .collect(),
        other => Err(RecordError::WrongType {
            field,
            expected: TEXTS,
            found: kind(&other),
        }),
    }
}

fn length(value: Value) -> Result<u64, RecordError> {
    value.as_u64().ok_or(RecordError::WrongType {
        field: "length",
        expected: "a whole number, zero or more",
        found: kind(&value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"input": " q ", "context": "c\r\n", "answers": ["a "], "length": 3, "dataset": "d", "language": "en", "all_classes": null, "_id": "x"}"#;

    fn error(line: &str) -> String {
        Record::parse(line.as_bytes()).unwrap_err().to_string()
    }

    fn error_without(from: &str, to: &str) -> String {
        assert!(LINE.contains(from));
        error(&LINE.replace(from, to))
    }

    #[test]
    fn nothing_is_trimmed() {
        let record = Record::parse(LINE.as_bytes()).unwrap();
        assert_eq!(record.input, " q ");
        assert_eq!(record.context, "c\r\n");
        assert_eq!(record.answers, ["a "]);
        assert_eq!(record.all_classes, None);
    }

    #[test]
    fn a_written_line_reads_back() {
        let mut record = Record::parse(LINE.as_bytes()).unwrap();
        record.all_classes = Some(vec!["\u{2028}\u{85}\0".to_owned()]);
        let line = record.to_line();
        assert_eq!(line.matches('\n').count(), 1);
        assert!(
            line.starts_with(r#"{"input":" q ","context":"c\r\n","answers":["a "],"length":3,"#)
        );
        assert_eq!(Record::parse(line.trim_end().as_bytes()).unwrap(), record);
    }

    #[test]
    fn malformed_lines_say_where() {
        let cut = error(&LINE[..40]);
        assert!(
            cut.starts_with("malformed JSON: EOF while parsing a string at line 1 column 40"),
            "{cut}"
        );
        assert!(
            error("").starts_with("malformed JSON: EOF"),
            "an empty line is no record"
        );
        assert!(error(&format!("{LINE}{LINE}")).starts_with("malformed JSON: trailing characters"));
        assert!(Record::parse(b"{\"input\": \"\xff\"}").is_err());
        assert!(error(&format!("\u{feff}{LINE}")).contains("(BOM)\nhint: save"));
        assert!(error("[1]").starts_with("expected a JSON object, found a list"));
    }

    #[test]
    fn every_field_is_needed() {
        for field in [
            "input",
            "context",
            "answers",
            "length",
            "dataset",
            "language",
            "all_classes",
            "_id",
        ] {
            let text = error_without(&format!("\"{field}\""), "\"other\"");
            assert!(
                text.starts_with(&format!("missing field `{field}`\nhint: ")),
                "{text}"
            );
        }
    }

    #[test]
    fn types_are_checked() {
        assert_eq!(
            error_without("[\"a \"]", "\"a\""),
            "field `answers` must be a list of strings, found a string\nhint: write it as \"answers\": [\"first\", \"second\"]"
        );
        assert_eq!(
            error_without("[\"a \"]", "[\"a\", 7]"),
            "field `answers` must be a list of strings, found a number\nhint: write it as \"answers\": [\"first\", \"second\"]"
        );
        assert_eq!(
            error_without("3,", "-3,"),
            "field `length` must be a whole number, zero or more, found a number\nhint: write it as \"length\": 1200"
        );
        assert_eq!(
            error_without("\" q \"", "null"),
            "field `input` must be a string, found null\nhint: write it as \"input\": \"text\""
        );
        assert_eq!(
            error_without(": null", ": {}"),
            "field `all_classes` must be a list of strings, found an object\nhint: write it as \"all_classes\": [\"first\", \"second\"]"
        );
    }

    #[test]
    fn answers_and_id_may_not_be_empty() {
        assert!(error_without("[\"a \"]", "[]").starts_with("record `x` has no answers\nhint: "));
        assert!(error_without("\"x\"", "\"\"").starts_with("field `_id` is empty\nhint: "));
    }
}
