//! From a record to the token ids the model reads: render, truncate, chat form, tokenise.
//! Follows the order of LongBench's `pred.py` (THUDM/LongBench 2e00731, `get_pred`).

use serde::{Deserialize, Serialize};

use crate::clean_up::clean_up_spaces;
use crate::record::Record;
use crate::render::{RenderError, Template};
use crate::task::TaskInfo;
use crate::tokenise::{Tokenise, TokeniseError};

/// Whether the model's chat template is put around a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatRule {
    /// The task's own rule (not on few-shot and code), where the model has a template.
    #[default]
    Auto,
    /// On every task; a model without a template is an error.
    On,
    /// The tokenizer adds none; what the chat template itself writes stays.
    Off,
}

/// Whether a prompt starts with the beginning-of-sequence token. Never twice, under any rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BosRule {
    /// As the tokenizer's own settings (or the chat template) say.
    #[default]
    Auto,
    /// One in front, added where the text does not begin with it; a tokenizer without one is an error.
    On,
    /// Never.
    Off,
}

/// The settings of a run that decide what the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptOptions {
    /// Most tokens of the rendered prompt (BOS counted); longer ones lose their middle.
    /// The chat template comes after truncation and may exceed it, as in the official order.
    pub max_context: usize,
    /// When the chat template is used.
    pub chat_template: ChatRule,
    /// Whether decoded halves go through [`clean_up_spaces`].
    pub clean_up_spaces: bool,
    /// When the BOS is put in front.
    pub bos: BosRule,
}

impl PromptOptions {
    /// The official protocol with this many tokens.
    pub fn official(max_context: usize) -> Self {
        Self {
            max_context,
            chat_template: ChatRule::Auto,
            clean_up_spaces: false,
            bos: BosRule::Auto,
        }
    }
}

/// What the model reads for one record, and how it came to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The final text, chat template included; a BOS that the tokenizer adds is not in it.
    pub text: String,
    /// The final ids, BOS included.
    pub ids: Vec<u32>,
    /// Tokens of the rendered prompt before truncation and chat template (BOS counted).
    pub rendered_tokens: usize,
    /// Tokens of the rendered prompt that truncation left out of the middle.
    pub removed_tokens: usize,
    /// Whether the chat template is around the text.
    pub chat_applied: bool,
    /// Whether the middle was cut.
    pub truncated: bool,
    /// BLAKE3 (hex) of the ids as little-endian bytes.
    pub hash: String,
    /// Byte offset in `text` where the record's context ends; what follows is the question.
    /// `None` where truncation or the chat template changed the text too much to tell.
    pub context_end_byte: Option<usize>,
}

/// Why a record could not be turned into a prompt.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// The prompt text is wrong.
    #[error("prompt of `{task}`: {reason}")]
    Render {
        /// The task.
        task: &'static str,
        /// What is wrong.
        reason: RenderError,
    },
    /// The tokenizer failed.
    #[error("record `{id}` of `{task}`: {reason}")]
    Tokenise {
        /// The task.
        task: &'static str,
        /// The record.
        id: String,
        /// What it said.
        reason: TokeniseError,
    },
    /// The chat template was demanded of a model without one.
    #[error("`chat_template: on`, but the model has no chat template\nhint: use `auto` or `off`")]
    NoChatTemplate,
    /// A BOS was demanded of a tokenizer without one.
    #[error(
        "`bos: on`, but the tokenizer has no beginning-of-sequence token\nhint: use `auto` or `off`"
    )]
    NoBos,
    /// Too few tokens to keep two halves.
    #[error(
        "`max_context: {0}` leaves no room for a prompt\nhint: the smallest useful value is 2; `auto` takes the official one"
    )]
    ContextTooSmall(usize),
}

/// Windows and the official most tokens of a prompt for each.
const OFFICIAL_CONTEXTS: [(usize, usize); 5] = [
    (131_072, 127_500),
    (32_768, 31_500),
    (16_384, 15_500),
    (8_192, 7_500),
    (4_096, 3_500),
];

/// What the official setting for 4k models leaves for template and answer: 4,096 - 3,500.
const ROOM_TOKENS: usize = 596;

/// Most prompt tokens for a model's window: the largest official value whose window fits
/// (3,500 / 7,500 / 15,500 / 31,500 / 127,500 for 4k / 8k / 16k / 32k / 128k). Below 4k the
/// window less the 596 tokens that the official 4k setting leaves free, but at least half of it.
pub fn official_max_context(model_window: usize) -> usize {
    OFFICIAL_CONTEXTS
        .iter()
        .find(|(window, _)| *window <= model_window)
        .map_or_else(
            || {
                model_window
                    .saturating_sub(ROOM_TOKENS)
                    .max(model_window / 2)
            },
            |(_, tokens)| *tokens,
        )
}

/// Makes the prompt of one record in the official order: render, tokenise with special tokens;
/// if strictly longer than `max_context` keep the first and last `max_context / 2` ids, decode
/// both without special tokens and join; chat template; tokenise with special tokens.
pub fn prepare(
    task: &TaskInfo,
    template: &str,
    record: &Record,
    tokenizer: &dyn Tokenise,
    options: &PromptOptions,
) -> Result<Prompt, PromptError> {
    if options.max_context < 2 {
        return Err(PromptError::ContextTooSmall(options.max_context));
    }
    let template = Template::parse(template).map_err(|reason| PromptError::Render {
        task: static_name(task),
        reason,
    })?;
    let at_record = |reason| PromptError::Tokenise {
        task: static_name(task),
        id: record.id.clone(),
        reason,
    };
    let bos = BosEncoder::new(tokenizer, options.bos)?;
    let rendered = template.render(record);
    let rendered_ids = bos.encode(&rendered.text).map_err(at_record)?;
    let rendered_tokens = rendered_ids.len();
    let truncated = rendered_tokens > options.max_context;
    let half = options.max_context / 2;
    let (user, context_end) = if truncated {
        let decode = |ids: &[u32]| -> Result<String, TokeniseError> {
            let text = tokenizer.decode(ids, true)?;
            Ok(if options.clean_up_spaces {
                clean_up_spaces(&text)
            } else {
                text
            })
        };
        let first = decode(&rendered_ids[..half]).map_err(at_record)?;
        let second = decode(&rendered_ids[rendered_tokens - half..]).map_err(at_record)?;
        let clean = options.clean_up_spaces;
        let context_end =
            end_after_cut(&rendered.text, rendered.context_end, &first, &second, clean);
        (first + &second, context_end)
    } else {
        (rendered.text, Some(rendered.context_end))
    };
    let chat = match options.chat_template {
        ChatRule::Off => None,
        ChatRule::Auto if !task.chat_template => None,
        ChatRule::Auto => tokenizer.chat(&user).map_err(at_record)?,
        ChatRule::On => Some(
            tokenizer
                .chat(&user)
                .map_err(at_record)?
                .ok_or(PromptError::NoChatTemplate)?,
        ),
    };
    let chat_applied = chat.is_some();
    let (text, context_end_byte) = match chat {
        Some(text) => {
            let end = context_end.and_then(|end| end_in_chat(&text, &user, end));
            (text, end)
        }
        None => (user, context_end),
    };
    let ids = bos.encode(&text).map_err(at_record)?;
    Ok(Prompt {
        hash: hash_ids(&ids),
        text,
        ids,
        rendered_tokens,
        removed_tokens: if truncated {
            rendered_tokens - 2 * half
        } else {
            0
        },
        chat_applied,
        truncated,
        context_end_byte,
    })
}

/// BLAKE3 (hex) of token ids as little-endian bytes.
pub fn hash_ids(ids: &[u32]) -> String {
    let mut hasher = blake3::Hasher::new();
    for id in ids {
        hasher.update(&id.to_le_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

/// The table's own copy of the name, so that errors need no lifetime.
fn static_name(task: &TaskInfo) -> &'static str {
    task.name
}

struct BosEncoder<'a> {
    tokenizer: &'a dyn Tokenise,
    rule: BosRule,
    bos: Option<u32>,
}

impl<'a> BosEncoder<'a> {
    fn new(tokenizer: &'a dyn Tokenise, rule: BosRule) -> Result<Self, PromptError> {
        let bos = tokenizer.bos().map(|(id, _)| id);
        if rule == BosRule::On && bos.is_none() {
            return Err(PromptError::NoBos);
        }
        Ok(Self {
            tokenizer,
            rule,
            bos,
        })
    }

    /// Ids with special tokens. What the text itself begins with stays, whatever the rule: some models open every
    /// turn with the token that is also their BOS. A chat template that writes its own BOS and a tokenizer that adds
    /// one make one, not two.
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokeniseError> {
        let mut ids = self.tokenizer.encode(text, true)?;
        let Some(bos) = self.bos else { return Ok(ids) };
        let leading = |ids: &[u32]| ids.iter().take_while(|id| **id == bos).count();
        let added = leading(&ids);
        let written = if added == 0 {
            0
        } else {
            leading(&self.tokenizer.encode(text, false)?)
        };
        let wanted = match self.rule {
            BosRule::Auto if written == 0 => added.min(1),
            BosRule::On => written.max(1),
            BosRule::Auto | BosRule::Off => written,
        };
        ids.splice(..added, std::iter::repeat_n(bos, wanted));
        Ok(ids)
    }
}

/// Where the context ends in `first + second`, the two kept parts of `rendered`.
fn end_after_cut(
    rendered: &str,
    context_end: usize,
    first: &str,
    second: &str,
    clean: bool,
) -> Option<usize> {
    let tidy = |text: &str| {
        if clean {
            clean_up_spaces(text)
        } else {
            text.to_owned()
        }
    };
    let tail = tidy(&rendered[context_end..]);
    if second.ends_with(&tail) {
        return Some(first.len() + second.len() - tail.len());
    }
    let head = tidy(&rendered[..context_end]);
    if first.starts_with(&head) {
        return Some(head.len());
    }
    // The cut took the place itself: all of the first part is context, all of the second is tail.
    tail.ends_with(second).then_some(first.len())
}

/// Where byte `end` of the user turn lies in the chat text; templates may trim the turn.
fn end_in_chat(chat: &str, user: &str, end: usize) -> Option<usize> {
    if let Some(start) = chat.find(user) {
        return Some(start + end);
    }
    let trimmed = user.trim();
    let cut = user.len() - user.trim_start().len();
    let start = chat.find(trimmed)?;
    Some(start + end.checked_sub(cut)?.min(trimmed.len()))
}

#[cfg(test)]
mod tests;
