//! Integration tests of the engine: the tiny random models for the matrix, SmolLM2-135M for what must be real.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests; a skipped test says so"
)]

mod calibration;
mod controls;
mod forced;
mod kept_forms;
mod kvpress;
mod longbench;
mod longbench_texts;
mod oracle;
mod reference;
mod ripple;
mod shapes;
mod smollm2;
mod tiny;
