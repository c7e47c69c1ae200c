//! Permuted: the ripple mapping of the same sensitivities on shuffled layers, the negative control that moves exactly as
//! much of the budget as `ripple` and differs from it in the order alone.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::mapping::MappingParams;
use super::{AllocationContext, Allocator, AllocatorInfo};
use crate::CacheError;
use crate::params::{self, ParamDoc};
use crate::philox::philox;

const SIGNAL: &str = "sensitivity";
const DOCS: &[ParamDoc] = &[("seed", "which order")];

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Order {
    seed: u64,
}

struct Permuted {
    order: Order,
    mapping: MappingParams,
}

fn read(given: &Map<String, Value>) -> Result<Permuted, CacheError> {
    Ok(Permuted {
        order: params::read(given, DOCS)?,
        mapping: MappingParams::read(given)?,
    })
}

pub(super) const INFO: AllocatorInfo = AllocatorInfo {
    name: "permuted",
    summary: "as ripple, by the same sensitivities on shuffled layers: a control that moves as much",
    source: "control",
    params: || MappingParams::describe_after::<Order>(DOCS),
    signal: Some(SIGNAL),
    needs_all_layers: false,
    parse: |given| {
        let parsed = read(given)?;
        let mut canonical = parsed.mapping.canonical();
        canonical.insert("seed".to_owned(), parsed.order.seed.into());
        Ok(canonical.into())
    },
    build: |given| Ok(Box::new(read(given)?)),
};

impl Allocator for Permuted {
    fn weights(&self, context: &AllocationContext<'_>) -> Result<Vec<f64>, CacheError> {
        let key = [self.order.seed as u32, (self.order.seed >> 32) as u32];
        let mut order: Vec<usize> = (0..context.layers).collect();
        // the second counter word sets these numbers apart from the random allocator's
        order.sort_by_key(|layer| (philox([*layer as u32, 1, 0, 0], key), *layer));
        let weights = self.mapping.profile_weights(context, SIGNAL)?;
        Ok(order.iter().map(|layer| weights[*layer]).collect())
    }
}
