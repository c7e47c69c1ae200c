//! `r: calibrate`: picks r and gamma of the ripple mapping by the joint KL on half of the calibration samples, with the
//! method's own scorer and the signal of the other half, so that no sample judges a signal it is part of. Never on test
//! tasks (design.md 5). The whole table is stored beside the profile.

use std::collections::BTreeMap;
use std::path::Path;

use ripplekv_metrics::statistics::column_means;
use serde_json::{Value, json};

use crate::canonical::canonical_hash;
use crate::catalog::Catalog;
use crate::cell::ResolvedMethod;
use crate::engine::{Allocation, DamageOutput, DamageRequest, Engine, EngineError, ShortPrompts};
use crate::error::RunnerError;
use crate::plan::PlannedProfile;
use crate::profile::calibration::{
    CALIBRATION_SCHEMA, Calibration, CalibrationFile, CalibrationRecipe, CalibrationRow,
    calibration_path,
};
use crate::profile::prompts::{CalibrationPrompt, prompts};
use crate::profile::store::profile_model;
use crate::profile::together::LEAST_POSITIONS;
use crate::profile::{DroppedSample, ProfileDocument, ProfileSample};
use crate::run::{Event, StopSignal, Teller};
use crate::store::{read_json, write_json};

const RS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
const GAMMAS: [f64; 3] = [1.5, 2.0, 4.0];
const BUDGETS: [&str; 3] = ["10%", "20%", "30%"];

/// Whether a method's parameters leave r to the calibration.
pub(crate) fn wants_calibration(params: &Value) -> bool {
    params.get("r").and_then(Value::as_str) == Some("calibrate")
}

/// The parameters with r and gamma in place.
pub(crate) fn with_pair(params: &Value, r: f64, gamma: f64) -> Value {
    let mut params = params.clone();
    params["r"] = json!(r);
    params["gamma"] = json!(gamma);
    params
}

/// Picks r and gamma for the methods of one model.
pub(crate) struct Calibrator<'a, 'b> {
    pub(crate) profile: &'a PlannedProfile,
    pub(crate) document: &'a ProfileDocument,
    pub(crate) catalog: &'a Catalog,
    pub(crate) short_prompts: ShortPrompts,
    /// Results folder.
    pub(crate) results: &'a Path,
    pub(crate) stop: &'a StopSignal,
    pub(crate) engine: &'a mut dyn Engine,
    pub(crate) teller: &'a mut Teller<'b>,
}

impl Calibrator<'_, '_> {
    /// The method with r and gamma in place, stored or measured now; `None` where the run was asked to stop.
    ///
    /// # Errors
    /// A stored file of another model, a signal the profile does not have, no usable sample, and what stops the engine.
    pub(crate) fn calibrate(
        &mut self,
        method: &ResolvedMethod,
    ) -> Result<Option<Calibration>, RunnerError> {
        let model = profile_model(self.engine.identity());
        let recipe = self.recipe(method)?;
        let hash = canonical_hash(&json!(recipe));
        let path = calibration_path(self.results, &model.name, &self.scorer(method));
        let mut file = if path.is_file() {
            read_json(&path)?
        } else {
            CalibrationFile {
                schema: CALIBRATION_SCHEMA,
                model: model.clone(),
                calibrations: BTreeMap::new(),
            }
        };
        if file.schema != CALIBRATION_SCHEMA || file.model != model {
            let field = if file.schema == CALIBRATION_SCHEMA {
                "model"
            } else {
                "schema"
            };
            return Err(RunnerError::Stored {
                path,
                line: None,
                message: format!("{field}: differs from that of this run"),
                hint: "remove the file to calibrate again, or start afresh with --out DIR"
                    .to_owned(),
            });
        }
        if let Some(found) = file.calibrations.get(&hash) {
            return Ok(Some(found.clone()));
        }
        let Some(found) = self.measure(method, recipe)? else {
            return Ok(None);
        };
        file.calibrations.insert(hash, found.clone());
        write_json(&path, &file)?;
        let best = found
            .rows
            .iter()
            .find(|row| row.r == found.r && row.gamma == found.gamma);
        self.teller.tell(Event::Calibrated {
            model: model.name,
            method: method.label.clone(),
            r: found.r,
            gamma: found.gamma,
            relative_kl: best.map_or(1.0, |row| row.relative_kl),
        })?;
        Ok(Some(found))
    }

    fn scorer(&self, method: &ResolvedMethod) -> String {
        let of_entry = || {
            self.catalog
                .methods
                .iter()
                .find(|entry| entry.name == method.name)
                .and_then(|entry| entry.scorer)
        };
        method
            .params
            .get("scorer")
            .and_then(Value::as_str)
            .or_else(of_entry)
            .unwrap_or(&method.name)
            .to_owned()
    }

    fn recipe(&self, method: &ResolvedMethod) -> Result<CalibrationRecipe, RunnerError> {
        let signal = self
            .catalog
            .methods
            .iter()
            .find(|entry| entry.name == method.name)
            .and_then(|entry| (entry.needs_signal)(&method.params))
            .unwrap_or_default();
        let mut params = method.params.clone();
        if let Some(map) = params.as_object_mut() {
            map.remove("r");
            map.remove("gamma");
        }
        let budgets = BUDGETS
            .iter()
            .map(|text| (self.catalog.parse_budget)(text))
            .collect::<Result<_, String>>()
            .map_err(|message| self.problem(method, message))?;
        Ok(CalibrationRecipe {
            profile_hash: self.document.content_hash.clone(),
            signal: signal.to_owned(),
            method: method.name.clone(),
            params,
            r: RS.to_vec(),
            gamma: GAMMAS.to_vec(),
            budgets,
            answer_tokens: self.profile.recipe.answer_tokens,
            first_token: self.profile.recipe.first_token,
            short_prompts: self.short_prompts,
            numerics: self.catalog.numerics_version,
        })
    }

    fn problem(&self, method: &ResolvedMethod, message: String) -> RunnerError {
        RunnerError::Data {
            message: format!(
                "model '{}', method '{}', r: calibrate: {message}",
                self.document.model.name, method.label
            ),
            hint: "give r and gamma as numbers, or another calibration pack".to_owned(),
        }
    }

    fn measure(
        &mut self,
        method: &ResolvedMethod,
        recipe: CalibrationRecipe,
    ) -> Result<Option<Calibration>, RunnerError> {
        let weights = self.weights(method, &recipe)?;
        let prompts = self.second_half()?;
        let mut samples = Vec::new();
        let mut dropped = Vec::new();
        // [sample][budget][allocation]
        let mut joint: Vec<Vec<Vec<f64>>> = Vec::new();
        for prompt in &prompts {
            if self.stop.is_set() {
                return Ok(None);
            }
            match self.ask(method, &recipe, &weights, prompt)? {
                Ok(output) => {
                    samples.push(format!("{}/{}", prompt.task, prompt.sample));
                    joint.push(output.budgets.into_iter().map(|b| b.joint_kl).collect());
                }
                Err(reason) => dropped.push(DroppedSample {
                    task: prompt.task.to_owned(),
                    sample: prompt.sample.clone(),
                    reason,
                }),
            }
        }
        if samples.is_empty() {
            return Err(self.problem(
                method,
                "no calibration sample of the second half can be used".to_owned(),
            ));
        }
        let rows = table(&recipe, &weights.pairs, &joint);
        let (r, gamma) = pick(&rows);
        Ok(Some(Calibration {
            recipe,
            r,
            gamma,
            samples,
            dropped,
            rows,
        }))
    }

    /// The uniform allocation first, then one for every pair that is not uniform.
    fn weights(
        &self,
        method: &ResolvedMethod,
        recipe: &CalibrationRecipe,
    ) -> Result<Weights, RunnerError> {
        let first: Vec<ProfileSample> = halves(&self.document.samples).0;
        let Some(signal) = half_signal(&recipe.signal, &first) else {
            let message = format!("the profile has no signal '{}'", recipe.signal);
            return Err(self.problem(method, message));
        };
        let signal = &signal;
        let mut weights = Weights {
            names: vec!["uniform".to_owned()],
            weights: vec![vec![1.0; signal.len()]],
            pairs: Vec::new(),
        };
        for r in &recipe.r {
            for gamma in &recipe.gamma {
                // r = 1 is uniform whatever gamma is
                if *r == 1.0 {
                    weights.pairs.push((*r, *gamma, 0));
                    continue;
                }
                // the mapping's parameters alone: the scorer's are unknown to it
                let mut mapping = json!({ "r": r, "gamma": gamma });
                if let Some(center) = method.params.get("center") {
                    mapping["center"] = center.clone();
                }
                let of_pair = (self.catalog.ripple_weights)(signal, &mapping)
                    .map_err(|problem| self.problem(method, problem.message))?;
                weights.pairs.push((*r, *gamma, weights.weights.len()));
                weights.names.push(format!("r={r},gamma={gamma}"));
                weights.weights.push(of_pair);
            }
        }
        Ok(weights)
    }

    /// The prompts of the second half of the samples that made the profile.
    fn second_half(&self) -> Result<Vec<CalibrationPrompt>, RunnerError> {
        let shape = &self.engine.identity().shape;
        let tokenizer = self.engine.tokenizer();
        let all = prompts(self.profile, shape, tokenizer.as_ref())?;
        let second = halves(&self.document.samples).1;
        let used = second.iter();
        Ok(used
            .filter_map(|used| {
                all.iter()
                    .find(|prompt| prompt.task == used.task && prompt.sample == used.sample)
                    .cloned()
            })
            .collect())
    }

    /// Asks the engine. The inner error says why this sample cannot be used; the outer one stops the stage.
    fn ask(
        &mut self,
        method: &ResolvedMethod,
        recipe: &CalibrationRecipe,
        weights: &Weights,
        prompt: &CalibrationPrompt,
    ) -> Result<Result<DamageOutput, String>, RunnerError> {
        // the request's allocations replace the method's own, but its parameters must still be numbers
        let scorer = ResolvedMethod {
            params: with_pair(&method.params, RS[0], GAMMAS[0]),
            ..method.clone()
        };
        let budgets: Vec<&str> = recipe.budgets.iter().map(String::as_str).collect();
        let allocations: Vec<Allocation<'_>> = weights
            .names
            .iter()
            .zip(&weights.weights)
            .map(|(name, weights)| Allocation { name, weights })
            .collect();
        let request = DamageRequest {
            ids: &prompt.ids,
            answer_tokens: recipe.answer_tokens,
            max_new_tokens: recipe.answer_tokens,
            stop: &prompt.stop,
            method: &scorer,
            budgets: &budgets,
            single_layers: false,
            leave_in: false,
            reference_ids: &[],
            outputs: false,
            allocations: &allocations,
            first_token: recipe.first_token,
            short_prompts: recipe.short_prompts,
        };
        let output = match self.engine.damage(&request, &mut |_| {}) {
            Ok(output) => output,
            Err(EngineError::Prompt(message)) => return Ok(Err(message)),
            Err(source) => {
                return Err(RunnerError::Model {
                    model: self.document.model.name.clone(),
                    source,
                });
            }
        };
        if output.positions < LEAST_POSITIONS {
            return Ok(Err(format!(
                "its answer has {} positions to average, {LEAST_POSITIONS} are needed",
                output.positions
            )));
        }
        let is_whole = output.budgets.len() == budgets.len()
            && output.budgets.iter().all(|budget| {
                budget.joint_kl.len() == allocations.len()
                    && budget.joint_kl.iter().all(|kl| kl.is_finite())
            });
        if !is_whole {
            let sample = format!("{}/{}", prompt.task, prompt.sample);
            let message = format!("sample '{sample}': a joint KL is missing or no number");
            return Err(self.problem(method, message));
        }
        Ok(Ok(output))
    }
}

/// Every second sample of each task, so that both halves hold every kind: the first half makes the signal, the second
/// judges.
fn halves(samples: &[ProfileSample]) -> (Vec<ProfileSample>, Vec<ProfileSample>) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut halves = (Vec::new(), Vec::new());
    for sample in samples {
        let place = seen.entry(&sample.task).or_default();
        let half = if place.is_multiple_of(2) {
            &mut halves.0
        } else {
            &mut halves.1
        };
        half.push(sample.clone());
        *place += 1;
    }
    halves
}

/// A signal of the profile from some of its samples.
fn half_signal(name: &str, samples: &[ProfileSample]) -> Option<Vec<f64>> {
    let power = |sample: &ProfileSample| sample.local_response.iter().map(|e| e * e).collect();
    let rows: Vec<Vec<f64>> = match name {
        "sensitivity" => samples.iter().map(|sample| sample.kl.clone()).collect(),
        "local-response" => samples.iter().map(power).collect(),
        _ => return None,
    };
    let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
    let everyone: Vec<usize> = (0..rows.len()).collect();
    Some(column_means(&rows, &everyone))
}

struct Weights {
    names: Vec<String>,
    weights: Vec<Vec<f64>>,
    /// r, gamma, and the place of their allocation.
    pairs: Vec<(f64, f64, usize)>,
}

/// KL of every pair relative to uniform: sums over samples by budget, so that no sample with hardly any damage decides,
/// and the mean over budgets. Where uniform does no harm at all the ratio is 1.
fn table(
    recipe: &CalibrationRecipe,
    pairs: &[(f64, f64, usize)],
    joint: &[Vec<Vec<f64>>],
) -> Vec<CalibrationRow> {
    pairs
        .iter()
        .map(|(r, gamma, allocation)| {
            let mut budgets = BTreeMap::new();
            for (place, budget) in recipe.budgets.iter().enumerate() {
                let total = |allocation: usize| -> f64 {
                    joint.iter().map(|kl| kl[place][allocation]).sum()
                };
                let uniform = total(0);
                let ratio = if uniform > 0.0 {
                    total(*allocation) / uniform
                } else {
                    1.0
                };
                budgets.insert(budget.clone(), ratio);
            }
            let relative_kl = budgets.values().sum::<f64>() / budgets.len() as f64;
            CalibrationRow {
                r: *r,
                gamma: *gamma,
                relative_kl,
                budgets,
            }
        })
        .collect()
}

/// The pair with the least KL; rows are ordered, so that the first of equals has the smaller r, then gamma.
fn pick(rows: &[CalibrationRow]) -> (f64, f64) {
    let mut best: Option<&CalibrationRow> = None;
    for row in rows {
        if best.is_none_or(|best| row.relative_kl < best.relative_kl) {
            best = Some(row);
        }
    }
    best.map_or((RS[0], GAMMAS[0]), |best| (best.r, best.gamma))
}

#[cfg(test)]
mod tests {
    use super::{CalibrationRow, pick};
    use std::collections::BTreeMap;

    #[test]
    fn the_least_kl_wins_and_ties_go_to_the_smaller_pair() {
        let row = |r: f64, gamma: f64, relative_kl: f64| CalibrationRow {
            r,
            gamma,
            relative_kl,
            budgets: BTreeMap::new(),
        };
        let rows = [
            row(1.0, 1.5, 1.0),
            row(2.0, 1.5, 0.9),
            row(2.0, 2.0, 0.8),
            row(4.0, 1.5, 0.8),
        ];
        assert_eq!(pick(&rows), (2.0, 2.0));
        let flat = [row(1.0, 1.5, 1.0), row(1.0, 2.0, 1.0), row(4.0, 2.0, 1.0)];
        assert_eq!(pick(&flat), (1.0, 1.5), "where nothing helps, uniform");
    }
}
