//! Distributions of teacher-forced answers: which tokens are fed, which positions count, and how far a changed cache
//! moves them (design.md 5).

use std::ops::Range;
use std::sync::Arc;

use candle_core::Tensor;
use rayon::prelude::*;
use ripplekv_cache::{CompressedCache, CompressedLayer};
use ripplekv_metrics::statistics::{kl_divergence_from, log_softmax, probabilities};
use ripplekv_model::{Branch, Decoder};
use ripplekv_runner::engine::{EngineError, FirstToken};

/// Positions whose logits are in memory at a time, of one branch at least: enough to pay for a pass over the head's
/// weights, and few beside the weights of a large vocabulary.
pub const LOGITS_BESIDE: usize = 128;

/// Fewest answer positions that make a sample.
pub(crate) const LEAST_POSITIONS: usize = 2;

/// An answer to force, and the rule for its first token.
pub(crate) struct ForcedAnswer<'a> {
    /// Last token of the prompt.
    pub(crate) last_prompt_token: u32,
    /// The answer.
    pub(crate) answer: &'a [u32],
    /// See [`FirstToken`].
    pub(crate) first_token: FirstToken,
}

impl ForcedAnswer<'_> {
    /// Answer tokens whose distribution depends on the cache: all but the first, or all where it is read again.
    pub(crate) fn targets(&self) -> &[u32] {
        match self.first_token {
            FirstToken::Skip => self.answer.get(1..).unwrap_or_default(),
            FirstToken::Reread => self.answer,
        }
    }

    fn fed(&self) -> Vec<u32> {
        let before_last = &self.answer[..self.answer.len().saturating_sub(1)];
        match self.first_token {
            FirstToken::Skip => before_last.to_vec(),
            FirstToken::Reread => [&[self.last_prompt_token], before_last].concat(),
        }
    }

    /// Log-probabilities of every branch at every target position; the first branch is the reference.
    /// `visit` gets the reference's and the branch's rows, one `[vocab]` each target, and the branch's number.
    pub(crate) fn run<T>(
        &self,
        decoder: &dyn Decoder,
        branches: &[Branch],
        on_layer: &mut dyn FnMut(usize),
        mut visit: impl FnMut(&Reference, &LogProbabilities, usize) -> Result<T, EngineError>,
    ) -> Result<Vec<(T, Option<f64>)>, EngineError> {
        let reread = self.first_token == FirstToken::Reread;
        let forced = decoder
            .force(branches, &self.fed(), reread, on_layer)
            .map_err(prompt_error)?;
        let mut reference: Option<Reference> = None;
        let mut results = Vec::with_capacity(branches.len());
        // some branches at a time: one pass over the head's weights for all of them, and their logits fit into memory
        let beside = (LOGITS_BESIDE / self.fed().len().max(1)).max(1);
        for (group, forced) in forced.branches.chunks(beside).enumerate() {
            let states: Vec<&[f32]> = forced.iter().map(|branch| &branch.states[..]).collect();
            let rows = LogProbabilities::of_each(decoder, &states)?;
            for (place, (branch, rows)) in forced.iter().zip(rows).enumerate() {
                if reference.is_none() {
                    reference = Some(Reference::new(rows.clone()));
                }
                if let Some(reference) = &reference {
                    let index = group * beside + place;
                    results.push((visit(reference, &rows, index)?, branch.local_error));
                }
            }
        }
        Ok(results)
    }
}

/// Mean KL(full, cache) over the full cache's answer for every cache, each forced by itself, so that a number does not
/// depend on the company, nor fails with it; `None` where the answer leaves fewer than two positions.
pub(crate) fn answer_kl(
    decoder: &dyn Decoder,
    full: &Arc<CompressedCache>,
    caches: &[Arc<CompressedCache>],
    answer: &[u32],
) -> Result<Vec<Result<Option<f64>, EngineError>>, EngineError> {
    let answer = ForcedAnswer {
        last_prompt_token: 0,
        answer,
        first_token: FirstToken::Skip,
    };
    let positions = answer.targets().len();
    if positions < LEAST_POSITIONS {
        return Ok(caches.iter().map(|_| Ok(None)).collect());
    }
    let alone = |cache: &Arc<CompressedCache>| -> Result<LogProbabilities, EngineError> {
        let branch = Branch {
            cache: Arc::clone(cache),
            from_layer: 0,
        };
        let forced = decoder
            .force(&[branch], &answer.fed(), false, &mut |_| ())
            .map_err(prompt_error)?;
        let states = [forced.branches[0].states.as_slice()];
        let mut rows = LogProbabilities::of_each(decoder, &states)?;
        Ok(rows.swap_remove(0))
    };
    let reference = Reference::new(alone(full)?);
    let of_cache = |cache| -> Result<_, EngineError> {
        Ok(Some(reference.mean_kl(&alone(cache)?, positions)?))
    };
    Ok(caches.iter().map(of_cache).collect())
}

/// Log-probabilities of some positions.
#[derive(Clone)]
pub(crate) struct LogProbabilities {
    vocabulary: usize,
    /// `[positions, vocab]`, of several branches.
    shared: Arc<Vec<f32>>,
    /// Where these positions lie in it.
    place: Range<usize>,
}

/// The distributions that others are compared with, and their probabilities.
pub(crate) struct Reference {
    rows: LogProbabilities,
    /// `[positions, vocab]`.
    probabilities: Vec<f64>,
}

impl Reference {
    pub(crate) fn new(rows: LogProbabilities) -> Self {
        let values = rows.values().par_chunks(rows.vocabulary);
        Self {
            probabilities: values.flat_map_iter(probabilities).collect(),
            rows,
        }
    }

    /// Mean KL(self, other) over the first `positions` positions, in nats.
    pub(crate) fn mean_kl(
        &self,
        other: &LogProbabilities,
        positions: usize,
    ) -> Result<f64, EngineError> {
        let vocabulary = self.rows.vocabulary;
        let values = self
            .probabilities
            .par_chunks(vocabulary)
            .zip(self.rows.values().par_chunks(vocabulary))
            .zip(other.values().par_chunks(vocabulary))
            .take(positions)
            .map(|((p, log_p), log_q)| kl_divergence_from(p, log_p, log_q).map_err(prompt_error))
            .collect::<Result<Vec<f64>, _>>()?;
        Ok(values.iter().sum::<f64>() / values.len() as f64)
    }
}

impl LogProbabilities {
    /// One entry for each of `states`, `[tokens, hidden]`.
    fn of_each(decoder: &dyn Decoder, states: &[&[f32]]) -> Result<Vec<Self>, EngineError> {
        let vocabulary = decoder.config().vocab_size;
        let mut logits = decoder.logits(&states.concat());
        logits
            .par_chunks_mut(vocabulary)
            .try_for_each(|row| log_softmax(row).map_err(prompt_error))?;
        let shared = Arc::new(logits);
        let mut end = 0;
        let places = states.iter().map(|states| {
            let start = end;
            end += states.len() / decoder.config().hidden_size * vocabulary;
            start..end
        });
        Ok(places
            .map(|place| Self {
                vocabulary,
                shared: Arc::clone(&shared),
                place,
            })
            .collect())
    }

    /// From logits `[vocab]` of one position.
    pub(crate) fn of_logits(logits: &Tensor) -> Result<Self, EngineError> {
        let mut values = logits.to_vec1::<f32>().map_err(prompt_error)?;
        log_softmax(&mut values).map_err(prompt_error)?;
        Ok(Self {
            vocabulary: values.len(),
            place: 0..values.len(),
            shared: Arc::new(values),
        })
    }

    /// `[positions, vocab]`.
    fn values(&self) -> &[f32] {
        &self.shared[self.place.clone()]
    }

    /// `[vocab]` of each position.
    fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.values().chunks_exact(self.vocabulary)
    }

    /// Sum of the negative log-probabilities of `targets`, one a position.
    pub(crate) fn negative_log_likelihood(&self, targets: &[u32]) -> f64 {
        self.rows()
            .zip(targets)
            .map(|(row, &target)| -f64::from(row[target as usize]))
            .sum()
    }

    /// Whether the most likely token of every position is the target; ties go to the lower id, as in decoding.
    pub(crate) fn agrees_with(&self, targets: &[u32]) -> bool {
        self.rows().zip(targets).all(|(row, &target)| {
            let mut best = 0;
            for (id, value) in row.iter().enumerate() {
                if *value > row[best] {
                    best = id;
                }
            }
            best == target as usize
        })
    }
}

pub(crate) fn prompt_error(error: impl std::fmt::Display) -> EngineError {
    EngineError::Prompt(error.to_string())
}

/// `base` with one layer exchanged.
pub(crate) fn with_layer(
    base: &CompressedCache,
    layer: usize,
    changed: CompressedLayer,
) -> Arc<CompressedCache> {
    let mut cache = base.clone();
    cache.layers[layer] = changed;
    Arc::new(cache)
}
