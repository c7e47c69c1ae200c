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

/// A row that goes on.
struct Live {
    index: usize,
    row: DecodeRow,
    so_far: Continuation,
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
/// When a tensor operation fails, or a row's logits are no numbers.
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
    decode_rows(decoder, &rows.collect::<Vec<_>>())?
        .into_iter()
        .collect()
}

/// [`decode_greedy`] of rows that need not belong to one prompt; what a row gives does not depend on the others, and one
/// whose logits are no numbers fails by itself.
pub(crate) fn decode_rows(
    decoder: &dyn Decoder,
    rows: &[Start<'_>],
) -> Result<Vec<Result<Continuation, ModelError>>, ModelError> {
    let none = || Continuation {
        ids: Vec::new(),
        finish: Finish::Length,
        decode_ms: 0.0,
    };
    let mut results: Vec<_> = rows.iter().map(|_| Ok(none())).collect();
    let mut live = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        if row.max_new_tokens == 0 {
            continue;
        }
        let first = pick(&row.first_logits.to_vec1::<f32>()?, row.stop, 0);
        let begun = Live {
            index,
            row: DecodeRow::new(Arc::clone(&row.cache)),
            so_far: none(),
        };
        live.extend(begun.take(first, row, &mut results[index]));
    }
    while !live.is_empty() {
        let started = Instant::now();
        let tokens: Vec<u32> = live
            .iter()
            .filter_map(|entry| entry.so_far.ids.last().copied())
            .collect();
        let mut stepped: Vec<&mut DecodeRow> =
            live.iter_mut().map(|entry| &mut entry.row).collect();
        let logits = decoder.step(&mut stepped, &tokens)?;
        let mut picked = Vec::with_capacity(live.len());
        for (entry, logits) in live.iter().zip(&logits) {
            let (stop, generated) = (rows[entry.index].stop, entry.so_far.ids.len());
            picked.push(pick(&logits.to_vec1::<f32>()?, stop, generated));
        }
        let share = started.elapsed().as_secs_f64() * 1e3 / live.len() as f64;
        live = live
            .into_iter()
            .zip(picked)
            .filter_map(|(mut entry, picked)| {
                entry.so_far.decode_ms += share;
                let index = entry.index;
                entry.take(picked, &rows[index], &mut results[index])
            })
            .collect();
    }
    Ok(results)
}

impl Live {
    /// Appends what was picked; a row that ends with it leaves its result.
    fn take(
        mut self,
        picked: Result<u32, ModelError>,
        row: &Start<'_>,
        result: &mut Result<Continuation, ModelError>,
    ) -> Option<Self> {
        let token = match picked {
            Ok(token) => token,
            Err(error) => {
                *result = Err(error);
                return None;
            }
        };
        self.so_far.ids.push(token);
        if row.stop.is_end(token) {
            self.so_far.finish = Finish::Stop;
        } else if self.so_far.ids.len() < row.max_new_tokens {
            return Some(self);
        }
        *result = Ok(self.so_far);
        None
    }
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
    use std::path::Path;

    use candle_core::{DType, Device};
    use ripplekv_cache::Needs;
    use ripplekv_model::{load_decoder, open_weights};

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
    fn a_row_whose_logits_are_no_numbers_fails_by_itself() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../ripplekv-model/tests/fixtures/tiny-plain-f32");
        let weights = open_weights(&folder).unwrap();
        let decoder = load_decoder(weights.as_ref(), DType::F32, &Device::Cpu).unwrap();
        let ids: Vec<u32> = (4..40).collect();
        let prefill = decoder
            .prefill(&ids, Needs::default(), &mut |_, _| ())
            .unwrap();
        let good = CompressedCache::full(&prefill.snapshot);
        let mut bad = good.clone();
        bad.layers[0].values = (&bad.layers[0].values * f64::NAN).unwrap();
        let caches = [Arc::new(bad), Arc::new(good)];
        let rule = stop(0);
        let rows = caches.each_ref().map(|cache| Start {
            cache: Arc::clone(cache),
            first_logits: &prefill.logits,
            stop: &rule,
            max_new_tokens: 6,
        });
        let together = decode_rows(decoder.as_ref(), &rows).unwrap();
        let alone = decode_rows(decoder.as_ref(), &rows[1..]).unwrap();
        let error = together[0].as_ref().unwrap_err().to_string();
        assert!(error.contains("not a number"), "{error}");
        let ids = |results: &[Result<Continuation, ModelError>]| {
            results.last().unwrap().as_ref().unwrap().ids.clone()
        };
        assert_eq!(ids(&together), ids(&alone));
    }

    #[test]
    fn logits_that_are_no_numbers_are_an_error() {
        let message = pick(&[0.5, f32::NAN], &stop(0), 4).unwrap_err().to_string();
        assert!(message.contains("not a number"), "{message}");
    }
}
