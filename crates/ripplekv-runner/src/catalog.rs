//! What the runner knows of methods, budgets and models without candle: names, schemas and parse functions.
//! The CLI fills it from the tables of `ripplekv-cache` and `ripplekv-model`.

use std::sync::Arc;

use serde_json::Value;

/// Checks a method's parameters (a JSON object, `scorer` and `allocator` among them where they are exchanged)
/// and writes all defaults out.
pub type ParseParams = Arc<dyn Fn(&Value) -> Result<Value, ParamProblem> + Send + Sync>;

/// Size of a method's must-keep set in tokens, for parsed parameters.
pub type MustKeep = Arc<dyn Fn(&Value) -> usize + Send + Sync>;

/// Name of the profile signal that a method with parsed parameters needs (`sensitivity`, `local_response`), if any.
pub type NeedsSignal = Arc<dyn Fn(&Value) -> Option<&'static str> + Send + Sync>;

/// Whether a method with parsed parameters gives no layer a budget before it has seen all layers of the prompt.
pub type NeedsAllLayers = Arc<dyn Fn(&Value) -> bool + Send + Sync>;

/// Layer weights from per-layer numbers by the ripple mapping: min-max normalise, r^s, centre, clip, with the
/// parameters `r`, `gamma`, `center` of a JSON object.
pub type RippleWeights = fn(signal: &[f64], params: &Value) -> Result<Vec<f64>, ParamProblem>;

/// One parameter of a method, for `ls`, the schema and error messages.
#[derive(Debug, Clone, PartialEq)]
pub struct ParamInfo {
    /// Key in the YAML.
    pub name: &'static str,
    /// One line on what it does, with its unit.
    pub help: &'static str,
    /// Default value.
    pub default: Value,
}

/// Why a method's parameters cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamProblem {
    /// The key it is about; `None` for the parameters as a whole.
    pub key: Option<String>,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// Valid names, where a name (the key itself, or a name given as value) is unknown.
    pub known: Vec<String>,
    /// The unknown name, where there is one.
    pub unknown: Option<String>,
}

/// One method by name.
#[derive(Clone)]
pub struct MethodEntry {
    /// Name in the YAML.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Paper or program followed.
    pub source: &'static str,
    /// Name of the scorer, where there is one.
    pub scorer: Option<&'static str>,
    /// Name of the allocator, where there is one.
    pub allocator: Option<&'static str>,
    /// False for `full`.
    pub takes_budget: bool,
    /// Parameters with defaults.
    pub params: Vec<ParamInfo>,
    /// See [`ParseParams`].
    pub parse: ParseParams,
    /// See [`MustKeep`].
    pub must_keep_tokens: MustKeep,
    /// See [`NeedsSignal`].
    pub needs_signal: NeedsSignal,
    /// See [`NeedsAllLayers`].
    pub needs_all_layers: NeedsAllLayers,
}

impl std::fmt::Debug for MethodEntry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("MethodEntry")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// One named model.
#[derive(Debug, Clone)]
pub struct ModelEntry {
    /// Name in the YAML.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Longest context in tokens.
    pub context_length: usize,
    /// Number of layers.
    pub layers: usize,
}

/// Everything the spec may name.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// All methods.
    pub methods: Vec<MethodEntry>,
    /// All named models.
    pub models: Vec<ModelEntry>,
    /// Checks a budget's text and gives its canonical form (`10%`, `512`, `64MiB`). Errors are lower case.
    pub parse_budget: fn(&str) -> Result<String, String>,
    /// T for a canonical budget: entries per KV head over all layers, for a prompt of `n` tokens and
    /// `layers` layers whose entries take `entry_bytes` bytes per KV head set (keys and values of one position in one layer).
    pub total_entries: fn(budget: &str, n: usize, layers: usize, entry_bytes: usize) -> u64,
    /// See [`RippleWeights`].
    pub ripple_weights: RippleWeights,
    /// Constant of the numeric code; part of every cell key.
    pub numerics_version: u32,
}
