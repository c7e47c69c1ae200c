//! Tests of the runner through its front door, with the fake engine.

mod bad_input;
mod keys;
mod pack;
mod resume;
mod shards;
mod stored;
