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

/// One row before its first token.
#[derive(Debug, Clone)]
pub(crate) struct Start<'a> {
    /// What it reads.
    pub(crate) cache: Arc<CompressedCache>,
    /// Logits after the prompt, `[vocab]`.
    pub(crate) first_logits: &'a Tensor,
    /// When it ends.
    pub(crate) stop: &'a StopRule,
    /// Most tokens.
    pub(crate) max_new_tokens: usize,
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
    let rows = caches.iter().map(|cache| Start {
        cache: Arc::clone(cache),
        first_logits,
        stop,
        max_new_tokens,
    });
    decode_rows(decoder, &rows.collect::<Vec<_>>())
}

/// [`decode_greedy`] of rows that need not belong to one prompt; what a row gives does not depend on the others.
pub(crate) fn decode_rows(
    decoder: &dyn Decoder,
    rows: &[Start<'_>],
) -> Result<Vec<Continuation>, ModelError> {
    let mut results: Vec<Continuation> = rows
        .iter()
        .map(|_| Continuation {
            ids: Vec::new(),
            finish: Finish::Length,
            decode_ms: 0.0,
        })
        .collect();
    let mut live = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        if row.max_new_tokens == 0 {
            continue;
        }
        let first = pick(&row.first_logits.to_vec1::<f32>()?, row.stop, 0)?;
        if take(&mut results[index], first, row) {
            live.push(Live {
                index,
                row: DecodeRow::new(Arc::clone(&row.cache)),
                next: first,
            });
        }
    }
    while !live.is_empty() {
        let started = Instant::now();
        let tokens: Vec<u32> = live.iter().map(|entry| entry.next).collect();
        let mut stepped: Vec<&mut DecodeRow> =
            live.iter_mut().map(|entry| &mut entry.row).collect();
        let logits = decoder.step(&mut stepped, &tokens)?;
        for (entry, logits) in live.iter_mut().zip(&logits) {
            let generated = results[entry.index].ids.len();
            entry.next = pick(&logits.to_vec1::<f32>()?, rows[entry.index].stop, generated)?;
        }
        let share = started.elapsed().as_secs_f64() * 1e3 / live.len() as f64;
        live.retain(|entry| {
            let result = &mut results[entry.index];
            result.decode_ms += share;
            take(result, entry.next, &rows[entry.index])
        });
    }
    Ok(results)
}

/// Appends a token; false when the row ends with it.
fn take(result: &mut Continuation, token: u32, row: &Start<'_>) -> bool {
    result.ids.push(token);
    if row.stop.is_end(token) {
        result.finish = Finish::Stop;
        return false;
    }
    result.ids.len() < row.max_new_tokens
}

/// The largest logit, the lower id on ties; end tokens are left out where the rule forbids them.
///
/// # Errors
/// A logit that is not a number: an empty answer would otherwise look like the model's own.
fn pick(logits: &[f32], stop: &StopRule, generated: usize) -> Result<u32, ModelError> {
    let forbidden = stop.forbids_end(generated);
    let mut best: Option<(usize, f32)> = None;
    for (id, &logit) in logits.iter().enumerate() {
        if logit.is_nan() {
            return Err(ModelError::NotANumber {
                step: generated,
                id,
            });
        }
        let allowed = !(forbidden && stop.is_end(id as u32));
        if allowed && best.is_none_or(|(_, largest)| logit > largest) {
            best = Some((id, logit));
        }
    }
    Ok(best.map_or(0, |(id, _)| id as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(min_new_tokens: usize) -> StopRule {
        StopRule {
            end_tokens: vec![1],
            newline: Some(3),
            min_new_tokens,
        }
    }

    #[test]
    fn the_largest_wins_and_ties_go_to_the_lower_id() {
        assert_eq!(pick(&[0.5, 2.0, 2.0, 1.0], &stop(0), 0).unwrap(), 1);
    }

    #[test]
    fn end_tokens_wait_where_the_rule_says_so() {
        assert_eq!(pick(&[0.5, 2.0, 1.0, 3.0], &stop(1), 0).unwrap(), 2);
        assert_eq!(pick(&[0.5, 2.0, 1.0, 3.0], &stop(1), 1).unwrap(), 3);
    }

    #[test]
    fn logits_that_are_no_numbers_are_an_error() {
        let message = pick(&[0.5, f32::NAN], &stop(0), 4).unwrap_err().to_string();
        assert!(message.contains("not a number"), "{message}");
    }
}
