//! The configuration of a llama-style decoder, from Hugging Face's `config.json` or from GGUF metadata.
//! Field names follow transformers' `LlamaConfig`.

use std::collections::HashMap;
use std::path::Path;

use candle_core::DType;
use candle_core::quantized::gguf_file::Value as GgufValue;
use serde::Deserialize;

use crate::ModelError;

/// How rope frequencies are changed for longer contexts.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// Frequencies as trained.
    None,
    /// Positions divided by a factor.
    Linear {
        /// Divisor.
        factor: f32,
    },
    /// Llama 3's: low frequencies divided, high ones kept, a ramp between.
    Llama3 {
        /// Divisor of the low frequencies.
        factor: f32,
        /// Lower border, in wavelengths per original context.
        low_freq_factor: f32,
        /// Upper border, in wavelengths per original context.
        high_freq_factor: f32,
        /// Context length before scaling, in tokens.
        original_context: usize,
    },
    /// A divisor a channel pair, as GGUF stores it in `rope_freqs.weight`; `[head_dim / 2]`.
    PerChannel(Vec<f32>),
}

/// A llama-style decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Architecture name: `llama`.
    pub architecture: String,
    /// L.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Entries of the vocabulary.
    pub vocab_size: usize,
    /// Longest sequence, in tokens.
    pub context_length: usize,
    /// Epsilon of the norms.
    pub rms_norm_eps: f32,
    /// Base of the rope frequencies.
    pub rope_theta: f32,
    /// Change of the rope frequencies.
    pub rope_scaling: RopeScaling,
    /// True when the output head is the embedding.
    pub tied_head: bool,
}

impl ModelConfig {
    /// Number of parameters: matrices and norms, a tied head counted once.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let query = self.heads * self.head_dim;
        let key_value = self.kv_heads * self.head_dim;
        let attention = self.hidden_size * (2 * query + 2 * key_value);
        let feed_forward = 3 * self.hidden_size * self.intermediate_size;
        let embeddings = self.vocab_size * self.hidden_size * if self.tied_head { 1 } else { 2 };
        let layer = attention + feed_forward + 2 * self.hidden_size;
        (embeddings + self.layers * layer + self.hidden_size) as u64
    }

    /// Bytes of the weights in `dtype`, each once.
    #[must_use]
    pub fn weight_bytes(&self, dtype: DType) -> u64 {
        self.parameters() * dtype.size_in_bytes() as u64
    }

    /// Reads `config.json` of a Hugging Face folder.
    ///
    /// # Errors
    /// When the file cannot be read, is not JSON, or describes a model that is not run here.
    pub fn from_json_file(path: &Path) -> Result<Self, ModelError> {
        let text = std::fs::read_to_string(path).map_err(|source| ModelError::Io {
            path: path.to_owned(),
            source,
        })?;
        let raw: RawConfig = serde_json::from_str(&text).map_err(|error| ModelError::Format {
            path: path.to_owned(),
            reason: format!("not a model configuration: {error}\nhint: a model's folder comes with a config.json of model_type llama; fetch it again"),
        })?;
        raw.resolve(path)
    }

    /// Reads GGUF metadata. `rope_factors` is the tensor `rope_freqs.weight` where the file has one.
    ///
    /// # Errors
    /// When a key is missing, or the architecture is not run here.
    pub fn from_gguf(
        path: &Path,
        metadata: &HashMap<String, GgufValue>,
        tied_head: bool,
        rope_factors: Option<Vec<f32>>,
    ) -> Result<Self, ModelError> {
        let reader = Metadata { path, metadata };
        let architecture = reader.text("general.architecture")?;
        if architecture != "llama" {
            return Err(reader.wrong("general.architecture", &unsupported(&architecture)));
        }
        let heads = reader.number("llama.attention.head_count")?;
        let hidden_size = reader.number("llama.embedding_length")?;
        let head_dim = match reader.optional_number("llama.attention.key_length")? {
            Some(value) => value,
            None if heads > 0 => hidden_size / heads,
            None => {
                return Err(reader.wrong(
                    "llama.attention.head_count",
                    "must be above zero\nhint: the file may be damaged; fetch it again",
                ));
            }
        };
        let rope_scaling = match (rope_factors, metadata.get("llama.rope.scaling.type")) {
            (Some(factors), _) => RopeScaling::PerChannel(factors),
            (None, None) => RopeScaling::None,
            (None, Some(_)) => match reader.text("llama.rope.scaling.type")?.as_str() {
                "none" => RopeScaling::None,
                "linear" => RopeScaling::Linear {
                    factor: reader.float("llama.rope.scaling.factor")?,
                },
                other => {
                    return Err(reader.wrong(
                        "llama.rope.scaling.type",
                        &format!("`{other}` is not supported\nhint: known: none, linear"),
                    ));
                }
            },
        };
        let config = Self {
            layers: reader.number("llama.block_count")?,
            heads,
            kv_heads: reader
                .optional_number("llama.attention.head_count_kv")?
                .unwrap_or(heads),
            head_dim,
            hidden_size,
            intermediate_size: reader.number("llama.feed_forward_length")?,
            vocab_size: reader.vocabulary()?,
            context_length: reader.number("llama.context_length")?,
            rms_norm_eps: reader.float("llama.attention.layer_norm_rms_epsilon")?,
            rope_theta: reader
                .optional_float("llama.rope.freq_base")?
                .unwrap_or(10_000.0),
            rope_scaling,
            tied_head,
            architecture,
        };
        config.check(path)
    }

    fn check(self, path: &Path) -> Result<Self, ModelError> {
        let wrong = |key: &str, reason: &str| ModelError::Config {
            path: path.to_owned(),
            key: key.to_owned(),
            reason: reason.to_owned(),
        };
        for (key, value) in [
            ("layers", self.layers),
            ("heads", self.heads),
            ("kv heads", self.kv_heads),
            ("head dimension", self.head_dim),
            ("hidden size", self.hidden_size),
            ("intermediate size", self.intermediate_size),
            ("vocabulary", self.vocab_size),
            ("context length", self.context_length),
        ] {
            if value == 0 {
                return Err(wrong(
                    key,
                    "must be above zero\nhint: the file may be damaged; fetch it again",
                ));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(wrong(
                "kv heads",
                "must divide the query heads\nhint: the file may be damaged; fetch it again",
            ));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(wrong(
                "head dimension",
                "must be even for rope\nhint: the file may be damaged; fetch it again",
            ));
        }
        Ok(self)
    }
}

fn unsupported(architecture: &str) -> String {
    format!("architecture `{architecture}` is not supported\nhint: known: llama")
}

#[derive(Debug, Deserialize)]
struct RawConfig {
    #[serde(default)]
    model_type: Option<String>,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    #[serde(default)]
    num_key_value_heads: Option<usize>,
    #[serde(default)]
    head_dim: Option<usize>,
    vocab_size: usize,
    max_position_embeddings: usize,
    #[serde(default)]
    rms_norm_eps: Option<f64>,
    #[serde(default)]
    rope_theta: Option<f64>,
    #[serde(default)]
    rope_scaling: Option<RawRope>,
    // transformers 5 writes theta and scaling together under this key
    #[serde(default)]
    rope_parameters: Option<RawRope>,
    #[serde(default)]
    tie_word_embeddings: Option<bool>,
    #[serde(default)]
    attention_bias: Option<bool>,
    #[serde(default)]
    mlp_bias: Option<bool>,
    #[serde(default)]
    hidden_act: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RawRope {
    #[serde(default, alias = "type")]
    rope_type: Option<String>,
    #[serde(default)]
    rope_theta: Option<f64>,
    #[serde(default)]
    factor: Option<f64>,
    #[serde(default)]
    low_freq_factor: Option<f64>,
    #[serde(default)]
    high_freq_factor: Option<f64>,
    #[serde(default)]
    original_max_position_embeddings: Option<usize>,
}

impl RawConfig {
    fn resolve(self, path: &Path) -> Result<ModelConfig, ModelError> {
        let wrong = |key: &str, reason: String| ModelError::Config {
            path: path.to_owned(),
            key: key.to_owned(),
            reason,
        };
        let architecture = self
            .model_type
            .ok_or_else(|| wrong("model_type", "missing\nhint: known: llama".to_owned()))?;
        if architecture != "llama" {
            return Err(wrong("model_type", unsupported(&architecture)));
        }
        for (key, on) in [
            ("attention_bias", self.attention_bias),
            ("mlp_bias", self.mlp_bias),
        ] {
            if on == Some(true) {
                return Err(wrong(key, "`true` is not supported for llama\nhint: known: false; take a model without biases".to_owned()));
            }
        }
        if let Some(activation) = self.hidden_act.filter(|name| name != "silu") {
            return Err(wrong(
                "hidden_act",
                format!("`{activation}` is not supported\nhint: known: silu"),
            ));
        }
        if self.num_attention_heads == 0 {
            return Err(wrong(
                "num_attention_heads",
                "must be above zero\nhint: the file may be damaged; fetch it again".to_owned(),
            ));
        }
        let rope = self.rope_parameters.or(self.rope_scaling);
        let rope_theta = self
            .rope_theta
            .or(rope.as_ref().and_then(|rope| rope.rope_theta))
            .unwrap_or(10_000.0);
        let rope_scaling = match rope {
            None => RopeScaling::None,
            Some(rope) => rope.resolve().map_err(|(key, reason)| wrong(key, reason))?,
        };
        let config = ModelConfig {
            architecture,
            layers: self.num_hidden_layers,
            heads: self.num_attention_heads,
            kv_heads: self.num_key_value_heads.unwrap_or(self.num_attention_heads),
            head_dim: self
                .head_dim
                .unwrap_or(self.hidden_size / self.num_attention_heads),
            hidden_size: self.hidden_size,
            intermediate_size: self.intermediate_size,
            vocab_size: self.vocab_size,
            context_length: self.max_position_embeddings,
            rms_norm_eps: self.rms_norm_eps.unwrap_or(1e-6) as f32,
            rope_theta: rope_theta as f32,
            rope_scaling,
            tied_head: self.tie_word_embeddings.unwrap_or(false),
        };
        config.check(path)
    }
}

impl RawRope {
    fn resolve(&self) -> Result<RopeScaling, (&'static str, String)> {
        let need = |key: &'static str, value: Option<f64>| {
            value.map(|value| value as f32).ok_or_else(|| {
                (
                    key,
                    "missing\nhint: this kind of rope needs it; fetch config.json again".to_owned(),
                )
            })
        };
        match self.rope_type.as_deref() {
            None | Some("default") => Ok(RopeScaling::None),
            Some("linear") => Ok(RopeScaling::Linear {
                factor: need("rope_scaling.factor", self.factor)?,
            }),
            Some("llama3") => Ok(RopeScaling::Llama3 {
                factor: need("rope_scaling.factor", self.factor)?,
                low_freq_factor: need("rope_scaling.low_freq_factor", self.low_freq_factor)?,
                high_freq_factor: need("rope_scaling.high_freq_factor", self.high_freq_factor)?,
                original_context: self.original_max_position_embeddings.ok_or((
                    "rope_scaling.original_max_position_embeddings",
                    "missing\nhint: this kind of rope needs it; fetch config.json again".to_owned(),
                ))?,
            }),
            Some(other) => Err((
                "rope_scaling.rope_type",
                format!("`{other}` is not supported\nhint: known: default, linear, llama3"),
            )),
        }
    }
}

struct Metadata<'a> {
    path: &'a Path,
    metadata: &'a HashMap<String, GgufValue>,
}

impl Metadata<'_> {
    fn wrong(&self, key: &str, reason: &str) -> ModelError {
        ModelError::Config {
            path: self.path.to_owned(),
            key: key.to_owned(),
            reason: reason.to_owned(),
        }
    }

    fn get(&self, key: &str) -> Result<&GgufValue, ModelError> {
        self.metadata.get(key).ok_or_else(|| {
            self.wrong(
                key,
                "missing from the metadata\nhint: the file may be damaged; fetch it again",
            )
        })
    }

    fn text(&self, key: &str) -> Result<String, ModelError> {
        self.get(key)?
            .to_string()
            .cloned()
            .map_err(|_| self.wrong(key, "not a text"))
    }

    fn number(&self, key: &str) -> Result<usize, ModelError> {
        whole(self.get(key)?).ok_or_else(|| self.wrong(key, "not a whole number"))
    }

    fn optional_number(&self, key: &str) -> Result<Option<usize>, ModelError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(_) => self.number(key).map(Some),
        }
    }

    fn float(&self, key: &str) -> Result<f32, ModelError> {
        match self.get(key)? {
            GgufValue::F32(value) => Ok(*value),
            GgufValue::F64(value) => Ok(*value as f32),
            _ => Err(self.wrong(key, "not a float")),
        }
    }

    fn optional_float(&self, key: &str) -> Result<Option<f32>, ModelError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(_) => self.float(key).map(Some),
        }
    }

    fn vocabulary(&self) -> Result<usize, ModelError> {
        match self.metadata.get("llama.vocab_size") {
            Some(_) => self.number("llama.vocab_size"),
            None => self
                .get("tokenizer.ggml.tokens")?
                .to_vec()
                .map(Vec::len)
                .map_err(|_| self.wrong("tokenizer.ggml.tokens", "not a list")),
        }
    }
}

fn whole(value: &GgufValue) -> Option<usize> {
    match *value {
        GgufValue::U8(v) => Some(usize::from(v)),
        GgufValue::U16(v) => Some(usize::from(v)),
        GgufValue::U32(v) => usize::try_from(v).ok(),
        GgufValue::U64(v) => usize::try_from(v).ok(),
        GgufValue::I8(v) => usize::try_from(v).ok(),
        GgufValue::I16(v) => usize::try_from(v).ok(),
        GgufValue::I32(v) => usize::try_from(v).ok(),
        GgufValue::I64(v) => usize::try_from(v).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"{"model_type": "llama", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
        "num_attention_heads": 2, "vocab_size": 10, "max_position_embeddings": 64, "attention_bias": false}"#;

    #[test]
    fn what_is_not_run_comes_with_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            ModelConfig::from_json_file(&path)
        };
        assert_eq!(read(CONFIG).unwrap().kv_heads, 2);
        for (from, to, part) in [
            (
                "\"llama\"",
                "\"mamba\"",
                "model_type: architecture `mamba` is not supported\nhint: known: llama",
            ),
            (
                "\"attention_bias\": false",
                "\"attention_bias\": true",
                "attention_bias: `true` is not supported for llama\nhint: ",
            ),
            (
                "\"attention_bias\": false",
                "\"hidden_act\": \"gelu\"",
                "hidden_act: `gelu` is not supported\nhint: known: silu",
            ),
            (
                "\"attention_bias\": false",
                "\"rope_scaling\": {\"type\": \"yarn\"}",
                "rope_type: `yarn` is not supported\nhint: known: default, linear, llama3",
            ),
            (
                "\"vocab_size\": 10",
                "\"vocab_size\": 0",
                "vocabulary: must be above zero\nhint: ",
            ),
            ("\"hidden_size\": 8, ", "", "missing field `hidden_size`"),
        ] {
            assert!(CONFIG.contains(from));
            let error = read(&CONFIG.replace(from, to)).unwrap_err().to_string();
            assert!(
                error.contains(part) && error.contains("\nhint: "),
                "{error}"
            );
        }
    }
}
