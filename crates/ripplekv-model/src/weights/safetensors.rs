//! Hugging Face folders: `config.json` with one `model.safetensors` or an index of shards; f32, f16 and bf16.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use candle_core::safetensors::MmapedSafetensors;
use candle_core::{DType, Device, Tensor};
use serde::Deserialize;

use super::{Weights, check_shape, hash_files, mapped};
use crate::{ModelConfig, ModelError};

/// Weights of a Hugging Face folder.
pub struct FolderWeights {
    folder: PathBuf,
    files: Vec<PathBuf>,
    tensors: MmapedSafetensors,
    config: ModelConfig,
}

#[derive(Deserialize)]
struct ShardIndex {
    weight_map: BTreeMap<String, String>,
}

impl FolderWeights {
    /// Opens a folder.
    ///
    /// # Errors
    /// When a file is missing or cut, or the configuration is not run here.
    pub fn open(folder: &Path) -> Result<Self, ModelError> {
        let mut config = ModelConfig::from_json_file(&folder.join("config.json"))?;
        let files = shard_files(folder)?;
        let tensors = mapped::map_safetensors(&files, folder)?;
        // a folder may say nothing of tying and simply have no head
        if tensors.get("lm_head.weight").is_err() {
            config.tied_head = true;
        }
        Ok(Self {
            folder: folder.to_owned(),
            files,
            tensors,
            config,
        })
    }
}

fn shard_files(folder: &Path) -> Result<Vec<PathBuf>, ModelError> {
    let index_path = folder.join("model.safetensors.index.json");
    if !index_path.exists() {
        let single = folder.join("model.safetensors");
        if single.exists() {
            return Ok(vec![single]);
        }
        return Err(ModelError::Format {
            path: folder.to_owned(),
            reason: "no model.safetensors and no model.safetensors.index.json in this folder"
                .to_owned(),
        });
    }
    let text = std::fs::read_to_string(&index_path).map_err(|source| ModelError::Io {
        path: index_path.clone(),
        source,
    })?;
    let index: ShardIndex = serde_json::from_str(&text).map_err(|error| ModelError::Format {
        path: index_path.clone(),
        reason: format!("not a shard index: {error}"),
    })?;
    let names: BTreeSet<&String> = index.weight_map.values().collect();
    names
        .into_iter()
        .map(|name| {
            let file = folder.join(name);
            if name.contains('/') || name.contains('\\') || !file.exists() {
                return Err(ModelError::Format {
                    path: index_path.clone(),
                    reason: format!(
                        "names the shard `{name}`, which is not in the folder\nhint: fetch it again"
                    ),
                });
            }
            Ok(file)
        })
        .collect()
}

impl Weights for FolderWeights {
    fn tensor(
        &self,
        name: &str,
        shape: &[usize],
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor, ModelError> {
        let view = self.tensors.get(name).map_err(|_| ModelError::Tensor {
            path: self.folder.clone(),
            name: name.to_owned(),
            reason: "missing from the folder".to_owned(),
        })?;
        check_shape(&self.folder, name, view.shape(), shape)?;
        let tensor = self.tensors.load(name, device)?;
        if !matches!(tensor.dtype(), DType::F32 | DType::F16 | DType::BF16) {
            return Err(ModelError::Tensor {
                path: self.folder.clone(),
                name: name.to_owned(),
                reason: format!(
                    "has number format {:?}; known: f32, f16, bf16",
                    tensor.dtype()
                ),
            });
        }
        Ok(tensor.to_dtype(dtype)?)
    }

    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn hash(&self) -> Result<String, ModelError> {
        let mut files = vec![self.folder.join("config.json")];
        files.extend(self.files.iter().cloned());
        hash_files(&files)
    }

    fn path(&self) -> &Path {
        &self.folder
    }
}
