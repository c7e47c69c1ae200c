//! The spec: what the YAML says, checked for form. Names are looked up later, in [`crate::plan`].
//! To add a key: one field here, one line in `read.rs`, then resolve it in `plan/`.

mod locate;
mod node;
mod overrides;
mod read;
mod stages;

use std::path::{Path, PathBuf};

use ripplekv_metrics::CodeSimilarity;
use ripplekv_tasks::{BosRule, ChatRule};
use serde::Serialize;
use serde_json::Value as Json;
use serde_yaml::Value;

use crate::cell::{ModelSource, Query};
use crate::engine::{PrefillMode, ShortPrompts};
use crate::error::{RunnerError, SpecError};
use crate::select::Limit;

pub(crate) use read::PARTS;
pub use read::{KEYS, KeyInfo};
pub use stages::{DEFAULT_CALIBRATION, DamageSpec, ProfileSpec};

/// Version of the spec format this program reads.
pub const SPEC_SCHEMA: u64 = 1;

/// An experiment as written.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Name of the experiment and of its folder in `results/`.
    pub name: String,
    /// Models, in order.
    pub models: Vec<ModelSpec>,
    /// Which records.
    pub tasks: TasksSpec,
    /// How prompts are made and answers scored.
    pub protocol: ProtocolSpec,
    /// Whether cells share a prefill and their decoding steps.
    pub timing: TimingMode,
    /// Budget texts, in order.
    pub budgets: Vec<String>,
    /// Methods, in order; empty where only the stages run.
    pub methods: Vec<MethodSpec>,
    /// How a model is profiled, where something needs it.
    pub profile: ProfileSpec,
    /// What the damage stage measures; `None` without that stage.
    pub damage: Option<DamageSpec>,
    /// What is stored of prompts and kept positions.
    pub store_kept: StoreKept,
    /// When layers are compressed.
    pub prefill: PrefillMode,
    /// Where this was read from, for the errors of later stages.
    pub source: SpecSource,
}

/// The key `timing`; changes times and memory, never an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimingMode {
    /// One prefill for all cells of a prompt, which decode together.
    #[default]
    Shared,
    /// Every cell prefills, compresses and decodes by itself.
    Alone,
}

/// The key `store_kept`: what a run stores for readers of its report besides records. Never part of a cell's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreKept {
    /// Neither texts of prompts nor kept positions.
    None,
    /// The ends of every prompt; of the first ones of each task all tokens and what every cell kept.
    #[default]
    Shown,
    /// Of every prompt all tokens and what every cell kept.
    All,
}

/// One entry of `models`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSpec {
    /// Name for folders and tables; made from the source where the spec gives none.
    pub name: Option<String>,
    /// Where the model comes from.
    pub source: ModelSource,
    /// Number format while running.
    pub dtype: String,
}

/// The key `tasks`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TasksSpec {
    /// Name or folder of the pack.
    pub pack: Option<String>,
    /// Tasks and groups; empty means every task of the pack.
    pub include: Vec<String>,
    /// Which of the fitting records to take.
    pub limit: Option<Limit>,
    /// Longest prompt to take, in tokens.
    pub max_prompt_tokens: Option<usize>,
    /// Ids to take; empty means all.
    pub samples: Vec<String>,
}

/// The key `protocol`.
#[derive(Debug, Clone, PartialEq)]
pub struct ProtocolSpec {
    /// Query modes.
    pub query: Vec<Query>,
    /// When the chat template is used.
    pub chat_template: ChatRule,
    /// Most tokens before truncation; `None` is the official number for the model's window.
    pub max_context: Option<usize>,
    /// When the beginning-of-sequence token is put in front.
    pub bos: BosRule,
    /// Whether decoded text loses the blanks that transformers' clean-up removes.
    pub clean_up_spaces: bool,
    /// Tokens before an end token may come, on every task.
    pub min_new_tokens: usize,
    /// Which program the code similarity follows.
    pub code_similarity: CodeSimilarity,
    /// What to do where a budget is below a method's must-keep set.
    pub short_prompts: ShortPrompts,
    /// First tokens of the full cache's own answer over which each cell's KL is measured; 0 measures none.
    pub answer_kl_tokens: usize,
}

impl Default for ProtocolSpec {
    fn default() -> Self {
        Self {
            query: vec![Query::Aware],
            chat_template: ChatRule::Auto,
            max_context: None,
            bos: BosRule::Auto,
            clean_up_spaces: false,
            min_new_tokens: 0,
            code_similarity: CodeSimilarity::Difflib,
            short_prompts: ShortPrompts::Shrink,
            answer_kl_tokens: 0,
        }
    }
}

/// One entry of `methods`; lists among the parameters are a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodSpec {
    /// Name of the method.
    pub name: String,
    /// Name in tables, where it shall differ.
    pub label: Option<String>,
    /// Parameters in the order written; one value, or the values of a sweep.
    pub params: Vec<(String, Vec<Json>)>,
}

/// The document behind a [`Spec`], kept so that later errors can name file and line.
#[derive(Debug, Clone, Default)]
pub struct SpecSource {
    file: Option<PathBuf>,
    text: String,
    overrides: Vec<String>,
    value: Value,
}

impl SpecSource {
    /// An error at a key path; the line is looked up unless `--set` changed that part.
    #[must_use]
    pub fn error(&self, path: &str, message: impl Into<String>, hint: Option<String>) -> SpecError {
        let is_below = |path: &str, above: &str| {
            path.strip_prefix(above)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let cause = self.overrides.iter().rev().find(|assignment| {
            let key = assignment.split('=').next().unwrap_or_default();
            !key.is_empty() && !path.is_empty() && (is_below(path, key) || is_below(key, path))
        });
        let mut message = message.into();
        let mut hint = hint;
        if let Some(assignment) = cause {
            // a message may bring its own hint line, which stays last
            if let Some((first, own)) = message.split_once("\nhint: ") {
                hint = Some(own.to_owned());
                message = first.to_owned();
            }
            message = format!("{message} (through --set {assignment})");
        }
        SpecError {
            file: self.file.clone(),
            line: if cause.is_some() {
                None
            } else {
                locate::line_of(&self.text, path)
            },
            path: path.to_owned(),
            message,
            hint,
        }
    }

    /// The file, where the spec came from one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

impl Spec {
    /// Reads a file and applies `--set` overrides.
    ///
    /// # Errors
    /// [`RunnerError::Spec`] with file, line and key; [`RunnerError::Usage`] for a wrong override.
    pub fn load(file: &Path, overrides: &[String]) -> Result<Self, RunnerError> {
        let text = std::fs::read_to_string(file).map_err(|source| RunnerError::Io {
            action: "cannot read the spec",
            path: file.to_owned(),
            source,
            hint: Some("give the path of a YAML file, such as experiments/quickstart.yaml"),
        })?;
        Self::parse(&text, Some(file), overrides)
    }

    /// Reads text and applies `--set` overrides.
    ///
    /// # Errors
    /// As [`Spec::load`].
    pub fn parse(
        text: &str,
        file: Option<&Path>,
        overrides: &[String],
    ) -> Result<Self, RunnerError> {
        let syntax = |error: serde_yaml::Error| {
            let text = error.to_string();
            // so says the YAML library of a number that fits no 64 bits
            let is_too_large = ["` as u128", "` as i128"]
                .iter()
                .any(|kind| text.contains(kind));
            let (message, hint) = if is_too_large {
                (
                    "a number is too large",
                    "write a smaller one, or put it in quotes where text is meant",
                )
            } else {
                (
                    "no valid YAML",
                    "lists and mappings are written as in experiments/quickstart.yaml",
                )
            };
            SpecError {
                file: file.map(Path::to_owned),
                line: error.location().map(|location| location.line()),
                path: String::new(),
                message: format!("{message}: {text}"),
                hint: Some(hint.to_owned()),
            }
        };
        let mut value: Value = serde_yaml::from_str(text).map_err(syntax)?;
        value.apply_merge().map_err(syntax)?;
        for assignment in overrides {
            overrides::apply(&mut value, assignment)?;
        }
        let source = SpecSource {
            file: file.map(Path::to_owned),
            text: text.to_owned(),
            overrides: overrides.to_vec(),
            value,
        };
        Ok(read::spec(source)?)
    }
}
