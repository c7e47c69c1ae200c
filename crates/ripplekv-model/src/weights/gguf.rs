//! GGUF files: every ggml type that candle reads. Asked for f32, matrices of the simple types are kept as
//! codes and those in f16 or bf16 as they are; the others are dequantised to the running number format at load.
//! Llama's query and key rows are stored in the order of interleaved rope; they are put back in Hugging Face's
//! half-split order, as transformers does when it loads the same file.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use candle_core::quantized::gguf_file::Content;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};

use super::{Codes, Form, Weights, check_shape, hash_files, kept_format};
use crate::{ModelConfig, ModelError};

/// Weights of a GGUF file.
pub struct GgufWeights {
    path: PathBuf,
    content: Content,
    reader: Mutex<BufReader<File>>,
    config: ModelConfig,
}

/// Reads header and metadata of a GGUF file.
///
/// # Errors
/// When the file cannot be opened or is not GGUF.
pub fn read_gguf(path: &Path) -> Result<(Content, BufReader<File>), ModelError> {
    let file = File::open(path).map_err(|source| ModelError::Io {
        path: path.to_owned(),
        source,
    })?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let content = Content::read(&mut reader).map_err(|error| {
        let text = error.to_string();
        let problem = first_line(&text);
        let reason = if begins_as_gguf(&mut reader) {
            format!("is cut or damaged inside its header ({problem})\nhint: delete it and fetch it again")
        } else {
            format!("not a GGUF file ({problem})\nhint: a model is a .gguf file or a folder with config.json")
        };
        ModelError::Format {
            path: path.to_owned(),
            reason,
        }
    })?;
    Ok((content, reader))
}

fn begins_as_gguf(reader: &mut BufReader<File>) -> bool {
    let mut magic = [0; 4];
    reader.rewind().is_ok() && reader.read_exact(&mut magic).is_ok() && magic == *b"GGUF"
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

impl GgufWeights {
    /// Opens a file.
    ///
    /// # Errors
    /// When it is not GGUF, is cut, or describes a model that is not run here.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let (content, mut reader) = read_gguf(path)?;
        check_length(path, &content)?;
        let tied_head = !content.tensor_infos.contains_key("output.weight");
        let rope_factors = match content.tensor_infos.contains_key("rope_freqs.weight") {
            true => Some(
                content
                    .tensor(&mut reader, "rope_freqs.weight", &Device::Cpu)?
                    .dequantize(&Device::Cpu)?
                    .to_vec1::<f32>()?,
            ),
            false => None,
        };
        let config = ModelConfig::from_gguf(path, &content.metadata, tied_head, rope_factors)?;
        Ok(Self {
            path: path.to_owned(),
            content,
            reader: Mutex::new(reader),
            config,
        })
    }

    /// A tensor as it is stored, checked against `shape`.
    fn stored(&self, name: &str, shape: &[usize]) -> Result<QTensor, ModelError> {
        let stored = gguf_name(name)
            .ok_or_else(|| self.wrong(name, "has no name in GGUF files".to_owned()))?;
        let info = self
            .content
            .tensor_infos
            .get(&stored)
            .ok_or_else(|| self.wrong(&stored, "missing from the file".to_owned()))?;
        check_shape(&self.path, &stored, info.shape.dims(), shape)?;
        let mut reader = self
            .reader
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        self.content
            .tensor(&mut *reader, &stored, &Device::Cpu)
            .map_err(|error| self.wrong(&stored, error.to_string()))
    }

    fn wrong(&self, name: &str, reason: String) -> ModelError {
        ModelError::Tensor {
            path: self.path.clone(),
            name: name.to_owned(),
            reason,
        }
    }
}

/// A cut file is found before the first tensor is read.
fn check_length(path: &Path, content: &Content) -> Result<(), ModelError> {
    let length = std::fs::metadata(path)
        .map_err(|source| ModelError::Io {
            path: path.to_owned(),
            source,
        })?
        .len();
    let mut end = 0u64;
    for name in sorted_names(content) {
        let info = &content.tensor_infos[name];
        let blocks = info.shape.elem_count() / info.ggml_dtype.block_size().max(1);
        let bytes = (blocks * info.ggml_dtype.type_size()) as u64;
        end = end.max(content.tensor_data_offset + info.offset + bytes);
    }
    if length < end {
        return Err(ModelError::Format {
            path: path.to_owned(),
            reason: format!(
                "is cut: {length} bytes, its header promises {end}\nhint: delete it and fetch it again"
            ),
        });
    }
    Ok(())
}

fn sorted_names(content: &Content) -> Vec<&String> {
    let mut names: Vec<&String> = content.tensor_infos.keys().collect();
    names.sort();
    names
}

/// GGUF name of a Hugging Face name.
fn gguf_name(name: &str) -> Option<String> {
    let plain = match name {
        "model.embed_tokens.weight" => "token_embd.weight",
        "model.norm.weight" => "output_norm.weight",
        "lm_head.weight" => "output.weight",
        _ => {
            let rest = name.strip_prefix("model.layers.")?;
            let (layer, part) = rest.split_once('.')?;
            let part = match part {
                "input_layernorm.weight" => "attn_norm.weight",
                "post_attention_layernorm.weight" => "ffn_norm.weight",
                "self_attn.q_proj.weight" => "attn_q.weight",
                "self_attn.k_proj.weight" => "attn_k.weight",
                "self_attn.v_proj.weight" => "attn_v.weight",
                "self_attn.o_proj.weight" => "attn_output.weight",
                "mlp.gate_proj.weight" => "ffn_gate.weight",
                "mlp.up_proj.weight" => "ffn_up.weight",
                "mlp.down_proj.weight" => "ffn_down.weight",
                _ => return None,
            };
            return Some(format!("blk.{layer}.{part}"));
        }
    };
    Some(plain.to_owned())
}

/// Whether the rows of heads are stored in the order of interleaved rope.
fn has_interleaved_heads(name: &str) -> bool {
    name.ends_with("q_proj.weight") || name.ends_with("k_proj.weight")
}

/// Where the file has `row` of the half-split order: of a head, pairs lie interleaved, `[head_dim / 2, 2]`.
fn interleaved_row(row: usize, head_dim: usize) -> usize {
    let (head, channel) = (row / head_dim, row % head_dim);
    let (half, pair) = (channel / (head_dim / 2), channel % (head_dim / 2));
    head * head_dim + 2 * pair + half
}

/// Rows of heads in half-split order.
fn half_split(tensor: &Tensor, head_dim: usize) -> candle_core::Result<Tensor> {
    let rows = tensor.dims2()?.0;
    let sources = (0..rows).map(|row| interleaved_row(row, head_dim) as u32);
    tensor.index_select(&Tensor::from_iter(sources, &Device::Cpu)?, 0)
}

impl Weights for GgufWeights {
    fn tensor(
        &self,
        name: &str,
        shape: &[usize],
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor, ModelError> {
        let mut tensor = self.stored(name, shape)?.dequantize(&Device::Cpu)?;
        if has_interleaved_heads(name) {
            tensor = half_split(&tensor, self.config.head_dim)?;
        }
        Ok(tensor.to_dtype(dtype)?.to_device(device)?)
    }

    fn codes(&self, name: &str, shape: [usize; 2]) -> Result<Codes, ModelError> {
        let stored = self.stored(name, &shape)?;
        let codes = Codes::read(stored.dtype(), shape[1], &stored.data()?)
            .ok_or_else(|| self.wrong(name, "is not kept as codes".to_owned()))?;
        let dim = self.config.head_dim;
        Ok(match has_interleaved_heads(name) {
            true => codes.with_outputs(|output| interleaved_row(output, dim)),
            false => codes,
        })
    }

    fn form(&self, name: &str, dtype: DType) -> Form {
        let stored = gguf_name(name).and_then(|name| self.content.tensor_infos.get(&name));
        let Some(info) = stored else {
            // an error when it is read
            return Form::Numbers(dtype);
        };
        match (info.ggml_dtype, info.shape.dims()) {
            (GgmlDType::F16, _) => Form::Numbers(kept_format(DType::F16, dtype)),
            (GgmlDType::BF16, _) => Form::Numbers(kept_format(DType::BF16, dtype)),
            (stored, [_, inputs]) if dtype == DType::F32 && Codes::are_kept(stored, *inputs) => {
                Form::Codes
            }
            _ => Form::Numbers(dtype),
        }
    }

    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn hash(&self) -> Result<String, ModelError> {
        hash_files(std::slice::from_ref(&self.path))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_from_pairs_to_halves() {
        let (heads, head_dim) = (3, 8);
        let rows: Vec<u32> = (0..(heads * head_dim) as u32).collect();
        let tensor = Tensor::from_vec(rows, (heads * head_dim, 1), &Device::Cpu).unwrap();
        let flat = |tensor: Tensor| tensor.flatten_all().unwrap().to_vec1::<u32>().unwrap();
        let pairs = tensor.reshape((heads, head_dim / 2, 2)).unwrap();
        let halves = flat(pairs.transpose(1, 2).unwrap().contiguous().unwrap());
        assert_eq!(flat(half_split(&tensor, head_dim).unwrap()), halves);
        for (row, source) in halves.into_iter().enumerate() {
            assert_eq!(interleaved_row(row, head_dim), source as usize);
        }
    }

    #[test]
    fn a_cut_header_is_told_from_another_kind_of_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        let error_of = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            match read_gguf(&path) {
                Ok(_) => panic!("read"),
                Err(error) => error.to_string(),
            }
        };
        let cut = error_of(b"GGUF\x03\0\0\0\x05");
        assert!(cut.contains("is cut or damaged inside its header"), "{cut}");
        assert!(cut.contains("\nhint: "), "{cut}");
        let other = error_of(b"PK\x03\x04 and more");
        assert!(other.contains("not a GGUF file"), "{other}");
    }
}
