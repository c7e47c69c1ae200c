//! What both passes ask the engine in common: one sample's prompt, made and scored by the rules of a run.

use std::sync::Arc;

use ripplekv_metrics::Context;
use ripplekv_tasks::{
    Prompt, PromptOptions, Record, StopRule, Tokenise, clean_up_spaces, prepare, score_record,
};

use crate::cell::ResolvedMethod;
use crate::damage::document::DamageHead;
use crate::damage::files;
use crate::damage::job::DamageJob;
use crate::damage::visit::{Place, RecordReader};
use crate::engine::{DamageOutput, DamageRequest, Engine, EngineError};
use crate::error::RunnerError;
use crate::plan::prompt_options;

/// How the reason begins where a sample is dropped because its answer is too short.
const SHORT_ANSWER: &str = "the full model's answer is too short";

/// Whether a sample was dropped for its short answer, which is no failure.
pub(super) fn is_short(reason: &str) -> bool {
    reason.starts_with(SHORT_ANSWER)
}

/// What is the same for every sample.
pub(super) struct Setup<'a> {
    pub(super) job: &'a DamageJob<'a>,
    pub(super) head: DamageHead,
    /// Canonical budgets.
    pub(super) budgets: Vec<&'a str>,
    method: ResolvedMethod,
    tokenizer: Arc<dyn Tokenise>,
    options: PromptOptions,
}

impl<'a> Setup<'a> {
    pub(super) fn new(job: &'a DamageJob<'a>, engine: &dyn Engine) -> Result<Self, RunnerError> {
        Ok(Self {
            head: files::head(job)?,
            budgets: job.recipe.budgets.iter().map(String::as_str).collect(),
            method: ResolvedMethod {
                name: job.recipe.method.clone(),
                label: job.recipe.method.clone(),
                params: job.recipe.params.clone(),
            },
            tokenizer: engine.tokenizer(),
            options: prompt_options(job.plan, &engine.identity().shape),
            job,
        })
    }
}

/// One sample, ready for the engine.
pub(super) struct Asked<'a> {
    pub(super) setup: &'a Setup<'a>,
    pub(super) place: &'a Place<'a>,
    pub(super) prompt: Prompt,
    record: Record,
    stop: StopRule,
}

impl<'a> Asked<'a> {
    pub(super) fn new(
        setup: &'a Setup<'a>,
        place: &'a Place<'a>,
        records: &mut RecordReader<'_>,
    ) -> Result<Self, RunnerError> {
        let task = place.task;
        let record = records.read(place)?;
        let tokenizer = setup.tokenizer.as_ref();
        let stop = StopRule::new(task.info, tokenizer).map_err(|error| RunnerError::Data {
            message: format!("task '{}': {error}", task.info.name),
            hint: "check the model's tokenizer".to_owned(),
        })?;
        Ok(Self {
            setup,
            place,
            prompt: prepare(
                task.info,
                &task.template,
                &record,
                tokenizer,
                &setup.options,
            )?,
            record,
            stop: stop.with_min_new_tokens(setup.job.plan.protocol.min_new_tokens),
        })
    }

    /// What both passes ask in common; nothing is measured yet.
    pub(super) fn request(&self) -> DamageRequest<'_> {
        let recipe = self.setup.job.recipe;
        DamageRequest {
            ids: &self.prompt.ids,
            answer_tokens: recipe.answer_tokens,
            max_new_tokens: recipe.answer_tokens,
            stop: &self.stop,
            method: &self.setup.method,
            budgets: &self.setup.budgets,
            single_layers: false,
            leave_in: false,
            reference_ids: &[],
            outputs: false,
            allocations: &[],
            first_token: recipe.first_token,
            short_prompts: self.setup.job.plan.protocol.short_prompts,
        }
    }

    /// Asks the engine. The inner error is why this sample is dropped; the outer one stops the stage.
    pub(super) fn ask(
        &self,
        engine: &mut dyn Engine,
        request: &DamageRequest<'_>,
        on_layer: &mut dyn FnMut(usize),
    ) -> Result<Result<DamageOutput, String>, RunnerError> {
        match engine.damage(request, on_layer) {
            Ok(output) if output.positions < 2 => Ok(Err(format!(
                "{SHORT_ANSWER}: {} positions to compare, at least 2 are needed",
                output.positions
            ))),
            Ok(output) if output.budgets.len() != self.setup.budgets.len() => Ok(Err(format!(
                "the engine measured {} budgets of {}",
                output.budgets.len(),
                self.setup.budgets.len()
            ))),
            Ok(output) => Ok(Ok(output)),
            Err(EngineError::Prompt(message)) => Ok(Err(message)),
            Err(source) => Err(RunnerError::Model {
                model: self.setup.job.model().to_owned(),
                source,
            }),
        }
    }

    /// Ids of the reference answer as it would follow the prompt.
    pub(super) fn reference_ids(&self) -> Result<Vec<u32>, String> {
        let answer = self.record.answers.first().map_or("", String::as_str);
        let mut ids = self
            .setup
            .tokenizer
            .encode(answer, false)
            .map_err(|error| error.to_string())?;
        ids.truncate(self.setup.job.recipe.answer_tokens);
        Ok(ids)
    }

    /// Task score of an answer in points of 100, by the rules of a run.
    pub(super) fn points(&self, output_ids: &[u32]) -> Result<f64, String> {
        let protocol = &self.setup.job.plan.protocol;
        let decoded = self
            .setup
            .tokenizer
            .decode(output_ids, true)
            .map_err(|error| error.to_string())?;
        let output = if protocol.clean_up_spaces {
            clean_up_spaces(&decoded)
        } else {
            decoded
        };
        let context = Context {
            segmenter: self.setup.job.segmenter,
            code: protocol.code_similarity,
            ..Context::default()
        };
        let classes = self.record.all_classes.as_deref();
        let answers = &self.record.answers;
        score_record(self.place.task.info, &output, answers, classes, &context)
            .map(|score| 100.0 * score)
            .map_err(|error| error.to_string())
    }
}
