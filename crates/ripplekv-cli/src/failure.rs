//! What can end a command early, and the exit code it ends with.

use ripplekv_report::ReportError;
use ripplekv_runner::{RunnerError, SpecError, exit};
use ripplekv_tasks::{PackError, PromptError};

/// The end of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The runner stopped.
    #[error(transparent)]
    Runner(#[from] RunnerError),
    /// A report could not be made.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// Spec, data, model or environment are wrong.
    #[error("{0}")]
    Data(String),
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// Standard output could not be written.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] std::io::Error),
}

impl Failure {
    /// What to print; nothing for a reader that closed the pipe.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe => None,
            other => Some(other.to_string()),
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Runner(error) => error.exit_code(),
            Self::Report(
                ReportError::EmptySelection { .. }
                | ReportError::NothingShared { .. }
                | ReportError::UnknownBaseline { .. },
            ) => exit::NOTHING_SELECTED,
            Self::Report(_) | Self::Data(_) => exit::SPEC_OR_DATA,
            Self::Usage(_) => exit::USAGE,
            Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe => exit::DONE,
            Self::Output(_) => exit::SPEC_OR_DATA,
        }
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        Self::Runner(error.into())
    }
}

impl From<PackError> for Failure {
    fn from(error: PackError) -> Self {
        Self::Runner(error.into())
    }
}

impl From<PromptError> for Failure {
    fn from(error: PromptError) -> Self {
        Self::Runner(error.into())
    }
}
