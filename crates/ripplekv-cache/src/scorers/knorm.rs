//! Knorm: keys of small Euclidean norm stay.
//! Follows arXiv 2406.11430 as kvpress runs it: one shot, every layer (the paper leaves its first two layers whole).

use serde_json::json;

use super::{Scorer, ScorerInfo, Scores, key_values, squares};
use crate::{CacheError, LayerState, Needs};

#[derive(Debug, Clone, Copy)]
struct Knorm;

pub(super) const INFO: ScorerInfo = ScorerInfo {
    name: "knorm",
    summary: "keys of small norm first; nothing is always kept",
    source: "arXiv 2406.11430; kvpress KnormPress",
    params: Vec::new,
    parse: |_| Ok(json!({})),
    build: |_| Ok(Box::new(Knorm)),
};

impl Scorer for Knorm {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn shrunk(&self, _must_keep_tokens: usize) -> Box<dyn Scorer> {
        Box::new(*self)
    }

    fn score(&self, layer: &LayerState) -> Result<Scores, CacheError> {
        let (kv_heads, _, head_dim) = layer.keys.dims3()?;
        let values = key_values(layer)?
            .chunks(head_dim)
            .map(|key| -libm::sqrt(squares(key)) as f32)
            .collect();
        Ok(Scores::new(kv_heads, values))
    }
}
