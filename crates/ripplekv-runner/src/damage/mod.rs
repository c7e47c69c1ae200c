//! The damage stage: what really compressing one layer, all but one, or all of them costs.

mod document;

pub use document::{
    DAMAGE_SCHEMA, DamageHead, DamageRecipe, DamageSample, JointSample, LayerDamage, SIGNALS,
    SignalInfo, SignalSource,
};
