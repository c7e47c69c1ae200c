//! Profiles and damage of results folders, through the runner's own readers. Nothing unsound stops a report: what cannot be
//! read, belongs to another model or comes from another profile is left out and named in the warnings.

use std::collections::BTreeMap;
use std::path::Path;

use ripplekv_runner::damage::{DamageSample, StoredDamage, read_damage};
use ripplekv_runner::profile::{ProfileDocument, read_profile};

use crate::read::{LeftOut, children};

/// Part of the names of files that `ripplekv_runner::profile::calibration_path` gives.
const CALIBRATED: &str = ".calibrated-";

/// What the folders hold on one model's layers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StoredEvidence {
    pub(crate) profile: Option<ProfileDocument>,
    pub(crate) damage: Option<StoredDamage>,
}

/// Collects the evidence of all folders by model.
#[derive(Debug, Default)]
pub(crate) struct EvidenceReader {
    models: BTreeMap<String, StoredEvidence>,
}

/// Whether a folder holds a profile or damage.
pub(crate) fn has_evidence(folder: &Path) -> bool {
    folder.join("profiles").is_dir() || folder.join("damage").is_dir()
}

impl EvidenceReader {
    /// Reads one folder; gives back the content hash of each model's profile in it.
    pub(crate) fn folder(
        &mut self,
        folder: &Path,
        warnings: &mut Vec<String>,
    ) -> BTreeMap<String, String> {
        let mut hashes = BTreeMap::new();
        for path in children(&folder.join("profiles")) {
            let model = path.file_name().map(|name| name.to_string_lossy());
            let model = model
                .as_deref()
                .and_then(|name| name.strip_suffix(".json"))
                // Choices of r and gamma lie beside the profiles.
                .filter(|name| !name.contains(CALIBRATED));
            match model.map(|model| (model, read_profile(&path))) {
                Some((_, Ok(profile))) if profile.samples.is_empty() => warnings.push(format!(
                    "{}: profile left out: it has no samples",
                    path.display()
                )),
                Some((model, Ok(profile))) if profile.model.name == model => {
                    hashes.insert(model.to_owned(), profile.content_hash.clone());
                    self.add_profile(&path, profile, warnings);
                }
                Some((_, Ok(profile))) => warnings.push(format!(
                    "{}: profile left out: it is of model `{}`",
                    path.display(),
                    profile.model.name
                )),
                Some((_, Err(error))) => warnings.push(format!("profile left out: {error}")),
                None => {}
            }
        }
        for path in children(&folder.join("damage")) {
            let Some(model) = path.file_name().filter(|_| path.is_dir()) else {
                continue;
            };
            match read_damage(folder, &model.to_string_lossy()) {
                Ok(Some(damage)) => self.add_damage(&path, damage, warnings),
                Ok(None) => warnings.push(format!(
                    "{}: damage left out: no recipe.json",
                    path.display()
                )),
                Err(error) => warnings.push(format!("damage left out: {error}")),
            }
        }
        hashes
    }

    fn add_profile(&mut self, path: &Path, profile: ProfileDocument, warnings: &mut Vec<String>) {
        let stored = self.models.entry(profile.model.name.clone()).or_default();
        match &stored.profile {
            Some(known) if known.content_hash != profile.content_hash => warnings.push(format!(
                "{}: profile of `{}` left out: its content differs from the one read before; contents are never mixed",
                path.display(),
                profile.model.name
            )),
            Some(_) => {}
            None => stored.profile = Some(profile),
        }
    }

    fn add_damage(&mut self, path: &Path, mut damage: StoredDamage, warnings: &mut Vec<String>) {
        let model = damage.head.model.clone();
        warnings.append(&mut damage.warnings);
        let layers = damage.head.layers;
        let mut left_out = LeftOut::default();
        damage.samples.retain(|sample| match check(sample, layers) {
            Ok(()) => true,
            Err(problem) => {
                left_out.add(format!(
                    "{}: damage of sample `{}/{}` left out: {problem}",
                    path.display(),
                    sample.task,
                    sample.sample
                ));
                false
            }
        });
        left_out.tell(path, warnings);
        // Halves take every second sample: in this order every task is split evenly.
        damage
            .samples
            .sort_by(|left, right| (&left.task, &left.sample).cmp(&(&right.task, &right.sample)));
        let stored = self.models.entry(model.clone()).or_default();
        match &stored.damage {
            None => stored.damage = Some(damage),
            Some(known) if *known == damage => {}
            Some(_) => warnings.push(format!(
                "{}: damage of `{model}` left out: it differs from the one read before",
                path.display()
            )),
        }
    }

    /// All evidence by model, after checks between profile and damage.
    pub(crate) fn finish(mut self, warnings: &mut Vec<String>) -> BTreeMap<String, StoredEvidence> {
        for (model, stored) in &mut self.models {
            let (Some(profile), Some(damage)) = (&stored.profile, &mut stored.damage) else {
                continue;
            };
            let same_model = profile.model.model_hash == damage.head.model_hash
                && profile.model.tokenizer_hash == damage.head.tokenizer_hash
                && profile.model.layers == damage.head.layers;
            if !same_model {
                warnings.push(format!(
                    "damage of `{model}` left out: it was measured on another model (weights, tokenizer or layers) than the profile"
                ));
                stored.damage = None;
            } else if profile.content_hash != damage.head.profile_hash && !damage.joint.is_empty() {
                warnings.push(format!(
                    "joint damage of `{model}` left out: its allocations come from another profile; contents are never mixed"
                ));
                damage.joint.clear();
            }
        }
        self.models
    }
}

/// Every list is as long as the model is deep, or empty.
fn check(sample: &DamageSample, layers: usize) -> Result<(), String> {
    for (budget, damage) in &sample.budgets {
        let lengths = [
            ("layer_tokens", damage.layer_tokens.len()),
            ("kl", damage.kl.len()),
            ("leave_in_kl", damage.leave_in_kl.len()),
            ("reference_nll_change", damage.reference_nll_change.len()),
            ("score_drop", damage.score_drop.len()),
        ];
        for (name, length) in lengths {
            if length != 0 && length != layers {
                return Err(format!(
                    "{budget} {name}: {length} values for {layers} layers"
                ));
            }
        }
    }
    Ok(())
}
