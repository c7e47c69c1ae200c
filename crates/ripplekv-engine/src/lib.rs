//! The real [`ripplekv_runner::engine::Engine`]: one dense prefill, every cell compressed from the same snapshot, all cells
//! of a prompt decoded together. Joins model, cache, tasks and runner; has no experiment logic of its own.
//!
//! The order of one prompt: [`prompt`] prefills, [`compress`] turns a cell into kept sets, [`decode`] continues the rows.
//! [`sensitivity`] perturbs layers and [`damage`] compresses them one at a time; both compare teacher-forced answers.

mod compress;
mod damage;
mod decode;
mod forced;
mod loader;
mod prompt;
mod sensitivity;
mod tokenise;

pub use compress::{KeptCell, kept_cell};
pub use decode::{Continuation, decode_greedy};
pub use loader::ModelLoader;
pub use prompt::ModelEngine;
pub use tokenise::ModelTokenizer;
