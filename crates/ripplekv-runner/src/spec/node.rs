//! A value of the spec together with its key path and its source, so that every error says where.
//! Reading is by hand and not by derive: unknown keys get the nearest name, and errors keep path and line.

use serde_yaml::{Mapping, Value};

use crate::error::SpecError;
use crate::nearest::hint_for;
use crate::spec::SpecSource;

type Result<T> = std::result::Result<T, SpecError>;

/// A value, its path, and where it came from.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    pub(crate) value: &'a Value,
    pub(crate) path: String,
    source: &'a SpecSource,
}

/// A mapping whose keys were checked.
pub(crate) struct Fields<'a> {
    node: Node<'a>,
    map: &'a Mapping,
}

impl<'a> Node<'a> {
    pub(crate) fn root(source: &'a SpecSource) -> Self {
        Self {
            value: &source.value,
            path: String::new(),
            source,
        }
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> SpecError {
        self.source.error(&self.path, message, None)
    }

    pub(crate) fn error_with_hint(
        &self,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> SpecError {
        self.source.error(&self.path, message, Some(hint.into()))
    }

    fn child(&self, key: &str, value: &'a Value) -> Self {
        let path = if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        };
        Self {
            value,
            path,
            source: self.source,
        }
    }

    fn wrong(&self, expected: &str) -> SpecError {
        self.error(format!("expected {expected}, found {}", kind(self.value)))
    }

    /// Reads a mapping and refuses every key that is not in `known`.
    pub(crate) fn mapping(&self, known: &[&str]) -> Result<Fields<'a>> {
        let fields = self.open_mapping()?;
        for key in fields.map.keys() {
            let name = key.as_str().unwrap_or_default();
            if !known.contains(&name) {
                return Err(self
                    .child(name, self.value)
                    .error_with_hint("unknown key", hint_for(name, known)));
            }
        }
        Ok(fields)
    }

    /// Reads a mapping whose keys somebody else checks.
    pub(crate) fn open_mapping(&self) -> Result<Fields<'a>> {
        let map = self
            .value
            .as_mapping()
            .ok_or_else(|| self.wrong("a mapping"))?;
        if let Some(key) = map.keys().find(|key| !key.is_string()) {
            return Err(self.error(format!("keys are words, found {}", kind(key))));
        }
        Ok(Fields {
            node: self.clone(),
            map,
        })
    }

    pub(crate) fn is_mapping(&self) -> bool {
        self.value.is_mapping()
    }

    pub(crate) fn is_sequence(&self) -> bool {
        self.value.is_sequence()
    }

    /// Reads a list that may not be empty.
    pub(crate) fn sequence(&self) -> Result<Vec<Self>> {
        let items = self
            .value
            .as_sequence()
            .ok_or_else(|| self.wrong("a list"))?;
        if items.is_empty() {
            return Err(self.error("the list is empty"));
        }
        Ok(self.items(items))
    }

    /// Reads a list, or one value that stands for a list of one.
    pub(crate) fn one_or_more(&self) -> Result<Vec<Self>> {
        if self.is_sequence() {
            self.sequence()
        } else {
            Ok(vec![self.clone()])
        }
    }

    fn items(&self, items: &'a [Value]) -> Vec<Self> {
        items
            .iter()
            .enumerate()
            .map(|(index, value)| Self {
                value,
                path: format!("{}[{index}]", self.path),
                source: self.source,
            })
            .collect()
    }

    pub(crate) fn text(&self) -> Result<String> {
        match self.value.as_str() {
            Some("") => Err(self.error("the text is empty")),
            Some(text) => Ok(text.to_owned()),
            None => Err(self.wrong("text")),
        }
    }

    /// Text, or a number as it would be written.
    pub(crate) fn text_or_number(&self, expected: &str) -> Result<String> {
        match self.value {
            Value::Number(number) => Ok(number
                .as_i64()
                .map(|whole| whole.to_string())
                .or_else(|| number.as_u64().map(|whole| whole.to_string()))
                .unwrap_or_else(|| format!("{:?}", number.as_f64().unwrap_or(f64::NAN)))),
            Value::String(text) if !text.is_empty() => Ok(text.clone()),
            _ => Err(self.wrong(expected)),
        }
    }

    pub(crate) fn boolean(&self) -> Result<bool> {
        self.value.as_bool().ok_or_else(|| {
            self.source.error(
                &self.path,
                format!("expected true or false, found {}", kind(self.value)),
                None,
            )
        })
    }

    pub(crate) fn whole_number(&self, least: u64) -> Result<u64> {
        self.value
            .as_u64()
            .filter(|number| *number >= least)
            .ok_or_else(|| self.wrong(&format!("a whole number of at least {least}")))
    }

    /// A finite number, whole or not.
    pub(crate) fn number(&self, expected: &str) -> Result<f64> {
        self.value
            .as_f64()
            .filter(|number| number.is_finite())
            .ok_or_else(|| self.wrong(expected))
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let word = self.value.as_str().unwrap_or_default();
        choices
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, value)| *value)
            .ok_or_else(|| {
                self.error_with_hint(
                    format!(
                        "expected one of {}, found {}",
                        names.join(", "),
                        kind(self.value)
                    ),
                    hint_for(word, &names),
                )
            })
    }
}

impl<'a> Fields<'a> {
    pub(crate) fn get(&self, key: &str) -> Option<Node<'a>> {
        self.map.get(key).map(|value| self.node.child(key, value))
    }

    pub(crate) fn required(&self, key: &str) -> Result<Node<'a>> {
        self.get(key)
            .ok_or_else(|| self.node.error(format!("the key '{key}' is missing")))
    }

    pub(crate) fn entries(&self) -> Vec<(String, Node<'a>)> {
        self.map
            .iter()
            .filter_map(|(key, value)| {
                let key = key.as_str()?;
                Some((key.to_owned(), self.node.child(key, value)))
            })
            .collect()
    }
}

/// What a value is, in words and with its text where it is short.
fn kind(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(flag) => format!("{flag}"),
        Value::Number(number) => format!("{number}"),
        Value::String(text) => format!("'{text}'"),
        Value::Sequence(_) => "a list".to_owned(),
        Value::Mapping(_) => "a mapping".to_owned(),
        Value::Tagged(tagged) => format!("the tag {}", tagged.tag),
    }
}
