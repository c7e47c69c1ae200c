//! Packs on disk, our own packs, and the shared LongBench records where they lie beside the project.

mod bad_packs;
mod generated;
mod longbench;
mod properties;
