//! Reads `profiles/<model>.json` and `damage/<model>/` of results folders. Nothing unsound stops it: a file or line that is
//! cut, of another schema, of another model or not finite is left out and named in the warnings.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use ripplekv_runner::damage::{DAMAGE_SCHEMA, DamageHead, DamageSample, JointSample, LayerDamage};
use ripplekv_runner::profile::{PROFILE_SCHEMA, ProfileDocument};
use serde::de::DeserializeOwned;

use crate::read::{SchemaOnly, children, complete_lines};

/// What the folders hold on one model's layers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StoredEvidence {
    pub(crate) profile: Option<ProfileDocument>,
    pub(crate) damage: Option<StoredDamage>,
}

/// Sound damage of one model: the union over folders.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredDamage {
    pub(crate) head: DamageHead,
    pub(crate) samples: Vec<DamageSample>,
    pub(crate) joint: Vec<JointSample>,
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
            if path.extension().is_none_or(|end| end != "json") {
                continue;
            }
            match read_profile(&path) {
                Ok(profile) => {
                    hashes.insert(profile.model.name.clone(), profile.content_hash.clone());
                    self.add_profile(&path, profile, warnings);
                }
                Err(problem) => {
                    warnings.push(format!("{}: profile left out: {problem}", path.display()))
                }
            }
        }
        for path in children(&folder.join("damage")) {
            if path.is_dir()
                && let Some(damage) = read_damage(&path, warnings)
            {
                self.add_damage(&path, damage, warnings);
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

    fn add_damage(&mut self, path: &Path, damage: StoredDamage, warnings: &mut Vec<String>) {
        let stored = self.models.entry(damage.head.model.clone()).or_default();
        match &mut stored.damage {
            None => stored.damage = Some(damage),
            Some(known)
                if known.head.recipe_hash == damage.head.recipe_hash
                    && known.head.profile_hash == damage.head.profile_hash
                    && known.head.model_hash == damage.head.model_hash =>
            {
                known.samples.extend(damage.samples);
                known.joint.extend(damage.joint);
                known.head.selected.extend(damage.head.selected);
                unite(known, path, warnings);
            }
            Some(_) => warnings.push(format!(
                "{}: damage of `{}` left out: its recipe, profile or model differs from the one read before",
                path.display(),
                damage.head.model
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
                    "damage/{model}: left out: it was measured on another model (weights, tokenizer or layers) than profiles/{model}.json"
                ));
                stored.damage = None;
            } else if profile.content_hash != damage.head.profile_hash && !damage.joint.is_empty() {
                warnings.push(format!(
                    "damage/{model}/joint.jsonl: left out: its allocations come from another profile than profiles/{model}.json; contents are never mixed"
                ));
                damage.joint.clear();
            }
        }
        self.models
    }
}

fn read_profile(path: &Path) -> Result<ProfileDocument, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let profile: ProfileDocument = parse(&text, PROFILE_SCHEMA)?;
    check_profile(&profile)?;
    Ok(profile)
}

/// A value of exactly this schema.
fn parse<Document: DeserializeOwned>(text: &str, schema: u32) -> Result<Document, String> {
    let version: SchemaOnly = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if version.schema != schema {
        return Err(format!(
            "schema {} is not {schema}, the one this program reads",
            version.schema
        ));
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn check_profile(profile: &ProfileDocument) -> Result<(), String> {
    let layers = profile.model.layers;
    if layers == 0 || profile.sensitivity.len() != layers {
        return Err(format!(
            "sensitivity: {} values for {layers} layers",
            profile.sensitivity.len()
        ));
    }
    if profile.samples.is_empty() {
        return Err("samples: none".to_owned());
    }
    for layer in &profile.sensitivity {
        check_numbers(
            "sensitivity",
            &[layer.mean, layer.median, layer.p90, layer.low, layer.high],
            5,
        )?;
    }
    for sample in &profile.samples {
        let lists = [
            ("kl", &sample.kl),
            ("local_response", &sample.local_response),
            ("window_entropy", &sample.window_entropy),
            ("hidden_change", &sample.hidden_change),
        ];
        for (name, values) in lists {
            check_numbers(
                &format!("samples `{}` {name}", sample.sample),
                values,
                layers,
            )?;
        }
    }
    Ok(())
}

fn check_numbers(name: &str, values: &[f64], count: usize) -> Result<(), String> {
    if values.len() != count {
        return Err(format!(
            "{name}: {} values for {count} layers",
            values.len()
        ));
    }
    match values.iter().position(|value| !value.is_finite()) {
        Some(place) => Err(format!("{name}: value {place} is not finite")),
        None => Ok(()),
    }
}

fn read_damage(folder: &Path, warnings: &mut Vec<String>) -> Option<StoredDamage> {
    let path = folder.join("recipe.json");
    let head = fs::read_to_string(&path)
        .map_err(|error| error.to_string())
        .and_then(|text| parse::<DamageHead>(&text, DAMAGE_SCHEMA));
    let head = match head {
        Ok(head) if head.layers > 0 => head,
        Ok(_) => {
            warnings.push(format!("{}: damage left out: 0 layers", path.display()));
            return None;
        }
        Err(problem) => {
            warnings.push(format!("{}: damage left out: {problem}", path.display()));
            return None;
        }
    };
    let samples = lines(
        &folder.join("samples.jsonl"),
        warnings,
        |sample: &DamageSample| check_sample(sample, &head),
    );
    let joint_path = folder.join("joint.jsonl");
    let joint = if head.recipe.joint || joint_path.exists() {
        lines(&joint_path, warnings, check_joint)
    } else {
        Vec::new()
    };
    let mut damage = StoredDamage {
        head,
        samples,
        joint,
    };
    unite(&mut damage, folder, warnings);
    Some(damage)
}

/// The sound lines of a file.
fn lines<Line: DeserializeOwned>(
    path: &Path,
    warnings: &mut Vec<String>,
    check: impl Fn(&Line) -> Result<(), String>,
) -> Vec<Line> {
    let mut sound = Vec::new();
    for (place, text) in complete_lines(path, warnings) {
        let line = parse::<Line>(&text, DAMAGE_SCHEMA).and_then(|line| check(&line).map(|()| line));
        match line {
            Ok(line) => sound.push(line),
            Err(problem) => warnings.push(format!("{place}: damage line left out: {problem}")),
        }
    }
    sound
}

fn check_sample(sample: &DamageSample, head: &DamageHead) -> Result<(), String> {
    if sample.recipe != head.recipe_hash {
        return Err("it was measured with another recipe".to_owned());
    }
    for (budget, damage) in &sample.budgets {
        let LayerDamage {
            layer_tokens,
            kl,
            leave_in_kl,
            reference_nll_change,
            score_drop,
        } = damage;
        if !layer_tokens.is_empty() && layer_tokens.len() != head.layers {
            return Err(format!(
                "{budget} layer_tokens: {} values for {} layers",
                layer_tokens.len(),
                head.layers
            ));
        }
        let lists = [
            ("kl", kl),
            ("leave_in_kl", leave_in_kl),
            ("reference_nll_change", reference_nll_change),
            ("score_drop", score_drop),
        ];
        for (name, values) in lists {
            if !values.is_empty() {
                check_numbers(&format!("{budget} {name}"), values, head.layers)?;
            }
        }
    }
    Ok(())
}

fn check_joint(joint: &JointSample) -> Result<(), String> {
    for (budget, allocations) in &joint.budgets {
        for (name, value) in allocations {
            if !value.is_finite() {
                return Err(format!("{budget} {name}: not finite"));
            }
        }
    }
    Ok(())
}

/// Union by sample: an equal duplicate is ignored, both of two different ones are left out and named. In the order of
/// task and sample, so that neither the order of measuring nor of the folders can change a number.
fn unite(damage: &mut StoredDamage, place: &Path, warnings: &mut Vec<String>) {
    let mut warn = |sample: String| {
        warnings.push(format!(
            "{}: damage of sample `{sample}` is stored twice with different numbers; it is left out",
            place.display()
        ));
    };
    damage.samples = united(
        std::mem::take(&mut damage.samples),
        |line| format!("{}/{}", line.task, line.sample),
        &mut warn,
    );
    damage.joint = united(
        std::mem::take(&mut damage.joint),
        |line| format!("{}/{}", line.task, line.sample),
        &mut warn,
    );
    let selected: BTreeSet<String> = std::mem::take(&mut damage.head.selected)
        .into_iter()
        .collect();
    damage.head.selected = selected.into_iter().collect();
}

fn united<Line: PartialEq>(
    lines: Vec<Line>,
    name: impl Fn(&Line) -> String,
    warn: &mut impl FnMut(String),
) -> Vec<Line> {
    let mut known: BTreeMap<String, Option<Line>> = BTreeMap::new();
    for line in lines {
        let key = name(&line);
        match known.get_mut(&key) {
            None => {
                known.insert(key, Some(line));
            }
            Some(Some(first)) if *first == line => {}
            Some(stored) => {
                if stored.take().is_some() {
                    warn(key);
                }
            }
        }
    }
    known.into_values().flatten().collect()
}
