//! Weights by their Hugging Face names, whatever file they come from.

mod codes;
mod gguf;
mod mapped;
mod safetensors;

use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};

use crate::{ModelConfig, ModelError};

pub use codes::Codes;
pub(crate) use codes::RUN;
pub use gguf::{GgufWeights, read_gguf};
pub use safetensors::FolderWeights;

/// How the numbers of a weight matrix are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// In f32, f16 or bf16.
    Numbers(DType),
    /// As [`Codes`].
    Codes,
}

/// A weight matrix `[outputs, inputs]` in the form in which it is kept.
pub enum Matrix {
    /// In f32, f16 or bf16.
    Numbers(Tensor),
    /// As a block-quantised file has it.
    Codes(Codes),
}

/// A source of named tensors.
pub trait Weights {
    /// The tensor with this Hugging Face name as `dtype` on `device`, checked against `shape`.
    ///
    /// # Errors
    /// When it is missing, has another shape, or cannot be read.
    fn tensor(
        &self,
        name: &str,
        shape: &[usize],
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor, ModelError>;

    /// The numbers of [`Weights::tensor`], bit for bit, in the form that [`Weights::form`] names.
    ///
    /// # Errors
    /// As [`Weights::tensor`].
    fn matrix(
        &self,
        name: &str,
        shape: [usize; 2],
        dtype: DType,
        device: &Device,
    ) -> Result<Matrix, ModelError> {
        Ok(match self.form(name, dtype) {
            Form::Numbers(kept) => Matrix::Numbers(self.tensor(name, &shape, kept, device)?),
            Form::Codes => Matrix::Codes(self.codes(name, shape)?),
        })
    }

    /// A matrix whose [`Weights::form`] is codes.
    ///
    /// # Errors
    /// As [`Weights::tensor`], and for every other matrix.
    fn codes(&self, name: &str, _shape: [usize; 2]) -> Result<Codes, ModelError> {
        Err(ModelError::Tensor {
            path: self.path().to_owned(),
            name: name.to_owned(),
            reason: "is not kept as codes".to_owned(),
        })
    }

    /// The form in which a matrix is kept where `dtype` is asked for: weights of a file in f16 or bf16 are no more than that
    /// in f32, and simple block-quantised ones no more than their codes.
    fn form(&self, _name: &str, dtype: DType) -> Form {
        Form::Numbers(dtype)
    }

    /// Configuration that came with the weights.
    fn config(&self) -> &ModelConfig;

    /// blake3 over everything that decides the logits: configuration and weights.
    ///
    /// # Errors
    /// When a file cannot be read.
    fn hash(&self) -> Result<String, ModelError>;

    /// File or folder, for messages.
    fn path(&self) -> &Path;
}

/// Opens a GGUF file or a Hugging Face folder.
///
/// # Errors
/// When it is neither, or its configuration is not run here.
pub fn open_weights(path: &Path) -> Result<Box<dyn Weights>, ModelError> {
    if path.is_dir() {
        Ok(Box::new(FolderWeights::open(path)?))
    } else {
        Ok(Box::new(GgufWeights::open(path)?))
    }
}

/// The number format in which weights of a file's format are kept when `asked` for: f32 holds no more of 16 bits than
/// they are.
fn kept_format(stored: DType, asked: DType) -> DType {
    match (stored, asked) {
        (DType::F16 | DType::BF16, DType::F32) => stored,
        _ => asked,
    }
}

/// blake3 over whole files in the given order, 32 hex digits.
fn hash_files(files: &[PathBuf]) -> Result<String, ModelError> {
    let mut hasher = blake3::Hasher::new();
    for path in files {
        let fail = |source| ModelError::Io {
            path: path.clone(),
            source,
        };
        let file = std::fs::File::open(path).map_err(fail)?;
        hasher.update_reader(file).map_err(fail)?;
    }
    Ok(hasher.finalize().to_hex()[..32].to_owned())
}

fn check_shape(path: &Path, name: &str, got: &[usize], want: &[usize]) -> Result<(), ModelError> {
    if got == want {
        return Ok(());
    }
    Err(ModelError::Tensor {
        path: path.to_owned(),
        name: name.to_owned(),
        reason: format!("has shape {got:?}, the configuration asks for {want:?}"),
    })
}
