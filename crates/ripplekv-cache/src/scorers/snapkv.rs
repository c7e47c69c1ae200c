//! SnapKV: attention of the last window of queries, pooled over neighbours and averaged over the query group.
//! Follows arXiv 2404.14469 with kvpress' SnapKVPress constants: window 64, average pooling of 5, mean over the group.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Scorer, ScorerInfo, Scores, last_positions};
use crate::attention::mean_window_attention;
use crate::params::{self, ParamDoc, out_of_range};
use crate::{CacheError, LayerState, Needs};

const DOCS: &[ParamDoc] = &[
    (
        "window",
        "last prompt tokens that are always kept and whose queries vote, in tokens",
    ),
    (
        "kernel",
        "width of the average pooling over neighbouring entries, odd, in tokens",
    ),
];

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SnapKv {
    window: usize,
    kernel: usize,
}

impl Default for SnapKv {
    fn default() -> Self {
        Self {
            window: 64,
            kernel: 5,
        }
    }
}

fn read(given: &Map<String, Value>) -> Result<SnapKv, CacheError> {
    let parsed: SnapKv = params::read(given, DOCS)?;
    if parsed.window == 0 {
        return Err(out_of_range("window", "must be at least 1"));
    }
    if parsed.kernel.is_multiple_of(2) {
        return Err(out_of_range("kernel", "must be odd"));
    }
    Ok(parsed)
}

pub(super) const INFO: ScorerInfo = ScorerInfo {
    name: "snapkv",
    summary: "attention of the last window of queries, average-pooled, mean over the query group",
    source: "arXiv 2404.14469; kvpress SnapKVPress",
    params: || params::describe::<SnapKv>(DOCS),
    parse: |given| {
        let parsed = read(given)?;
        Ok(serde_json::json!({ "window": parsed.window, "kernel": parsed.kernel }))
    },
    build: |given| Ok(Box::new(read(given)?)),
};

impl Scorer for SnapKv {
    fn needs(&self) -> Needs {
        Needs {
            window_queries: self.window,
            ..Needs::default()
        }
    }

    fn must_keep_tokens(&self) -> usize {
        self.window
    }

    fn must_keep(&self, prompt_tokens: usize) -> Vec<u32> {
        last_positions(self.window, prompt_tokens)
    }

    fn shrunk(&self, must_keep_tokens: usize) -> Box<dyn Scorer> {
        Box::new(Self {
            window: must_keep_tokens.min(self.window),
            kernel: self.kernel,
        })
    }

    fn score(&self, layer: &LayerState) -> Result<Scores, CacheError> {
        let (kv_heads, prompt_tokens, _) = layer.keys.dims3()?;
        let window = self.window.min(prompt_tokens);
        let votes = mean_window_attention(layer, window)?;
        let group = votes.len() / kv_heads.max(1);
        let prefix = prompt_tokens - window;
        let mut values = vec![0.0f32; kv_heads * prompt_tokens];
        for (head, row) in values.chunks_mut(prompt_tokens).enumerate() {
            for votes in &votes[head * group..(head + 1) * group] {
                pool_into(&votes[..prefix], self.kernel, &mut row[..prefix]);
            }
            for value in &mut row[..prefix] {
                *value /= group as f32;
            }
        }
        Ok(Scores::new(kv_heads, values))
    }
}

/// Adds the average of `kernel` neighbours to each entry of `sums`; entries beyond the edges count as zeros in the
/// average, so edges are damped (as kvpress does).
fn pool_into(row: &[f32], kernel: usize, sums: &mut [f32]) {
    let half = kernel / 2;
    for (index, sum) in sums.iter_mut().enumerate() {
        let from = index.saturating_sub(half);
        let to = (index + half + 1).min(row.len());
        let total: f32 = row[from..to].iter().sum();
        *sum += total / kernel as f32;
    }
}
