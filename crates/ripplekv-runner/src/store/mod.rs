//! The results folder of one experiment: manifest, cells, records, timings, prompt texts, kept positions, log and locks.
//! Writers append whole lines and never rewrite; readers take the union of all writers' files.

mod environment;
pub(crate) mod lines;
pub(crate) mod locks;
mod manifest;
mod read;
mod write;

pub(crate) use environment::restart_peak_rss;
pub use environment::{GitState, Host, git_state, peak_rss_bytes};
pub use locks::Claim;
pub use manifest::{MANIFEST_SCHEMA, Manifest, PackState, ProgramState, TaskState};
pub(crate) use read::read_json;
pub use read::{DoneIndex, StoredRun, read_done, read_run};
pub(crate) use write::KnownPrompt;
pub use write::Store;
pub(crate) use write::write_json;
