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
    let name = &weights.config().architecture;
    let info = ARCHITECTURES
        .iter()
        .find(|info| info.name == name)
        .ok_or_else(|| ModelError::Format {
            path: weights.path().to_owned(),
            reason: format!("architecture `{name}` is not supported\nhint: known: llama"),
        })?;
    (info.load)(weights, dtype, device)
}
