//! Layer index: the ripple mapping of the layer's number, the trivial signal of the ablations; r < 1 favours low layers.

use super::mapping::MappingParams;
use super::{AllocationContext, Allocator, AllocatorInfo};
use crate::CacheError;

struct LayerIndex(MappingParams);

pub(super) const INFO: AllocatorInfo = AllocatorInfo {
    name: "layer-index",
    summary: "as ripple, by the layer's number: deeper layers get more",
    source: "ablation of arXiv 2608.08684",
    params: MappingParams::describe,
    signal: None,
    needs_all_layers: false,
    parse: |given| Ok(MappingParams::read(given)?.canonical().into()),
    build: |given| Ok(Box::new(LayerIndex(MappingParams::read(given)?))),
};

impl Allocator for LayerIndex {
    fn weights(&self, context: &AllocationContext<'_>) -> Result<Vec<f64>, CacheError> {
        let signal: Vec<f64> = (0..context.layers).map(|layer| layer as f64).collect();
        self.0.weights(&signal)
    }
}
