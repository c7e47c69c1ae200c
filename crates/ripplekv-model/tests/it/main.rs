//! Integration tests of the model crate, one module a topic.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what it skipped, and helpers of tests may fail like tests"
)]

mod chat_template;
mod column_sums;
#[cfg(unix)]
mod fetch;
mod hub;
mod logits;
mod second_opinion;
mod support;
mod tokenizer;
