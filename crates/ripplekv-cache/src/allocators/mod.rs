//! Allocators: how the budget is split over the layers.

mod from_file;
mod layer_index;
mod local_response;
mod mapping;
mod permuted;
mod pyramid;
mod random;
mod ripple;
#[cfg(test)]
mod tests;
mod uniform;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::CacheError;
use crate::params::ParamInfo;

pub use mapping::{Center, RippleMapping};

/// What an allocator may look at.
#[derive(Debug, Clone, Copy)]
pub struct AllocationContext<'a> {
    /// L.
    pub layers: usize,
    /// n.
    pub prompt_tokens: usize,
    /// T: entries per KV head over all layers.
    pub total_entries: u64,
    /// Per-layer numbers of the model's profile by name (`sensitivity`, `local-response`, ...), each of length L.
    pub signals: &'a BTreeMap<String, Vec<f64>>,
}

/// Weighs the layers.
pub trait Allocator: Send + Sync {
    /// One positive weight a layer; budgets are proportional to them within the bounds of [`crate::distribute`].
    ///
    /// # Errors
    /// When the allocator cannot serve this many layers, or a signal it reads is absent or not usable.
    fn weights(&self, context: &AllocationContext<'_>) -> Result<Vec<f64>, CacheError>;
}

pub(crate) type BuildAllocator = fn(&Map<String, Value>) -> Result<Box<dyn Allocator>, CacheError>;

/// One line of [`ALLOCATORS`].
#[derive(Debug, Clone, Copy)]
pub struct AllocatorInfo {
    /// Name in specs.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Paper or program followed.
    pub source: &'static str,
    /// Keys with their defaults.
    pub params: fn() -> Vec<ParamInfo>,
    /// Name of the profile signal it reads, if any.
    pub signal: Option<&'static str>,
    /// Whether it gives no layer a budget before it has seen all of them in the prompt at hand, so that layers cannot be
    /// compressed while prefilling.
    pub needs_all_layers: bool,
    /// Checks parameters and writes defaults out.
    pub(crate) parse: fn(&Map<String, Value>) -> Result<Value, CacheError>,
    /// Builds from parameters.
    pub(crate) build: BuildAllocator,
}

/// All allocators.
pub const ALLOCATORS: &[AllocatorInfo] = &[
    uniform::INFO,
    pyramid::INFO,
    ripple::INFO,
    local_response::INFO,
    layer_index::INFO,
    random::INFO,
    permuted::INFO,
    from_file::INFO,
];
