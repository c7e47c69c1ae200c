//! What one dense prefill leaves behind: keys and values of every layer and the few statistics that scorers ask for.
//! Immutable and shared by all cells of a prompt.

use candle_core::Tensor;

/// What the scorers of a grid need from the prefill beyond keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// Queries of the last so many prompt positions, after rope.
    pub window_queries: usize,
    /// How much attention each entry gets from the whole prompt: a second sweep over all scores.
    pub column_sums: bool,
}

impl Needs {
    /// The union of two needs.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            window_queries: self.window_queries.max(other.window_queries),
            column_sums: self.column_sums || other.column_sums,
        }
    }
}

/// One layer after the prefill.
#[derive(Debug, Clone)]
pub struct LayerState {
    /// Keys after rope, `[kv_heads, n, head_dim]`, contiguous.
    pub keys: Tensor,
    /// Values, `[kv_heads, n, head_dim]`, contiguous.
    pub values: Tensor,
    /// Queries after rope of the last positions, `[heads, window, head_dim]`, where a scorer asked for them.
    pub window_queries: Option<Tensor>,
    /// How much attention each entry gets, `[kv_heads, n]` in f32, where a scorer asked for it: summed over the prompt's
    /// queries, of which those from position j on see entry j, and averaged over the query heads of the KV head's group.
    /// A row sums to n.
    pub column_sums: Option<Tensor>,
}

/// All layers of one prompt.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// One entry a layer.
    pub layers: Vec<LayerState>,
    /// n.
    pub prompt_tokens: usize,
}

impl Snapshot {
    /// Bytes of keys and values of one position in one layer, over all KV heads.
    ///
    /// # Errors
    /// When a layer does not have three dimensions.
    pub fn entry_bytes(&self) -> candle_core::Result<usize> {
        let Some(layer) = self.layers.first() else {
            return Ok(0);
        };
        let (kv_heads, _, head_dim) = layer.keys.dims3()?;
        Ok(2 * kv_heads * head_dim * layer.keys.dtype().size_in_bytes())
    }
}
