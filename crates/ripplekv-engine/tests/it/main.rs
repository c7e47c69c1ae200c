//! Integration tests of the engine: the tiny random models for the matrix, SmolLM2-135M for what must be real.

mod controls;
mod longbench;
mod oracle;
mod reference;
mod smollm2;
mod tiny;
