//! Distributions of teacher-forced answers: which tokens are fed, which positions count, and how far a changed cache
//! moves them (design.md 5).

use std::sync::{Arc, OnceLock};

use candle_core::Tensor;
use rayon::prelude::*;
use ripplekv_cache::{CompressedCache, CompressedLayer};
use ripplekv_metrics::statistics::{kl_divergence_from, log_softmax, probabilities};
use ripplekv_model::{Branch, Decoder, Variants};
use ripplekv_runner::engine::{EngineError, FirstToken};

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

    /// What `visit` makes of every target position of every variant, the first of which is the reference. Rows are visited
    /// in any order, on several threads.
    pub(crate) fn run<T: Send + Sync>(
        &self,
        decoder: &dyn Decoder,
        variants: Variants<'_>,
        on_layer: &mut dyn FnMut(usize),
        visit: impl Fn(&ForcedRow<'_>) -> Result<T, EngineError> + Sync,
    ) -> Result<Vec<Compared<T>>, EngineError> {
        let reread = self.first_token == FirstToken::Reread;
        let forced = decoder
            .force(variants, &self.fed(), reread, on_layer)
            .map_err(prompt_error)?
            .branches;
        let reference = Reference::of_states(decoder, &forced[0].states)?;
        let mut rows = reference.with_itself(&visit)?;
        let others: Vec<&[f32]> = forced[1..].iter().map(|own| &own.states[..]).collect();
        rows.extend(reference.compare(decoder, &others.concat(), &visit)?);
        let mut rows = rows.into_iter();
        let positions = self.fed().len();
        Ok(forced
            .iter()
            .map(|own| Compared {
                rows: rows.by_ref().take(positions).collect(),
                local_error: own.local_error,
            })
            .collect())
    }
}

/// One variant.
pub(crate) struct Compared<T> {
    /// One entry a target position.
    pub(crate) rows: Vec<T>,
    /// See [`ripplekv_model::ForcedBranch`].
    pub(crate) local_error: Option<f64>,
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
    let states = |cache: &Arc<CompressedCache>| -> Result<Vec<f32>, EngineError> {
        let branch = Branch {
            cache: Arc::clone(cache),
            from_layer: 0,
        };
        let mut forced = decoder
            .force(
                Variants::caches(&[branch]),
                &answer.fed(),
                false,
                &mut |_| (),
            )
            .map_err(prompt_error)?;
        Ok(forced.branches.swap_remove(0).states)
    };
    let reference = Reference::of_states(decoder, &states(full)?)?;
    let of_cache = |cache| -> Result<_, EngineError> {
        let kl = reference.compare(decoder, &states(cache)?, |row| row.kl())?;
        Ok(Some(mean(&kl)))
    };
    Ok(caches.iter().map(of_cache).collect())
}

/// One position's distribution beside the reference's.
pub(crate) struct ForcedRow<'a> {
    /// Number of the target.
    pub(crate) position: usize,
    /// Of the reference, `[vocab]`.
    probabilities: &'a [f64],
    reference: &'a [f32],
    /// `[vocab]`.
    log_probabilities: &'a [f32],
}

impl ForcedRow<'_> {
    /// KL(reference, this), in nats.
    pub(crate) fn kl(&self) -> Result<f64, EngineError> {
        kl_divergence_from(self.probabilities, self.reference, self.log_probabilities)
            .map_err(prompt_error)
    }

    pub(crate) fn negative_log_probability(&self, token: u32) -> f64 {
        -f64::from(self.log_probabilities[token as usize])
    }

    /// The most likely token; ties go to the lower id, as in decoding.
    pub(crate) fn most_likely(&self) -> u32 {
        let mut best = 0;
        for (id, value) in self.log_probabilities.iter().enumerate() {
            if *value > self.log_probabilities[best] {
                best = id;
            }
        }
        best as u32
    }
}

/// The distributions that others are compared with.
pub(crate) struct Reference {
    vocabulary: usize,
    /// `[positions, vocab]`.
    log_probabilities: Vec<f32>,
    /// `[positions, vocab]`.
    probabilities: Vec<f64>,
}

impl Reference {
    fn of_states(decoder: &dyn Decoder, states: &[f32]) -> Result<Self, EngineError> {
        Self::new(decoder.logits(states), decoder.config().vocab_size)
    }

    /// From logits `[vocab]` of one position.
    pub(crate) fn of_logits(logits: &Tensor) -> Result<Self, EngineError> {
        let logits = logits.to_vec1::<f32>().map_err(prompt_error)?;
        let vocabulary = logits.len();
        Self::new(logits, vocabulary)
    }

    fn new(mut logits: Vec<f32>, vocabulary: usize) -> Result<Self, EngineError> {
        logits
            .par_chunks_mut(vocabulary)
            .try_for_each(|row| log_softmax(row).map_err(prompt_error))?;
        Ok(Self {
            vocabulary,
            probabilities: logits
                .par_chunks(vocabulary)
                .flat_map_iter(probabilities)
                .collect(),
            log_probabilities: logits,
        })
    }

    /// The row of `position` beside a distribution.
    fn row<'a>(&'a self, position: usize, log_probabilities: &'a [f32]) -> ForcedRow<'a> {
        let place = position * self.vocabulary..(position + 1) * self.vocabulary;
        ForcedRow {
            position,
            probabilities: &self.probabilities[place.clone()],
            reference: &self.log_probabilities[place],
            log_probabilities,
        }
    }

    /// What `visit` makes of the reference's own rows.
    pub(crate) fn with_itself<T>(
        &self,
        visit: impl Fn(&ForcedRow<'_>) -> Result<T, EngineError>,
    ) -> Result<Vec<T>, EngineError> {
        let rows = self.log_probabilities.chunks_exact(self.vocabulary);
        rows.enumerate()
            .map(|(position, own)| visit(&self.row(position, own)))
            .collect()
    }

    /// What `visit` makes of every row of `states`, `[variants * positions, hidden]`.
    fn compare<T: Send + Sync>(
        &self,
        decoder: &dyn Decoder,
        states: &[f32],
        visit: impl Fn(&ForcedRow<'_>) -> Result<T, EngineError> + Sync,
    ) -> Result<Vec<T>, EngineError> {
        let positions = self.log_probabilities.len() / self.vocabulary;
        let hidden = decoder.config().hidden_size;
        let variants = states.len() / hidden / positions.max(1);
        // all variants of a position one after the other, so that what they are compared with is read from memory once
        let places = (0..positions)
            .flat_map(|position| (0..variants).map(move |variant| variant * positions + position));
        let places: Vec<usize> = places.collect();
        let rows = places
            .iter()
            .map(|place| &states[place * hidden..][..hidden]);
        let rows = rows.collect::<Vec<_>>().concat();
        let found: Vec<OnceLock<Result<T, EngineError>>> =
            places.iter().map(|_| OnceLock::new()).collect();
        decoder.each_logits(&rows, &|row, logits| {
            let made = log_softmax(logits)
                .map_err(prompt_error)
                .and_then(|()| visit(&self.row(places[row] % positions, logits)));
            // every row is visited once
            let _ = found[places[row]].set(made);
        });
        found
            .into_iter()
            .map(|made| made.into_inner().unwrap_or_else(|| Err(missing())))
            .collect()
    }

    /// KL(self, other) of the first position, in nats.
    pub(crate) fn first_kl(&self, other: &Self) -> Result<f64, EngineError> {
        self.row(0, &other.log_probabilities[..self.vocabulary])
            .kl()
    }

    /// Negative log-probability of a token at the first position.
    pub(crate) fn first_negative_log_probability(&self, token: u32) -> f64 {
        self.row(0, &self.log_probabilities)
            .negative_log_probability(token)
    }
}

fn missing() -> EngineError {
    EngineError::Prompt("a forced position has no logits".to_owned())
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
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
