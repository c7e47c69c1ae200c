//! Caches that are really smaller: every layer holds only its kept entries, each layer its own number of them.
//! A layer that keeps everything shares the snapshot's storage.

use candle_core::{DType, Tensor};

use crate::{CacheError, KeptLayer, LayerState, Snapshot};

/// One layer of a compressed cache.
#[derive(Debug, Clone)]
pub struct CompressedLayer {
    /// Kept keys with the rope phases of their first positions, `[kv_heads, kept, head_dim]`, contiguous.
    pub keys: Tensor,
    /// Kept values, `[kv_heads, kept, head_dim]`, contiguous.
    pub values: Tensor,
}

impl CompressedLayer {
    /// Gathers the kept entries of one layer; a layer that keeps all `n` shares the storage of `layer`.
    ///
    /// # Errors
    /// When heads keep different numbers of entries, or a tensor operation fails.
    pub fn gather(layer: &LayerState, kept: &KeptLayer) -> Result<Self, CacheError> {
        let (kv_heads, prompt_tokens, _) = layer.keys.dims3()?;
        if kept.len() == kv_heads && kept.iter().all(|head| head.len() == prompt_tokens) {
            return Ok(Self {
                keys: layer.keys.clone(),
                values: layer.values.clone(),
            });
        }
        let gather = |from: &Tensor| -> candle_core::Result<Tensor> {
            let heads: Vec<Tensor> = kept
                .iter()
                .enumerate()
                .map(|(head, positions)| {
                    let index = Tensor::new(positions.as_slice(), from.device())?;
                    from.get(head)?.index_select(&index, 0)
                })
                .collect::<candle_core::Result<_>>()?;
            Tensor::stack(&heads, 0)
        };
        Ok(Self {
            keys: gather(&layer.keys)?,
            values: gather(&layer.values)?,
        })
    }

    /// Entries per KV head, read from the tensor.
    #[must_use]
    pub fn kept_tokens(&self) -> usize {
        self.keys.dims().get(1).copied().unwrap_or(0)
    }

    /// Bytes of keys and values, read from the tensors.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let size = |tensor: &Tensor| (tensor.elem_count() * tensor.dtype().size_in_bytes()) as u64;
        size(&self.keys) + size(&self.values)
    }
}

/// All layers of a prompt after compression.
#[derive(Debug, Clone)]
pub struct CompressedCache {
    /// One entry a layer.
    pub layers: Vec<CompressedLayer>,
    /// n of the prompt: decoding goes on at this position.
    pub prompt_tokens: usize,
}

impl CompressedCache {
    /// The whole snapshot, uncompressed, sharing its storage.
    #[must_use]
    pub fn full(snapshot: &Snapshot) -> Self {
        Self {
            layers: snapshot
                .layers
                .iter()
                .map(|layer| CompressedLayer {
                    keys: layer.keys.clone(),
                    values: layer.values.clone(),
                })
                .collect(),
            prompt_tokens: snapshot.prompt_tokens,
        }
    }

    /// Gathers the kept entries of every layer.
    ///
    /// # Errors
    /// As [`CompressedLayer::gather`].
    pub fn gather(snapshot: &Snapshot, kept: &[KeptLayer]) -> Result<Self, CacheError> {
        Ok(Self {
            layers: snapshot
                .layers
                .iter()
                .zip(kept)
                .map(|(layer, kept)| CompressedLayer::gather(layer, kept))
                .collect::<Result<_, _>>()?,
            prompt_tokens: snapshot.prompt_tokens,
        })
    }

    /// Kept entries per KV head of every layer, read from the tensors.
    #[must_use]
    pub fn kept_per_layer(&self) -> Vec<u32> {
        self.layers
            .iter()
            .map(|layer| layer.kept_tokens() as u32)
            .collect()
    }

    /// Bytes of all keys and values, read from the tensors.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.layers.iter().map(CompressedLayer::bytes).sum()
    }

    /// Number format of the cache.
    #[must_use]
    pub fn dtype(&self) -> Option<DType> {
        self.layers.first().map(|layer| layer.keys.dtype())
    }
}

/// blake3 over all kept indices, 32 hex digits: equal hashes mean equal caches of the same prompt.
#[must_use]
pub fn kept_hash(kept: &[KeptLayer]) -> String {
    let mut hasher = blake3::Hasher::new();
    for layer in kept {
        for head in layer {
            hasher.update(&(head.len() as u64).to_le_bytes());
            for position in head {
                hasher.update(&position.to_le_bytes());
            }
        }
    }
    hasher.finalize().to_hex()[..32].to_owned()
}
