//! The one place that maps weight files into memory.
#![expect(
    unsafe_code,
    reason = "a memory map is unsound if the file changes under it; weight files are read-only inputs"
)]

use std::path::Path;

use candle_core::safetensors::MmapedSafetensors;

use crate::ModelError;

/// Maps a safetensors file; tensors are read when asked for.
pub(super) fn map_safetensors(file: &Path, folder: &Path) -> Result<MmapedSafetensors, ModelError> {
    // SAFETY: the file is opened read-only and nothing in this program writes weight files in place
    // (downloads are renamed into place when complete).
    unsafe { MmapedSafetensors::new(file) }.map_err(|error| ModelError::Format {
        path: folder.to_owned(),
        reason: format!(
            "not readable as safetensors ({error})\nhint: the file may be cut, fetch it again"
        ),
    })
}
