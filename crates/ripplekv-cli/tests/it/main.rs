//! Tests of the program itself, run as its users run it. The fake engine stands in for a model.

mod bad_input;
mod interrupt;
mod listing;
mod program;
mod run;
mod score;
