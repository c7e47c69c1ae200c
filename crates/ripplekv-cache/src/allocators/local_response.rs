//! Local response: as ripple, but by the layer's own relative attention-output error under the same perturbation.
//! The paper's ablation of looking downstream.

use super::mapping::MappingParams;
use super::{AllocationContext, Allocator, AllocatorInfo};
use crate::CacheError;

const SIGNAL: &str = "local-response";

struct LocalResponse(MappingParams);

pub(super) const INFO: AllocatorInfo = AllocatorInfo {
    name: "local-response",
    summary: "as ripple, by the layer's own attention-output error instead of the final output's",
    source: "ablation of arXiv 2608.08684",
    params: MappingParams::describe,
    signal: Some(SIGNAL),
    needs_all_layers: false,
    parse: |given| Ok(MappingParams::read(given)?.canonical().into()),
    build: |given| Ok(Box::new(LocalResponse(MappingParams::read(given)?))),
};

impl Allocator for LocalResponse {
    fn weights(&self, context: &AllocationContext<'_>) -> Result<Vec<f64>, CacheError> {
        self.0.profile_weights(context, SIGNAL)
    }
}
