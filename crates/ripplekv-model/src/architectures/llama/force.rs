//! Teacher forcing over many variants of one prompt's cache at once. Below the first layer in which a variant differs
//! its hidden states are the reference's, so it joins the batch only there; linear layers run over all variants at once.

use candle_core::Tensor;
use rayon::prelude::*;

use super::Llama;
use crate::ModelError;
use crate::decoder::{Branch, Forced, ForcedBranch};
use crate::kernels::{Seen, attend};
use ripplekv_cache::CompressedLayer;

/// Where a forced token stands and what it sees.
#[derive(Clone, Copy)]
struct Placement {
    /// Position of the first token.
    first: usize,
    /// Tokens at the front that are prompt tokens already in the cache: they are read, not appended.
    reread: usize,
}

impl Llama {
    pub(super) fn force_branches(
        &self,
        branches: &[Branch],
        tokens: &[u32],
        reread: bool,
        on_layer: &mut dyn FnMut(usize),
    ) -> Result<Forced, ModelError> {
        let invalid = |message: &str| -> ModelError {
            candle_core::Error::Msg(format!("teacher forcing: {message}")).into()
        };
        let Some(reference) = branches.first() else {
            return Err(invalid("no branch to run"));
        };
        if tokens.is_empty() || reference.from_layer != 0 {
            return Err(invalid("needs tokens, and a reference from layer 0 first"));
        }
        let n = reference.cache.prompt_tokens;
        let place = Placement {
            first: n - usize::from(reread),
            reread: usize::from(reread),
        };
        self.check_positions(place.first + tokens.len() - 1)?;
        let mut states: Vec<Option<Tensor>> = vec![None; branches.len()];
        let mut local_errors: Vec<Option<f64>> = vec![None; branches.len()];
        states[0] = Some(self.embed(tokens)?);
        for layer in 0..self.layers.len() {
            let reference = states[0].clone();
            for (state, branch) in states.iter_mut().zip(branches) {
                if state.is_none() && branch.from_layer <= layer {
                    state.clone_from(&reference);
                }
            }
            let active: Vec<usize> = (0..branches.len())
                .filter(|index| states[*index].is_some())
                .collect();
            let stacked: Vec<&Tensor> = states.iter().flatten().collect();
            let stacked = Tensor::cat(&stacked, 0)?;
            let caches: Vec<&CompressedLayer> = active
                .iter()
                .map(|&index| &branches[index].cache.layers[layer])
                .collect();
            let attended = self.forced_attention(layer, &stacked, &caches, tokens.len(), place)?;
            for (row, &index) in active.iter().enumerate() {
                if index > 0 && branches[index].from_layer == layer {
                    let own = |row: usize| attended.narrow(0, row * tokens.len(), tokens.len());
                    local_errors[index] = Some(relative_error(&own(0)?, &own(row)?)?);
                }
            }
            let after = self.feed_forward(&self.layers[layer], &(stacked + attended)?)?;
            for (row, &index) in active.iter().enumerate() {
                states[index] = Some(after.narrow(0, row * tokens.len(), tokens.len())?);
            }
            on_layer(layer + 1);
        }
        let branches = states
            .into_iter()
            .zip(local_errors)
            .map(|(states, local_error)| {
                let states = match states {
                    Some(states) => states.contiguous()?,
                    None => {
                        candle_core::bail!("teacher forcing: a branch begins beyond the last layer")
                    }
                };
                Ok(ForcedBranch {
                    states,
                    local_error,
                })
            })
            .collect::<candle_core::Result<_>>()?;
        Ok(Forced { branches })
    }

    /// The attention part of one layer for stacked variants, `[variants * tokens, hidden]`, after the output projection.
    fn forced_attention(
        &self,
        layer: usize,
        stacked: &Tensor,
        caches: &[&CompressedLayer],
        tokens: usize,
        place: Placement,
    ) -> candle_core::Result<Tensor> {
        let weights = &self.layers[layer];
        let normed = self.norm(stacked, &weights.input_norm)?;
        let queries = weights.query.many_rows(&normed)?;
        let keys = weights.key.many_rows(&normed)?;
        let values = weights.value.many_rows(&normed)?;
        let attended = caches
            .par_iter()
            .enumerate()
            .map(|(row, cache)| {
                let own = |states: &Tensor| states.narrow(0, row * tokens, tokens);
                self.attend_forced([own(&queries)?, own(&keys)?, own(&values)?], cache, place)
            })
            .collect::<candle_core::Result<Vec<_>>>()?;
        weights.output.many_rows(&Tensor::cat(&attended, 0)?)
    }

    /// One variant's attention: over its prompt cache and, causally, over its own tokens. Inputs
    /// `[tokens, heads * head_dim]`; returns the same shape as the queries.
    fn attend_forced(
        &self,
        [query, key, value]: [Tensor; 3],
        cache: &CompressedLayer,
        place: Placement,
    ) -> candle_core::Result<Tensor> {
        let (heads, kv_heads) = (self.config.heads, self.config.kv_heads);
        let (tokens, _) = query.dims2()?;
        let queries = self
            .rope
            .apply(&self.split_heads(&query, heads)?, place.first)?;
        let keys = self
            .rope
            .apply(&self.split_heads(&key, kv_heads)?, place.first)?;
        let values = self.split_heads(&value, kv_heads)?;
        let appended = tokens - place.reread;
        let mut pieces = vec![Seen {
            keys: cache.keys.clone(),
            values: cache.values.clone(),
            causal_from: None,
        }];
        if appended > 0 {
            pieces.push(Seen {
                keys: keys.narrow(1, place.reread, appended)?,
                values: values.narrow(1, place.reread, appended)?,
                causal_from: Some(1 - place.reread),
            });
        }
        attend(&queries, &pieces, self.scale())
    }
}

/// Frobenius norm of the difference over that of the reference.
fn relative_error(reference: &Tensor, other: &Tensor) -> candle_core::Result<f64> {
    let reference = reference.flatten_all()?.to_vec1::<f32>()?;
    let other = other.flatten_all()?.to_vec1::<f32>()?;
    let mut difference = 0.0f64;
    let mut size = 0.0f64;
    for (a, b) in reference.iter().zip(&other) {
        difference += f64::from(b - a).powi(2);
        size += f64::from(*a).powi(2);
    }
    Ok(if difference == 0.0 {
        0.0
    } else {
        (difference / size).sqrt()
    })
}
