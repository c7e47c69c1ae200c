//! Pyramid: budgets fall linearly with depth, from (2 - 1/beta) to 1/beta times the mean.
//! Follows arXiv 2406.02069 (beta 20, as kvpress); where the programs fall back to uniform or overspend, the clamped
//! weights here keep the pyramid and the exact sum.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{AllocationContext, Allocator, AllocatorInfo};
use crate::CacheError;
use crate::params::{self, ParamDoc, out_of_range};

const DOCS: &[ParamDoc] = &[(
    "beta",
    "mean budget over the smallest layer's budget, at least 1",
)];

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Pyramid {
    beta: f64,
}

impl Default for Pyramid {
    fn default() -> Self {
        Self { beta: 20.0 }
    }
}

fn read(given: &Map<String, Value>) -> Result<Pyramid, CacheError> {
    let parsed: Pyramid = params::read(given, DOCS)?;
    if !(parsed.beta.is_finite() && parsed.beta >= 1.0) {
        return Err(out_of_range("beta", "must be at least 1"));
    }
    Ok(parsed)
}

pub(super) const INFO: AllocatorInfo = AllocatorInfo {
    name: "pyramid",
    summary: "budgets fall linearly with depth",
    source: "arXiv 2406.02069; kvpress PyramidKVPress",
    params: || params::describe::<Pyramid>(DOCS),
    signal: None,
    needs_all_layers: false,
    parse: |given| Ok(serde_json::json!({ "beta": read(given)?.beta })),
    build: |given| Ok(Box::new(read(given)?)),
};

impl Allocator for Pyramid {
    fn weights(&self, context: &AllocationContext<'_>) -> Result<Vec<f64>, CacheError> {
        let smallest = 1.0 / self.beta;
        let largest = 2.0 - smallest;
        let steps = context.layers.saturating_sub(1);
        if steps == 0 {
            return Ok(vec![1.0; context.layers]);
        }
        Ok((0..context.layers)
            .map(|layer| {
                let depth = layer as f64 / steps as f64;
                largest + depth * (smallest - largest)
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribute;

    #[test]
    fn falls_linearly_and_sums_exactly_in_every_regime() {
        let pyramid = Pyramid::default();
        for (n, total) in [
            (2045, 6135),
            (2045, 12_270),
            (2045, 18_405),
            (10_000, 30_000),
            (400, 1930),
        ] {
            let context = AllocationContext {
                layers: 30,
                prompt_tokens: n,
                total_entries: total,
                signals: &std::collections::BTreeMap::new(),
            };
            let weights = pyramid.weights(&context).unwrap();
            let budgets = distribute(&weights, total, 64, n).unwrap();
            assert_eq!(budgets.iter().map(|&b| b as u64).sum::<u64>(), total);
            assert!(
                budgets.windows(2).all(|pair| pair[0] >= pair[1]),
                "{budgets:?}"
            );
            assert!(budgets[0] > budgets[29], "not a pyramid: {budgets:?}");
        }
    }
}
