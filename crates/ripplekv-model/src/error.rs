//! Everything that can go wrong between a model reference and its logits.

use std::path::PathBuf;

/// Error of loading or running a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// File.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// A file is not what its name says.
    #[error("{path}: {reason}")]
    Format {
        /// File.
        path: PathBuf,
        /// What is wrong, with a hint where one helps.
        reason: String,
    },
    /// A configuration that this program does not run.
    #[error("{path}: {key}: {reason}")]
    Config {
        /// File.
        path: PathBuf,
        /// Key of the configuration or of the GGUF metadata.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A tensor that is missing or has another shape.
    #[error("{path}: tensor `{name}`: {reason}")]
    Tensor {
        /// File or folder.
        path: PathBuf,
        /// Name as looked for.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A device that this build or machine does not have.
    #[error("device `{name}`: {reason}")]
    Device {
        /// Name as given.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A logit that is not a number.
    #[error("the logit of token {id} at step {step} is not a number")]
    NotANumber {
        /// Generated tokens before it.
        step: usize,
        /// Token id.
        id: usize,
    },
    /// Tensor operation.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}
