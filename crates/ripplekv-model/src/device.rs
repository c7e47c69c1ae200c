//! Devices by name: `cpu`, `cuda:0`, `metal`.

use candle_core::Device;

use crate::ModelError;

/// Opens a device by name.
///
/// # Errors
/// An unknown name, or a device this build was not compiled for.
pub fn open_device(name: &str) -> Result<Device, ModelError> {
    let fail = |reason: String| ModelError::Device {
        name: name.to_owned(),
        reason,
    };
    let (kind, ordinal) = name.split_once(':').unwrap_or((name, "0"));
    let ordinal: usize = ordinal.parse().map_err(|_| {
        fail("the part behind the colon is a number\nhint: write `cuda:0`".to_owned())
    })?;
    match kind {
        "cpu" => Ok(Device::Cpu),
        "cuda" if candle_core::utils::cuda_is_available() => {
            Device::new_cuda(ordinal).map_err(|error| fail(error.to_string()))
        }
        "cuda" => Err(fail(
            "this build has no cuda\nhint: build with `--features cuda`".to_owned(),
        )),
        "metal" if candle_core::utils::metal_is_available() => {
            Device::new_metal(ordinal).map_err(|error| fail(error.to_string()))
        }
        "metal" => Err(fail(
            "this build has no metal\nhint: build with `--features metal`".to_owned(),
        )),
        _ => Err(fail(
            "not a device\nhint: `cpu`, `cuda:0` or `metal`".to_owned(),
        )),
    }
}
