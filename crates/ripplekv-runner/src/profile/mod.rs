//! The profile stage: measures the sensitivity of every layer on the calibration pack, once per model and recipe.
//! [`document`](ProfileDocument) is what is stored, `stage` measures it, some samples `together`, `sigma` picks the noise scale, `summary` turns
//! the matrix into a profile, `store` reads and writes, `calibrate` picks r and gamma where a method leaves them open, `calibration` is what it stores.

mod calibrate;
mod calibration;
mod document;
mod prompts;
mod sigma;
mod stage;
mod store;
mod summary;
mod together;

pub use calibration::{
    CALIBRATION_SCHEMA, Calibration, CalibrationFile, CalibrationRecipe, CalibrationRow,
    calibration_path,
};
pub use document::{
    DroppedSample, LayerSensitivity, PROFILE_SCHEMA, ProfileDocument, ProfileModel, ProfileRecipe,
    ProfileSample, Reliability, SigmaChoice, SigmaStep,
};
pub use sigma::{LEAST_SLOPE, SIGMA_LADDER};
pub use store::{profile_path, read_profile};
pub use summary::PREDICTED_EXPONENTS;
pub use together::groups;

pub(crate) use calibrate::{Calibrator, wants_calibration};
pub(crate) use stage::{ProfileStage, ensure_profile};
