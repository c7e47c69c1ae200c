//! Makes sure that a model has its profile: finds a stored one, or measures it sample by sample.
//! A measurement is appended line by line, so that a killed one goes on where it was; what it ends in depends on
//! model and recipe alone, never on how often it was interrupted.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::engine::{Engine, SensitivityNews, SensitivityRequest};
use crate::error::RunnerError;
use crate::plan::PlannedProfile;
use crate::profile::prompts::{CalibrationPrompt, prompts};
use crate::profile::sigma;
use crate::profile::store::{self, Partial, PartialLine};
use crate::profile::summary::{self, LEAST_FOR_RELIABILITY};
use crate::profile::together::{Expected, Pass, group_size, usable};
use crate::profile::{DroppedSample, PROFILE_SCHEMA, ProfileDocument, ProfileSample, SigmaChoice};
use crate::run::{Event, StopSignal, Teller, milliseconds};
use crate::store::locks::{Claim, try_claim};

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
        let may_end = profile.recipe.stop_at_reliability.is_some();
        let mut rest = prompts.as_slice();
        while !rest.is_empty() {
            let (group, behind) = rest.split_at(group_size(rest, may_end));
            let done = prompts.len() - rest.len();
            self.ask(Pass::At(sigma.chosen), group, done, prompts.len())?;
            for prompt in group {
                match self.stored_sample(prompt) {
                    Some(Ok(sample)) => samples.push(sample),
                    Some(Err(drop)) => dropped.push(drop),
                    None => return Ok(None),
                }
            }
            let ends_round = behind
                .first()
                .is_some_and(|next| group.iter().all(|prompt| prompt.round < next.round));
            if ends_round && self.is_reliable(&samples) {
                stopped_early = true;
                break;
            }
            rest = behind;
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
            if self.stored_ladder(prompt).is_none() {
                // one at a time: how many are needed shows only on the way
                let group = std::slice::from_ref(prompt);
                self.ask(Pass::Ladder, group, place, prompts.len())?;
            }
            let Some(kl) = self.stored_ladder(prompt) else {
                return Ok(None);
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

    /// Measures those of `group` that are not stored yet, and stores each as it is done. Some stay unmeasured where the
    /// run was asked to stop. `before` prompts come before the group.
    fn ask(
        &mut self,
        pass: Pass,
        group: &[CalibrationPrompt],
        before: usize,
        total: usize,
    ) -> Result<(), RunnerError> {
        let is_stored = |prompt: &CalibrationPrompt| match pass {
            Pass::Ladder => self.stored_ladder(prompt).is_some(),
            Pass::At(_) => self.stored_sample(prompt).is_some(),
        };
        let sigmas = pass.sigmas();
        let missing: Vec<(usize, &CalibrationPrompt)> = (before..)
            .zip(group)
            .filter(|(_, prompt)| !is_stored(prompt))
            .collect();
        let recipe = &self.stage.profile.recipe;
        let stop = self.stage.stop;
        let model = self.engine.identity().name.clone();
        let layers = self.engine.identity().shape.layers;
        let expected = Expected {
            sigmas: sigmas.len(),
            layers,
            signals: pass.signals(recipe),
        };
        let mut started = Instant::now();
        let (teller, partial) = (&mut *self.teller, &mut self.partial);
        let mut keep =
            |teller: &mut Teller<'_>, place: usize, prompt: &CalibrationPrompt, found| {
                let line = pass.line(prompt, found);
                partial.push(line.clone())?;
                let dropped = match line {
                    PartialLine::Dropped(dropped) => Some(dropped.reason),
                    PartialLine::Sample(_) => None,
                    PartialLine::Head { .. } | PartialLine::Ladder { .. } => return Ok(()),
                };
                teller.tell(Event::ProfileSampleDone {
                    model: model.clone(),
                    task: prompt.task.to_owned(),
                    sample: prompt.sample.clone(),
                    done: place + 1,
                    samples: total,
                    dropped,
                    milliseconds: milliseconds(std::mem::replace(&mut started, Instant::now())),
                })
            };
        let mut asked = Vec::new();
        for (place, prompt) in missing {
            if stop.is_set() {
                return Ok(());
            }
            match &prompt.unfit {
                Some(reason) => keep(teller, place, prompt, Err(reason.clone()))?,
                None => asked.push((place, prompt, format!("{}/{}", prompt.task, prompt.sample))),
            }
        }
        let requests: Vec<SensitivityRequest<'_>> = asked
            .iter()
            .map(|(_, prompt, name)| SensitivityRequest {
                ids: &prompt.ids,
                sample: name,
                seed: recipe.seed,
                answer_tokens: recipe.answer_tokens,
                stop: &prompt.stop,
                sigmas,
                draws: recipe.draws,
                norm: recipe.norm,
                positions: recipe.positions,
                inject: recipe.inject,
                first_token: recipe.first_token,
                signals: expected.signals,
            })
            .collect();
        let mut failure = Ok(());
        self.engine
            .sensitivity(&requests, &mut |asked_place, news| {
                let (place, prompt, name) = &asked[asked_place];
                let result = match news {
                    SensitivityNews::Begins if stop.is_set() => return ControlFlow::Break(()),
                    SensitivityNews::Begins => return ControlFlow::Continue(()),
                    SensitivityNews::Layers(layers_done) => {
                        teller.show(&Event::ProfileLayer {
                            model: model.clone(),
                            sample: place + 1,
                            samples: total,
                            layers_done,
                            layers,
                        });
                        return ControlFlow::Continue(());
                    }
                    SensitivityNews::Done(result) => result,
                };
                failure = usable(result, &model, name, expected)
                    .and_then(|found| keep(teller, *place, prompt, found));
                if failure.is_err() || stop.is_set() {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
        failure
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
