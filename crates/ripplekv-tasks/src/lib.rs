//! Packs, records, prompts, truncation, stop rules and scoring of tasks; our own generator.
//! Follows LongBench (THUDM/LongBench 2e00731) to the letter. No tensors in here.

mod clean_up;
pub mod generate;
mod groups;
mod pack;
mod pack_error;
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
pub use pack::{
    LENGTH_FILE, LONGBENCH_LENGTH_SHA256, LONGBENCH_PROMPT_SHA256, MANIFEST_FILE, PROMPT_FILE,
    Pack, Records, Selection,
};
pub use pack_error::PackError;
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
