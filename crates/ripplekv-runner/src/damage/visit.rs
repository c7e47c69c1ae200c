//! The order of the samples: in turn over tasks (first sample of each, second of each, ...), so that an interrupted
//! stage is balanced. Each task's file is read once, in step with the visits.

use ripplekv_tasks::{Record, Records};

use crate::damage::job::DamageJob;
use crate::error::RunnerError;
use crate::plan::{PlannedTask, PreparedPrompt};

/// One sample in its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) task: &'a PlannedTask,
    pub(super) prompt: &'a PreparedPrompt,
    /// Place among the task's selected samples, from 0.
    pub(super) round: usize,
}

impl Place<'_> {
    pub(super) fn id(&self) -> String {
        sample_id(self.task.info.name, &self.prompt.sample)
    }

    /// Half of the samples that it is in, 0 or 1.
    pub(super) fn half(&self) -> u8 {
        u8::from(self.round % 2 == 1)
    }
}

/// How a sample is named in `recipe.json`.
pub(super) fn sample_id(task: &str, sample: &str) -> String {
    format!("{task}/{sample}")
}

/// All samples in the order of their visits.
pub(super) fn places<'a>(job: &DamageJob<'a>) -> Vec<Place<'a>> {
    let tasks = &job.prepared.tasks;
    let rounds = tasks.iter().map(|task| task.prompts.len()).max();
    let plan = job.plan;
    (0..rounds.unwrap_or(0))
        .flat_map(|round| {
            tasks.iter().filter_map(move |task| {
                task.prompts.get(round).map(|prompt| Place {
                    task: &plan.tasks[task.task],
                    prompt,
                    round,
                })
            })
        })
        .collect()
}

/// Reads the records of places asked for in visiting order.
pub(super) struct RecordReader<'a> {
    job: &'a DamageJob<'a>,
    /// One open file a task, with the place of its next record.
    open: Vec<(&'static str, usize, Records)>,
}

impl<'a> RecordReader<'a> {
    pub(super) fn new(job: &'a DamageJob<'a>) -> Self {
        Self {
            job,
            open: Vec::new(),
        }
    }

    /// The record of a place. Places of one task come in the order of its file.
    pub(super) fn read(&mut self, place: &Place<'_>) -> Result<Record, RunnerError> {
        let info = place.task.info;
        let known = self.open.iter().position(|(task, _, _)| *task == info.name);
        let known = match known {
            Some(known) => known,
            None => {
                let records = self.job.plan.pack.records(info)?;
                self.open.push((info.name, 0, records));
                self.open.len() - 1
            }
        };
        let (_, next, records) = &mut self.open[known];
        let skipped = place.prompt.index.saturating_sub(*next);
        for record in records.take(skipped) {
            record?;
        }
        *next = place.prompt.index + 1;
        match records.next().transpose()? {
            Some(record) if record.id == place.prompt.sample => Ok(record),
            _ => Err(RunnerError::Data {
                message: format!(
                    "sample '{}' is no longer in its place in {}",
                    place.id(),
                    self.job.plan.pack.record_path(info).display()
                ),
                hint: "the file changed during the run; run again".to_owned(),
            }),
        }
    }
}
