//! Spec -> plan -> cells -> records: the experiment logic, without any tensor.
//!
//! ```
//! use ripplekv_runner::fake;
//! use ripplekv_runner::spec::Spec;
//!
//! let text = "{schema: 1, name: demo, models: [tiny], budgets: [10%], methods: [full, snapkvv]}";
//! let spec = Spec::parse(text, None, &[])?;
//! let folder = std::path::Path::new("a/pack");
//! let plan = ripplekv_runner::plan::Plan::new(&spec, &fake::catalog(), folder, Default::default());
//! let message = plan.unwrap_err().to_string();
//! assert!(message.contains("methods[1]") && message.contains("did you mean 'snapkv'?"));
//! # Ok::<(), ripplekv_runner::RunnerError>(())
//! ```
//!
//! What is where: [`spec`] reads YAML, [`plan`] looks names up and hashes cells, [`store`] keeps results,
//! [`run`] drives an [`engine::Engine`] and emits [`run::Event`]s, [`exit`] holds the exit codes.
//! To add a key to the spec: one field and one line in `spec/`, then resolve it in `plan/`, and add it to the
//! identity in `plan/cells.rs` if it can change an output.

mod canonical;
pub mod catalog;
pub mod cell;
pub mod damage;
pub mod engine;
mod error;
pub mod exit;
pub mod fake;
pub mod kept;
mod nearest;
pub mod plan;
pub mod profile;
pub mod prompt_text;
pub mod record;
pub mod run;
pub mod select;
pub mod spec;
pub mod store;

pub use error::{RunnerError, SpecError};
pub use nearest::{hint_for, nearest};
