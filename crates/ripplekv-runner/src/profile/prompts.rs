//! The prompts of the calibration pack: records taken in turn from its tasks, rendered by the benchmark's own rules.

use ripplekv_tasks::{
    PromptOptions, Record, StopRule, TaskInfo, Tokenise, official_max_context, prepare,
};

use crate::engine::ModelShape;
use crate::error::RunnerError;
use crate::plan::PlannedProfile;

/// One record of the calibration pack as a prompt.
#[derive(Debug, Clone)]
pub(crate) struct CalibrationPrompt {
    /// Task.
    pub(crate) task: &'static str,
    /// `_id` of the record.
    pub(crate) sample: String,
    /// Prompt token ids, length n.
    pub(crate) ids: Vec<u32>,
    /// When the answer ends.
    pub(crate) stop: StopRule,
    /// Place in the round over the tasks that it is part of, from 0.
    pub(crate) round: usize,
    /// Why it cannot be measured, if so.
    pub(crate) unfit: Option<String>,
}

/// The first `samples` records in turn: the first of every task, the second of every task, ...
pub(crate) fn prompts(
    profile: &PlannedProfile,
    shape: &ModelShape,
    tokenizer: &dyn Tokenise,
) -> Result<Vec<CalibrationPrompt>, RunnerError> {
    let options = PromptOptions {
        max_context: official_max_context(shape.context_length),
        chat_template: profile.protocol.chat_template,
        clean_up_spaces: profile.protocol.clean_up_spaces,
        bos: profile.protocol.bos,
    };
    let tasks: Vec<(&'static TaskInfo, Vec<Record>)> = profile
        .pack
        .tasks()
        .map(|info| Ok((info, profile.pack.load(info)?)))
        .collect::<Result<_, RunnerError>>()?;
    let rounds = tasks.iter().map(|(_, records)| records.len()).max();
    let in_turn = (0..rounds.unwrap_or(0)).flat_map(|round| {
        tasks.iter().filter_map(move |(info, records)| {
            records.get(round).map(|record| (round, *info, record))
        })
    });
    in_turn
        .take(profile.recipe.samples)
        .map(|(round, info, record)| {
            let template = profile.pack.template(info)?;
            let ids = prepare(info, template, record, tokenizer, &options)?.ids;
            let stop = StopRule::new(info, tokenizer).map_err(|reason| {
                ripplekv_tasks::PromptError::Tokenise {
                    task: info.name,
                    id: record.id.clone(),
                    reason,
                }
            })?;
            let answer = profile.recipe.answer_tokens;
            let unfit = (ids.len() + answer > shape.context_length).then(|| {
                format!(
                    "the prompt of {} tokens and {answer} answer tokens are longer than the context of {} tokens",
                    ids.len(),
                    shape.context_length
                )
            });
            Ok(CalibrationPrompt {
                task: info.name,
                sample: record.id.clone(),
                ids,
                stop,
                round,
                unfit,
            })
        })
        .collect()
}
