//! Stored prompt texts: `prompts/<model>/<task>/<writer>.jsonl`, one line a prompt and query mode, for readers of reports.

use ripplekv_tasks::{Tokenise, TokeniseError};
use serde::{Deserialize, Serialize};

use crate::cell::Query;

/// Version of [`PromptText`].
pub const PROMPT_SCHEMA: u32 = 1;

/// Characters of a long prompt's beginning, and of its end, that are stored.
pub const END_CHARACTERS: usize = 600;

/// One stored line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptText {
    /// [`PROMPT_SCHEMA`] when it was written.
    pub schema: u32,
    /// `_id` of the sample.
    pub sample: String,
    /// Task name.
    pub task: String,
    /// Query mode.
    pub query: Query,
    /// blake3 of the prompt's token ids, as in the records.
    pub prompt_hash: String,
    /// n: tokens of the prompt.
    pub prompt_tokens: usize,
    /// The beginning; all of it where the prompt is short.
    pub head: String,
    /// Characters between `head` and `tail`.
    pub left_out_characters: usize,
    /// The end; empty where `head` is all.
    pub tail: String,
    /// Text of every token, where kept positions are stored too. A character that several tokens share stands with its last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pieces: Option<Vec<String>>,
}

/// Beginning, number of characters left out, and end of a text.
#[must_use]
pub fn ends(text: &str) -> (&str, usize, &str) {
    let characters = text.chars().count();
    if characters <= 2 * END_CHARACTERS {
        return (text, 0, "");
    }
    let byte_of = |place: usize| {
        text.char_indices()
            .nth(place)
            .map_or(text.len(), |(byte, _)| byte)
    };
    let (head, tail) = (
        byte_of(END_CHARACTERS),
        byte_of(characters - END_CHARACTERS),
    );
    (
        &text[..head],
        characters - 2 * END_CHARACTERS,
        &text[tail..],
    )
}

/// Most tokens that wait for the rest of one character.
const LONGEST_CHARACTER: usize = 16;

/// Text of every token: what it adds to the tokens before it, special tokens included.
///
/// # Errors
/// When the tokenizer cannot decode an id.
pub fn pieces(tokenizer: &dyn Tokenise, ids: &[u32]) -> Result<Vec<String>, TokeniseError> {
    let mut pieces = Vec::with_capacity(ids.len());
    // The last pieces' tokens are decoded again before each token: alone it may read differently.
    let (mut context, mut told) = (0, 0);
    for place in 0..ids.len() {
        let before = tokenizer.decode(&ids[context..told], false)?;
        let now = tokenizer.decode(&ids[context..=place], false)?;
        let is_whole = !now.ends_with(char::REPLACEMENT_CHARACTER)
            || place + 1 == ids.len()
            || place - told >= LONGEST_CHARACTER;
        if !is_whole {
            pieces.push(String::new());
            continue;
        }
        pieces.push(now.strip_prefix(before.as_str()).unwrap_or(&now).to_owned());
        (context, told) = (told, place + 1);
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use ripplekv_tasks::testing::WordTokenizer;

    use super::*;

    #[test]
    fn long_texts_lose_their_middle_only() {
        let text: String = "äöü".chars().cycle().take(2 * END_CHARACTERS + 7).collect();
        let (head, left_out, tail) = ends(&text);
        assert_eq!(left_out, 7);
        assert_eq!(head.chars().count(), END_CHARACTERS);
        assert!(text.starts_with(head) && text.ends_with(tail));
        assert_eq!(head.len() + tail.len() + 7 * 2, text.len());
        let short = &text[..2 * 2 * END_CHARACTERS];
        assert_eq!(ends(short), (short, 0, ""));
    }

    #[test]
    fn pieces_give_the_prompt() {
        let tokenizer = WordTokenizer::new();
        let text = "<bos>Where  is\n the \u{fffd}\u{fffd} thing? 世界";
        let ids = tokenizer.encode(text, false).unwrap();
        let pieces = pieces(&tokenizer, &ids).unwrap();
        assert_eq!(pieces.len(), ids.len());
        assert_eq!(pieces.concat(), text);
        assert_eq!(pieces[..2], ["<bos>", "Where"]);
    }
}
