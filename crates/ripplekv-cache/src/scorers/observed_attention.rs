//! Observed attention: the mean attention that an entry gets from the queries that see it, mean over the query group.
//! Follows kvpress' ObservedAttentionPress, its stand-in for H2O (arXiv 2306.14048): dividing by the number of queries
//! takes H2O's favour for early entries away and favours late ones, and nothing is always kept.

use serde_json::json;

use super::{Scorer, ScorerInfo, Scores, column_sums};
use crate::{CacheError, LayerState, Needs};

#[derive(Debug, Clone, Copy)]
struct ObservedAttention;

pub(super) const INFO: ScorerInfo = ScorerInfo {
    name: "observed-attention",
    summary: "mean attention from the queries that see the entry; nothing is always kept",
    source: "kvpress ObservedAttentionPress",
    params: Vec::new,
    parse: |_| Ok(json!({})),
    build: |_| Ok(Box::new(ObservedAttention)),
};

impl Scorer for ObservedAttention {
    fn needs(&self) -> Needs {
        Needs {
            column_sums: true,
            ..Needs::default()
        }
    }

    fn shrunk(&self, _must_keep_tokens: usize) -> Box<dyn Scorer> {
        Box::new(*self)
    }

    fn score(&self, layer: &LayerState) -> Result<Scores, CacheError> {
        let (kv_heads, prompt_tokens, _) = layer.keys.dims3()?;
        let mut values = column_sums(layer)?;
        for row in values.chunks_mut(prompt_tokens) {
            for (entry, value) in row.iter_mut().enumerate() {
                *value /= (prompt_tokens - entry) as f32;
            }
        }
        Ok(Scores::new(kv_heads, values))
    }
}
