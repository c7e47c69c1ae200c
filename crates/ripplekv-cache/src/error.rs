//! Everything that can go wrong in this crate.

/// Error of the cache crate. Texts are lower case and name the field.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// A budget's text cannot be used.
    #[error("budget `{text}`: {reason}")]
    Budget {
        /// Text as given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A method, scorer or allocator that is not in its table.
    #[error("unknown {kind} `{name}`; known: {known}")]
    UnknownName {
        /// `method`, `scorer` or `allocator`.
        kind: &'static str,
        /// Name as given.
        name: String,
        /// Valid names, comma separated.
        known: String,
    },
    /// A parameter that the scorer and allocator of this method do not have.
    #[error("unknown parameter `{key}`; known: {known}")]
    UnknownParam {
        /// Key as given.
        key: String,
        /// Valid keys, comma separated.
        known: String,
    },
    /// A parameter with a value out of range or of another type.
    #[error("{key}: {reason}")]
    Param {
        /// Key as given.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The budget cannot hold the must-keep set.
    #[error(
        "budget of {total} entries over {layers} layers is below the must-keep set of {must_keep} entries a layer"
    )]
    BelowMustKeep {
        /// T.
        total: u64,
        /// L.
        layers: usize,
        /// Must-keep entries of one layer.
        must_keep: usize,
    },
    /// A score that is not a number.
    #[error("score of entry {entry} in kv head {head} is not a number")]
    NotANumber {
        /// KV head.
        head: usize,
        /// Prompt position.
        entry: usize,
    },
    /// A layer weight that is not positive and finite.
    #[error("weight of layer {layer} is {weight}; weights must be positive and finite")]
    Weight {
        /// Layer.
        layer: usize,
        /// Its weight.
        weight: f64,
    },
    /// An allocator asked for a signal of the model's profile that is not there.
    #[error(
        "the signal `{name}` is absent: this model has no profile here\nhint: measure one with `ripplekv profile`"
    )]
    MissingSignal {
        /// Its name.
        name: String,
    },
    /// A signal of another number of layers.
    #[error("profile has {have} layers, the model {want} (`{name}`)")]
    SignalLayers {
        /// Its name.
        name: String,
        /// Numbers in the signal.
        have: usize,
        /// L.
        want: usize,
    },
    /// A number of a signal that cannot be used.
    #[error("`{name}` of layer {layer} is {number}; must be {must}")]
    SignalNumber {
        /// Name of the signal.
        name: String,
        /// Layer.
        layer: usize,
        /// Its number.
        number: f64,
        /// What it must be.
        must: &'static str,
    },
    /// A scorer asked for something the prefill did not store.
    #[error("the snapshot holds {have} window queries but {want} are needed")]
    MissingQueries {
        /// Stored.
        have: usize,
        /// Asked for.
        want: usize,
    },
    /// A scorer asked for column sums, and the prefill did not store them.
    #[error("the snapshot holds no column sums of attention but they are needed")]
    MissingColumnSums,
    /// Tensor operation.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}
