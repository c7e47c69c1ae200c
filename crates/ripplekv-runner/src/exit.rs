//! Exit codes of the `ripplekv` program. Scripts and Slurm jobs rely on them: they never change meaning.

/// Everything asked for is done.
pub const DONE: u8 = 0;
/// A fault of the program itself.
pub const BUG: u8 = 1;
/// The command line is wrong (the argument parser's own code).
pub const USAGE: u8 = 2;
/// The spec, the data or the model is wrong: change it, then run again.
pub const SPEC_OR_DATA: u8 = 3;
/// Filters, limits or the shard selected nothing.
pub const NOTHING_SELECTED: u8 = 4;
/// Interrupted, or other processes hold the rest: run the same command again.
pub const INCOMPLETE: u8 = 5;
/// Done, but samples failed; their records say why.
pub const FAILED_SAMPLES: u8 = 100;
