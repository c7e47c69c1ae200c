//! The model's tokenizer in the words of the task crate.

use ripplekv_model::tokenizer::TextTokenizer;
use ripplekv_tasks::{Tokenise, TokeniseError};

/// A [`TextTokenizer`] as [`Tokenise`].
pub struct ModelTokenizer(pub TextTokenizer);

impl Tokenise for ModelTokenizer {
    fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, TokeniseError> {
        self.0.encode(text, add_special).map_err(TokeniseError::new)
    }

    fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TokeniseError> {
        self.0.decode(ids, skip_special).map_err(TokeniseError::new)
    }

    fn chat(&self, user: &str) -> Result<Option<String>, TokeniseError> {
        self.0.chat(user).map_err(TokeniseError::new)
    }

    fn bos(&self) -> Option<(u32, String)> {
        self.0.bos().map(|(id, text)| (id, text.to_owned()))
    }

    fn adds_bos(&self) -> bool {
        self.0.adds_bos()
    }

    fn newline_token(&self) -> Result<u32, TokeniseError> {
        self.0.newline_token().map_err(TokeniseError::new)
    }

    fn end_tokens(&self) -> Vec<u32> {
        self.0.end_tokens().to_vec()
    }
}
