//! Reports from made-up results folders: sound ones, holes, cut lines, mixed protocols, a single sample.

#![expect(
    clippy::unwrap_used,
    reason = "helpers outside `#[test]` functions: what cannot be set up is a failed test"
)]

mod bad_input;
mod comparing;
mod evidence;
mod evidence_folder;
mod figures;
mod report;
mod results_folder;
mod unfinished;
