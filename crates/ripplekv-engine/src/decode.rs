//! Greedy continuation of many rows of one prompt; rows leave when they end.

use std::sync::Arc;
use std::time::Instant;

use candle_core::Tensor;
use ripplekv_cache::CompressedCache;
use ripplekv_model::{DecodeRow, Decoder, ModelError};
use ripplekv_runner::engine::Finish;
use ripplekv_tasks::StopRule;

/// What one row generated.
#[derive(Debug, Clone, PartialEq)]
pub struct Continuation {
    /// Generated ids, the ending token included.
    pub ids: Vec<u32>,
    /// Why it ended.
    pub finish: Finish,
    /// This row's share of the steps it took part in, in milliseconds.
    pub decode_ms: f64,
}

struct Live {
    index: usize,
    row: DecodeRow,
    next: u32,
}

/// Continues every cache greedily after the prompt whose last logits are `first_logits`, `[vocab]`.
/// The first token is checked against the stop rule like every other. Ties go to the lower id.
///
/// # Errors
/// When a tensor operation fails.
pub fn decode_greedy(
    decoder: &dyn Decoder,
    caches: &[Arc<CompressedCache>],
    first_logits: &Tensor,
    stop: &StopRule,
    max_new_tokens: usize,
) -> Result<Vec<Continuation>, ModelError> {
    let mut results: Vec<Continuation> = caches
        .iter()
        .map(|_| Continuation {
            ids: Vec::new(),
            finish: Finish::Length,
            decode_ms: 0.0,
        })
        .collect();
    if max_new_tokens == 0 {
        return Ok(results);
    }
    let first = pick(&first_logits.to_vec1::<f32>()?, stop, 0);
    let mut live = Vec::new();
    for (index, cache) in caches.iter().enumerate() {
        if take(&mut results[index], first, stop, max_new_tokens) {
            live.push(Live {
                index,
                row: DecodeRow::new(Arc::clone(cache), max_new_tokens)?,
                next: first,
            });
        }
    }
    while !live.is_empty() {
        let started = Instant::now();
        let tokens: Vec<u32> = live.iter().map(|entry| entry.next).collect();
        let mut rows: Vec<&mut DecodeRow> = live.iter_mut().map(|entry| &mut entry.row).collect();
        let logits = decoder.step(&mut rows, &tokens)?;
        for (entry, logits) in live.iter_mut().zip(&logits) {
            let generated = results[entry.index].ids.len();
            entry.next = pick(&logits.to_vec1::<f32>()?, stop, generated);
        }
        let share = started.elapsed().as_secs_f64() * 1e3 / live.len() as f64;
        live.retain(|entry| {
            let result = &mut results[entry.index];
            result.decode_ms += share;
            take(result, entry.next, stop, max_new_tokens)
        });
    }
    Ok(results)
}

/// Appends a token; false when the row ends with it.
fn take(result: &mut Continuation, token: u32, stop: &StopRule, max_new_tokens: usize) -> bool {
    result.ids.push(token);
    if stop.is_end(token) {
        result.finish = Finish::Stop;
        return false;
    }
    result.ids.len() < max_new_tokens
}

/// The largest logit, the lower id on ties; end tokens are left out where the rule forbids them.
fn pick(logits: &[f32], stop: &StopRule, generated: usize) -> u32 {
    let forbidden = stop.forbids_end(generated);
    let mut best = 0usize;
    let mut best_logit = f32::NEG_INFINITY;
    for (id, &logit) in logits.iter().enumerate() {
        if logit > best_logit && !(forbidden && stop.is_end(id as u32)) {
            best = id;
            best_logit = logit;
        }
    }
    best as u32
}
