//! Tests of the program itself, run as its users run it. The fake engine stands in for a model.

#![expect(
    clippy::unwrap_used,
    reason = "a failed step of a test's own setup is a failed test"
)]

mod bad_input;
mod bench;
mod committed;
mod compare;
mod export;
mod fetch_longbench;
mod interrupt;
mod listing;
mod loopback;
mod profile;
mod program;
mod run;
mod score;
