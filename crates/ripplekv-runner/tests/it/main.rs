//! Tests of the runner through its front door, with the fake engine.

#![expect(
    clippy::unwrap_used,
    reason = "a failed step of a test's own setup is a failed test"
)]

mod bad_input;
mod calibrate;
mod damage;
mod damage_numbers;
mod damage_setup;
mod damage_signals;
mod keys;
mod pack;
mod profile;
mod profile_files;
mod resume;
mod shards;
mod shown;
mod stages_input;
mod stored;
