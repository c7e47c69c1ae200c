//! The tokenizer that a GGUF file carries in its metadata (byte-level BPE).
//! Follows transformers `integrations/ggml.py`, but keeps the pre-tokenizer that the file names.

use std::collections::HashMap;

use candle_core::quantized::gguf_file::Value;
use tokenizers::decoders::byte_level::ByteLevel as ByteLevelDecoder;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::unicode::NFC;
use tokenizers::processors::byte_level::ByteLevel as ByteLevelProcessor;
use tokenizers::{AddedToken, NormalizerWrapper, Tokenizer};

use super::pre::{self, PreTokenizerEntry};
use super::text::{AroundText, hash_of};
use super::{TextTokenizer, TokenizerError};
use crate::chat_template::{ChatTemplate, SpecialTexts};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TOKEN_TYPE: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const BOS: &str = "tokenizer.ggml.bos_token_id";
const EOS: &str = "tokenizer.ggml.eos_token_id";
const END_OF_TURN: &str = "tokenizer.ggml.eot_token_id";
const END_OF_MESSAGE: &str = "tokenizer.ggml.eom_token_id";
const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";
const PADDING: &str = "tokenizer.ggml.padding_token_id";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
const TEMPLATE: &str = "tokenizer.chat_template";

/// llama.cpp's token types that matter here.
const TYPE_UNKNOWN: i64 = 2;
const TYPE_CONTROL: i64 = 3;
const TYPE_USER_DEFINED: i64 = 4;

type Metadata = HashMap<String, Value>;

impl TextTokenizer {
    /// Loads the tokenizer from a GGUF file's metadata.
    pub fn from_gguf(metadata: &Metadata) -> Result<Self, TokenizerError> {
        let name = string(metadata, PRE)?.ok_or(TokenizerError::MissingKey { key: PRE })?;
        Self::from_gguf_with_pre(metadata, name)
    }

    /// As [`Self::from_gguf`], but with the named pre-tokenizer instead of the file's own.
    ///
    /// transformers' conversion of a byte-level GGUF file ignores `tokenizer.ggml.pre`: `gpt-2` here
    /// gives the ids that it gives.
    pub fn from_gguf_with_pre(metadata: &Metadata, pre: &str) -> Result<Self, TokenizerError> {
        let model = string(metadata, MODEL)?.ok_or(TokenizerError::MissingKey { key: MODEL })?;
        if model != "gpt2" {
            return Err(TokenizerError::UnknownModel {
                name: model.to_owned(),
            });
        }
        let pre = pre::find(pre).ok_or_else(|| TokenizerError::UnknownPreTokenizer {
            name: pre.to_owned(),
            known: pre::known(),
        })?;
        let parts = Parts::read(metadata)?;
        let inner = parts
            .build(pre)
            .map_err(|source| TokenizerError::Inconsistent { source })?;

        let adds_bos = boolean(metadata, ADD_BOS)?.unwrap_or(pre.adds_bos_by_default);
        let adds_eos = boolean(metadata, ADD_EOS)?.unwrap_or(false);
        let before = parts.bos.filter(|_| adds_bos);
        let after = parts.eos.filter(|_| adds_eos);
        let text_of = |id: Option<u32>| id.and_then(|id| parts.tokens.get(id as usize)).cloned();
        let special = SpecialTexts {
            bos_token: text_of(parts.bos),
            eos_token: text_of(parts.eos),
            unk_token: text_of(parts.unknown),
            pad_token: text_of(parts.padding),
        };
        let template = match string(metadata, TEMPLATE)? {
            Some(source) => Some(ChatTemplate::new(source, special)?),
            None => None,
        };
        Ok(Self {
            hash: parts.hash(pre, before, after),
            bos: parts.bos.zip(text_of(parts.bos)),
            adds_bos: before.is_some(),
            end_tokens: parts.ends.clone(),
            around: AroundText::These { before, after },
            inner,
            template,
        })
    }
}

/// What the metadata say, checked.
struct Parts {
    tokens: Vec<String>,
    types: Vec<i64>,
    merges: Vec<(String, String)>,
    bos: Option<u32>,
    eos: Option<u32>,
    unknown: Option<u32>,
    padding: Option<u32>,
    ends: Vec<u32>,
}

impl Parts {
    fn read(metadata: &Metadata) -> Result<Self, TokenizerError> {
        let tokens = strings(metadata, TOKENS)?;
        let types = match metadata.get(TOKEN_TYPE) {
            Some(value) => integers(value, TOKEN_TYPE)?,
            None => vec![1; tokens.len()],
        };
        if types.len() != tokens.len() {
            return Err(bad(
                TOKEN_TYPE,
                format!("{} entries for {} tokens", types.len(), tokens.len()),
            ));
        }
        let merges = strings(metadata, MERGES)?
            .into_iter()
            .map(|merge| match merge.split_once(' ') {
                Some((left, right)) => Ok((left.to_owned(), right.to_owned())),
                None => Err(bad(MERGES, format!("`{merge}` is not two tokens"))),
            })
            .collect::<Result<_, _>>()?;
        let id = |key| token_id(metadata, key, tokens.len());
        let eos = id(EOS)?;
        let mut ends: Vec<u32> = [eos, id(END_OF_TURN)?, id(END_OF_MESSAGE)?]
            .into_iter()
            .flatten()
            .collect();
        ends.sort_unstable();
        ends.dedup();
        Ok(Self {
            bos: id(BOS)?,
            eos,
            unknown: id(UNKNOWN)?,
            padding: id(PADDING)?,
            ends,
            tokens,
            types,
            merges,
        })
    }

    fn build(&self, pre: &PreTokenizerEntry) -> tokenizers::Result<Tokenizer> {
        let vocabulary: Vocab = self.tokens.iter().cloned().zip(0..).collect();
        let mut model = BPE::builder()
            .vocab_and_merges(vocabulary, self.merges.clone())
            .ignore_merges(pre.ignores_merges);
        // Some vocabularies lack bytes that no training text had.
        if let Some(unknown) = self.unknown {
            model = model
                .unk_token(self.tokens[unknown as usize].clone())
                .fuse_unk(true);
        }
        let mut tokenizer = Tokenizer::new(model.build()?);
        if pre.composes {
            tokenizer.with_normalizer(Some(NormalizerWrapper::NFC(NFC)))?;
        }
        tokenizer.with_pre_tokenizer(Some(pre.build()?));
        tokenizer.with_decoder(Some(ByteLevelDecoder::new(true, true, true)));
        tokenizer.with_post_processor(Some(ByteLevelProcessor::new(true, false, true)));
        tokenizer.add_tokens(
            self.tokens
                .iter()
                .zip(&self.types)
                .filter_map(|(token, kind)| match *kind {
                    TYPE_CONTROL | TYPE_UNKNOWN => {
                        Some(AddedToken::from(token.clone(), true).normalized(false))
                    }
                    TYPE_USER_DEFINED => {
                        Some(AddedToken::from(token.clone(), false).normalized(false))
                    }
                    _ => None,
                }),
        )?;
        Ok(tokenizer)
    }

    fn hash(&self, pre: &PreTokenizerEntry, before: Option<u32>, after: Option<u32>) -> String {
        let settings = format!(
            "gguf {} {before:?} {after:?} {:?} {:?}",
            pre.name, self.unknown, self.ends
        );
        let types: Vec<u8> = self
            .types
            .iter()
            .flat_map(|kind| kind.to_le_bytes())
            .collect();
        let tokens = self.tokens.iter().map(String::as_bytes);
        let merges = self
            .merges
            .iter()
            .flat_map(|(left, right)| [left.as_bytes(), right.as_bytes()]);
        hash_of(
            [settings.as_bytes(), types.as_slice()]
                .into_iter()
                .chain(tokens)
                .chain(merges),
        )
    }
}

fn bad(key: &'static str, problem: String) -> TokenizerError {
    TokenizerError::BadMetadata { key, problem }
}

fn string<'m>(
    metadata: &'m Metadata,
    key: &'static str,
) -> Result<Option<&'m str>, TokenizerError> {
    match metadata.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(bad(key, "not a string".to_owned())),
    }
}

fn boolean(metadata: &Metadata, key: &'static str) -> Result<Option<bool>, TokenizerError> {
    match metadata.get(key) {
        None => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(_) => Err(bad(key, "not true or false".to_owned())),
    }
}

fn strings(metadata: &Metadata, key: &'static str) -> Result<Vec<String>, TokenizerError> {
    let Value::Array(values) = metadata
        .get(key)
        .ok_or(TokenizerError::MissingKey { key })?
    else {
        return Err(bad(key, "not an array".to_owned()));
    };
    values
        .iter()
        .map(|value| match value {
            Value::String(text) => Ok(text.clone()),
            _ => Err(bad(key, "an entry is not a string".to_owned())),
        })
        .collect()
}

fn integers(value: &Value, key: &'static str) -> Result<Vec<i64>, TokenizerError> {
    let Value::Array(values) = value else {
        return Err(bad(key, "not an array".to_owned()));
    };
    values.iter().map(|value| integer(value, key)).collect()
}

fn integer(value: &Value, key: &'static str) -> Result<i64, TokenizerError> {
    match value {
        Value::U8(value) => Ok(i64::from(*value)),
        Value::I8(value) => Ok(i64::from(*value)),
        Value::U16(value) => Ok(i64::from(*value)),
        Value::I16(value) => Ok(i64::from(*value)),
        Value::U32(value) => Ok(i64::from(*value)),
        Value::I32(value) => Ok(i64::from(*value)),
        Value::U64(value) => {
            i64::try_from(*value).map_err(|_| bad(key, format!("{value} is too large")))
        }
        Value::I64(value) => Ok(*value),
        _ => Err(bad(key, "not a whole number".to_owned())),
    }
}

fn token_id(
    metadata: &Metadata,
    key: &'static str,
    vocabulary: usize,
) -> Result<Option<u32>, TokenizerError> {
    let Some(value) = metadata.get(key) else {
        return Ok(None);
    };
    let id = integer(value, key)?;
    match u32::try_from(id) {
        Ok(id) if (id as usize) < vocabulary => Ok(Some(id)),
        _ => Err(bad(
            key,
            format!("{id} is not one of the {vocabulary} tokens"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minimal() -> Metadata {
        let strings = |texts: &[&str]| {
            Value::Array(
                texts
                    .iter()
                    .map(|t| Value::String((*t).to_owned()))
                    .collect(),
            )
        };
        HashMap::from([
            (MODEL.to_owned(), Value::String("gpt2".to_owned())),
            (PRE.to_owned(), Value::String("gpt-2".to_owned())),
            (TOKENS.to_owned(), strings(&["a", "b", "ab", "<end>"])),
            (MERGES.to_owned(), strings(&["a b"])),
            (
                TOKEN_TYPE.to_owned(),
                Value::Array([1, 1, 1, 3].map(Value::I32).to_vec()),
            ),
            (EOS.to_owned(), Value::U32(3)),
        ])
    }

    fn error_with(key: &str, value: Option<Value>) -> String {
        let mut metadata = minimal();
        match value {
            Some(value) => metadata.insert(key.to_owned(), value),
            None => metadata.remove(key),
        };
        TextTokenizer::from_gguf(&metadata).unwrap_err().to_string()
    }

    #[test]
    fn a_minimal_vocabulary_works() {
        let tokenizer = TextTokenizer::from_gguf(&minimal()).unwrap();
        assert_eq!(tokenizer.encode("abba<end>", true).unwrap(), [2, 1, 0, 3]);
        assert_eq!(tokenizer.end_tokens(), [3]);
        assert_eq!(tokenizer.bos(), None);
        assert!(!tokenizer.adds_bos());
        assert_eq!(tokenizer.vocab_size(), 4);
        assert_eq!(tokenizer.chat("hello").unwrap(), None);
        assert!(matches!(
            tokenizer.newline_token(),
            Err(TokenizerError::NoNewline)
        ));
    }

    #[test]
    fn unknown_families_are_named_with_the_known_ones() {
        let model = error_with(MODEL, Some(Value::String("llama".to_owned())));
        assert!(
            model.contains("`llama`") && model.contains("gpt2"),
            "{model}"
        );
        let pre = error_with(PRE, Some(Value::String("tekken".to_owned())));
        for name in ["`tekken`", "smollm", "llama-bpe", "qwen2", "gpt-2"] {
            assert!(pre.contains(name), "{pre}");
        }
    }

    #[test]
    fn missing_and_malformed_keys_are_named() {
        for key in [MODEL, PRE, TOKENS, MERGES] {
            assert!(error_with(key, None).contains(key));
            assert!(error_with(key, Some(Value::U32(1))).contains(key));
        }
        assert!(error_with(EOS, Some(Value::U32(4))).contains("4 is not one of the 4 tokens"));
        assert!(error_with(ADD_BOS, Some(Value::U32(1))).contains(ADD_BOS));
        let merges = Value::Array(vec![Value::String("ab".to_owned())]);
        assert!(error_with(MERGES, Some(merges)).contains("`ab`"));
        let types = Value::Array(vec![Value::I32(1)]);
        assert!(error_with(TOKEN_TYPE, Some(types)).contains("1 entries for 4 tokens"));
        let merges = Value::Array(vec![Value::String("a c".to_owned())]);
        assert!(error_with(MERGES, Some(merges)).contains("not consistent"));
    }

    #[test]
    fn the_hash_follows_what_decides_the_ids() {
        let hash = |metadata: &Metadata| TextTokenizer::from_gguf(metadata).unwrap().hash();
        let first = hash(&minimal());
        assert_eq!(first, hash(&minimal()));
        let mut changed = minimal();
        changed.insert(PRE.to_owned(), Value::String("smollm".to_owned()));
        assert_ne!(first, hash(&changed));
        let mut changed = minimal();
        changed.insert("general.name".to_owned(), Value::String("x".to_owned()));
        assert_eq!(first, hash(&changed));
    }
}
