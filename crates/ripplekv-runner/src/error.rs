//! Errors of the runner. Each names its place (file, line, key, sample) and says what to do.
//! [`RunnerError::exit_code`] maps them to the exit codes of [`crate::exit`].

use std::fmt;
use std::path::PathBuf;

use ripplekv_tasks::{PackError, PromptError};

use crate::engine::EngineError;
use crate::exit;

/// Something wrong in a spec, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// File of the spec, where it came from one.
    pub file: Option<PathBuf>,
    /// Line from 1, where the YAML library knows it.
    pub line: Option<usize>,
    /// Key path such as `methods[3].params.gamma`; empty for the whole file.
    pub path: String,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for SpecError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(formatter, "{}", file.display())?;
            if let Some(line) = self.line {
                write!(formatter, ":{line}")?;
            }
            write!(formatter, ": ")?;
        }
        if !self.path.is_empty() {
            write!(formatter, "{}: ", self.path)?;
        }
        write!(formatter, "{}", self.message)?;
        match &self.hint {
            Some(hint) => write!(formatter, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SpecError {}

/// Everything that can stop the runner.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The spec is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A pack or one of its records is wrong.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// A prompt cannot be made.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// A model cannot be had, or was asked for something impossible.
    #[error("model '{model}': {source}")]
    Model {
        /// Name of the model in the spec.
        model: String,
        /// What the engine said.
        source: EngineError,
    },
    /// Data and spec do not fit together; `message` names the sample or the cell.
    #[error("{message}\nhint: {hint}")]
    Data {
        /// What is wrong and where.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// An option of the command line is wrong.
    #[error("{message}\nhint: {hint}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// Filters, limits or the shard left nothing to run.
    #[error("nothing selected: {0}")]
    NothingSelected(String),
    /// A file or folder could not be read or written.
    #[error("{action} {}: {source}{}", path.display(), hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default())]
    Io {
        /// What was tried, such as `cannot write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
        /// What to do about it.
        hint: Option<&'static str>,
    },
    /// A stored file is damaged or contradicts another.
    #[error("{}{}: {message}\nhint: {hint}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Stored {
        /// The file.
        path: PathBuf,
        /// Line from 1.
        line: Option<usize>,
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: String,
    },
}

impl RunnerError {
    /// Exit code of this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NothingSelected(_) => exit::NOTHING_SELECTED,
            Self::Usage { .. } => exit::USAGE,
            Self::Spec(_)
            | Self::Pack(_)
            | Self::Prompt(_)
            | Self::Model { .. }
            | Self::Data { .. }
            | Self::Io { .. }
            | Self::Stored { .. } => exit::SPEC_OR_DATA,
        }
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
        source: std::io::Error,
    ) -> Self {
        Self::Io {
            action,
            path: path.into(),
            source,
            hint: None,
        }
    }
}
