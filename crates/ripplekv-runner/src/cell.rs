//! Cells: one fully resolved combination of model, task, method, budget and query mode, and its key.
//! A key hashes what can change the output and nothing else (not limits, shards, threads or paths).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Hash of a cell's identity: 16 lower-case hex digits of blake3 over canonical JSON.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CellKey(pub String);

impl std::fmt::Display for CellKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// How the spec names a model.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelSource {
    /// A name of the model table.
    Named(String),
    /// A local GGUF file or Hugging Face folder.
    Path(String),
    /// A repository of the hub.
    Hub {
        /// `org/name`.
        repository: String,
        /// Branch, tag or commit.
        revision: String,
    },
}

/// A model as the plan uses it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResolvedModel {
    /// Short name, unique in the experiment and safe as a folder name.
    pub name: String,
    /// Where it comes from.
    pub source: ModelSource,
    /// Number format asked for: `f32`, `f16` or `bf16`.
    pub dtype: String,
}

/// A method with every parameter written out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResolvedMethod {
    /// Name of the method table.
    pub name: String,
    /// Label in tables; the name, plus the swept parameters where there is a sweep.
    pub label: String,
    /// All parameters, defaults included.
    pub params: Value,
}

/// Key of [`Cell::protocol`] that holds the recipe hash of the profile that the cell's allocation comes from.
pub(crate) const PROFILE_KEY: &str = "profile";

impl Cell {
    /// Recipe hash of the profile that the allocation comes from; `None` for cells without one.
    #[must_use]
    pub fn profile_recipe(&self) -> Option<&str> {
        self.protocol.get(PROFILE_KEY)?.as_str()
    }
}

/// Which part of the prompt is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Query {
    /// The whole prompt is compressed, the question included (official LongBench).
    #[default]
    Aware,
    /// The context is compressed before the question is seen.
    Agnostic,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Its key.
    pub key: CellKey,
    /// Short name of the model.
    pub model: String,
    /// Task name.
    pub task: String,
    /// Method.
    pub method: ResolvedMethod,
    /// Canonical budget, `None` for methods that take none.
    pub budget: Option<String>,
    /// Query mode.
    pub query: Query,
    /// Everything else that was hashed into the key (protocol, versions, model reference).
    pub protocol: Value,
}
