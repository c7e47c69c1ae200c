//! A word-level tokenizer without a model, for tests here and for the runner's fake engine.
//! Ids are hashes of the words: apart from rare collisions what was encoded before does not matter.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::record::Record;
use crate::tokenise::{Tokenise, TokeniseError};

/// Text of the fake's beginning-of-sequence token.
pub const BOS: &str = "<bos>";
/// Text of the fake's end token.
pub const END: &str = "<end>";

const BOS_ID: u32 = 0;
const END_ID: u32 = 1;
const FIRST_WORD_ID: u32 = 16;

/// Splits into words (with one leading space each) and single other characters.
/// `decode(encode(text))` is `text`.
#[derive(Debug, Default)]
pub struct WordTokenizer {
    adds_bos: bool,
    chat: Option<(String, String)>,
    words: Mutex<BTreeMap<u32, String>>,
}

impl WordTokenizer {
    /// No BOS, no chat template.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts the BOS in front of every text encoded with special tokens.
    #[must_use]
    pub fn with_bos(mut self) -> Self {
        self.adds_bos = true;
        self
    }

    /// Has a chat template: `before`, the user's turn, `after`.
    #[must_use]
    pub fn with_chat(mut self, before: &str, after: &str) -> Self {
        self.chat = Some((before.to_owned(), after.to_owned()));
        self
    }

    fn words(&self) -> MutexGuard<'_, BTreeMap<u32, String>> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn intern(&self, word: &str) -> u32 {
        let digest = blake3::hash(word.as_bytes());
        let [a, b, c, d] = [0, 1, 2, 3].map(|index| digest.as_bytes()[index]);
        let mut id = u32::from_le_bytes([a, b, c, d]).max(FIRST_WORD_ID);
        let mut words = self.words();
        // Two words of one hash: the later takes the next free id.
        loop {
            let known = words.entry(id).or_insert_with(|| word.to_owned());
            if known == word {
                return id;
            }
            id = id.checked_add(1).unwrap_or(FIRST_WORD_ID);
        }
    }
}

/// The length in bytes of the first word or single character of a non-empty text.
fn first_piece(text: &str) -> usize {
    let word = |text: &str| {
        text.find(|letter: char| !letter.is_alphanumeric())
            .unwrap_or(text.len())
    };
    let spaced = text.strip_prefix(' ').map_or(0, word);
    match word(text) {
        0 if spaced > 0 => 1 + spaced,
        0 => text.chars().next().map_or(0, char::len_utf8),
        length => length,
    }
}

impl Tokenise for WordTokenizer {
    fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, TokeniseError> {
        let mut ids = Vec::new();
        if add_special && self.adds_bos {
            ids.push(BOS_ID);
        }
        let mut rest = text;
        while !rest.is_empty() {
            let (id, length) = if rest.starts_with(BOS) {
                (BOS_ID, BOS.len())
            } else if rest.starts_with(END) {
                (END_ID, END.len())
            } else {
                let length = first_piece(rest);
                (self.intern(&rest[..length]), length)
            };
            ids.push(id);
            rest = &rest[length..];
        }
        Ok(ids)
    }

    fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TokeniseError> {
        let words = self.words();
        let mut text = String::new();
        for id in ids {
            match *id {
                BOS_ID | END_ID if skip_special => {}
                BOS_ID => text.push_str(BOS),
                END_ID => text.push_str(END),
                id => text.push_str(words.get(&id).ok_or_else(|| {
                    TokeniseError::new(format!("id {id} was never encoded by this fake tokenizer"))
                })?),
            }
        }
        Ok(text)
    }

    fn chat(&self, user: &str) -> Result<Option<String>, TokeniseError> {
        Ok(self
            .chat
            .as_ref()
            .map(|(before, after)| format!("{before}{user}{after}")))
    }

    fn bos(&self) -> Option<(u32, String)> {
        Some((BOS_ID, BOS.to_owned()))
    }

    fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    fn newline_token(&self) -> Result<u32, TokeniseError> {
        Ok(self.intern("\n"))
    }

    fn end_tokens(&self) -> Vec<u32> {
        vec![END_ID]
    }
}

/// A record with these texts and the answer `answer`.
pub fn record(input: &str, context: &str) -> Record {
    Record {
        input: input.to_owned(),
        context: context.to_owned(),
        answers: vec!["answer".to_owned()],
        length: 1,
        dataset: "test".to_owned(),
        language: "en".to_owned(),
        all_classes: None,
        id: "record".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_gives_the_text_back() {
        let tokenizer = WordTokenizer::new();
        for text in [
            "",
            "a b  c\n\n d.",
            " ünï, 世界 \r\n\0",
            "x != y <bos>z<end>",
        ] {
            let ids = tokenizer.encode(text, true).unwrap();
            assert_eq!(tokenizer.decode(&ids, false).unwrap(), text);
        }
        let ids = tokenizer.encode("one two<end>", false).unwrap();
        assert_eq!(ids.len(), 3);
        assert_eq!(tokenizer.decode(&ids, true).unwrap(), "one two");
        assert_eq!(
            WordTokenizer::new().encode("one two<end>", false).unwrap(),
            ids
        );
    }
}
