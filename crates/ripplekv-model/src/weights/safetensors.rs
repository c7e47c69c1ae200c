//! Hugging Face folders: `config.json` with one `model.safetensors` or an index of shards; f32, f16 and bf16.
//! A file is mapped for one tensor at a time: the pages of a map count as the process's memory for as long as it lives,
//! and every weight is kept in an order of its own anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use serde::Deserialize;

use super::{Form, Weights, check_shape, hash_files, kept_format, mapped};
use crate::{ModelConfig, ModelError};

/// Weights of a Hugging Face folder.
pub struct FolderWeights {
    folder: PathBuf,
    files: Vec<PathBuf>,
    /// Place in `files` of every tensor.
    places: BTreeMap<String, usize>,
    /// Number format of every tensor.
    formats: BTreeMap<String, DType>,
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
        let mut places = BTreeMap::new();
        let mut formats = BTreeMap::new();
        for (place, file) in files.iter().enumerate() {
            let tensors = mapped::map_safetensors(file, folder)?;
            for (name, view) in tensors.tensors() {
                // of another format than the known ones there is an error when it is read
                if let Ok(dtype) = DType::try_from(view.dtype()) {
                    formats.insert(name.clone(), dtype);
                }
                places.insert(name, place);
            }
        }
        // a folder may say nothing of tying and simply have no head
        if !places.contains_key("lm_head.weight") {
            config.tied_head = true;
        }
        Ok(Self {
            folder: folder.to_owned(),
            files,
            places,
            formats,
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
        let place = self.places.get(name).ok_or_else(|| ModelError::Tensor {
            path: self.folder.clone(),
            name: name.to_owned(),
            reason: "missing from the folder".to_owned(),
        })?;
        let tensors = mapped::map_safetensors(&self.files[*place], &self.folder)?;
        check_shape(&self.folder, name, tensors.get(name)?.shape(), shape)?;
        let tensor = tensors.load(name, device)?;
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

    fn form(&self, name: &str, dtype: DType) -> Form {
        let stored = self.formats.get(name).copied();
        Form::Numbers(kept_format(stored.unwrap_or(dtype), dtype))
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The pages of a map are the process's memory: weights would be there twice.
    #[test]
    fn no_file_stays_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny-plain-f32");
        for name in ["config.json", "model.safetensors"] {
            std::fs::copy(fixture.join(name), folder.path().join(name)).unwrap();
        }
        let weights = FolderWeights::open(folder.path()).unwrap();
        let hidden = weights.config().hidden_size;
        let norm = weights.tensor("model.norm.weight", &[hidden], DType::F32, &Device::Cpu);
        assert_eq!(norm.unwrap().dims(), [hidden]);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let own = folder.path().to_str().unwrap();
        assert!(!maps.contains(own), "{own} is still mapped");
    }
}
