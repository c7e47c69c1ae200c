//! Random: the ripple mapping of uniform random numbers, the negative control of the ablations.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::mapping::MappingParams;
use super::{AllocationContext, Allocator, AllocatorInfo};
use crate::CacheError;
use crate::params::{self, ParamDoc};
use crate::philox::philox;

const DOCS: &[ParamDoc] = &[("seed", "which random numbers")];

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Draw {
    seed: u64,
}

struct Random {
    draw: Draw,
    mapping: MappingParams,
}

fn read(given: &Map<String, Value>) -> Result<Random, CacheError> {
    Ok(Random {
        draw: params::read(given, DOCS)?,
        mapping: MappingParams::read(given)?,
    })
}

pub(super) const INFO: AllocatorInfo = AllocatorInfo {
    name: "random",
    summary: "as ripple, by random numbers: a control",
    source: "control",
    params: || MappingParams::describe_after::<Draw>(DOCS),
    signal: None,
    needs_all_layers: false,
    parse: |given| {
        let parsed = read(given)?;
        let mut canonical = parsed.mapping.canonical();
        canonical.insert("seed".to_owned(), parsed.draw.seed.into());
        Ok(canonical.into())
    },
    build: |given| Ok(Box::new(read(given)?)),
};

impl Allocator for Random {
    fn weights(&self, context: &AllocationContext<'_>) -> Result<Vec<f64>, CacheError> {
        let key = [self.draw.seed as u32, (self.draw.seed >> 32) as u32];
        let signal: Vec<f64> = (0..context.layers)
            .map(|layer| f64::from(philox([layer as u32, 0, 0, 0], key)[0]))
            .collect();
        self.mapping.weights(&signal)
    }
}
