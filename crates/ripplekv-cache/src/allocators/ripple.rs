//! Ripple: layers whose perturbed values move the model's final output more get more entries.
//! Follows arXiv 2608.08684; the mapping from numbers to weights is in `mapping.rs`.

use super::mapping::MappingParams;
use super::{AllocationContext, Allocator, AllocatorInfo};
use crate::CacheError;

const SIGNAL: &str = "sensitivity";

struct Ripple(MappingParams);

pub(super) const INFO: AllocatorInfo = AllocatorInfo {
    name: "ripple",
    summary: "more entries where the final output is more sensitive",
    source: "arXiv 2608.08684",
    params: MappingParams::describe,
    signal: Some(SIGNAL),
    needs_all_layers: false,
    parse: |given| Ok(MappingParams::read(given)?.canonical().into()),
    build: |given| Ok(Box::new(Ripple(MappingParams::read(given)?))),
};

impl Allocator for Ripple {
    fn weights(&self, context: &AllocationContext<'_>) -> Result<Vec<f64>, CacheError> {
        self.0.profile_weights(context, SIGNAL)
    }
}
