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
    /// Never.
    Off,
}

/// Whether a prompt starts with the beginning-of-sequence token. Never twice, under any rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BosRule {
    /// As the tokenizer's own settings (or the chat template) say.
    #[default]
    Auto,
    /// Always; a tokenizer without one is an error.
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

    /// Ids with special tokens, and with as many BOS in front as the rule says: a chat template
    /// that writes its own BOS and a tokenizer that adds one make one, not two.
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokeniseError> {
        let mut ids = self.tokenizer.encode(text, true)?;
        let Some(bos) = self.bos else { return Ok(ids) };
        let leading = ids.iter().take_while(|id| **id == bos).count();
        let wanted = match self.rule {
            BosRule::Auto => leading.min(1),
            BosRule::On => 1,
            BosRule::Off => 0,
        };
        ids.splice(..leading, std::iter::repeat_n(bos, wanted));
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
mod tests {
    use super::*;
    use crate::groups::find_task;
    use crate::testing::{WordTokenizer, record};

    const TEMPLATE: &str = "{context}|{input}";

    fn options(max_context: usize) -> PromptOptions {
        PromptOptions::official(max_context)
    }

    fn made(
        task: &str,
        record: &Record,
        tokenizer: &WordTokenizer,
        options: PromptOptions,
    ) -> Prompt {
        prepare(
            find_task(task).unwrap(),
            TEMPLATE,
            record,
            tokenizer,
            &options,
        )
        .unwrap()
    }

    /// `w0 w1 ...`: as many tokens as words.
    fn context(words: usize) -> String {
        let words: Vec<String> = (0..words).map(|index| format!("w{index}")).collect();
        words.join(" ")
    }

    #[test]
    fn official_contexts_by_window() {
        let cases = [
            (4_096, 3_500),
            (8_191, 3_500),
            (8_192, 7_500),
            (16_384, 15_500),
            (32_768, 31_500),
            (131_071, 31_500),
            (131_072, 127_500),
            (1_000_000, 127_500),
            (4_095, 3_499),
            (2_048, 1_452),
            (1_024, 512),
            (0, 0),
        ];
        for (window, tokens) in cases {
            assert_eq!(official_max_context(window), tokens, "{window}");
        }
    }

    #[test]
    fn a_prompt_of_exactly_the_most_is_not_cut() {
        // 10 words, "|", "q": 12 tokens; strictly longer is cut.
        let tokenizer = WordTokenizer::new();
        let record = record("q", &context(10));
        let whole = made("lcc", &record, &tokenizer, options(12));
        assert!(!whole.truncated);
        assert_eq!((whole.rendered_tokens, whole.removed_tokens), (12, 0));
        assert_eq!(whole.text, format!("{}|q", context(10)));
        let cut = made("lcc", &record, &tokenizer, options(11));
        assert!(cut.truncated);
        // An odd most keeps one token less: two halves of 5.
        assert_eq!((cut.rendered_tokens, cut.removed_tokens), (12, 2));
        assert_eq!(cut.text, "w0 w1 w2 w3 w4 w7 w8 w9|q");
        let even = made("lcc", &record, &tokenizer, options(10));
        assert_eq!(even.text, cut.text);
    }

    #[test]
    fn bos_counts_and_takes_a_place_in_the_first_half() {
        let tokenizer = WordTokenizer::new().with_bos();
        let record = record("q", &context(10));
        let whole = made("lcc", &record, &tokenizer, options(13));
        assert_eq!((whole.rendered_tokens, whole.truncated), (13, false));
        let cut = made("lcc", &record, &tokenizer, options(12));
        assert_eq!((cut.rendered_tokens, cut.removed_tokens), (13, 1));
        assert_eq!(cut.text, "w0 w1 w2 w3 w4 w6 w7 w8 w9|q");
        let bos = tokenizer.bos().unwrap().0;
        assert_eq!(cut.ids.iter().filter(|id| **id == bos).count(), 1);
        assert_eq!(cut.ids[0], bos);
        assert_eq!(cut.ids.len(), 12);
    }

    #[test]
    fn a_template_that_writes_bos_makes_one_not_two() {
        let record = record("q", "c");
        let writes = |tokenizer: WordTokenizer| tokenizer.with_chat("<bos>[", "]");
        let leading = |tokenizer: &WordTokenizer, bos| {
            let prompt = made(
                "qasper",
                &record,
                tokenizer,
                PromptOptions { bos, ..options(99) },
            );
            assert!(prompt.chat_applied);
            prompt.ids.iter().take_while(|id| **id == 0).count()
        };
        for tokenizer in [
            writes(WordTokenizer::new()),
            writes(WordTokenizer::new().with_bos()),
        ] {
            assert_eq!(leading(&tokenizer, BosRule::Auto), 1);
            assert_eq!(leading(&tokenizer, BosRule::On), 1);
            assert_eq!(leading(&tokenizer, BosRule::Off), 0);
        }
        let without = WordTokenizer::new().with_chat("[", "]");
        assert_eq!(leading(&without, BosRule::Auto), 0);
        assert_eq!(leading(&without, BosRule::On), 1);
    }

    #[test]
    fn chat_rule_per_task() {
        let tokenizer = WordTokenizer::new().with_chat("<", ">");
        let record = record("q", "c");
        let text = |task, chat_template| {
            let options = PromptOptions {
                chat_template,
                ..options(99)
            };
            made(task, &record, &tokenizer, options).text
        };
        assert_eq!(text("qasper", ChatRule::Auto), "<c|q>");
        assert_eq!(text("qasper", ChatRule::Off), "c|q");
        assert_eq!(text("passage_count", ChatRule::Auto), "<c|q>");
        for task in ["trec", "triviaqa", "samsum", "lsht", "lcc", "repobench-p"] {
            assert_eq!(text(task, ChatRule::Auto), "c|q", "{task}");
            assert_eq!(text(task, ChatRule::On), "<c|q>", "{task}");
        }
    }

    #[test]
    fn what_a_model_lacks_is_an_error_only_if_demanded() {
        struct Bare(WordTokenizer);
        impl Tokenise for Bare {
            fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, TokeniseError> {
                self.0.encode(text, special)
            }
            fn decode(&self, ids: &[u32], skip: bool) -> Result<String, TokeniseError> {
                self.0.decode(ids, skip)
            }
            fn chat(&self, _: &str) -> Result<Option<String>, TokeniseError> {
                Ok(None)
            }
            fn bos(&self) -> Option<(u32, String)> {
                None
            }
            fn adds_bos(&self) -> bool {
                false
            }
            fn newline_token(&self) -> Result<u32, TokeniseError> {
                self.0.newline_token()
            }
            fn end_tokens(&self) -> Vec<u32> {
                Vec::new()
            }
        }
        let bare = Bare(WordTokenizer::new());
        let task = find_task("qasper").unwrap();
        let error = |options| {
            prepare(task, TEMPLATE, &record("q", "c"), &bare, &options).map_err(|e| e.to_string())
        };
        let chat = PromptOptions {
            chat_template: ChatRule::On,
            ..options(9)
        };
        let bos = PromptOptions {
            bos: BosRule::On,
            ..options(9)
        };
        assert!(!error(options(9)).unwrap().chat_applied);
        assert!(
            error(chat)
                .unwrap_err()
                .starts_with("`chat_template: on`, but the model has no")
        );
        assert!(
            error(bos)
                .unwrap_err()
                .starts_with("`bos: on`, but the tokenizer has no")
        );
        assert!(
            error(options(1))
                .unwrap_err()
                .starts_with("`max_context: 1` leaves no room")
        );
    }

    #[test]
    fn special_tokens_in_a_record_are_lost_in_truncation_only() {
        let tokenizer = WordTokenizer::new();
        let record = record("q", &format!("a<end>{}", context(10)));
        let cut = made("lcc", &record, &tokenizer, options(8));
        assert!(cut.text.starts_with("aw0 w1 w8"), "{}", cut.text);
        let whole = made("lcc", &record, &tokenizer, options(99));
        assert!(whole.text.starts_with("a<end>w0"));
        assert_eq!(whole.ids[1], tokenizer.end_tokens()[0]);
    }

    #[test]
    fn the_template_comes_after_truncation_and_may_exceed_the_most() {
        let tokenizer = WordTokenizer::new().with_chat("one two three ", " four");
        let prompt = made("qasper", &record("q", &context(10)), &tokenizer, options(6));
        assert_eq!(prompt.text, "one two three w0 w1 w2 w9|q four");
        assert_eq!(prompt.ids.len(), 6 + 4);
    }

    #[test]
    fn clean_up_touches_the_halves_of_a_cut_prompt_only() {
        let tokenizer = WordTokenizer::new();
        let record = record("q", &format!("x != y {}", context(10)));
        let clean = |max_context| {
            let options = PromptOptions {
                clean_up_spaces: true,
                ..options(max_context)
            };
            made("lcc", &record, &tokenizer, options)
        };
        assert!(clean(99).text.starts_with("x != y"));
        let cut = clean(12);
        assert!(cut.text.starts_with("x!= y"), "{}", cut.text);
        assert_eq!(&cut.text[cut.context_end_byte.unwrap()..], "|q");
    }

    #[test]
    fn the_end_of_the_context_is_found_after_cut_and_template() {
        let tokenizer = WordTokenizer::new().with_chat("<user>", "</user>");
        let record = record(" what ? ", &context(40));
        for max_context in [99, 30, 11, 10] {
            let prompt = made("qasper", &record, &tokenizer, options(max_context));
            let end = prompt.context_end_byte.unwrap();
            assert_eq!(&prompt.text[end..], "| what ? </user>", "{max_context}");
        }
        // The cut takes the end of the context itself: what is left of the question is the tail.
        let prompt = made("qasper", &record, &tokenizer, options(4));
        let end = prompt.context_end_byte.unwrap();
        assert_eq!(&prompt.text[..end], "<user>w0 w1");
        // A long question: the whole context lies in the first half.
        let long = crate::testing::record(&context(40), "a b");
        let prompt = made("qasper", &long, &tokenizer, options(20));
        assert_eq!(
            &prompt.text[..prompt.context_end_byte.unwrap()],
            "<user>a b"
        );
    }

    #[test]
    fn a_template_that_trims_still_shows_the_end() {
        assert_eq!(end_in_chat("[c|q:]", " \nc|q: ", 3), Some(2));
        assert_eq!(end_in_chat("[c|q:]", "x|q: ", 1), None);
        assert_eq!(end_in_chat("[c]", "c  ", 3), Some(2));
    }

    #[test]
    fn the_hash_is_of_the_ids() {
        assert_eq!(
            hash_ids(&[1, 256]),
            blake3::hash(&[1, 0, 0, 0, 0, 1, 0, 0]).to_hex().as_str()
        );
        let tokenizer = WordTokenizer::new();
        let one = made("lcc", &record("q", "c"), &tokenizer, options(9));
        assert_eq!(one.hash, hash_ids(&one.ids));
    }
}
