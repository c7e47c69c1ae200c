//! Makes sure that a model has its profile: finds a stored one, or measures it sample by sample.
//! A measurement is appended line by line, so that a killed one goes on where it was; what it ends in depends on
//! model and recipe alone, never on how often it was interrupted.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::engine::{Engine, EngineError, SensitivityOutput, SensitivityRequest};
use crate::error::RunnerError;
use crate::plan::PlannedProfile;
use crate::profile::prompts::{CalibrationPrompt, prompts};
use crate::profile::sigma::{self, SIGMA_LADDER};
use crate::profile::store::{self, Partial, PartialLine};
use crate::profile::summary::{self, LEAST_FOR_RELIABILITY};
use crate::profile::{DroppedSample, PROFILE_SCHEMA, ProfileDocument, ProfileSample, SigmaChoice};
use crate::run::{Event, StopSignal, Teller, milliseconds};
use crate::store::locks::{Claim, try_claim};

/// Answer positions without which a sample says nothing.
pub(crate) const LEAST_POSITIONS: usize = 2;

/// Samples without which there is no profile.
const LEAST_SAMPLES: usize = 2;

/// How often the lock of another process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Where profiles lie and what is asked of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProfileStage<'a> {
    pub(crate) profile: &'a PlannedProfile,
    /// Results folder.
    pub(crate) results: &'a Path,
    /// Folder that keeps profiles between experiments.
    pub(crate) home: &'a Path,
    pub(crate) stop: &'a StopSignal,
}

/// The profile of the engine's model, stored in the results folder; `None` where the run was asked to stop before
/// it was whole.
///
/// # Errors
/// A stored profile that does not fit, a calibration pack without two usable samples, numbers that are none, and what
/// stops the engine.
pub(crate) fn ensure_profile(
    stage: &ProfileStage<'_>,
    engine: &mut dyn Engine,
    teller: &mut Teller<'_>,
) -> Result<Option<ProfileDocument>, RunnerError> {
    let identity = engine.identity().clone();
    let stored = store::profile_path(stage.results, &identity.name);
    if stored.is_file() {
        let document = store::load(&stored, stage.profile, &identity)?;
        tell_found(teller, &document, &stored)?;
        return Ok(Some(document));
    }
    let folder = store::cache_folder(stage.home, &identity);
    let cached = folder.join(format!("{}.json", stage.profile.recipe_hash));
    // the lock first: where another process measures, its result appears before the lock is free
    let Some(_claim) = wait_for(stage, &folder, &identity.name, teller)? else {
        return Ok(None);
    };
    if cached.is_file() {
        let document = store::load(&cached, stage.profile, &identity)?;
        store::write(&stored, &document)?;
        tell_found(teller, &document, &cached)?;
        return Ok(Some(document));
    }
    let partial = Partial::open(
        folder.join(format!("{}.partial.jsonl", stage.profile.recipe_hash)),
        &stage.profile.recipe_hash,
        &store::profile_model(&identity),
    )?;
    let started = Instant::now();
    let mut measurement = Measurement {
        stage,
        engine,
        teller,
        partial,
    };
    let Some(document) = measurement.measure()? else {
        return Ok(None);
    };
    store::write(&cached, &document)?;
    store::write(&stored, &document)?;
    measurement.partial.remove()?;
    teller.tell(Event::ProfileFinished {
        model: identity.name,
        path: stored.display().to_string(),
        sigma: document.sigma.chosen,
        samples: document.samples.len(),
        dropped: document.dropped.len(),
        reliability: document.reliability.map(|found| found.spearman_brown),
        stopped_early: document.stopped_early,
        milliseconds: milliseconds(started),
    })?;
    Ok(Some(document))
}

fn tell_found(
    teller: &mut Teller<'_>,
    document: &ProfileDocument,
    from: &Path,
) -> Result<(), RunnerError> {
    teller.tell(Event::ProfileFound {
        model: document.model.name.clone(),
        from: from.display().to_string(),
    })
}

/// Waits until no other process measures the same profile; `None` where the run was asked to stop.
fn wait_for(
    stage: &ProfileStage<'_>,
    folder: &Path,
    model: &str,
    teller: &mut Teller<'_>,
) -> Result<Option<Claim>, RunnerError> {
    let mut is_told = false;
    loop {
        if stage.stop.is_set() {
            return Ok(None);
        }
        if let Some(claim) = try_claim(folder, &stage.profile.recipe_hash)? {
            return Ok(Some(claim));
        }
        if !is_told {
            teller.tell(Event::ProfileBusy {
                model: model.to_owned(),
            })?;
            is_told = true;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

struct Measurement<'a, 'b> {
    stage: &'a ProfileStage<'a>,
    engine: &'a mut dyn Engine,
    teller: &'a mut Teller<'b>,
    partial: Partial,
}

impl Measurement<'_, '_> {
    fn measure(&mut self) -> Result<Option<ProfileDocument>, RunnerError> {
        let identity = self.engine.identity().clone();
        let tokenizer = self.engine.tokenizer();
        let profile = self.stage.profile;
        let prompts = prompts(profile, &identity.shape, tokenizer.as_ref())?;
        let done = prompts.iter().filter(|prompt| self.is_done(prompt)).count();
        self.teller.tell(Event::ProfileStarted {
            model: identity.name.clone(),
            samples: prompts.len(),
            done,
            layers: identity.shape.layers,
        })?;
        if prompts.len() < profile.recipe.samples {
            self.teller.warn(format!(
                "the calibration pack {} has {} records, the spec asks for {}",
                profile.pack.name(),
                prompts.len(),
                profile.recipe.samples
            ))?;
        }
        let Some(sigma) = self.sigma(&prompts)? else {
            return Ok(None);
        };
        let mut samples: Vec<ProfileSample> = Vec::new();
        let mut dropped = Vec::new();
        let mut stopped_early = false;
        for (place, prompt) in prompts.iter().enumerate() {
            match self.sample(prompt, sigma.chosen, place, prompts.len())? {
                Some(Ok(sample)) => samples.push(sample),
                Some(Err(drop)) => dropped.push(drop),
                None => return Ok(None),
            }
            let ends_round = prompts
                .get(place + 1)
                .is_some_and(|next| next.round > prompt.round);
            if ends_round && self.is_reliable(&samples) {
                stopped_early = true;
                break;
            }
        }
        if samples.len() < LEAST_SAMPLES {
            return Err(too_few(&identity.name, samples.len(), &dropped));
        }
        let seed = profile.recipe.seed;
        let mut document = ProfileDocument {
            schema: PROFILE_SCHEMA,
            recipe_hash: profile.recipe_hash.clone(),
            content_hash: String::new(),
            recipe: profile.recipe.clone(),
            model: store::profile_model(&identity),
            sigma,
            sensitivity: summary::sensitivity(&samples, seed),
            reliability: summary::reliability(&samples, seed),
            stopped_early,
            samples,
            dropped,
        };
        document.content_hash = store::content_hash(&document);
        Ok(Some(document))
    }

    fn is_done(&self, prompt: &CalibrationPrompt) -> bool {
        self.stored_sample(prompt).is_some()
    }

    fn is_reliable(&self, samples: &[ProfileSample]) -> bool {
        let recipe = &self.stage.profile.recipe;
        let Some(wanted) = recipe.stop_at_reliability else {
            return false;
        };
        samples.len() >= LEAST_FOR_RELIABILITY
            && summary::reliability(samples, recipe.seed)
                .is_some_and(|found| found.spearman_brown >= wanted)
    }

    /// Measures the ladder in a pass of its own, so that every sample is later asked for the chosen scale in the same
    /// way, and picks the scale.
    fn sigma(&mut self, prompts: &[CalibrationPrompt]) -> Result<Option<SigmaChoice>, RunnerError> {
        let recipe = &self.stage.profile.recipe;
        let mut samples: Vec<Vec<Vec<f64>>> = Vec::new();
        for (place, prompt) in prompts.iter().enumerate() {
            if samples.len() == recipe.sigma_samples {
                break;
            }
            if prompt.unfit.is_some() {
                continue;
            }
            let kl = match self.stored_ladder(prompt) {
                Some(kl) => kl,
                None if self.stage.stop.is_set() => return Ok(None),
                None => {
                    let output = self.ask(prompt, &SIGMA_LADDER, place, prompts.len())?;
                    let kl = output.map_or_else(|_| Vec::new(), |output| output.kl);
                    self.partial.push(PartialLine::Ladder {
                        task: prompt.task.to_owned(),
                        sample: prompt.sample.clone(),
                        kl: kl.clone(),
                    })?;
                    kl
                }
            };
            if !kl.is_empty() {
                samples.push(kl);
            }
        }
        let samples: Vec<&[Vec<f64>]> = samples.iter().map(Vec::as_slice).collect();
        let (choice, warning) = sigma::choose(recipe.sigma, sigma::ladder(&samples));
        if let Some(text) = warning {
            let model = &self.engine.identity().name;
            let text = format!("model '{model}': {text}");
            self.teller.warn(text)?;
        }
        Ok(Some(choice))
    }

    /// One sample at the chosen scale, or why it is left out; `None` where the run was asked to stop.
    fn sample(
        &mut self,
        prompt: &CalibrationPrompt,
        sigma: f64,
        place: usize,
        total: usize,
    ) -> Result<Option<Result<ProfileSample, DroppedSample>>, RunnerError> {
        if let Some(stored) = self.stored_sample(prompt) {
            return Ok(Some(stored));
        }
        if self.stage.stop.is_set() {
            return Ok(None);
        }
        let started = Instant::now();
        let answer = match &prompt.unfit {
            Some(reason) => Err(reason.clone()),
            None => self.ask(prompt, &[sigma], place, total)?,
        };
        let found = answer
            .map(|output| ProfileSample {
                task: prompt.task.to_owned(),
                sample: prompt.sample.clone(),
                prompt_tokens: prompt.ids.len() as u64,
                answer_tokens: output.answer_ids.len() as u64,
                positions: output.positions as u64,
                kl: output.kl.into_iter().next().unwrap_or_default(),
                local_response: output.local_response.into_iter().next().unwrap_or_default(),
                window_entropy: output.window_entropy,
                hidden_change: output.hidden_change,
                all_layers_kl: output.all_layers_kl.first().copied().unwrap_or_default(),
            })
            .map_err(|reason| DroppedSample {
                task: prompt.task.to_owned(),
                sample: prompt.sample.clone(),
                reason,
            });
        self.partial.push(match &found {
            Ok(sample) => PartialLine::Sample(sample.clone()),
            Err(dropped) => PartialLine::Dropped(dropped.clone()),
        })?;
        self.teller.tell(Event::ProfileSampleDone {
            model: self.engine.identity().name.clone(),
            task: prompt.task.to_owned(),
            sample: prompt.sample.clone(),
            done: place + 1,
            samples: total,
            dropped: found.as_ref().err().map(|dropped| dropped.reason.clone()),
            milliseconds: milliseconds(started),
        })?;
        Ok(Some(found))
    }

    fn stored_sample(
        &self,
        prompt: &CalibrationPrompt,
    ) -> Option<Result<ProfileSample, DroppedSample>> {
        self.partial.lines().iter().find_map(|line| match line {
            PartialLine::Sample(found)
                if found.task == prompt.task && found.sample == prompt.sample =>
            {
                Some(Ok(found.clone()))
            }
            PartialLine::Dropped(found)
                if found.task == prompt.task && found.sample == prompt.sample =>
            {
                Some(Err(found.clone()))
            }
            _ => None,
        })
    }

    fn stored_ladder(&self, prompt: &CalibrationPrompt) -> Option<Vec<Vec<f64>>> {
        self.partial.lines().iter().find_map(|line| match line {
            PartialLine::Ladder { task, sample, kl }
                if task == prompt.task && *sample == prompt.sample =>
            {
                Some(kl.clone())
            }
            _ => None,
        })
    }

    /// Asks the engine. The inner error says why this sample cannot be used; the outer one stops the stage.
    fn ask(
        &mut self,
        prompt: &CalibrationPrompt,
        sigmas: &[f64],
        place: usize,
        total: usize,
    ) -> Result<Result<SensitivityOutput, String>, RunnerError> {
        let recipe = &self.stage.profile.recipe;
        let name = format!("{}/{}", prompt.task, prompt.sample);
        let request = SensitivityRequest {
            ids: &prompt.ids,
            sample: &name,
            seed: recipe.seed,
            answer_tokens: recipe.answer_tokens,
            stop: &prompt.stop,
            sigmas,
            draws: recipe.draws,
            norm: recipe.norm,
            positions: recipe.positions,
            inject: recipe.inject,
            first_token: recipe.first_token,
        };
        let model = self.engine.identity().name.clone();
        let layers = self.engine.identity().shape.layers;
        let mut on_layer = |layers_done| {
            self.teller.show(&Event::ProfileLayer {
                model: model.clone(),
                sample: place + 1,
                samples: total,
                layers_done,
                layers,
            });
        };
        let output = match self.engine.sensitivity(&request, &mut on_layer) {
            Ok(output) => output,
            // not stored as a property of the sample: a profile is kept for good, and memory may have been short
            Err(EngineError::Prompt(message)) => {
                return Err(RunnerError::Data {
                    message: format!("model '{model}', calibration sample '{name}': {message}"),
                    hint: "run again: what was measured is kept".to_owned(),
                });
            }
            Err(source) => return Err(RunnerError::Model { model, source }),
        };
        if output.positions < LEAST_POSITIONS {
            return Ok(Err(format!(
                "its answer has {} positions to average, {LEAST_POSITIONS} are needed",
                output.positions
            )));
        }
        check_numbers(&output, sigmas.len(), layers).map_err(|problem| RunnerError::Data {
            message: format!("model '{model}', calibration sample '{name}': {problem}"),
            hint: "the model gives no usable numbers on this prompt; check its files".to_owned(),
        })?;
        Ok(Ok(output))
    }
}

/// Every list has its length and every number is one.
fn check_numbers(output: &SensitivityOutput, sigmas: usize, layers: usize) -> Result<(), String> {
    let per_layer = |name: &str, values: &[f64]| match values.iter().position(|v| !v.is_finite()) {
        Some(layer) => Err(format!("layer {layer}: {name} is {}", values[layer])),
        None if values.len() != layers => {
            Err(format!("{name} has {} layers of {layers}", values.len()))
        }
        None => Ok(()),
    };
    for (name, rows) in [
        ("KL", &output.kl),
        ("local response", &output.local_response),
    ] {
        if rows.len() != sigmas {
            return Err(format!(
                "{name} has {} noise scales of {sigmas}",
                rows.len()
            ));
        }
        rows.iter().try_for_each(|row| per_layer(name, row))?;
    }
    per_layer("window entropy", &output.window_entropy)?;
    per_layer("hidden change", &output.hidden_change)?;
    match output.all_layers_kl.iter().find(|kl| !kl.is_finite()) {
        Some(kl) => Err(format!("the KL with every layer perturbed is {kl}")),
        None if output.all_layers_kl.len() != sigmas => {
            Err("the KL with every layer perturbed is missing".to_owned())
        }
        None => Ok(()),
    }
}

fn too_few(model: &str, usable: usize, dropped: &[DroppedSample]) -> RunnerError {
    let reasons = dropped.first().map_or_else(String::new, |first| {
        format!("; '{}/{}': {}", first.task, first.sample, first.reason)
    });
    RunnerError::Data {
        message: format!(
            "model '{model}': {usable} of {} calibration samples can be used, a profile needs {LEAST_SAMPLES}{reasons}",
            usable + dropped.len()
        ),
        hint: "name another pack with profile.calibration, or raise profile.samples".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::check_numbers;
    use crate::engine::SensitivityOutput;

    #[test]
    fn numbers_that_are_none_name_their_layer() {
        let good = SensitivityOutput {
            answer_ids: vec![1, 2, 3],
            positions: 2,
            kl: vec![vec![0.1, 0.2]],
            local_response: vec![vec![0.1, 0.2]],
            all_layers_kl: vec![0.5],
            window_entropy: vec![1.0, 1.0],
            hidden_change: vec![0.1, 0.1],
        };
        assert_eq!(check_numbers(&good, 1, 2), Ok(()));
        let mut bad = good.clone();
        bad.kl[0][1] = f64::NAN;
        assert_eq!(
            check_numbers(&bad, 1, 2),
            Err("layer 1: KL is NaN".to_owned())
        );
        let mut bad = good.clone();
        bad.all_layers_kl[0] = f64::INFINITY;
        assert!(check_numbers(&bad, 1, 2).is_err());
        assert!(check_numbers(&good, 1, 3).is_err(), "a layer is missing");
        assert!(
            check_numbers(&good, 2, 2).is_err(),
            "a noise scale is missing"
        );
    }
}
