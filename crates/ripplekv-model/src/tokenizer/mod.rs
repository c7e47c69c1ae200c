//! Text to token ids and back, equal to transformers: from a Hugging Face folder or GGUF metadata.
//! Follows transformers 5.2 `tokenization_utils_tokenizers.py` and llama.cpp's tokenizer keys.
//!
//! To add a pre-tokenizer for GGUF files, add one line to [`PRE_TOKENIZERS`].

mod error;
mod folder;
mod gguf;
mod pre;
mod text;

pub use error::TokenizerError;
pub use pre::{PRE_TOKENIZERS, PreTokenizerEntry};
pub use text::{EncodedText, TextTokenizer};
