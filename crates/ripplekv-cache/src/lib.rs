//! Scorers, allocators, selection and compressed caches: which prompt entries of a KV cache stay, in which layer, and how many.
//! Works on tensors alone; knows no model, no tokenizer and no task.
//!
//! The flow for one prompt: [`Budget::total_entries`] gives T, an [`Allocator`] weighs the layers,
//! [`distribute`] turns weights into whole numbers that sum to T, a [`Scorer`] rates the entries of each layer,
//! [`select`] keeps the best, and [`CompressedCache`] holds what is left.
//!
//! [`RippleMapping`] turns per-layer numbers into weights, and [`Noise`] perturbs values to measure such numbers.
//!
//! To add a scorer: one file in `scorers/`, one line in [`SCORERS`].
//! To add an allocator: one file in `allocators/`, one line in [`ALLOCATORS`].
//! To name a combination as a paper does: one file in `methods/`, one line in [`METHODS`].

mod allocators;
mod attention;
mod budget;
mod compressed;
mod distribute;
mod error;
pub mod exponential;
mod methods;
mod normal;
mod params;
mod perturb;
mod philox;
mod scorers;
mod select;
mod snapshot;

pub use allocators::{
    ALLOCATORS, AllocationContext, Allocator, AllocatorInfo, Center, RippleMapping,
};
pub use attention::window_entropy;
pub use budget::Budget;
pub use compressed::{CompressedCache, CompressedLayer, kept_hash};
pub use distribute::distribute;
pub use error::CacheError;
pub use methods::{
    METHODS, Method, MethodInfo, method_by_name, method_params, needed_signal, needs_all_layers,
    parse_method,
};
pub use params::ParamInfo;
pub use perturb::{Noise, NoiseKey, NoiseNorm, NoisePositions};
pub use scorers::{SCORERS, Scorer, ScorerInfo, Scores};
pub use select::{KeptLayer, select};
pub use snapshot::{LayerState, Needs, Snapshot};

/// Changes whenever the numeric code could give another output; part of every cell key.
pub const NUMERICS_VERSION: u32 = 5;
