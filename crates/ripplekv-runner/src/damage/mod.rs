//! The damage stage: what really compressing one layer, all but one, or all of them costs.
//!
//! [`measure`] goes over the spec's own samples twice: singly compressed layers first ([`DamageSample`]), then all
//! layers at once under the allocation of every signal ([`JointSample`]), since the oracle's allocation comes from
//! the first pass. [`read_damage`] reads both back.

mod ask;
mod document;
mod files;
mod job;
mod joint;
mod progress;
mod read;
mod signals;
mod single;
mod stage;
mod visit;

pub use document::{
    DAMAGE_SCHEMA, DamageHead, DamageRecipe, DamageSample, JointSample, LayerDamage, SIGNALS,
    SignalInfo, SignalSource,
};
pub use job::DamageJob;
pub use progress::{DamageProgress, DamageSummary};
pub use read::{StoredDamage, models_with_damage, read_damage};
pub use signals::{JOINT_RANDOM_DRAWS, joint_names, permuted_signal, random_signal, signal_values};
pub use stage::measure;
