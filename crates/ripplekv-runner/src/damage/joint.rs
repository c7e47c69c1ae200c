//! Second pass: all layers compressed at once, by the allocation that each signal leads to. The oracle's signal is the
//! single-layer damage of the other half of the samples, so that no sample helps to choose its own budgets.

use std::collections::BTreeMap;

use crate::damage::ask::Asked;
use crate::damage::document::{DAMAGE_SCHEMA, DamageSample, JointSample, SIGNALS, SignalSource};
use crate::damage::job::DamageJob;
use crate::damage::signals::{JOINT_RANDOM_DRAWS, permuted_signal, random_signal, signal_values};
use crate::damage::visit::Place;
use crate::engine::{Allocation, DamageOutput, DamageRequest, Engine};
use crate::error::RunnerError;

const ORACLE: &str = "oracle";

/// Weights under one name.
struct Weighted {
    /// Name in `joint.jsonl`.
    name: String,
    /// Name for the engine. Every allocation of a request meets every budget, so the oracle's, which belong to one
    /// budget each, carry it in their name.
    asked_as: String,
    /// The only budget it counts for.
    budget: Option<String>,
    weights: Vec<f64>,
}

/// The allocations of both halves.
pub(super) struct Joint {
    halves: [Vec<Weighted>; 2],
}

impl Joint {
    /// Checks that every signal of the profile and the place gives weights, before anything is measured.
    pub(super) fn check(job: &DamageJob<'_>) -> Result<(), RunnerError> {
        common(job).map(|_| ())
    }

    /// Allocations from the profile and the first pass.
    pub(super) fn new(
        job: &DamageJob<'_>,
        usable: &[(Place<'_>, &DamageSample)],
    ) -> Result<Self, RunnerError> {
        let half = |half: u8| -> Result<Vec<Weighted>, RunnerError> {
            let mut allocations = common(job)?;
            for budget in &job.recipe.budgets {
                let other = usable.iter().filter(|(place, _)| place.half() != half);
                let signal = mean_kl(other.map(|(_, sample)| *sample), budget);
                allocations.push(Weighted {
                    name: ORACLE.to_owned(),
                    asked_as: format!("{ORACLE}@{budget}"),
                    budget: Some(budget.clone()),
                    weights: weights(job, ORACLE, &signal)?,
                });
            }
            Ok(allocations)
        };
        Ok(Self {
            halves: [half(0)?, half(1)?],
        })
    }

    /// Measures one sample. The inner error, where there is one, is why its line is empty.
    ///
    /// # Errors
    /// What stops the whole stage.
    pub(super) fn measure(
        &self,
        asked: &Asked<'_>,
        recipe: &str,
        engine: &mut dyn Engine,
    ) -> Result<(JointSample, Option<String>), RunnerError> {
        let half = asked.place.half();
        let weighted = &self.halves[usize::from(half)];
        let allocations: Vec<Allocation<'_>> = weighted
            .iter()
            .map(|weighted| Allocation {
                name: &weighted.asked_as,
                weights: &weighted.weights,
            })
            .collect();
        let request = DamageRequest {
            allocations: &allocations,
            ..asked.request()
        };
        let output = asked.ask(engine, &request, &mut |_| {})?;
        let read = output.and_then(|output| {
            let budgets = read_output(&asked.setup.budgets, weighted, &output)?;
            let moved = moved_shares(&asked.setup.budgets, weighted, &output);
            Ok((budgets, moved))
        });
        let ((budgets, moved), failure) = match read {
            Ok(found) => (found, None),
            Err(reason) => (Default::default(), Some(reason)),
        };
        let sample = JointSample {
            schema: DAMAGE_SCHEMA,
            recipe: recipe.to_owned(),
            task: asked.place.task.info.name.to_owned(),
            sample: asked.place.prompt.sample.clone(),
            half,
            budgets,
            moved,
        };
        Ok((sample, failure))
    }
}

/// How much of the budget each allocation moves to other layers than uniform.
fn moved_shares(
    budgets: &[&str],
    weighted: &[Weighted],
    output: &DamageOutput,
) -> BTreeMap<String, BTreeMap<String, f64>> {
    let mut by_budget = BTreeMap::new();
    for (budget, damage) in budgets.iter().zip(&output.budgets) {
        let uniform = &damage.layer_tokens;
        let total: u64 = uniform.iter().map(|&tokens| u64::from(tokens)).sum();
        let mut by_name = BTreeMap::new();
        for (weighted, tokens) in weighted.iter().zip(&damage.joint_layer_tokens) {
            if weighted
                .budget
                .as_deref()
                .is_some_and(|only| only != *budget)
            {
                continue;
            }
            let apart = tokens
                .iter()
                .zip(uniform)
                .map(|(a, b)| u64::from(a.abs_diff(*b)));
            let share = apart.sum::<u64>() as f64 / (2 * total).max(1) as f64;
            by_name.insert(weighted.name.clone(), share);
        }
        by_budget.insert((*budget).to_owned(), by_name);
    }
    by_budget
}

fn read_output(
    budgets: &[&str],
    weighted: &[Weighted],
    output: &DamageOutput,
) -> Result<BTreeMap<String, BTreeMap<String, f64>>, String> {
    let mut by_budget = BTreeMap::new();
    for (budget, damage) in budgets.iter().zip(&output.budgets) {
        let kl = &damage.joint_kl;
        if kl.len() != weighted.len() || kl.iter().any(|kl| !kl.is_finite()) {
            return Err(format!(
                "budget {budget}: the engine did not give {} finite numbers as joint_kl",
                weighted.len()
            ));
        }
        let counted = weighted.iter().zip(kl).filter(|(weighted, _)| {
            let only = weighted.budget.as_deref();
            only.is_none_or(|only| only == *budget)
        });
        let by_name = counted.map(|(weighted, kl)| (weighted.name.clone(), *kl));
        by_budget.insert((*budget).to_owned(), by_name.collect());
    }
    Ok(by_budget)
}

/// Allocations that both halves share: all but the oracle's.
fn common(job: &DamageJob<'_>) -> Result<Vec<Weighted>, RunnerError> {
    let layers = job.profile.model.layers;
    let named = |name: String, weights: Vec<f64>| Weighted {
        asked_as: name.clone(),
        name,
        budget: None,
        weights,
    };
    let mut allocations = vec![named("uniform".to_owned(), vec![1.0; layers])];
    for signal in SIGNALS {
        match signal.source {
            SignalSource::Profile | SignalSource::Place => {
                let values = signal_values(signal.name, job.profile)?;
                let weights = weights(job, signal.name, &values)?;
                allocations.push(named(signal.name.to_owned(), weights));
            }
            SignalSource::Random => {
                for draw in 0..JOINT_RANDOM_DRAWS {
                    let values = random_signal(job.recipe.seed, draw, layers);
                    let weights = weights(job, signal.name, &values)?;
                    allocations.push(named(format!("{}-{draw}", signal.name), weights));
                }
            }
            SignalSource::Permuted => {
                let values = signal_values("sensitivity", job.profile)?;
                for draw in 0..JOINT_RANDOM_DRAWS {
                    let values = permuted_signal(job.recipe.seed, draw, &values);
                    let weights = weights(job, signal.name, &values)?;
                    allocations.push(named(format!("{}-{draw}", signal.name), weights));
                }
            }
            SignalSource::Oracle => {}
        }
    }
    Ok(allocations)
}

fn weights(job: &DamageJob<'_>, signal: &str, values: &[f64]) -> Result<Vec<f64>, RunnerError> {
    (job.ripple_weights)(values, &job.recipe.mapping).map_err(|problem| RunnerError::Data {
        message: format!(
            "model '{}', signal '{signal}': no layer weights: {}{}",
            job.model(),
            problem
                .key
                .map(|key| format!("{key}: "))
                .unwrap_or_default(),
            problem.message
        ),
        hint: "check the mapping (r, gamma, center) of the spec's section 'damage'".to_owned(),
    })
}

/// Mean over samples of the single-layer damage at one budget, `[layer]`.
fn mean_kl<'a>(samples: impl Iterator<Item = &'a DamageSample>, budget: &str) -> Vec<f64> {
    let mut sums: Vec<f64> = Vec::new();
    let mut count = 0.0;
    for damage in samples.filter_map(|sample| sample.budgets.get(budget)) {
        sums.resize(damage.kl.len(), 0.0);
        for (sum, kl) in sums.iter_mut().zip(&damage.kl) {
            *sum += kl;
        }
        count += 1.0;
    }
    sums.into_iter().map(|sum| sum / count).collect()
}
