//! The tokenizer of a Hugging Face folder: `tokenizer.json` and what stands beside it.
//! Follows transformers 5.2: explicit `add_bos_token` wins over the post-processor.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tokenizers::{AddedToken, Tokenizer};

use super::text::{AroundText, hash_of};
use super::{TextTokenizer, TokenizerError};
use crate::chat_template::{ChatTemplate, SpecialTexts};

const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const SPECIAL_TOKENS_MAP: &str = "special_tokens_map.json";
const GENERATION_CONFIG: &str = "generation_config.json";
const CONFIG: &str = "config.json";
const TEMPLATE_FILE: &str = "chat_template.jinja";

impl TextTokenizer {
    /// Loads the tokenizer of a Hugging Face model folder.
    pub fn from_folder(folder: &Path) -> Result<Self, TokenizerError> {
        let path = folder.join(TOKENIZER);
        let Some(bytes) = read(&path)? else {
            return Err(TokenizerError::NoTokenizerFile {
                folder: folder.to_owned(),
            });
        };
        let unsupported = |source| TokenizerError::Unsupported {
            path: path.clone(),
            source,
        };
        let mut inner = Tokenizer::from_bytes(&bytes).map_err(unsupported)?;
        // A stored truncation or padding is only a default of the saving session.
        inner.with_truncation(None).map_err(unsupported)?;
        inner.with_padding(None);

        let settings = Settings::read(folder)?;
        let missing = settings.missing_special_tokens(&inner);
        inner.add_tokens(missing).map_err(unsupported)?;

        let special = SpecialTexts {
            bos_token: settings.special("bos_token"),
            eos_token: settings.special("eos_token"),
            unk_token: settings.special("unk_token"),
            pad_token: settings.special("pad_token"),
        };
        let id_of = |text: &Option<String>| text.as_ref().and_then(|text| inner.token_to_id(text));
        let bos = id_of(&special.bos_token).zip(special.bos_token.clone());
        let around = settings.around_text(&inner, &special)?;
        let end_tokens = settings.end_tokens(id_of(&special.eos_token))?;
        let hash = hash_of([
            b"folder".as_slice(),
            &bytes,
            format!("{around:?} {bos:?} {end_tokens:?} {special:?}").as_bytes(),
        ]);
        let template = match settings.template(folder)? {
            Some(source) => Some(ChatTemplate::new(&source, special)?),
            None => None,
        };
        let mut tokenizer = Self {
            inner,
            around,
            bos,
            adds_bos: false,
            end_tokens,
            template,
            hash,
        };
        tokenizer.adds_bos = tokenizer.begins_with_bos()?;
        Ok(tokenizer)
    }

    /// What really happens to a text, whatever the settings claim.
    fn begins_with_bos(&self) -> Result<bool, TokenizerError> {
        let Some((bos, _)) = self.bos() else {
            return Ok(false);
        };
        let without = self.encode("a", false)?;
        let with = self.encode("a", true)?;
        Ok(with.len() > without.len() && with.first() == Some(&bos))
    }
}

/// The JSON files beside `tokenizer.json`; an absent one is empty.
struct Settings {
    tokenizer_config: Value,
    tokenizer_config_path: PathBuf,
    special_tokens_map: Value,
    generation_config: Value,
    config: Value,
}

impl Settings {
    fn read(folder: &Path) -> Result<Self, TokenizerError> {
        Ok(Self {
            tokenizer_config: read_json(&folder.join(TOKENIZER_CONFIG))?,
            tokenizer_config_path: folder.join(TOKENIZER_CONFIG),
            special_tokens_map: read_json(&folder.join(SPECIAL_TOKENS_MAP))?,
            generation_config: read_json(&folder.join(GENERATION_CONFIG))?,
            config: read_json(&folder.join(CONFIG))?,
        })
    }

    /// The text of a special token such as `bos_token`.
    fn special(&self, key: &str) -> Option<String> {
        [&self.tokenizer_config, &self.special_tokens_map]
            .into_iter()
            .find_map(|file| token_text(&file[key]))
            .map(str::to_owned)
    }

    /// Special tokens that the settings name and `tokenizer.json` does not list as such.
    fn missing_special_tokens(&self, tokenizer: &Tokenizer) -> Vec<AddedToken> {
        let listed = tokenizer.get_added_tokens_decoder();
        let mut missing: Vec<AddedToken> = Vec::new();
        let mut add = |token: AddedToken| {
            let known = |other: &AddedToken| other.content == token.content;
            if !listed.values().any(known) && !missing.iter().any(known) {
                missing.push(token);
            }
        };
        if let Value::Object(decoder) = &self.tokenizer_config["added_tokens_decoder"] {
            let mut by_id: Vec<(u32, &Value)> = decoder
                .iter()
                .filter_map(|(id, token)| Some((id.parse().ok()?, token)))
                .collect();
            by_id.sort_by_key(|(id, _)| *id);
            for (_, token) in by_id {
                if let Some(text) = token_text(token) {
                    let flag = |key: &str| token[key].as_bool().unwrap_or(false);
                    add(AddedToken::from(text, flag("special"))
                        .lstrip(flag("lstrip"))
                        .rstrip(flag("rstrip"))
                        .single_word(flag("single_word"))
                        .normalized(flag("normalized")));
                }
            }
        }
        for key in [
            "bos_token",
            "eos_token",
            "unk_token",
            "sep_token",
            "pad_token",
            "cls_token",
            "mask_token",
        ] {
            if let Some(text) = self.special(key) {
                add(AddedToken::from(text, true));
            }
        }
        for file in [&self.tokenizer_config, &self.special_tokens_map] {
            for token in file["additional_special_tokens"]
                .as_array()
                .into_iter()
                .flatten()
            {
                if let Some(text) = token_text(token) {
                    add(AddedToken::from(text, true));
                }
            }
        }
        missing
    }

    fn around_text(
        &self,
        tokenizer: &Tokenizer,
        special: &SpecialTexts,
    ) -> Result<AroundText, TokenizerError> {
        let add_bos = self.tokenizer_config["add_bos_token"].as_bool();
        let add_eos = self.tokenizer_config["add_eos_token"].as_bool();
        if add_bos.is_none() && add_eos.is_none() {
            return Ok(AroundText::PostProcessor);
        }
        let id_of = |text: &Option<String>| text.as_ref().and_then(|t| tokenizer.token_to_id(t));
        let before = id_of(&special.bos_token).filter(|_| add_bos == Some(true));
        if add_bos == Some(true) && before.is_none() {
            return Err(TokenizerError::BadValue {
                path: self.tokenizer_config_path.clone(),
                key: "add_bos_token",
                problem: "is true, but there is no `bos_token` in the vocabulary".to_owned(),
            });
        }
        Ok(AroundText::These {
            before,
            after: id_of(&special.eos_token).filter(|_| add_eos == Some(true)),
        })
    }

    /// As `generate` decides: the generation config, else the model's config, else the tokenizer's.
    fn end_tokens(&self, eos: Option<u32>) -> Result<Vec<u32>, TokenizerError> {
        let stated = [
            (GENERATION_CONFIG, &self.generation_config),
            (CONFIG, &self.config),
        ]
        .into_iter()
        .map(|(name, file)| (name, &file["eos_token_id"]))
        .find(|(_, value)| !value.is_null());
        let mut ends = match stated {
            None => eos.into_iter().collect(),
            Some((name, Value::Array(ids))) => ids
                .iter()
                .map(|id| self.token_id(name, id))
                .collect::<Result<_, _>>()?,
            Some((name, id)) => vec![self.token_id(name, id)?],
        };
        ends.sort_unstable();
        ends.dedup();
        Ok(ends)
    }

    fn token_id(&self, file: &str, value: &Value) -> Result<u32, TokenizerError> {
        value
            .as_u64()
            .and_then(|id| u32::try_from(id).ok())
            .ok_or_else(|| TokenizerError::BadValue {
                path: self.tokenizer_config_path.with_file_name(file),
                key: "eos_token_id",
                problem: format!("is {value}, not a token id or a list of them"),
            })
    }

    fn template(&self, folder: &Path) -> Result<Option<String>, TokenizerError> {
        let path = folder.join(TEMPLATE_FILE);
        if let Some(bytes) = read(&path)? {
            return match String::from_utf8(bytes) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(TokenizerError::BadValue {
                    path,
                    key: "the template",
                    problem: "is not UTF-8".to_owned(),
                }),
            };
        }
        match &self.tokenizer_config["chat_template"] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            Value::Array(named) => Ok(named
                .iter()
                .find(|entry| entry["name"] == "default")
                .and_then(|entry| entry["template"].as_str())
                .map(str::to_owned)),
            _ => Err(TokenizerError::BadValue {
                path: self.tokenizer_config_path.clone(),
                key: "chat_template",
                problem: "is neither a text nor a list of named texts".to_owned(),
            }),
        }
    }
}

/// A token is written as its text or as an object with `content`.
fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value["content"].as_str())
}

/// The bytes of a file, `None` where it does not exist.
fn read(path: &Path) -> Result<Option<Vec<u8>>, TokenizerError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TokenizerError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

fn read_json(path: &Path) -> Result<Value, TokenizerError> {
    match read(path)? {
        None => Ok(Value::Null),
        Some(bytes) => serde_json::from_slice(&bytes).map_err(|source| TokenizerError::Json {
            path: path.to_owned(),
            source,
        }),
    }
}
