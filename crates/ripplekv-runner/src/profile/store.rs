//! Profiles on disk: the document in a results folder and in the cache beside the models, and the partial file that
//! lets a killed measurement go on. Nothing is read without being checked against the model and the recipe at hand.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::canonical::canonical_hash;
use crate::engine::ModelIdentity;
use crate::error::RunnerError;
use crate::plan::PlannedProfile;
use crate::profile::{DroppedSample, PROFILE_SCHEMA, ProfileDocument, ProfileModel, ProfileSample};
use crate::store::{lines, write_json};

/// Hex digits of the model's hash in the name of its cache folder.
const MODEL_DIGITS: usize = 12;

/// Where the profile of a model lies in a results folder.
#[must_use]
pub fn profile_path(results: &Path, model: &str) -> PathBuf {
    results.join("profiles").join(format!("{model}.json"))
}

/// Folder of a model's profiles below the cache folder `home`.
pub(crate) fn cache_folder(home: &Path, identity: &ModelIdentity) -> PathBuf {
    let digits: String = identity.model_hash.chars().take(MODEL_DIGITS).collect();
    home.join("profiles")
        .join(format!("{}-{digits}", identity.name))
}

/// The model as a profile names it.
pub(crate) fn profile_model(identity: &ModelIdentity) -> ProfileModel {
    ProfileModel {
        name: identity.name.clone(),
        model_hash: identity.model_hash.clone(),
        tokenizer_hash: identity.tokenizer_hash.clone(),
        template_hash: identity.template_hash.clone(),
        layers: identity.shape.layers,
        dtype: identity.dtype.clone(),
    }
}

/// blake3 of a document without its own hash.
pub(crate) fn content_hash(document: &ProfileDocument) -> String {
    hash_without_content(json!(document))
}

fn hash_without_content(mut value: Value) -> String {
    if let Some(map) = value.as_object_mut() {
        map.remove("content_hash");
    }
    canonical_hash(&value)
}

/// Writes a document whole, and makes its folder.
pub(crate) fn write(path: &Path, document: &ProfileDocument) -> Result<(), RunnerError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|source| RunnerError::io("cannot create", folder, source))?;
    }
    write_json(path, document)
}

/// Reads a profile and checks that it is whole; says nothing of the model it should fit.
///
/// # Errors
/// A file that cannot be read, another schema, a field that is absent or no number, another content hash.
pub fn read_profile(path: &Path) -> Result<ProfileDocument, RunnerError> {
    let bytes =
        std::fs::read(path).map_err(|source| RunnerError::io("cannot read", path, source))?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| {
        let line = Some(error.line()).filter(|line| *line > 0);
        damaged(path, line, format!("no valid JSON: {error}"))
    })?;
    let schema = value["schema"].as_u64();
    if schema != Some(u64::from(PROFILE_SCHEMA)) {
        let found = &value["schema"];
        return Err(damaged(
            path,
            None,
            format!("schema: this program reads {PROFILE_SCHEMA}, the file has {found}"),
        ));
    }
    if let Some(field) = missing_number(&value, "") {
        return Err(damaged(path, None, format!("{field}: holds no number")));
    }
    let document: ProfileDocument = serde_json::from_value(value.clone())
        .map_err(|error| damaged(path, None, format!("damaged file: {error}")))?;
    if hash_without_content(value) != document.content_hash {
        return Err(damaged(
            path,
            None,
            "content_hash: the file was changed after it was written".to_owned(),
        ));
    }
    check_lengths(path, &document)?;
    Ok(document)
}

/// Reads a profile that must be of this model and this recipe.
///
/// # Errors
/// As [`read_profile`]; the first field in which model or recipe differ.
pub(crate) fn load(
    path: &Path,
    profile: &PlannedProfile,
    identity: &ModelIdentity,
) -> Result<ProfileDocument, RunnerError> {
    let document = read_profile(path)?;
    let here = json!(profile_model(identity));
    if let Some((field, stored, now)) = difference(&json!(document.model), &here) {
        return Err(other(path, &format!("model.{field}"), &stored, &now));
    }
    let [stored, wanted] = [&document.recipe, &profile.recipe].map(|recipe| {
        let mut fields = json!(recipe);
        // not written where it is true
        fields["signals"] = json!(recipe.signals);
        fields
    });
    if let Some((field, stored, now)) = difference(&stored, &wanted) {
        return Err(other(path, &format!("recipe.{field}"), &stored, &now));
    }
    if document.recipe_hash != profile.recipe_hash {
        let stored = json!(document.recipe_hash);
        let now = json!(profile.recipe_hash);
        return Err(other(path, "recipe_hash", &stored, &now));
    }
    Ok(document)
}

fn damaged(path: &Path, line: Option<usize>, message: String) -> RunnerError {
    RunnerError::Stored {
        path: path.to_owned(),
        line,
        message,
        hint: "remove the file; the profile will be measured again".to_owned(),
    }
}

fn other(path: &Path, field: &str, stored: &Value, now: &Value) -> RunnerError {
    RunnerError::Stored {
        path: path.to_owned(),
        line: None,
        message: format!("{field}: the stored profile has {stored}, this run has {now}"),
        hint:
            "restore what it was, remove the file to measure again, or start afresh with --out DIR"
                .to_owned(),
    }
}

/// First field in which two objects differ.
fn difference(stored: &Value, now: &Value) -> Option<(String, Value, Value)> {
    let (stored, now) = (stored.as_object()?, now.as_object()?);
    stored
        .iter()
        .find(|(field, value)| now.get(*field) != Some(*value))
        .map(|(field, value)| {
            let now = now.get(field).cloned().unwrap_or(Value::Null);
            (field.clone(), value.clone(), now)
        })
}

/// Fields that may be absent.
const OPTIONAL: [&str; 6] = [
    "sigma",
    "stop_at_reliability",
    "template_hash",
    "median_slope",
    "spearman_with_previous",
    "reliability",
];

/// Path of the first number that is none: JSON has no NaN, it becomes null.
fn missing_number(value: &Value, path: &str) -> Option<String> {
    match value {
        Value::Null => Some(path.to_owned()),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(place, item)| missing_number(item, &format!("{path}[{place}]"))),
        Value::Object(map) => map
            .iter()
            .filter(|(key, value)| !(value.is_null() && OPTIONAL.contains(&key.as_str())))
            .find_map(|(key, value)| {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                missing_number(value, &path)
            }),
        _ => None,
    }
}

fn check_lengths(path: &Path, document: &ProfileDocument) -> Result<(), RunnerError> {
    let layers = document.model.layers;
    let not = |field: String, found: usize, wanted: usize| {
        let reason = match wanted {
            0 => "recipe.signals is false".to_owned(),
            layers => format!("model.layers says {layers}"),
        };
        let message = format!("{field}: has {found} layers, {reason}");
        damaged(path, None, message)
    };
    if document.sensitivity.len() != layers {
        let found = document.sensitivity.len();
        return Err(not("sensitivity".to_owned(), found, layers));
    }
    let signals = document.recipe.signals;
    let of_signals = if signals { layers } else { 0 };
    for (place, sample) in document.samples.iter().enumerate() {
        for (name, values, wanted) in [
            ("kl", &sample.kl, layers),
            ("local_response", &sample.local_response, layers),
            ("window_entropy", &sample.window_entropy, of_signals),
            ("hidden_change", &sample.hidden_change, of_signals),
        ] {
            if values.len() != wanted {
                let field = format!("samples[{place}].{name}");
                return Err(not(field, values.len(), wanted));
            }
        }
        if sample.all_layers_kl.is_some() != signals {
            let message = format!(
                "samples[{place}].all_layers_kl: recipe.signals is {signals}, but it is {}",
                if signals { "absent" } else { "there" }
            );
            return Err(damaged(path, None, message));
        }
    }
    Ok(())
}

/// One line of the partial file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PartialLine {
    /// The first line: what the rest belongs to.
    Head {
        recipe_hash: String,
        model: ProfileModel,
    },
    /// KL of one sample on every rung, `[sigma][layer]`; empty where the sample cannot be used.
    Ladder {
        task: String,
        sample: String,
        kl: Vec<Vec<f64>>,
    },
    /// One sample at the chosen scale.
    Sample(ProfileSample),
    /// One sample that could not be used.
    Dropped(DroppedSample),
}

/// What is measured already of a profile.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    file: std::fs::File,
    lines: Vec<PartialLine>,
}

impl Partial {
    /// Opens the partial file; starts anew where it belongs to another model or recipe.
    pub(crate) fn open(
        path: PathBuf,
        recipe_hash: &str,
        model: &ProfileModel,
    ) -> Result<Self, RunnerError> {
        let head = PartialLine::Head {
            recipe_hash: recipe_hash.to_owned(),
            model: model.clone(),
        };
        let (mut file, _) = lines::open_append(&path)?;
        let mut found: Vec<PartialLine> = lines::read(&path, &mut Vec::new())?;
        if found.first() != Some(&head) {
            file.set_len(0)
                .map_err(|source| RunnerError::io("cannot write", &path, source))?;
            lines::append(&mut file, &path, std::slice::from_ref(&head))?;
            found = vec![head];
        }
        Ok(Self {
            path,
            file,
            lines: found,
        })
    }

    pub(crate) fn lines(&self) -> &[PartialLine] {
        &self.lines
    }

    pub(crate) fn push(&mut self, line: PartialLine) -> Result<(), RunnerError> {
        lines::append(&mut self.file, &self.path, std::slice::from_ref(&line))?;
        self.lines.push(line);
        Ok(())
    }

    /// Removes the file: the document holds everything.
    pub(crate) fn remove(self) -> Result<(), RunnerError> {
        drop(self.file);
        std::fs::remove_file(&self.path)
            .map_err(|source| RunnerError::io("cannot remove", &self.path, source))
    }
}
