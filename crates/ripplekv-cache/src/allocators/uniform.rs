//! Uniform: every layer gets the same number of entries, T mod L of the lowest layers one more.

use serde_json::json;

use super::{AllocationContext, Allocator, AllocatorInfo};
use crate::CacheError;

pub(super) const INFO: AllocatorInfo = AllocatorInfo {
    name: "uniform",
    summary: "the same number of entries in every layer",
    source: "SnapKV, StreamingLLM",
    params: Vec::new,
    signal: None,
    needs_all_layers: false,
    parse: |_| Ok(json!({})),
    build: |_| Ok(Box::new(Uniform)),
};

struct Uniform;

impl Allocator for Uniform {
    fn weights(&self, context: &AllocationContext<'_>) -> Result<Vec<f64>, CacheError> {
        Ok(vec![1.0; context.layers])
    }
}
