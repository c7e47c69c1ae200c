//! The profile stage: measures the sensitivity of every layer on the calibration pack, once per model and recipe.

mod document;

pub use document::{
    DroppedSample, LayerSensitivity, PROFILE_SCHEMA, ProfileDocument, ProfileModel, ProfileRecipe,
    ProfileSample, Reliability, SigmaChoice, SigmaStep,
};
