//! Architectures: one file each.

mod llama;

use candle_core::{DType, Device};

use crate::decoder::{ArchitectureInfo, Decoder};
use crate::{ModelError, Weights};

/// All architectures.
pub const ARCHITECTURES: &[ArchitectureInfo] = &[llama::INFO];

/// Loads the decoder that the weights' configuration names.
///
/// # Errors
/// An unknown architecture, or weights that do not fit.
pub fn load_decoder(
    weights: &dyn Weights,
    dtype: DType,
    device: &Device,
) -> Result<Box<dyn Decoder>, ModelError> {
    (find(weights)?.load)(weights, dtype, device)
}

/// Bytes of the weights as the decoder of [`load_decoder`] keeps them.
///
/// # Errors
/// An unknown architecture.
pub fn kept_bytes(weights: &dyn Weights, dtype: DType) -> Result<u64, ModelError> {
    Ok((find(weights)?.kept_bytes)(weights, dtype))
}

fn find(weights: &dyn Weights) -> Result<&'static ArchitectureInfo, ModelError> {
    let name = &weights.config().architecture;
    let mut known = ARCHITECTURES.iter();
    known
        .find(|info| info.name == name)
        .ok_or_else(|| ModelError::Format {
            path: weights.path().to_owned(),
            reason: format!("architecture `{name}` is not supported\nhint: known: llama"),
        })
}
