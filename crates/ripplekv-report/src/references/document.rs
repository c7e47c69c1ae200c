//! One file of published values: typed, unknown keys are errors, every row as long as the file's lists.

use std::collections::BTreeSet;

use serde::Deserialize;

/// Version of the format.
const SCHEMA: u32 = 1;

/// Published values of one source and model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Version of the format, 1.
    pub schema: u32,
    /// What was published: title, identifier, table.
    pub source: String,
    /// Where the figures were read.
    pub read_in: String,
    /// Model, by the name that specs and tables use.
    pub model: String,
    /// How the values were made.
    pub protocol: ReferenceProtocol,
    /// Samples behind an average, where known.
    #[serde(default)]
    pub samples: Option<usize>,
    /// What a reader must know of them.
    pub notes: String,
    /// Tasks of the average, in the order of `scores`.
    pub tasks: Vec<String>,
    /// Categories in the order of the rows' `categories`.
    #[serde(default)]
    pub categories: Vec<String>,
    /// The values.
    pub rows: Vec<ReferenceRow>,
}

/// What must agree with ours before two numbers may stand side by side; `unknown` agrees with nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceProtocol {
    /// Which part of the prompt was compressed.
    pub query: ReferenceQuery,
    /// When a chat template was used.
    pub chat_template: ChatTemplate,
    /// Where prompts were cut.
    pub max_context: MaxContext,
}

/// Query mode of published values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReferenceQuery {
    /// The whole prompt.
    Aware,
    /// The context before the question.
    Agnostic,
    /// Not stated.
    Unknown,
}

/// Chat template of published values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChatTemplate {
    /// On the tasks on which LongBench uses one.
    Auto,
    /// On every task.
    On,
    /// On no task.
    Off,
    /// Not stated.
    Unknown,
}

/// Length from which published prompts were cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum MaxContext {
    /// At so many tokens.
    Tokens(u64),
    /// No prompt was cut.
    Untruncated,
    /// Not stated.
    Unknown,
}

impl TryFrom<String> for MaxContext {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match (text.as_str(), text.parse()) {
            ("untruncated", _) => Ok(MaxContext::Untruncated),
            ("unknown", _) => Ok(MaxContext::Unknown),
            (_, Ok(tokens)) if tokens > 0 => Ok(MaxContext::Tokens(tokens)),
            _ => Err(format!(
                "`{text}` is neither a quoted number of tokens, \"untruncated\" nor \"unknown\""
            )),
        }
    }
}

/// One published row.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceRow {
    /// Name of the method, as ours is called.
    pub method: String,
    /// Canonical budget; absent for the full cache.
    #[serde(default)]
    pub budget: Option<String>,
    /// Score of each task; absent where only the rest was published.
    #[serde(default)]
    pub scores: Vec<f64>,
    /// Mean of each category; absent where it was not published.
    #[serde(default)]
    pub categories: Vec<f64>,
    /// The published average.
    pub average: f64,
}

impl Reference {
    /// Reads and checks one file; `name` is for the message.
    ///
    /// # Errors
    /// A text that names the file and what is wrong in it.
    pub fn parse(name: &str, text: &str) -> Result<Reference, String> {
        let reference: Reference =
            serde_yaml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        match reference.fault() {
            Some(fault) => Err(format!("{name}: {fault}")),
            None => Ok(reference),
        }
    }

    fn fault(&self) -> Option<String> {
        if self.schema != SCHEMA {
            return Some(format!(
                "schema: this program reads {SCHEMA}, the file has {}",
                self.schema
            ));
        }
        let texts = [&self.source, &self.read_in, &self.model];
        if texts.iter().any(|text| text.trim().is_empty()) {
            return Some("source, read_in and model must be filled".to_owned());
        }
        if self.tasks.is_empty() || self.rows.is_empty() {
            return Some("tasks and rows must not be empty".to_owned());
        }
        let mut seen = BTreeSet::new();
        for (place, row) in self.rows.iter().enumerate() {
            let fault = self.row_fault(row).or_else(|| {
                let is_new = seen.insert((&row.method, &row.budget));
                (!is_new).then(|| "is there twice".to_owned())
            });
            if let Some(fault) = fault {
                let budget = row.budget.as_deref().unwrap_or("-");
                return Some(format!(
                    "rows[{place}] ({} at {budget}): {fault}",
                    row.method
                ));
            }
        }
        None
    }

    fn row_fault(&self, row: &ReferenceRow) -> Option<String> {
        let lists = [
            ("scores", &row.scores, self.tasks.len()),
            ("categories", &row.categories, self.categories.len()),
        ];
        for (key, values, length) in lists {
            if !values.is_empty() && values.len() != length {
                return Some(format!("{key} has {} values for {length}", values.len()));
            }
        }
        let all = row.scores.iter().chain(&row.categories);
        let mut all = all.chain(std::iter::once(&row.average));
        let outside = all.find(|value| !(0.0..=100.0).contains(*value))?;
        Some(format!("{outside} is not within 0 and 100"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::references::REFERENCES;

    #[test]
    fn every_committed_file_is_sound_and_listed() {
        let folder =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/reference");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let listed: Vec<&str> = REFERENCES.iter().map(|(name, _)| *name).collect();
        assert_eq!(files, listed);
        for (name, text) in REFERENCES {
            let reference = Reference::parse(name, text).unwrap();
            for row in &reference.rows {
                if row.scores.is_empty() {
                    continue;
                }
                // A slip of the pen in one score would show here.
                let mean = row.scores.iter().sum::<f64>() / row.scores.len() as f64;
                let gap = (mean - row.average).abs();
                assert!(
                    gap < 0.02,
                    "{name}: {} {:?}: {mean}",
                    row.method,
                    row.budget
                );
            }
        }
    }

    #[test]
    fn faults_name_the_file_and_the_place() {
        let (name, text) = REFERENCES[0];
        for (from, to, message) in [
            ("model:", "modell:", "unknown field `modell`"),
            ("schema: 1", "schema: 2", "schema: this program reads 1"),
            ("query: aware", "query: awre", "unknown variant `awre`"),
            (
                "\"127500\"",
                "\"many\"",
                "`many` is neither a quoted number",
            ),
            (
                "[32.02, ",
                "[",
                "rows[0] (full at -): scores has 15 values for 16",
            ),
            ("[32.02, ", "[320.2, ", "320.2 is not within 0 and 100"),
            (
                "method: snapkv, budget: \"256\"",
                "method: snapkv, budget: \"128\"",
                "rows[4] (snapkv at 128): is there twice",
            ),
        ] {
            assert!(text.contains(from), "{from}");
            let error = Reference::parse(name, &text.replacen(from, to, 1)).unwrap_err();
            assert!(
                error.starts_with(name) && error.contains(message),
                "{error}"
            );
        }
    }
}
