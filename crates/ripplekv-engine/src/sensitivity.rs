//! RippleKV's sensitivity of one prompt: noise on the values of one layer at a time, and how far the final distribution
//! of the full model's own answer moves (design.md 5; arXiv 2608.08684).

use std::ops::ControlFlow;
use std::sync::Arc;

use candle_core::Tensor;
use rayon::prelude::*;
use ripplekv_cache::{
    CacheError, CompressedCache, Needs, Noise, NoiseKey, NoiseNorm, NoisePositions, Snapshot,
    window_entropy,
};
use ripplekv_model::{Branch, Decoder, ModelError, Move, Prefill, PrefillOptions, Variants};
use ripplekv_runner::engine as contract;
use ripplekv_runner::engine::{
    EngineError, FirstToken, Injection, SensitivityNews, SensitivityOutput, SensitivityRequest,
};

use crate::decode::{Continuation, Start, decode_rows};
use crate::forced::{Compared, ForcedAnswer, LEAST_POSITIONS, Reference, mean, prompt_error};

/// Queries whose attention entropy is a signal, as in the snapkv scorer.
const ENTROPY_WINDOW: usize = 64;

/// Signs of the two draws of an antithetic pair.
const SIGNS: [f64; 2] = [1.0, -1.0];

/// One request after its prefill.
struct Begun<'a> {
    request: &'a SensitivityRequest<'a>,
    prefill: Prefill,
    full: Arc<CompressedCache>,
}

/// See [`contract::Engine::sensitivity`].
pub(crate) fn sensitivity(
    decoder: &dyn Decoder,
    requests: &[SensitivityRequest<'_>],
    tell: &mut dyn FnMut(usize, SensitivityNews) -> ControlFlow<()>,
) {
    let mut begun = Vec::new();
    for (place, request) in requests.iter().enumerate() {
        if tell(place, SensitivityNews::Begins).is_break() {
            return;
        }
        match begin(decoder, request) {
            Ok(request) => begun.push((place, request)),
            Err(error) => {
                if tell(place, SensitivityNews::Done(Err(error))).is_break() {
                    return;
                }
            }
        }
    }
    let answers = answers(decoder, begun.iter().map(|(_, begun)| begun));
    for ((place, begun), answer) in begun.into_iter().zip(answers) {
        let mut on_layer = |layers| {
            // a request is stopped between requests
            let _ = tell(place, SensitivityNews::Layers(layers));
        };
        let result = answer.and_then(|answer| perturb(decoder, &begun, &answer, &mut on_layer));
        // its caches make room before anything else happens
        drop(begun);
        if tell(place, SensitivityNews::Done(result)).is_break() {
            return;
        }
    }
}

fn begin<'a>(
    decoder: &dyn Decoder,
    request: &'a SensitivityRequest<'a>,
) -> Result<Begun<'a>, EngineError> {
    check(request)?;
    let options = PrefillOptions {
        needs: Needs {
            window_queries: if request.signals { ENTROPY_WINDOW } else { 0 },
            ..Needs::default()
        },
        hidden_change: request.signals,
        ..PrefillOptions::default()
    };
    let prefill = decoder
        .prefill_with(request.ids, options, &mut |_, _| ())
        .map_err(prompt_error)?;
    let full = Arc::new(CompressedCache::full(&prefill.snapshot));
    Ok(Begun {
        request,
        prefill,
        full,
    })
}

/// The full model's answers, decoded together: a step for one row waits for the weights to be read, several rows wait
/// once.
fn answers<'a>(
    decoder: &dyn Decoder,
    begun: impl Iterator<Item = &'a Begun<'a>>,
) -> Vec<Result<Vec<u32>, EngineError>> {
    let starts: Vec<Start<'_>> = begun
        .map(|begun| Start {
            cache: Arc::clone(&begun.full),
            first_logits: &begun.prefill.logits,
            stop: begun.request.stop,
            max_new_tokens: begun.request.answer_tokens,
            look_ahead_in: begun.request.ids,
        })
        .collect();
    let ids = |row: Result<Continuation, ModelError>| Ok(row.map_err(prompt_error)?.ids);
    if let Ok(answers) = decode_rows(decoder, &starts) {
        return answers.into_iter().map(ids).collect();
    }
    // each by itself, so that what stopped the batch stays with its request
    let alone = starts.chunks(1).map(|start| {
        let mut answers = decode_rows(decoder, start).map_err(prompt_error)?;
        ids(answers.remove(0))
    });
    alone.collect()
}

fn perturb(
    decoder: &dyn Decoder,
    begun: &Begun<'_>,
    answer_ids: &[u32],
    on_layer: &mut dyn FnMut(usize),
) -> Result<SensitivityOutput, EngineError> {
    let Begun {
        request,
        prefill,
        full,
    } = begun;
    let probe = Probe {
        decoder,
        request,
        prefill,
        full: Arc::clone(full),
        answer: ForcedAnswer {
            last_prompt_token: request.ids.last().copied().unwrap_or_default(),
            answer: answer_ids,
            first_token: request.first_token,
        },
    };
    let positions = match request.inject {
        Injection::Cache => probe.answer.targets().len(),
        // the perturbed prefill gives a first token of its own
        Injection::Prefill => answer_ids.len(),
    };
    let mut output = SensitivityOutput {
        positions,
        kl: Vec::new(),
        local_response: Vec::new(),
        all_layers_kl: Vec::new(),
        window_entropy: Vec::new(),
        hidden_change: prefill.hidden_change.clone(),
        answer_ids: answer_ids.to_vec(),
    };
    if positions < LEAST_POSITIONS {
        output.hidden_change.clear();
        return Ok(output);
    }
    if request.signals {
        let window = ENTROPY_WINDOW.min(request.ids.len());
        let layers = prefill.snapshot.layers.par_iter();
        output.window_entropy = layers
            .map(|layer| window_entropy(layer, window).map_err(prompt_error))
            .collect::<Result<Vec<f64>, _>>()?;
    }
    let measured = match request.inject {
        Injection::Cache => probe.in_cache(on_layer)?,
        Injection::Prefill => {
            let sigmas = request.sigmas.iter();
            sigmas
                .map(|&sigma| probe.in_prefill(sigma, on_layer))
                .collect::<Result<Vec<_>, _>>()?
        }
    };
    for measured in measured {
        output.kl.push(measured.kl);
        output.local_response.push(measured.local_response);
        output.all_layers_kl.extend(measured.all_layers_kl);
    }
    Ok(output)
}

fn check(request: &SensitivityRequest<'_>) -> Result<(), EngineError> {
    let wrong = |text: String| Err(EngineError::Spec(text));
    if request.draws == 0 || !request.draws.is_multiple_of(2) {
        return wrong(format!(
            "profile.draws: must be even and at least 2, not {}",
            request.draws
        ));
    }
    match request
        .sigmas
        .iter()
        .find(|sigma| !(sigma.is_finite() && **sigma >= 0.0))
    {
        Some(sigma) => wrong(format!("profile.sigma: must be positive, not {sigma}")),
        None => Ok(()),
    }
}

/// One noise scale.
struct Measured {
    kl: Vec<f64>,
    local_response: Vec<f64>,
    all_layers_kl: Option<f64>,
}

struct Probe<'a> {
    decoder: &'a dyn Decoder,
    request: &'a SensitivityRequest<'a>,
    prefill: &'a Prefill,
    full: Arc<CompressedCache>,
    answer: ForcedAnswer<'a>,
}

impl Probe<'_> {
    fn snapshot(&self) -> &Snapshot {
        &self.prefill.snapshot
    }

    fn layers(&self) -> usize {
        self.snapshot().layers.len()
    }

    fn reference(&self) -> Branch {
        Branch {
            cache: Arc::clone(&self.full),
            from_layer: 0,
        }
    }

    /// Noise of one antithetic pair for the values of a layer.
    fn noise(&self, layer: usize, pair: usize, values: &Tensor) -> Result<Noise, CacheError> {
        let norm = match self.request.norm {
            contract::NoiseNorm::Token => NoiseNorm::Token,
            contract::NoiseNorm::Head => NoiseNorm::Head,
            contract::NoiseNorm::Layer => NoiseNorm::Layer,
        };
        let positions = match self.request.positions {
            contract::NoisePositions::All => NoisePositions::All,
            contract::NoisePositions::Evictable => NoisePositions::Evictable,
        };
        let key = NoiseKey {
            seed: self.request.seed,
            sample: self.request.sample,
            layer,
            pair,
        };
        Noise::draw(&key, values, norm, positions)
    }

    /// Noise in the finished cache: all scales, layers and draws as moves of one teacher-forced pass. The noise of a layer
    /// is drawn when the pass comes to it.
    fn in_cache(&self, on_layer: &mut dyn FnMut(usize)) -> Result<Vec<Measured>, EngineError> {
        let SensitivityRequest { sigmas, draws, .. } = *self.request;
        let along = |layer: Option<usize>, draw: usize, sigma: f64| Move {
            layer,
            direction: draw / 2,
            factor: (SIGNS[draw % 2] * sigma) as f32,
        };
        let mut moves = Vec::new();
        for &sigma in sigmas {
            for layer in 0..self.layers() {
                moves.extend((0..draws).map(|draw| along(Some(layer), draw, sigma)));
            }
            if self.request.signals {
                // a control needs no second draw
                moves.push(along(None, 0, sigma));
            }
        }
        let directions = |layer: usize| {
            let values = &self.snapshot().layers[layer].values;
            let pairs = 0..draws / 2;
            let drawn =
                pairs.map(|pair| self.noise(layer, pair, values)?.direction(values.device()));
            drawn
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| candle_core::Error::Msg(error.to_string()))
        };
        let variants = Variants {
            branches: &[self.reference()],
            moves: &moves,
            directions: &directions,
        };
        let results = self
            .answer
            .run(self.decoder, variants, on_layer, |row| row.kl())?;
        let mean_of = |draws: &[Compared<f64>], value: fn(&Compared<f64>) -> f64| {
            mean(&draws.iter().map(value).collect::<Vec<_>>())
        };
        let of_layers = |draws_of_layers: &[Compared<f64>], value: fn(&Compared<f64>) -> f64| {
            let layers = draws_of_layers.chunks_exact(draws);
            layers.map(|draws| mean_of(draws, value)).collect()
        };
        let single = self.layers() * draws;
        let of_sigmas = results[1..].chunks_exact(single + usize::from(self.request.signals));
        let measured = of_sigmas.map(|results| {
            let (single, control) = results.split_at(single);
            Measured {
                kl: of_layers(single, |draw| mean(&draw.rows)),
                local_response: of_layers(single, |draw| draw.local_error.unwrap_or_default()),
                all_layers_kl: control.first().map(|control| mean(&control.rows)),
            }
        });
        Ok(measured.collect())
    }

    /// Noise during the prefill: one whole prefill a layer and draw.
    fn in_prefill(
        &self,
        sigma: f64,
        on_layer: &mut dyn FnMut(usize),
    ) -> Result<Measured, EngineError> {
        let mut measured = Measured {
            kl: Vec::new(),
            local_response: Vec::new(),
            all_layers_kl: None,
        };
        for layer in 0..self.layers() {
            let (kl, local) = self.prefilled(sigma, Some(layer), self.request.draws)?;
            measured.kl.push(kl);
            measured.local_response.push(local);
            on_layer(layer + 1);
        }
        if self.request.signals {
            measured.all_layers_kl = Some(self.prefilled(sigma, None, 1)?.0);
        }
        Ok(measured)
    }

    /// Mean KL and local error over draws with noise in one layer, or in all.
    fn prefilled(
        &self,
        sigma: f64,
        only: Option<usize>,
        draws: usize,
    ) -> Result<(f64, f64), EngineError> {
        let (mut kl, mut local) = (0.0, 0.0);
        for draw in 0..draws {
            let edit = |layer: usize, values: Tensor| {
                if only.is_some_and(|only| only != layer) {
                    return Ok(values);
                }
                self.noise(layer, draw / 2, &values)
                    .and_then(|noise| noise.perturbed(&values, SIGNS[draw % 2] * sigma))
                    .map_err(|error| candle_core::Error::Msg(error.to_string()))
            };
            let options = PrefillOptions {
                // the same work as the reference's prefill, so that equal values give equal bits
                hidden_change: self.request.signals,
                edit_values: Some(&edit),
                ..PrefillOptions::default()
            };
            let changed = self
                .decoder
                .prefill_with(self.request.ids, options, &mut |_, _| ())
                .map_err(prompt_error)?;
            let branches = [
                self.reference(),
                Branch {
                    cache: Arc::new(CompressedCache::full(&changed.snapshot)),
                    from_layer: only.unwrap_or(0),
                },
            ];
            let answer = ForcedAnswer {
                first_token: FirstToken::Skip,
                ..self.answer
            };
            let rest = answer.targets().len();
            let first = Reference::of_logits(&self.prefill.logits)?
                .first_kl(&Reference::of_logits(&changed.logits)?)?;
            let variants = Variants::caches(&branches);
            let results = answer.run(self.decoder, variants, &mut |_| (), |row| row.kl())?;
            kl += (first + mean(&results[1].rows) * rest as f64) / (rest + 1) as f64;
            local += results[1].local_error.unwrap_or_default();
        }
        Ok((kl / draws as f64, local / draws as f64))
    }
}
