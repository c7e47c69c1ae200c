//! StreamingLLM: the first tokens (sinks) and the most recent ones.
//! Follows arXiv 2309.17453 as kvpress runs it: original positions, no re-rotation, 4 sinks.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Scorer, ScorerInfo, Scores};
use crate::params::{self, ParamDoc};
use crate::{CacheError, LayerState, Needs};

const DOCS: &[ParamDoc] = &[(
    "sinks",
    "first prompt tokens that are always kept, in tokens",
)];

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StreamingLlm {
    sinks: usize,
}

impl Default for StreamingLlm {
    fn default() -> Self {
        Self { sinks: 4 }
    }
}

pub(super) const INFO: ScorerInfo = ScorerInfo {
    name: "streaming-llm",
    summary: "recency: sinks and the latest tokens, the same for every head",
    source: "arXiv 2309.17453; kvpress StreamingLLMPress",
    params: || params::describe::<StreamingLlm>(DOCS),
    parse: |given| {
        let parsed: StreamingLlm = params::read(given, DOCS)?;
        Ok(serde_json::json!({ "sinks": parsed.sinks }))
    },
    build: |given: &Map<String, Value>| Ok(Box::new(params::read::<StreamingLlm>(given, DOCS)?)),
};

impl Scorer for StreamingLlm {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn must_keep_tokens(&self) -> usize {
        self.sinks
    }

    fn must_keep(&self, prompt_tokens: usize) -> Vec<u32> {
        (0..self.sinks.min(prompt_tokens) as u32).collect()
    }

    fn shrunk(&self, must_keep_tokens: usize) -> Box<dyn Scorer> {
        Box::new(Self {
            sinks: must_keep_tokens.min(self.sinks),
        })
    }

    fn score(&self, layer: &LayerState) -> Result<Scores, CacheError> {
        let (kv_heads, prompt_tokens, _) = layer.keys.dims3()?;
        // positions are exact in f32 up to 2^24 tokens
        let row: Vec<f32> = (0..prompt_tokens).map(|position| position as f32).collect();
        Ok(Scores::new(kv_heads, row.repeat(kv_heads)))
    }
}
