//! The tiny random llamas of the model crate's fixtures, and prompts for them.

use std::path::PathBuf;

use candle_core::{DType, Device};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ripplekv_model::{Decoder, FolderWeights, load_decoder};
use ripplekv_runner::engine::Signals;

pub(crate) fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../ripplekv-model/tests/fixtures")
        .join(name)
}

pub(crate) fn weights(name: &str) -> FolderWeights {
    FolderWeights::open(&folder(name)).unwrap()
}

pub(crate) fn decoder(name: &str) -> Box<dyn Decoder> {
    load_decoder(&weights(name), DType::F32, &Device::Cpu).unwrap()
}

/// `length` random ids of a vocabulary.
pub(crate) fn ids(seed: u64, length: usize, vocabulary: usize) -> Vec<u32> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..length)
        .map(|_| random.random_range(0..vocabulary as u32))
        .collect()
}

/// Made-up numbers for every signal that an allocator reads.
pub(crate) fn signals(layers: usize) -> Signals {
    let rising: Vec<f64> = (0..layers).map(|layer| 1.0 + layer as f64).collect();
    ["sensitivity", "local-response"]
        .map(|name| (name.to_owned(), rising.clone()))
        .into()
}
