//! What the damage stage of one model measures, and how much of it is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ripplekv_metrics::jieba::Segmenter;

use crate::catalog::RippleWeights;
use crate::damage::ask::is_short;
use crate::damage::document::{DamageRecipe, DamageSample, JointSample};
use crate::damage::files::{self, Line, Stored};
use crate::damage::progress::DamageSummary;
use crate::damage::visit::{Place, places};
use crate::error::RunnerError;
use crate::plan::{Plan, PreparedModel};
use crate::profile::ProfileDocument;

/// What is measured, and with what.
#[derive(Clone, Copy)]
pub struct DamageJob<'a> {
    /// Results folder; the stage writes `damage/<model>/` in it.
    pub results: &'a Path,
    /// The spec, resolved.
    pub plan: &'a Plan,
    /// The model's prompts. All of them are measured, whatever the shard.
    pub prepared: &'a PreparedModel,
    /// Settings, resolved.
    pub recipe: &'a DamageRecipe,
    /// The model's profile.
    pub profile: &'a ProfileDocument,
    /// Mapping from a signal to layer weights.
    pub ripple_weights: RippleWeights,
    /// For Chinese tasks.
    pub segmenter: Option<&'a Segmenter>,
}

impl<'a> DamageJob<'a> {
    /// Short name of the model.
    #[must_use]
    pub fn model(&self) -> &'a str {
        &self.plan.models[self.prepared.model].name
    }

    pub(super) fn folder(&self) -> PathBuf {
        files::folder(self.results, self.model())
    }

    /// What is stored and what is left, without a loaded model: [`measure`](super::measure) computes nothing where
    /// [`DamageSummary::left`] is 0.
    ///
    /// # Errors
    /// Stored files that are damaged or belong to another recipe or model.
    pub fn status(&self) -> Result<DamageSummary, RunnerError> {
        let head = files::head(self)?;
        let state = State::new(self, files::stored(&self.folder(), &head)?);
        let places = places(self).len();
        let mut summary = DamageSummary {
            samples: places,
            stored_before: state.samples.len(),
            left: places - state.samples.len(),
            ..DamageSummary::default()
        };
        for reason in state
            .samples
            .values()
            .filter_map(|line| line.dropped.as_ref())
        {
            if is_short(reason) {
                summary.dropped += 1;
            } else {
                summary.failed += 1;
            }
        }
        if !self.recipe.joint {
            return Ok(summary);
        }
        let usable = usable(self, &state.samples);
        if summary.left > 0 {
            // The first pass comes first; each of its samples is visited twice.
            summary.left += summary.left + usable.len();
        } else if has_both_halves(&usable) {
            let recipe = files::joint_recipe(&head, usable.iter().map(|(_, line)| *line))?;
            let lines = usable.iter().map(|(place, _)| {
                let line = state.joint.get(&place.id());
                line.filter(|line| line.recipe == recipe)
            });
            for line in lines {
                match line {
                    None => summary.left += 1,
                    Some(line) => summary.failed += usize::from(line.budgets.is_empty()),
                }
            }
        }
        Ok(summary)
    }
}

/// The stored lines of the selected samples, by `task/id`.
pub(super) struct State {
    pub(super) samples: BTreeMap<String, DamageSample>,
    pub(super) joint: BTreeMap<String, JointSample>,
}

impl State {
    pub(super) fn new(job: &DamageJob<'_>, stored: Stored) -> Self {
        let samples = stored.samples.into_iter().map(|line| (line.id(), line));
        let joint = stored.joint.into_iter().map(|line| (line.id(), line));
        let mut state = Self {
            samples: samples.collect(),
            joint: joint.collect(),
        };
        let selected: BTreeSet<String> = places(job).iter().map(Place::id).collect();
        state.samples.retain(|id, _| selected.contains(id));
        state
    }
}

/// Selected samples that were measured and not dropped, in visiting order.
pub(super) fn usable<'j, 's>(
    job: &DamageJob<'j>,
    samples: &'s BTreeMap<String, DamageSample>,
) -> Vec<(Place<'j>, &'s DamageSample)> {
    places(job)
        .into_iter()
        .filter_map(|place| {
            let sample = samples.get(&place.id())?;
            sample.dropped.is_none().then_some((place, sample))
        })
        .collect()
}

/// Whether each half can give the other its oracle.
pub(super) fn has_both_halves(usable: &[(Place<'_>, &DamageSample)]) -> bool {
    (0..2).all(|half| usable.iter().any(|(place, _)| place.half() == half))
}
