//! Chat templates as transformers renders them: Jinja through minijinja, with Python's habits.
//! Follows transformers 5.2 `utils/chat_template_utils.py`, `_compile_jinja_template`.

mod python;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::format::{Item, StrftimeItems};
use chrono::{DateTime, NaiveDateTime};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, context};
use minijinja_contrib::pycompat::unknown_method_callback;

use python::JsonStyle;

const NAME: &str = "chat template";

/// Why a chat template cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The template is not valid Jinja.
    #[error("the chat template is not valid in line {line}: {problem}")]
    Syntax {
        /// Line of the template, from 1.
        line: usize,
        /// The parser's reason.
        problem: String,
    },
    /// The template called `raise_exception`.
    #[error("the chat template refuses this conversation: {message}")]
    Refused {
        /// The template's own message.
        message: String,
    },
    /// Rendering failed.
    #[error("the chat template failed in line {line}: {problem}")]
    Render {
        /// Line of the template, from 1.
        line: usize,
        /// The reason.
        problem: String,
    },
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// What is said.
    pub content: String,
}

/// Texts of the special tokens that a template may name; absent ones are undefined in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialTexts {
    /// Begins a text.
    pub bos_token: Option<String>,
    /// Ends a text.
    pub eos_token: Option<String>,
    /// Stands for what the vocabulary lacks.
    pub unk_token: Option<String>,
    /// Fills up a batch.
    pub pad_token: Option<String>,
}

/// A compiled chat template.
///
/// ```
/// use ripplekv_model::chat_template::{ChatTemplate, Message, SpecialTexts};
///
/// let source = "{% for m in messages %}<{{ m.role }}>{{ m.content.strip() }}{% endfor %}";
/// let template = ChatTemplate::new(source, SpecialTexts::default())?;
/// let turn = Message { role: "user".into(), content: " hello ".into() };
/// assert_eq!(template.render(&[turn], false)?, "<user>hello");
/// # Ok::<(), ripplekv_model::chat_template::TemplateError>(())
/// ```
#[derive(Clone)]
pub struct ChatTemplate {
    source: Arc<str>,
    special: SpecialTexts,
    environment: Environment<'static>,
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate")
            .field("source", &self.source)
            .field("special", &self.special)
            .finish_non_exhaustive()
    }
}

impl ChatTemplate {
    /// Compiles a template. `strftime_now` gives the present time in UTC.
    pub fn new(source: &str, special: SpecialTexts) -> Result<Self, TemplateError> {
        Self::with_clock(source, special, Clock::Utc)
    }

    /// As [`Self::new`], but `strftime_now` always gives this moment (`2026-03-07T09:05:03`), so that
    /// prompts do not change from day to day.
    pub fn new_at(source: &str, special: SpecialTexts, now: &str) -> Result<Self, TemplateError> {
        let now = now
            .parse::<NaiveDateTime>()
            .map_err(|error| TemplateError::Render {
                line: 0,
                problem: format!("`{now}` is not a time like 2026-03-07T09:05:03: {error}"),
            })?;
        Self::with_clock(source, special, Clock::Fixed(now))
    }

    fn with_clock(
        source: &str,
        special: SpecialTexts,
        clock: Clock,
    ) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(|error| syntax_error(&error))?;
        environment.set_syntax(syntax);
        environment.set_unknown_method_callback(unknown_method_callback);
        environment.set_formatter(|out, _, value| {
            out.write_str(&python::to_str(value))?;
            Ok(())
        });
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", move |format: String| clock.format(&format));
        environment.add_filter("tojson", to_json);
        environment
            .add_template_owned(NAME, jinja_source(source))
            .map_err(|error| syntax_error(&error))?;
        Ok(Self {
            source: source.into(),
            special,
            environment,
        })
    }

    /// Renders a conversation, ready for the assistant's answer if `add_generation_prompt`.
    pub fn render(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<String, TemplateError> {
        let text = |token: &Option<String>| token.clone().map_or(Value::UNDEFINED, Value::from);
        let messages: Vec<Value> = messages
            .iter()
            .map(|turn| Value::from_pairs([("role", &*turn.role), ("content", &*turn.content)]))
            .collect();
        let variables = context! {
            messages,
            add_generation_prompt,
            tools => Value::from(()),
            documents => Value::from(()),
            bos_token => text(&self.special.bos_token),
            eos_token => text(&self.special.eos_token),
            unk_token => text(&self.special.unk_token),
            pad_token => text(&self.special.pad_token),
        };
        self.environment
            .get_template(NAME)
            .and_then(|template| template.render(variables))
            .map_err(|error| match raised(&error) {
                Some(message) => TemplateError::Refused { message },
                None => TemplateError::Render {
                    line: error.line().unwrap_or(0),
                    problem: text_of(&error),
                },
            })
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Hash of the template's text.
    pub fn hash(&self) -> String {
        blake3::hash(self.source.as_bytes()).to_hex().to_string()
    }

    /// Whether prompts depend on the date.
    pub fn reads_clock(&self) -> bool {
        self.source.contains("strftime_now")
    }
}

#[derive(Clone, Copy, Debug)]
enum Clock {
    Utc,
    Fixed(NaiveDateTime),
}

impl Clock {
    fn now(self) -> NaiveDateTime {
        match self {
            Self::Fixed(now) => now,
            Self::Utc => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .ok()
                .and_then(|since| DateTime::from_timestamp(since.as_secs().cast_signed(), 0))
                .unwrap_or_default()
                .naive_utc(),
        }
    }

    fn format(self, format: &str) -> Result<String, Error> {
        let items: Vec<Item<'_>> = StrftimeItems::new(format).collect();
        if items.contains(&Item::Error) {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("strftime_now does not know the format `{format}`"),
            ));
        }
        Ok(self.now().format_with_items(items.into_iter()).to_string())
    }
}

/// What `raise_exception` was called with, kept apart from minijinja's own errors.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

fn raised(error: &Error) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(Raised(message)) = inner.downcast_ref() {
            return Some(message.clone());
        }
        cause = inner.source();
    }
    None
}

fn syntax_error(error: &Error) -> TemplateError {
    TemplateError::Syntax {
        line: error.line().unwrap_or(0),
        problem: text_of(error),
    }
}

/// minijinja's message without the template's name, which says nothing here.
fn text_of(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

/// Jinja's own filter escapes HTML; transformers puts `json.dumps` in its place.
fn to_json(value: Value, positional: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let argument = |index: usize, name: &str| -> Result<Option<Value>, Error> {
        match positional.get(index) {
            Some(value) => Ok(Some(value.clone())),
            None => named.get(name),
        }
    };
    let is_set = |value: &Value| !value.is_none() && !value.is_undefined();
    let indent = argument(1, "indent")?.filter(is_set);
    let separators = argument(2, "separators")?.filter(is_set);
    let mut style = JsonStyle {
        ascii_only: argument(0, "ensure_ascii")?.is_some_and(|value| value.is_true()),
        sorts_keys: argument(3, "sort_keys")?.is_some_and(|value| value.is_true()),
        ..JsonStyle::default()
    };
    named.assert_all_used()?;
    if let Some(indent) = indent {
        style.item_separator = ",".to_owned();
        style.indent = Some(match indent.kind() {
            ValueKind::String => indent.to_string(),
            _ => " ".repeat(usize::try_from(indent)?),
        });
    }
    if let Some(separators) = separators {
        let parts: Vec<Value> = separators.try_iter()?.collect();
        let [item, key] = parts.as_slice() else {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "tojson wants two separators",
            ));
        };
        style.item_separator = item.to_string();
        style.key_separator = key.to_string();
    }
    python::to_json(&value, &style)
}

/// Python's Jinja reads `\r\n` as `\n`; `generation` tags only mark the answer for training.
fn jinja_source(source: &str) -> String {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(source.len());
    let mut rest = source.as_str();
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        out.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let inner = &tag[2..end];
        let name = inner.trim_matches(|c: char| c == '-' || c == '+' || c.is_whitespace());
        let replacement = match name {
            "generation" => Some("if true"),
            "endgeneration" => Some("endif"),
            _ => None,
        };
        out.push_str("{%");
        match replacement {
            Some(replacement) => out.push_str(&inner.replacen(name, replacement, 1)),
            None => out.push_str(inner),
        }
        out.push_str("%}");
        rest = &tag[end + 2..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(source: &str) -> Result<ChatTemplate, TemplateError> {
        ChatTemplate::new(source, SpecialTexts::default())
    }

    #[test]
    fn a_broken_template_names_the_line() {
        let error = compile("ok\n\n{% if %}").unwrap_err().to_string();
        assert!(error.contains("line 3"), "{error}");
    }

    #[test]
    fn generation_tags_keep_their_whitespace_control() {
        assert_eq!(
            jinja_source("a{%- generation +%}b{% endgeneration -%}c{% generation"),
            "a{%- if true +%}b{% endif -%}c{% generation"
        );
        assert_eq!(
            jinja_source("{% set x = 'generation' %}"),
            "{% set x = 'generation' %}"
        );
    }

    #[test]
    fn the_hash_is_of_the_text_as_given() {
        assert_ne!(compile("a").unwrap().hash(), compile("b").unwrap().hash());
        assert_eq!(
            compile("a").unwrap().hash(),
            blake3::hash(b"a").to_hex().to_string()
        );
    }

    #[test]
    fn a_wrong_date_format_is_an_error_not_a_panic() {
        let template = compile("{{ strftime_now('%Q!') }}").unwrap();
        assert!(template.reads_clock());
        let error = template.render(&[], false).unwrap_err().to_string();
        assert!(error.contains("%Q!"), "{error}");
    }

    #[test]
    fn the_clock_moves_unless_it_is_fixed() {
        let year = compile("{{ strftime_now('%Y') }}").unwrap();
        assert!(year.render(&[], false).unwrap().parse::<u32>().unwrap() >= 2026);
        assert!(ChatTemplate::new_at("", SpecialTexts::default(), "yesterday").is_err());
    }
}
