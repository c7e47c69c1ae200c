//! Greedy continuation of many rows; rows leave when they end.
//!
//! A step of few rows waits for the weights to be read, so where it may, it feeds tokens ahead: those that followed the
//! same last tokens before, in the prompt or in the answer (prompt lookup decoding, Saxena 2023). What the model itself
//! would not have picked is taken back, so the answer is the same to the bit.

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

/// Tokens of all rows in a step that looks ahead: a group of the products, whose rows cost about what one costs.
const TOGETHER: usize = 6;
/// Most tokens that a row is fed ahead.
const MOST_AHEAD: usize = 3;
/// Most last tokens that must have been followed by those ahead.
const LONGEST_MATCH: usize = 3;

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
    /// The prompt, where its tokens may be fed ahead; empty where each step is to cost the same.
    pub(crate) look_ahead_in: &'a [u32],
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
        look_ahead_in: &[],
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
    decode_with(rows, decoder.config().vocab_size, |rows, tokens| {
        decoder.feed(rows, tokens)
    })
}

/// [`decode_rows`] by what [`Decoder::feed`] does.
fn decode_with(
    rows: &[Start<'_>],
    vocabulary: usize,
    mut feed: impl FnMut(&mut [&mut DecodeRow], &[&[u32]]) -> Result<Vec<f32>, ModelError>,
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
        let most = (TOGETHER / live.len()).saturating_sub(1).min(MOST_AHEAD);
        let fed: Vec<Vec<u32>> = live
            .iter()
            .map(|entry| entry.fed(&rows[entry.index], most))
            .collect();
        let tokens: Vec<&[u32]> = fed.iter().map(Vec::as_slice).collect();
        let mut stepped: Vec<&mut DecodeRow> =
            live.iter_mut().map(|entry| &mut entry.row).collect();
        let logits = feed(&mut stepped, &tokens)?;
        let mut logits = logits.chunks_exact(vocabulary);
        let picked: Vec<Vec<Result<u32, ModelError>>> = live
            .iter()
            .zip(&fed)
            .map(|(entry, fed)| {
                let logits: Vec<&[f32]> = logits.by_ref().take(fed.len()).collect();
                follow(&logits, fed, rows[entry.index].stop, &entry.so_far)
            })
            .collect();
        let share = started.elapsed().as_secs_f64() * 1e3 / live.len() as f64;
        live = live
            .into_iter()
            .zip(fed.iter().zip(picked))
            .filter_map(|(mut entry, (fed, picked))| {
                entry.so_far.decode_ms += share;
                entry.row.take_back(fed.len() - picked.len());
                let index = entry.index;
                let mut entry = Some(entry);
                for picked in picked {
                    entry = entry?.take(picked, &rows[index], &mut results[index]);
                }
                entry
            })
            .collect();
    }
    Ok(results)
}

impl Live {
    /// The last token, and up to `most` that may follow.
    fn fed(&self, row: &Start<'_>, most: usize) -> Vec<u32> {
        let answer = &self.so_far.ids;
        let mut fed: Vec<u32> = answer.last().copied().into_iter().collect();
        // the last token that may be generated is never fed
        let most = most.min(row.max_new_tokens - answer.len() - 1);
        if most > 0 && !row.look_ahead_in.is_empty() {
            fed.extend(ahead(&[row.look_ahead_in, answer].concat(), most));
        }
        fed
    }

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

/// What follows the last tokens of `ids` where they stood before: the longest match counts, then the latest.
fn ahead(ids: &[u32], most: usize) -> &[u32] {
    for length in (1..=LONGEST_MATCH.min(ids.len().saturating_sub(1))).rev() {
        let last = &ids[ids.len() - length..];
        let before = ids[..ids.len() - 1].windows(length);
        if let Some(place) = before.rev().position(|window| window == last) {
            let next = ids.len() - 1 - place;
            return &ids[next..ids.len().min(next + most)];
        }
    }
    &[]
}

/// What is picked after the first of the tokens that were fed, and after each of the others as long as it was picked
/// itself and does not end the answer.
fn follow(
    logits: &[&[f32]],
    fed: &[u32],
    stop: &StopRule,
    so_far: &Continuation,
) -> Vec<Result<u32, ModelError>> {
    let mut picked = Vec::new();
    for (place, logits) in logits.iter().enumerate() {
        let token = pick(logits, stop, so_far.ids.len() + place);
        let next = fed.get(place + 1);
        let goes_on = token
            .as_ref()
            .is_ok_and(|token| Some(token) == next && !stop.is_end(*token));
        picked.push(token);
        if !goes_on {
            break;
        }
    }
    picked
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
            look_ahead_in: &[],
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
    fn what_followed_the_longest_latest_match_is_ahead() {
        let ids = [5, 1, 2, 3, 7, 1, 2, 4, 9, 2, 3];
        assert_eq!(ahead(&ids, 3), [7, 1, 2]);
        assert_eq!(ahead(&ids, 1), [7]);
        assert_eq!(ahead(&[1, 2, 1, 3, 1], 3), [3, 1]);
        assert_eq!(ahead(&[4, 4], 3), [4]);
        assert!(ahead(&[1, 2, 3], 3).is_empty());
        assert!(ahead(&[1], 3).is_empty() && ahead(&[], 3).is_empty());
    }

    #[test]
    fn looking_ahead_changes_no_answer_and_saves_steps() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../ripplekv-model/tests/fixtures/tiny-plain-f32");
        let weights = open_weights(&folder).unwrap();
        let decoder = load_decoder(weights.as_ref(), DType::F32, &Device::Cpu).unwrap();
        const NEW: usize = 40;
        let ids: Vec<u32> = (4..40).collect();
        let prefill = decoder
            .prefill(&ids, Needs::default(), &mut |_, _| ())
            .unwrap();
        let cache = Arc::new(CompressedCache::full(&prefill.snapshot));
        // answers of rows that look ahead in texts of their own, and how many steps and tokens they took
        let answers = |rule: &StopRule, texts: &[&[u32]]| {
            let starts = texts.iter().map(|text| Start {
                cache: Arc::clone(&cache),
                first_logits: &prefill.logits,
                stop: rule,
                max_new_tokens: NEW,
                look_ahead_in: text,
            });
            let starts: Vec<Start<'_>> = starts.collect();
            let mut counts = [0, 0];
            let answers = decode_with(&starts, decoder.config().vocab_size, |rows, tokens| {
                counts[0] += 1;
                counts[1] += tokens.iter().map(|tokens| tokens.len()).sum::<usize>();
                decoder.feed(rows, tokens)
            });
            let answers: Vec<_> = answers
                .unwrap()
                .into_iter()
                .map(|answer| answer.unwrap())
                .map(|answer| (answer.ids, answer.finish))
                .collect();
            (answers, counts)
        };
        let mut rule = stop(0);
        rule.end_tokens = vec![u32::MAX];
        rule.newline = None;
        let (plain, counts) = answers(&rule, &[&[]]);
        let plain = &plain[0];
        assert_eq!((plain.0.len(), counts), (NEW, [NEW - 1, NEW - 1]));
        // texts that say what comes, say so for a while, and mislead
        let told = [&ids[..], &plain.0, &ids].concat();
        let partly = [&plain.0[..9], &ids].concat();
        let misled: Vec<u32> = (0..200).map(|i| plain.0[(i * i + i / 3) % NEW]).collect();
        let texts: [&[u32]; 3] = [&told, &partly, &misled];
        for rows in 1..=4 {
            for first in 0..3 {
                let texts: Vec<&[u32]> = (0..rows).map(|row| texts[(first + row) % 3]).collect();
                let (same, [steps, tokens]) = answers(&rule, &texts);
                assert!(same.iter().all(|answer| answer == plain), "{rows} {first}");
                if rows == 1 && first == 0 {
                    assert!(steps < NEW / 2, "{steps}");
                }
                let single = rows * (NEW - 1);
                assert_eq!(tokens == single, rows == 4, "{rows} {first}: {tokens}");
            }
        }
        // ends at every place, among the tokens ahead or at their border
        for end in 0..NEW {
            let mut ends = rule.clone();
            ends.end_tokens = vec![plain.0[end]];
            let (alone, _) = answers(&ends, &[&[]]);
            assert_eq!(alone[0].1, Finish::Stop);
            assert!(alone[0].0.len() <= end + 1 && plain.0.starts_with(&alone[0].0));
            for rows in 1..=3 {
                let (same, _) = answers(&ends, &texts[..rows]);
                assert!(
                    same.iter().all(|answer| *answer == alone[0]),
                    "{end} {rows}"
                );
            }
        }
    }

    #[test]
    fn logits_that_are_no_numbers_are_an_error() {
        let message = pick(&[0.5, f32::NAN], &stop(0), 4).unwrap_err().to_string();
        assert!(message.contains("not a number"), "{message}");
    }
}
