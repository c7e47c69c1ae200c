//! KeyDiff: keys that differ in direction from the head's mean key direction stay.
//! Follows arXiv 2504.15364 as kvpress runs it: the whole prompt at once (the paper goes block by block).

use serde_json::json;

use super::{Scorer, ScorerInfo, Scores, key_values, squares};
use crate::{CacheError, LayerState, Needs};

/// Norms below these count as these, as in torch's `normalize` and `cosine_similarity`.
const LEAST_NORM: f64 = 1e-12;
const LEAST_COSINE_NORM: f64 = 1e-8;

#[derive(Debug, Clone, Copy)]
struct KeyDiff;

pub(super) const INFO: ScorerInfo = ScorerInfo {
    name: "keydiff",
    summary: "keys least like the mean key direction first; nothing is always kept",
    source: "arXiv 2504.15364; kvpress KeyDiffPress",
    params: Vec::new,
    parse: |_| Ok(json!({})),
    build: |_| Ok(Box::new(KeyDiff)),
};

impl Scorer for KeyDiff {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn shrunk(&self, _must_keep_tokens: usize) -> Box<dyn Scorer> {
        Box::new(*self)
    }

    fn score(&self, layer: &LayerState) -> Result<Scores, CacheError> {
        let (kv_heads, prompt_tokens, head_dim) = layer.keys.dims3()?;
        let values = key_values(layer)?
            .chunks(prompt_tokens * head_dim)
            .flat_map(|keys| head_scores(keys, head_dim))
            .collect();
        Ok(Scores::new(kv_heads, values))
    }
}

/// Minus the cosine of every key, `[n, head_dim]`, with the mean of all keys' directions.
fn head_scores(keys: &[f32], head_dim: usize) -> Vec<f32> {
    let norms: Vec<f64> = keys
        .chunks(head_dim)
        .map(|key| libm::sqrt(squares(key)))
        .collect();
    let mut anchor = vec![0.0f64; head_dim];
    for (key, norm) in keys.chunks(head_dim).zip(&norms) {
        for (sum, &channel) in anchor.iter_mut().zip(key) {
            *sum += f64::from(channel) / norm.max(LEAST_NORM);
        }
    }
    for sum in &mut anchor {
        *sum /= norms.len() as f64;
    }
    let anchor_norm = libm::sqrt(anchor.iter().map(|channel| channel * channel).sum::<f64>());
    keys.chunks(head_dim)
        .zip(&norms)
        .map(|(key, norm)| {
            let product: f64 = key
                .iter()
                .zip(&anchor)
                .map(|(&k, a)| f64::from(k) * a)
                .sum();
            -(product / (norm.max(LEAST_COSINE_NORM) * anchor_norm.max(LEAST_COSINE_NORM))) as f32
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::head_scores;

    #[test]
    fn a_stray_direction_wins_and_zeros_are_no_nan() {
        // the anchor is the mean direction, (0.75, 0.25); lengths do not matter
        let keys = [1.0, 0.0, 9.0, 0.0, 0.5, 0.0, 0.0, 2.0];
        let scores = head_scores(&keys, 2);
        let root = 0.625f32.sqrt();
        for (score, expected) in scores.iter().zip([-0.75, -0.75, -0.75, -0.25]) {
            assert!((score - expected / root).abs() < 1e-6, "{scores:?}");
        }
        assert_eq!(head_scores(&[0.0; 6], 2), [0.0; 3]);
    }
}
