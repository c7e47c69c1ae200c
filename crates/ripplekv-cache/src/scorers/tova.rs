//! TOVA: attention of the last prompt token, mean over all query heads, the same for every KV head.
//! Follows arXiv 2401.06104 as kvpress runs it: once after the prefill (the paper evicts at every decoding step), and
//! the last token always stays.

use serde_json::json;

use super::{Scorer, ScorerInfo, Scores, last_positions};
use crate::attention::mean_window_attention;
use crate::{CacheError, LayerState, Needs};

#[derive(Debug, Clone, Copy)]
struct Tova;

pub(super) const INFO: ScorerInfo = ScorerInfo {
    name: "tova",
    summary: "attention of the last token, mean over all heads, the same for every head",
    source: "arXiv 2401.06104; kvpress TOVAPress",
    params: Vec::new,
    parse: |_| Ok(json!({})),
    build: |_| Ok(Box::new(Tova)),
};

impl Scorer for Tova {
    fn needs(&self) -> Needs {
        Needs {
            window_queries: 1,
            ..Needs::default()
        }
    }

    fn must_keep_tokens(&self) -> usize {
        1
    }

    fn must_keep(&self, prompt_tokens: usize) -> Vec<u32> {
        last_positions(1, prompt_tokens)
    }

    fn shrunk(&self, _must_keep_tokens: usize) -> Box<dyn Scorer> {
        Box::new(*self)
    }

    fn score(&self, layer: &LayerState) -> Result<Scores, CacheError> {
        let (kv_heads, prompt_tokens, _) = layer.keys.dims3()?;
        let attention = mean_window_attention(layer, 1)?;
        let heads = attention.len();
        let mut sums = vec![0.0f64; prompt_tokens];
        for row in &attention {
            for (sum, &share) in sums.iter_mut().zip(row) {
                *sum += f64::from(share);
            }
        }
        let row: Vec<f32> = sums.iter().map(|sum| (sum / heads as f64) as f32).collect();
        Ok(Scores::new(kv_heads, row.repeat(kv_heads)))
    }
}
