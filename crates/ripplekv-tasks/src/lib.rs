//! Packs, records, prompts, truncation, stop rules and scoring of tasks; our own generator.
//! Follows LongBench (THUDM/LongBench 2e00731) to the letter. No tensors in here.
//!
//! ```
//! use ripplekv_metrics::Context;
//! use ripplekv_tasks::testing::{WordTokenizer, record};
//! use ripplekv_tasks::{PromptOptions, StopRule, find_task, official_max_context, prepare, score_record};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let task = find_task("qasper")?;
//! let tokenizer = WordTokenizer::new().with_bos().with_chat("<user>", "<answer>");
//! let record = record("Where is the key?", "The key is under the mat.");
//! let options = PromptOptions::official(official_max_context(8_192));
//! let prompt = prepare(task, "{context}\n\n{input}", &record, &tokenizer, &options)?;
//! assert_eq!(prompt.text, "<user>The key is under the mat.\n\nWhere is the key?<answer>");
//! assert!(!StopRule::new(task, &tokenizer)?.forbids_end(0));
//!
//! let answers = ["under the mat".to_owned()];
//! assert_eq!(score_record(task, "Under the mat.", &answers, None, &Context::default())?, 1.0);
//! # Ok(())
//! # }
//! ```
//!
//! What is where:
//! - [`TASKS`], [`find_task`], [`expand_tasks`], [`GROUPS`]: what a task is, names and groups;
//! - [`Pack`]: a folder of prompts, limits and records; official configs are held to digests;
//! - [`install_longbench`]: LongBench's own archive into a pack's folder, safely;
//! - [`prepare`]: render, truncate, chat form, tokenise, in the official order;
//! - [`StopRule`], [`postprocess`], [`score_record`], [`clean_up_spaces`]: after the model;
//! - [`Tokenise`]: what is needed of a tokenizer; [`testing::WordTokenizer`] is a fake;
//! - [`pack_hash`]: the content of a pack in one hash;
//! - [`generate`]: the quickstart, study and calibration packs.
//!
//! To add a task, add one line to [`TASKS`] (`src/table.rs`) and give a pack its records
//! (`data/<task>.jsonl`) and its two config entries. The groups, `ripplekv ls tasks` and the
//! lint tests follow. A new metric is one file and one line in `ripplekv-metrics`. To generate
//! the task's records as well, see [`generate`].

mod clean_up;
pub mod generate;
mod groups;
mod install;
mod pack;
mod pack_error;
mod pack_hash;
mod prompt;
mod record;
mod render;
mod score;
mod stop;
mod table;
mod task;
pub mod testing;
mod tokenise;

pub use clean_up::clean_up_spaces;
pub use groups::{GROUPS, TaskGroup, UnknownTask, expand_tasks, find_group, find_task};
pub use install::{
    ConfigFiles, InstallError, InstallRequest, InstalledPack, InstalledTask, LONGBENCH_COMMIT,
    LocalPack, RecordSource, install_longbench,
};
pub use pack::{
    LENGTH_FILE, LONGBENCH_LENGTH_SHA256, LONGBENCH_PROMPT_SHA256, MANIFEST_FILE, PROMPT_FILE,
    Pack, Records, Selection,
};
pub use pack_error::PackError;
pub use pack_hash::pack_hash;
pub use prompt::{
    BosRule, ChatRule, Prompt, PromptError, PromptOptions, hash_ids, official_max_context, prepare,
};
pub use record::{Record, RecordError};
pub use render::{RenderError, render};
pub use score::{postprocess, score_record};
pub use stop::StopRule;
pub use table::TASKS;
pub use task::{Category, Language, Suite, TaskInfo};
pub use tokenise::{Tokenise, TokeniseError};
