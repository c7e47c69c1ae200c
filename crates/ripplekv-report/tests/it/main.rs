//! Reports from made-up results folders: sound ones, holes, cut lines, mixed protocols, a single sample.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers outside `#[test]` functions: what cannot be set up is a failed test; a skipped test says so"
)]

mod bad_input;
mod browser;
mod comparing;
mod damaged;
mod evidence;
mod evidence_folder;
mod figures;
mod frames;
mod hostile;
mod html;
mod latex;
mod published;
mod report;
mod results_folder;
mod schemas;
mod unfinished;
