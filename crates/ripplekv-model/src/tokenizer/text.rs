//! The loaded tokenizer: ids, texts, special tokens and one user turn of the chat template.
//! Follows transformers' `PreTrainedTokenizerFast`; nothing here cleans up spaces.

use tokenizers::Tokenizer;

use super::TokenizerError;
use crate::chat_template::{ChatTemplate, Message};

/// Token ids together with the places in the text they stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedText {
    /// Token ids.
    pub ids: Vec<u32>,
    /// For each id the bytes of the text it covers, start and end; empty for an added special token.
    /// Tokens that share one character cover that whole character.
    pub byte_ranges: Vec<(usize, usize)>,
}

/// Which special tokens stand around a text that is encoded with them.
#[derive(Clone, Debug)]
pub(super) enum AroundText {
    /// Those that the post-processor of `tokenizer.json` adds.
    PostProcessor,
    /// Exactly these.
    These {
        before: Option<u32>,
        after: Option<u32>,
    },
}

/// A tokenizer as transformers would load it.
///
/// ```no_run
/// use ripplekv_model::tokenizer::TextTokenizer;
///
/// let tokenizer = TextTokenizer::from_folder("my-model".as_ref())?;
/// let ids = tokenizer.encode("The tide turned.", false)?;
/// assert_eq!(tokenizer.decode(&ids, false)?, "The tide turned.");
/// # Ok::<(), ripplekv_model::tokenizer::TokenizerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TextTokenizer {
    pub(super) inner: Tokenizer,
    pub(super) around: AroundText,
    pub(super) bos: Option<(u32, String)>,
    pub(super) adds_bos: bool,
    pub(super) end_tokens: Vec<u32>,
    pub(super) template: Option<ChatTemplate>,
    pub(super) hash: String,
}

impl TextTokenizer {
    /// Token ids of a text. `add_special` puts the tokenizer's own special tokens around it (a BOS,
    /// for most); special-token strings *inside* the text become special tokens in either case, as
    /// in transformers.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, TokenizerError> {
        let by_post_processor = add_special && matches!(self.around, AroundText::PostProcessor);
        let encoding = self
            .inner
            .encode_fast(text, by_post_processor)
            .map_err(|source| TokenizerError::Encode {
                bytes: text.len(),
                source,
            })?;
        let mut ids = encoding.get_ids().to_vec();
        if let AroundText::These { before, after } = self.around
            && add_special
        {
            ids.splice(0..0, before);
            ids.extend(after);
        }
        Ok(ids)
    }

    /// As [`Self::encode`] without special tokens around it, with the place of every token in the text.
    pub fn encode_with_places(&self, text: &str) -> Result<EncodedText, TokenizerError> {
        let encoding = self
            .inner
            .encode(text, false)
            .map_err(|source| TokenizerError::Encode {
                bytes: text.len(),
                source,
            })?;
        Ok(EncodedText {
            ids: encoding.get_ids().to_vec(),
            byte_ranges: encoding.get_offsets().to_vec(),
        })
    }

    /// The text of token ids; `skip_special` leaves special tokens out. Spaces stay as they are.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
        self.inner
            .decode(ids, skip_special)
            .map_err(|source| TokenizerError::Decode {
                count: ids.len(),
                source,
            })
    }

    /// The token that begins a text, where the tokenizer names one (whether it is added or not).
    pub fn bos(&self) -> Option<(u32, &str)> {
        self.bos.as_ref().map(|(id, text)| (*id, text.as_str()))
    }

    /// Whether `encode(text, true)` begins with the BOS. For GGUF files the metadata decide.
    pub fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    /// All tokens that end an answer, in ascending order.
    pub fn end_tokens(&self) -> &[u32] {
        &self.end_tokens
    }

    /// The last token of a line break alone: what a one-line answer stops at.
    pub fn newline_token(&self) -> Result<u32, TokenizerError> {
        self.encode("\n", false)?
            .last()
            .copied()
            .ok_or(TokenizerError::NoNewline)
    }

    /// How many ids there are, added tokens included.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// Hash of everything that decides the ids. The chat template has its own.
    pub fn hash(&self) -> String {
        self.hash.clone()
    }

    /// One user turn through the chat template, ready for the answer; `None` without a template.
    pub fn chat(&self, user: &str) -> Result<Option<String>, TokenizerError> {
        let message = Message {
            role: "user".to_owned(),
            content: user.to_owned(),
        };
        match &self.template {
            Some(template) => Ok(Some(template.render(&[message], true)?)),
            None => Ok(None),
        }
    }

    /// The chat template itself, where there is one.
    pub fn template(&self) -> Option<&ChatTemplate> {
        self.template.as_ref()
    }

    /// Hash of the chat template's text.
    pub fn template_hash(&self) -> Option<String> {
        self.template.as_ref().map(ChatTemplate::hash)
    }
}

/// Hash over parts that cannot run into each other.
pub(super) fn hash_of<'part>(parts: impl IntoIterator<Item = &'part [u8]>) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_hash_do_not_run_together() {
        let split = |parts: &[&[u8]]| hash_of(parts.iter().copied());
        assert_ne!(split(&[b"ab", b"c"]), split(&[b"a", b"bc"]));
        assert_ne!(split(&[b"ab"]), split(&[b"ab", b""]));
        assert_eq!(split(&[b"ab", b"c"]), split(&[b"ab", b"c"]));
    }
}
