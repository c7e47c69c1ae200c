//! What `r: calibrate` stores beside the profile: the picked pair and the table it was picked from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::{FirstToken, ShortPrompts};
use crate::profile::{DroppedSample, ProfileModel};

/// Version of [`CalibrationFile`].
pub const CALIBRATION_SCHEMA: u32 = 1;

/// Everything that decides a calibration besides the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibrationRecipe {
    /// Content hash of the profile.
    pub profile_hash: String,
    /// Name of the profile's signal that becomes weights.
    pub signal: String,
    /// Method whose scorer compresses.
    pub method: String,
    /// Its parameters but r and gamma.
    pub params: Value,
    /// Tried values of r.
    pub r: Vec<f64>,
    /// Tried values of gamma.
    pub gamma: Vec<f64>,
    /// Canonical budgets.
    pub budgets: Vec<String>,
    /// m: most answer tokens compared.
    pub answer_tokens: usize,
    /// What is done about the first answer token.
    pub first_token: FirstToken,
    /// Rule for budgets below the must-keep set.
    pub short_prompts: ShortPrompts,
    /// Constant of the numeric code.
    pub numerics: u32,
}

/// One tried pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibrationRow {
    /// r.
    pub r: f64,
    /// gamma.
    pub gamma: f64,
    /// Mean over budgets of the samples' total joint KL over that of the uniform allocation.
    pub relative_kl: f64,
    /// The same by budget.
    pub budgets: BTreeMap<String, f64>,
}

/// One calibration: the pair and the table it was picked from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Settings.
    pub recipe: CalibrationRecipe,
    /// Picked r.
    pub r: f64,
    /// Picked gamma.
    pub gamma: f64,
    /// Samples as `task/id`, in order.
    pub samples: Vec<String>,
    /// Samples left out.
    pub dropped: Vec<DroppedSample>,
    /// All pairs, by r and then gamma.
    pub rows: Vec<CalibrationRow>,
}

/// `profiles/<model>.calibrated-<scorer>.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibrationFile {
    /// [`CALIBRATION_SCHEMA`].
    pub schema: u32,
    /// The model.
    pub model: ProfileModel,
    /// By hash of the recipe.
    pub calibrations: BTreeMap<String, Calibration>,
}

/// Where the calibrations of a model and a scorer lie in a results folder.
#[must_use]
pub fn calibration_path(results: &Path, model: &str, scorer: &str) -> PathBuf {
    results
        .join("profiles")
        .join(format!("{model}.calibrated-{scorer}.json"))
}
