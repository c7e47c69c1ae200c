//! CPU kernels on slices, in explicit SIMD under `pulp`'s run-time dispatch, without unsafe code.
//!
//! All products go through one inner loop ([`micro`]) over rows ([`rows`]) and panels of weights ([`panels`], [`coded`]), keys or
//! values ([`attention`] and its [`column_sums`]); [`single`] is attention of one position, which memory bounds.

mod attention;
mod causal;
mod coded;
mod column_sums;
mod cosine;
mod micro;
mod norm;
mod panels;
mod rows;
mod single;
mod swiglu;

pub(crate) use attention::{Attention, KeyPanels, Normaliser, Seen, Sizes, ValuePanels};
pub use causal::{AttentionShape, causal_attention};
pub(crate) use column_sums::ColumnSums;
pub(crate) use cosine::cosine;
pub(crate) use micro::{Chunk, ROWS};
pub(crate) use norm::rms_norm;
pub(crate) use panels::Panels;
pub(crate) use rows::Rows;
pub(crate) use single::{Part, SingleAttention};
pub(crate) use swiglu::swiglu;
