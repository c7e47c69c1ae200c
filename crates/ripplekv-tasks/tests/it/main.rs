//! Packs on disk, our own packs, and the shared LongBench records where they lie beside the project.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests; a skipped test says so"
)]

mod bad_packs;
mod calibration;
mod generated;
mod longbench;
mod properties;
