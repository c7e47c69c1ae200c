//! What the tasks need of a tokenizer; the model crate implements it, tests use a fake.
//! Follows the calls LongBench's `pred.py` makes on a transformers tokenizer.

use std::error::Error;

/// A tokenizer or chat template that failed.
#[derive(Debug, thiserror::Error)]
#[error("tokenizer: {0}")]
pub struct TokeniseError(pub Box<dyn Error + Send + Sync>);

impl TokeniseError {
    /// From a message or another error.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

/// Text to token ids and back, as the model's own tokenizer does it.
pub trait Tokenise: Send + Sync {
    /// Text to ids. Special-token strings in the text become special tokens; `add_special` also
    /// adds what the tokenizer puts around a text by itself (a BOS where [`Self::adds_bos`]).
    fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, TokeniseError>;

    /// Ids to text, special tokens left out if asked; no clean-up of spaces.
    fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TokeniseError>;

    /// One user turn and the start of the answer in the model's chat form, or `None` where the
    /// model has no chat template.
    fn chat(&self, user: &str) -> Result<Option<String>, TokeniseError>;

    /// Id and text of the beginning-of-sequence token, if there is one.
    fn bos(&self) -> Option<(u32, String)>;

    /// Whether `encode(_, true)` puts the BOS in front.
    fn adds_bos(&self) -> bool;

    /// The last id of `"\n"` encoded without special tokens.
    fn newline_token(&self) -> Result<u32, TokeniseError>;

    /// Every id that ends an answer.
    fn end_tokens(&self) -> Vec<u32>;
}
