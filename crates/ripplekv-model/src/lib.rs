//! From a model reference to logits: download, weights, configuration, decoders, tokenizer, chat template, device.
//! The model owns no cache: a prefill hands out a [`ripplekv_cache::Snapshot`], decoding reads compressed caches.
//!
//! To add an architecture: one file in `architectures/` and one line in [`ARCHITECTURES`].

mod architectures;
pub mod catalog;
pub mod chat_template;
mod config;
mod decoder;
mod device;
mod error;
pub mod fetch;
pub mod home;
mod kernels;
mod rope;
pub mod tokenizer;
mod weights;

pub use architectures::{ARCHITECTURES, kept_bytes, load_decoder};
pub use config::{ModelConfig, RopeScaling};
pub use decoder::{
    ArchitectureInfo, Branch, DecodeRow, Decoder, Directions, EditValues, Forced, ForcedBranch,
    LOGITS_BESIDE, LoadDecoder, Move, Prefill, PrefillOptions, Variants,
};
pub use device::open_device;
pub use error::ModelError;
pub use kernels::{AttentionShape, causal_attention};
pub use weights::{
    Codes, FolderWeights, Form, GgufWeights, Matrix, Weights, open_weights, read_gguf,
};
