//! Opens models by reference for the runner: files, configuration, tokenizer, weights.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device};
use ripplekv_model::catalog::{self, ModelFiles, ModelReference};
use ripplekv_model::home::Home;
use ripplekv_model::tokenizer::TextTokenizer;
use ripplekv_model::{
    ARCHITECTURES, Weights, kept_bytes, load_decoder, open_device, open_weights, read_gguf,
};
use ripplekv_runner::cell::{ModelSource, ResolvedModel};
use ripplekv_runner::engine::{
    Availability, Engine, EngineError, Loader, ModelIdentity, ModelShape,
};
use ripplekv_tasks::Tokenise;

use crate::{ModelEngine, ModelTokenizer};

/// Opens real models on one device.
pub struct ModelLoader {
    home: Home,
    device: Device,
    device_name: String,
    tokenizers: Mutex<BTreeMap<ResolvedModel, Arc<ModelTokenizer>>>,
}

fn model_error(error: impl std::fmt::Display) -> EngineError {
    EngineError::Model(error.to_string())
}

impl ModelLoader {
    /// A loader with its cache folder and device.
    ///
    /// # Errors
    /// When the device cannot be opened.
    pub fn new(home: Home, device: &str) -> Result<Self, EngineError> {
        Ok(Self {
            home,
            device: open_device(device).map_err(model_error)?,
            device_name: device.to_owned(),
            tokenizers: Mutex::default(),
        })
    }

    /// Where the model lies; fetched where needed, which is not for one that cannot be run.
    fn path(&self, model: &ResolvedModel) -> Result<PathBuf, EngineError> {
        if let Some(reason) = not_run(model) {
            return Err(EngineError::Model(reason));
        }
        match catalog::resolve(&reference(model), &self.home).map_err(model_error)? {
            ModelFiles::Gguf(path) | ModelFiles::Folder(path) => Ok(path),
        }
    }

    fn weights(&self, model: &ResolvedModel) -> Result<Box<dyn Weights>, EngineError> {
        open_weights(&self.path(model)?).map_err(model_error)
    }

    fn model_tokenizer(&self, model: &ResolvedModel) -> Result<Arc<ModelTokenizer>, EngineError> {
        let mut loaded = self
            .tokenizers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(tokenizer) = loaded.get(model) {
            return Ok(Arc::clone(tokenizer));
        }
        let path = self.path(model)?;
        let tokenizer = if path.is_dir() {
            TextTokenizer::from_folder(&path).map_err(model_error)?
        } else {
            let (content, _) = read_gguf(&path).map_err(model_error)?;
            TextTokenizer::from_gguf(&content.metadata).map_err(model_error)?
        };
        let tokenizer = Arc::new(ModelTokenizer(tokenizer));
        loaded.insert(model.clone(), Arc::clone(&tokenizer));
        Ok(tokenizer)
    }
}

/// Why a model of the catalog cannot be run, known without its files.
fn not_run(model: &ResolvedModel) -> Option<String> {
    let ModelSource::Named(name) = &model.source else {
        return None;
    };
    let wanted = catalog::find_model(name).ok()?.architecture;
    let known: Vec<&str> = ARCHITECTURES.iter().map(|info| info.name).collect();
    (!known.contains(&wanted)).then(|| {
        format!(
            "its architecture `{wanted}` is not run yet (known: {})",
            known.join(", ")
        )
    })
}

fn reference(model: &ResolvedModel) -> ModelReference {
    match &model.source {
        ModelSource::Named(name) => ModelReference::Named(name.clone()),
        ModelSource::Path(path) => ModelReference::Path(PathBuf::from(path)),
        ModelSource::Hub {
            repository,
            revision,
        } => ModelReference::Hub {
            repository: repository.clone(),
            revision: revision.clone(),
        },
    }
}

fn number_format(name: &str) -> Result<DType, EngineError> {
    match name {
        "f32" => Ok(DType::F32),
        "f16" => Ok(DType::F16),
        "bf16" => Ok(DType::BF16),
        other => Err(EngineError::Spec(format!(
            "models: dtype: `{other}` is not supported; known: f32, f16, bf16"
        ))),
    }
}

fn shape(weights: &dyn Weights, dtype: DType) -> Result<ModelShape, EngineError> {
    let config = weights.config();
    Ok(ModelShape {
        architecture: config.architecture.clone(),
        layers: config.layers,
        heads: config.heads,
        kv_heads: config.kv_heads,
        head_dim: config.head_dim,
        hidden_size: config.hidden_size,
        intermediate_size: config.intermediate_size,
        vocab_size: config.vocab_size,
        context_length: config.context_length,
        parameters: config.parameters(),
        weight_bytes: kept_bytes(weights, dtype).map_err(model_error)?,
    })
}

impl Loader for ModelLoader {
    fn availability(&self, model: &ResolvedModel) -> Availability {
        if let Some(reason) = not_run(model) {
            return Availability::NotRun(reason);
        }
        match catalog::is_available(&reference(model), &self.home) {
            Ok(catalog::Availability::Present) => Availability::Present,
            Ok(catalog::Availability::Fetchable) => Availability::Fetchable,
            Ok(catalog::Availability::NotChecked(why)) => Availability::NotChecked(why),
            Err(error) => Availability::Broken(error.to_string()),
        }
    }

    fn shape(&self, model: &ResolvedModel) -> Result<ModelShape, EngineError> {
        let dtype = number_format(&model.dtype)?;
        shape(self.weights(model)?.as_ref(), dtype)
    }

    fn tokenizer(&self, model: &ResolvedModel) -> Result<Arc<dyn Tokenise>, EngineError> {
        Ok(self.model_tokenizer(model)?)
    }

    fn load(&self, model: &ResolvedModel) -> Result<Box<dyn Engine>, EngineError> {
        let dtype = number_format(&model.dtype)?;
        let tokenizer = self.model_tokenizer(model)?;
        let weights = self.weights(model)?;
        let identity = ModelIdentity {
            name: model.name.clone(),
            shape: shape(weights.as_ref(), dtype)?,
            model_hash: weights.hash().map_err(model_error)?,
            tokenizer_hash: tokenizer.0.hash(),
            template_hash: tokenizer.0.template_hash(),
            dtype: model.dtype.clone(),
            device: self.device_name.clone(),
        };
        let decoder = load_decoder(weights.as_ref(), dtype, &self.device).map_err(model_error)?;
        Ok(Box::new(ModelEngine::new(decoder, tokenizer, identity)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_cannot_be_run_is_not_fetched() {
        let home = tempfile::tempdir().unwrap();
        let loader = ModelLoader::new(Home::at(home.path()), "cpu").unwrap();
        for entry in catalog::MODELS {
            let model = ResolvedModel {
                name: entry.name.to_owned(),
                source: ModelSource::Named(entry.name.to_owned()),
                dtype: "f32".to_owned(),
            };
            let runs = ARCHITECTURES
                .iter()
                .any(|info| info.name == entry.architecture);
            if runs {
                assert_eq!(not_run(&model), None);
                continue;
            }
            let error = loader.shape(&model).unwrap_err().to_string();
            assert!(error.contains(entry.architecture), "{error}");
            assert!(matches!(
                loader.availability(&model),
                Availability::NotRun(reason) if reason.contains(entry.architecture)
            ));
        }
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
