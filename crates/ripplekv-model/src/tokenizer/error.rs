//! What can be wrong with a tokenizer's files or with a text.

use std::path::PathBuf;

use crate::chat_template::TemplateError;

/// Why a tokenizer could not be loaded or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A file of the folder cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The folder holds no tokenizer.
    #[error(
        "{} has no tokenizer.json\nhint: save the tokenizer with transformers' `save_pretrained`, which writes it",
        folder.display()
    )]
    NoTokenizerFile {
        /// The model's folder.
        folder: PathBuf,
    },
    /// A file of the folder is not JSON.
    #[error("{}: not valid JSON: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The parser's reason, with line and column.
        source: serde_json::Error,
    },
    /// A JSON file is well formed but says something that makes no sense.
    #[error("{}: `{key}` {problem}", path.display())]
    BadValue {
        /// The file.
        path: PathBuf,
        /// The key in it.
        key: &'static str,
        /// What is wrong with the value.
        problem: String,
    },
    /// `tokenizer.json` is not one that the `tokenizers` library understands.
    #[error("{}: {source}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The library's reason.
        source: tokenizers::Error,
    },
    /// GGUF metadata lack a key that a tokenizer needs.
    #[error("the GGUF metadata have no `{key}`\nhint: convert the model again with its tokenizer")]
    MissingKey {
        /// The metadata key.
        key: &'static str,
    },
    /// A GGUF metadata value has the wrong type or an impossible value.
    #[error("GGUF metadata `{key}`: {problem}")]
    BadMetadata {
        /// The metadata key.
        key: &'static str,
        /// What is wrong with the value.
        problem: String,
    },
    /// The GGUF file's tokenizer is of a family that is not implemented.
    #[error(
        "GGUF metadata `tokenizer.ggml.model`: unknown tokenizer `{name}` (known: gpt2, the byte-level BPE)"
    )]
    UnknownModel {
        /// The family that the file names.
        name: String,
    },
    /// The GGUF file's pre-tokenizer is not implemented.
    #[error("GGUF metadata `tokenizer.ggml.pre`: unknown pre-tokenizer `{name}` (known: {known})")]
    UnknownPreTokenizer {
        /// The pre-tokenizer that the file names.
        name: String,
        /// Those that are implemented.
        known: String,
    },
    /// The vocabulary and merges do not make a tokenizer.
    #[error("the tokenizer in the GGUF metadata is not consistent: {source}")]
    Inconsistent {
        /// The library's reason.
        source: tokenizers::Error,
    },
    /// A text could not be turned into ids.
    #[error("cannot tokenise a text of {bytes} bytes: {source}")]
    Encode {
        /// Length of the text.
        bytes: usize,
        /// The library's reason.
        source: tokenizers::Error,
    },
    /// Ids could not be turned into text.
    #[error("cannot decode {count} token ids: {source}")]
    Decode {
        /// How many ids.
        count: usize,
        /// The library's reason.
        source: tokenizers::Error,
    },
    /// The vocabulary has no token for a line break.
    #[error("this tokenizer has no token for a line break")]
    NoNewline,
    /// The chat template is wrong or refused the conversation.
    #[error(transparent)]
    Template(#[from] TemplateError),
}
