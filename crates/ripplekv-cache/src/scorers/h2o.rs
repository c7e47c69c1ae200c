//! H2O: the attention that an entry gets from the whole prompt; the last window always stays.
//! Follows arXiv 2306.14048 in KVCache-Factory's one-shot form: the plain sum over all queries, no pooling, the window of
//! 8 that its LongBench runs use. The paper evicts at every step and gives half of the budget to recent entries.
//! That program chooses for each query head by default; here, as with every scorer, a KV head's query heads vote together.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Scorer, ScorerInfo, Scores, column_sums, last_positions};
use crate::params::{self, ParamDoc, out_of_range};
use crate::{CacheError, LayerState, Needs};

const DOCS: &[ParamDoc] = &[(
    "window",
    "last prompt tokens that are always kept, in tokens",
)];

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct H2o {
    window: usize,
}

impl Default for H2o {
    fn default() -> Self {
        Self { window: 8 }
    }
}

fn read(given: &Map<String, Value>) -> Result<H2o, CacheError> {
    let parsed: H2o = params::read(given, DOCS)?;
    if parsed.window == 0 {
        return Err(out_of_range("window", "must be at least 1"));
    }
    Ok(parsed)
}

pub(super) const INFO: ScorerInfo = ScorerInfo {
    name: "h2o",
    summary: "attention summed over all queries, mean over the query group",
    source: "arXiv 2306.14048; KVCache-Factory H2OKVCluster",
    params: || params::describe::<H2o>(DOCS),
    parse: |given| Ok(serde_json::json!({ "window": read(given)?.window })),
    build: |given| Ok(Box::new(read(given)?)),
};

impl Scorer for H2o {
    fn needs(&self) -> Needs {
        Needs {
            column_sums: true,
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
        })
    }

    fn score(&self, layer: &LayerState) -> Result<Scores, CacheError> {
        Ok(Scores::new(layer.keys.dim(0)?, column_sums(layer)?))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Tensor};

    use super::*;
    use crate::SCORERS;

    #[test]
    fn sums_are_the_scores_and_asked_for() {
        let sums = [[1.5f32, 1.0, 0.5], [2.4, 0.4, 0.2]];
        let keys = Tensor::zeros((2, 3, 4), DType::F32, &Device::Cpu).unwrap();
        let mut layer = LayerState {
            values: keys.clone(),
            keys,
            window_queries: None,
            column_sums: None,
        };
        // h2o rates by the sums, observed attention by their share of the 3, 2 and 1 queries
        for (name, expected) in [
            ("h2o", sums),
            ("observed-attention", [[0.5, 0.5, 0.5], [0.8, 0.2, 0.2]]),
        ] {
            let info = SCORERS.iter().find(|info| info.name == name).unwrap();
            let scorer = info.build(&Value::Null).unwrap();
            assert!(scorer.needs().column_sums);
            layer.column_sums = None;
            let missing = scorer.score(&layer);
            assert!(matches!(missing, Err(CacheError::MissingColumnSums)));
            layer.column_sums = Some(Tensor::new(&sums, &Device::Cpu).unwrap());
            let scores = scorer.score(&layer).unwrap();
            for (head, expected) in expected.iter().enumerate() {
                for (score, expected) in scores.head(head).iter().zip(expected) {
                    assert!((score - expected).abs() < 1e-6, "{name}");
                }
            }
        }
        let scorer = H2o::default();
        assert_eq!(scorer.must_keep(10), [2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(scorer.shrunk(3).must_keep(10), [7, 8, 9]);
    }
}
