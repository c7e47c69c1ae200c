//! Joins the rooms: fills the runner's catalog from the tables of cache and model, and opens the engine.
//! `RIPPLEKV_FAKE_ENGINE=1` swaps in the runner's fake, for tests of this program; `RIPPLEKV_FAKE_DELAY_MS` slows it.

use std::sync::Arc;
use std::time::Duration;

use ripplekv_cache::{
    ALLOCATORS, Budget, CacheError, METHODS, Method, MethodInfo, NUMERICS_VERSION, RippleMapping,
    SCORERS, method_params, needed_signal, needs_all_layers, parse_method,
};
use ripplekv_engine::ModelLoader;
use ripplekv_metrics::jieba::{SOURCE_FILES, Segmenter, Sources};
use ripplekv_model::catalog::{MODELS, ModelFiles, ModelReference, resolve};
use ripplekv_model::fetch::jieba;
use ripplekv_model::home::Home;
use ripplekv_runner::catalog::{Catalog, MethodEntry, ModelEntry, ParamInfo, ParamProblem};
use ripplekv_runner::cell::{ModelSource, ResolvedModel};
use ripplekv_runner::engine::Loader;
use ripplekv_runner::fake::{self, FakeLoader};
use ripplekv_runner::hint_for;
use serde_json::Value;

use crate::failure::Failure;

/// Whether the fake engine was asked for.
pub(crate) fn is_fake() -> bool {
    std::env::var_os("RIPPLEKV_FAKE_ENGINE").is_some_and(|value| value == "1")
}

/// Everything a spec may name.
pub(crate) fn catalog() -> Catalog {
    if is_fake() {
        return fake::catalog();
    }
    Catalog {
        methods: METHODS.iter().map(method_entry).collect(),
        models: models(),
        parse_budget: |text| {
            Budget::parse(text)
                .map(|budget| budget.to_string())
                .map_err(|error| error.to_string())
        },
        total_entries: |text, n, layers, entry_bytes| {
            Budget::parse(text).map_or(0, |budget| budget.total_entries(n, layers, entry_bytes))
        },
        ripple_weights: |signal, params| {
            RippleMapping::from_params(params)
                .and_then(|mapping| mapping.weights(signal))
                .map_err(problem)
        },
        numerics_version: NUMERICS_VERSION,
    }
}

fn method_entry(info: &'static MethodInfo) -> MethodEntry {
    MethodEntry {
        name: info.name,
        summary: info.summary,
        source: info.source,
        scorer: info.scorer,
        allocator: info.allocator,
        takes_budget: info.scorer.is_some(),
        params: method_params(info)
            .into_iter()
            .map(|param| ParamInfo {
                name: param.name,
                help: param.help,
                default: param.default,
            })
            .collect(),
        parse: Arc::new(|given| parse_method(info.name, given).map_err(problem)),
        must_keep_tokens: Arc::new(|params| must_keep_tokens(info.name, params)),
        needs_signal: Arc::new(|params| needed_signal(info.name, params)),
        needs_all_layers: Arc::new(|params| needs_all_layers(info.name, params)),
    }
}

fn must_keep_tokens(name: &str, params: &Value) -> usize {
    match Method::build(name, params) {
        Ok(Method::Compress { scorer, .. }) => scorer.must_keep_tokens(),
        Ok(Method::Full) | Err(_) => 0,
    }
}

/// The cache crate's error in the runner's terms: which key, what is wrong, which names are valid.
fn problem(error: CacheError) -> ParamProblem {
    let split = |known: String| known.split(", ").map(str::to_owned).collect();
    match error {
        CacheError::UnknownParam { key, known } => ParamProblem {
            key: Some(key.clone()),
            message: "unknown parameter".to_owned(),
            known: if known == "none" {
                Vec::new()
            } else {
                split(known)
            },
            unknown: Some(key),
        },
        CacheError::UnknownName { kind, name, known } => ParamProblem {
            key: Some(kind.to_owned()),
            message: format!("unknown {kind} '{name}'"),
            known: split(known),
            unknown: Some(name),
        },
        CacheError::Param { key, reason } => ParamProblem {
            key: Some(key),
            message: reason,
            known: Vec::new(),
            unknown: None,
        },
        other => ParamProblem {
            key: None,
            message: other.to_string(),
            known: Vec::new(),
            unknown: None,
        },
    }
}

fn models() -> Vec<ModelEntry> {
    MODELS
        .iter()
        .map(|model| ModelEntry {
            name: model.name,
            summary: model.summary,
            context_length: model.context_tokens,
            layers: model.layers,
        })
        .collect()
}

fn home() -> Result<Home, Failure> {
    Home::from_environment().map_err(|error| Failure::Data(error.to_string()))
}

/// The model that a command line names: one of the table, or a path with a '/' or '.gguf' in it.
pub(crate) fn named_model(name: &str) -> Result<ResolvedModel, Failure> {
    let is_path = name.contains(['/', '\\']) || name.ends_with(".gguf");
    let known: Vec<&str> = catalog().models.iter().map(|model| model.name).collect();
    if !is_path && !known.contains(&name) {
        return Err(Failure::Data(format!(
            "unknown model '{name}'\nhint: {}",
            hint_for(name, &known)
        )));
    }
    Ok(ResolvedModel {
        name: name.to_owned(),
        source: if is_path {
            ModelSource::Path(name.to_owned())
        } else {
            ModelSource::Named(name.to_owned())
        },
        dtype: "f32".to_owned(),
    })
}

/// Opens models on a device.
pub(crate) fn loader(device: &str) -> Result<Box<dyn Loader>, Failure> {
    if is_fake() {
        let delay = std::env::var("RIPPLEKV_FAKE_DELAY_MS")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        return Ok(Box::new(
            FakeLoader::default().with_delay(Duration::from_millis(delay)),
        ));
    }
    let loader =
        ModelLoader::new(home()?, device).map_err(|error| Failure::Data(error.to_string()))?;
    Ok(Box::new(loader))
}

/// The Chinese segmenter; its data is fetched on first use.
pub(crate) fn segmenter() -> Result<Segmenter, Failure> {
    let folder = jieba(&home()?).map_err(|error| Failure::Data(error.to_string()))?;
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path)
            .map_err(|error| Failure::Data(format!("cannot read {}: {error}", path.display())))
    };
    let [dictionary, start, transition, emission] = SOURCE_FILES.map(read);
    Segmenter::from_sources(&Sources {
        dictionary: &dictionary?,
        start: &start?,
        transition: &transition?,
        emission: &emission?,
    })
    .map_err(|error| Failure::Data(error.to_string()))
}

/// Fetches a named model and says where its files are.
pub(crate) fn fetch_model(name: &str) -> Result<String, Failure> {
    let reference = ModelReference::Named(name.to_owned());
    match resolve(&reference, &home()?) {
        Ok(ModelFiles::Gguf(path) | ModelFiles::Folder(path)) => Ok(path.display().to_string()),
        Err(error) => Err(Failure::Data(error.to_string())),
    }
}

/// A scorer or an allocator.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) source: &'static str,
    pub(crate) params: Vec<(&'static str, Value)>,
}

/// All scorers.
pub(crate) fn scorers() -> Vec<Part> {
    SCORERS
        .iter()
        .map(|info| Part {
            name: info.name,
            summary: info.summary,
            source: info.source,
            params: (info.params)()
                .into_iter()
                .map(|param| (param.name, param.default))
                .collect(),
        })
        .collect()
}

/// All allocators.
pub(crate) fn allocators() -> Vec<Part> {
    ALLOCATORS
        .iter()
        .map(|info| Part {
            name: info.name,
            summary: info.summary,
            source: info.source,
            params: (info.params)()
                .into_iter()
                .map(|param| (param.name, param.default))
                .collect(),
        })
        .collect()
}

/// Limits the threads of everything that computes.
pub(crate) fn set_threads(threads: Option<u16>) -> Result<(), Failure> {
    let Some(threads) = threads else {
        return Ok(());
    };
    rayon::ThreadPoolBuilder::new()
        .num_threads(usize::from(threads))
        .build_global()
        .map_err(|error| Failure::Data(format!("cannot start {threads} threads: {error}")))
}
