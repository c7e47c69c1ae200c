//! The inner part of a run: one model, its units, its prompts, its cells.

use std::time::Instant;

use ripplekv_tasks::{Record as TaskRecord, StopRule, prepare};

use crate::catalog::Catalog;
use crate::cell::Cell;
use crate::engine::{CellRequest, Engine, EngineError, Loader, PromptOutput, PromptRequest};
use crate::error::RunnerError;
use crate::plan::{Plan, PlannedTask, PreparedPrompt, Unit};
use crate::record::{Record, Timing};
use crate::run::job::{Job, Scoring, answered_record, failed_record};
use crate::run::profile::{self, ModelProfile};
use crate::run::shown::{self, KnownPrompts, is_shown};
use crate::run::{Event, Observer, ReadyModel, RunOptions, RunSummary, Teller, milliseconds};
use crate::spec::{StoreKept, TimingMode};
use crate::store::{DoneIndex, Store, peak_rss_bytes, read_done, restart_peak_rss};

/// What is missing of some units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Missing {
    /// Cells of prompts that are to be computed.
    pub(crate) missing: usize,
    /// Prompts with a missing cell.
    pub(crate) prompts: usize,
    /// Tokens of those prompts.
    pub(crate) tokens: usize,
    /// Cells of prompts that are stored.
    pub(crate) stored: usize,
    /// Stored ones that failed.
    pub(crate) failed: usize,
}

pub(crate) struct Evaluation<'a> {
    plan: &'a Plan,
    catalog: &'a Catalog,
    options: &'a RunOptions<'a>,
    ready: &'a [ReadyModel],
    store: Store,
    observer: &'a mut dyn Observer,
    /// Of the model in hand.
    profile: ModelProfile,
    /// Whether the model in hand has run once, where times are measured.
    is_warm: bool,
    /// Failed samples this run tried; they are not tried twice in one run.
    retried: Vec<(String, String)>,
    known_prompts: KnownPrompts,
    /// Greatest memory seen while computing cells; timings alone start it again with each cell.
    peak_rss_bytes: u64,
}

impl<'a> Evaluation<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        catalog: &'a Catalog,
        options: &'a RunOptions<'a>,
        ready: &'a [ReadyModel],
        store: Store,
        observer: &'a mut dyn Observer,
    ) -> Self {
        Self {
            plan,
            catalog,
            options,
            ready,
            store,
            observer,
            profile: ModelProfile::default(),
            is_warm: false,
            retried: Vec::new(),
            known_prompts: KnownPrompts::default(),
            peak_rss_bytes: 0,
        }
    }

    pub(crate) fn tell(&mut self, event: Event) -> Result<(), RunnerError> {
        self.teller().tell(event)
    }

    fn teller(&mut self) -> Teller<'_> {
        Teller {
            store: &mut self.store,
            observer: &mut *self.observer,
        }
    }

    fn is_missing(&self, done: &DoneIndex, cell: &Cell, sample: &str) -> bool {
        let retry = self.options.retry_failed
            && !self
                .retried
                .iter()
                .any(|(key, tried)| *key == cell.key.0 && tried == sample);
        !done.is_done(&cell.key, sample) && (retry || !done.is_failed(&cell.key, sample))
    }

    /// Counts what is missing. Reads each task's files once.
    pub(crate) fn count_missing(&self, units: &[Unit]) -> Result<Missing, RunnerError> {
        let mut count = Missing::default();
        let mut known: Option<((usize, usize), DoneIndex)> = None;
        for unit in units {
            let place = (unit.model, unit.task);
            let done = match known.take() {
                Some((of, done)) if of == place => done,
                _ => self.done(unit)?,
            };
            let (model, task) = self.names(unit);
            for prompt in &unit.prompts {
                let mut missing = 0;
                for cell in self.plan.cells_of(model, task) {
                    if self.is_missing(&done, cell, &prompt.sample) {
                        missing += 1;
                    } else {
                        count.stored += 1;
                        count.failed += usize::from(!done.is_done(&cell.key, &prompt.sample));
                    }
                }
                count.missing += missing;
                if missing > 0 {
                    count.prompts += 1;
                    count.tokens += prompt.tokens;
                }
            }
            known = Some((place, done));
        }
        Ok(count)
    }

    pub(crate) fn is_done(&self, units: &[&Unit]) -> Result<bool, RunnerError> {
        for unit in units {
            if self.count_missing(std::slice::from_ref(*unit))?.missing > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn names(&self, unit: &Unit) -> (&'a str, &'a str) {
        (
            &self.plan.models[unit.model].name,
            self.plan.tasks[unit.task].info.name,
        )
    }

    fn done(&self, unit: &Unit) -> Result<DoneIndex, RunnerError> {
        let (model, task) = self.names(unit);
        read_done(self.store.dir(), model, task)
    }

    /// Loads one model and runs its units until done or asked to stop.
    pub(crate) fn model(
        &mut self,
        place: usize,
        loader: &dyn Loader,
        units: &[&Unit],
        summary: &mut RunSummary,
    ) -> Result<(), RunnerError> {
        let ready = &self.ready[place];
        let model = &self.plan.models[ready.prepared.model];
        let mut engine = profile::load(loader, model, &mut self.teller())?;
        self.profile = ModelProfile::default();
        self.is_warm = false;
        if let Some(planned) = &self.plan.profile
            && profile::needs_profile(self.plan, &model.name)
        {
            let (plan, catalog, options) = (self.plan, self.catalog, self.options);
            let mut teller = self.teller();
            let found = profile::model_profile(
                plan,
                planned,
                catalog,
                options,
                engine.as_mut(),
                &mut teller,
            )?;
            self.peak_rss_bytes = self.peak_rss_bytes.max(peak_rss_bytes());
            let Some(found) = found else {
                return Ok(());
            };
            self.profile = found;
        }
        for unit in units {
            if self.options.stop.is_set() {
                return Ok(());
            }
            self.unit(ready, engine.as_mut(), unit, summary)?;
        }
        Ok(())
    }

    fn unit(
        &mut self,
        ready: &'a ReadyModel,
        engine: &mut dyn Engine,
        unit: &Unit,
        summary: &mut RunSummary,
    ) -> Result<(), RunnerError> {
        if self.count_missing(std::slice::from_ref(unit))?.missing == 0 {
            return Ok(());
        }
        let (model, task) = self.names(unit);
        let Some(_claim) = self.store.claim(model, task, unit.block)? else {
            return self.tell(Event::UnitBusy {
                model: model.to_owned(),
                task: task.to_owned(),
                block: unit.block,
            });
        };
        // Another process may have finished the unit between the count and the claim.
        let mut done = self.done(unit)?;
        self.check_profile(&done, model, task)?;
        let planned = &self.plan.tasks[unit.task];
        let records = self.records(planned, unit)?;
        let mut of_model = ready.prepared.tasks.iter();
        let selected = of_model.find(|selected| selected.task == unit.task);
        for (prepared, record) in unit.prompts.iter().zip(&records) {
            if self.options.stop.is_set() {
                return Ok(());
            }
            let cells: Vec<&Cell> = self
                .plan
                .cells_of(model, task)
                .filter(|cell| self.is_missing(&done, cell, &prepared.sample))
                .collect();
            if cells.is_empty() {
                continue;
            }
            self.check_prompt(&done, model, task, prepared)?;
            let tokenizer = ready.tokenizer.as_ref();
            let prompt = prepare(
                planned.info,
                &planned.template,
                record,
                tokenizer,
                &ready.options,
            )?;
            let job = Job {
                model,
                task: planned,
                prepared,
                record,
                prompt,
                cells,
                want_kept: is_shown(self.plan.store_kept, selected, prepared),
            };
            for record in self.prompt(ready, engine, &job, summary)? {
                done.add(&record);
            }
        }
        Ok(())
    }

    /// The records of a unit, in the order of its prompts.
    fn records(&self, task: &PlannedTask, unit: &Unit) -> Result<Vec<TaskRecord>, RunnerError> {
        let mut wanted = unit.prompts.iter().map(|prompt| prompt.index).peekable();
        let mut records = Vec::with_capacity(unit.prompts.len());
        for (index, record) in self.plan.pack.records(task.info)?.enumerate() {
            let Some(next) = wanted.peek() else { break };
            let record = record?;
            if index == *next {
                records.push(record);
                wanted.next();
            }
        }
        Ok(records)
    }

    /// A stored cell of this plan whose prompt had other ids means that tokenizer or protocol changed underneath.
    fn check_prompt(
        &self,
        done: &DoneIndex,
        model: &str,
        task: &str,
        prepared: &PreparedPrompt,
    ) -> Result<(), RunnerError> {
        let Some((hash, cell)) = done.prompt_hash(&prepared.sample) else {
            return Ok(());
        };
        let is_current = self
            .plan
            .cells_of(model, task)
            .any(|current| current.key == *cell);
        if *hash == prepared.hash || !is_current {
            return Ok(());
        }
        Err(RunnerError::Data {
            message: format!(
                "task '{task}', sample '{}': its prompt for model '{model}' has other tokens than when cell {cell} was stored",
                prepared.sample
            ),
            hint: "the model's tokenizer or chat template changed; start afresh with --out DIR"
                .to_owned(),
        })
    }

    /// A stored cell of this plan that came from another profile: its recipe is the same, its numbers are not.
    fn check_profile(&self, done: &DoneIndex, model: &str, task: &str) -> Result<(), RunnerError> {
        let Some(hash) = &self.profile.hash else {
            return Ok(());
        };
        for cell in self.plan.cells_of(model, task) {
            let stored = done
                .profile_hash(&cell.key)
                .filter(|stored| *stored != hash);
            if let Some(stored) = stored {
                return Err(RunnerError::Data {
                    message: format!(
                        "task '{task}', method '{}': cell {} was stored with profile {}, the one at hand for model '{model}' is {}",
                        cell.method.label,
                        cell.key,
                        short(stored),
                        short(hash)
                    ),
                    hint: "restore profiles/ of the results folder, or start afresh with --out DIR"
                        .to_owned(),
                });
            }
        }
        Ok(())
    }

    fn prompt(
        &mut self,
        ready: &ReadyModel,
        engine: &mut dyn Engine,
        job: &Job<'_>,
        summary: &mut RunSummary,
    ) -> Result<Vec<Record>, RunnerError> {
        let started = Instant::now();
        let together = match self.plan.timing {
            TimingMode::Shared => job.cells.len(),
            TimingMode::Alone => 1,
        };
        if self.plan.timing == TimingMode::Alone && !self.is_warm {
            // the first run of a model wakes threads and reads weights for the first time: nobody's cost
            self.ask(ready, engine, job, &job.cells[..1])?.ok();
            self.is_warm = true;
        }
        let mut records = Vec::with_capacity(job.cells.len());
        for cells in job.cells.chunks(together) {
            if self.options.stop.is_set() && !records.is_empty() {
                break;
            }
            records.extend(self.cells(ready, engine, job, cells)?);
        }
        summary.computed += records.len();
        self.tell_failures(job, &records)?;
        self.tell(Event::PromptDone {
            model: job.model.to_owned(),
            task: job.task.info.name.to_owned(),
            sample: job.record.id.clone(),
            prompt_tokens: job.prompt.ids.len(),
            cells: records.len(),
            failed: records
                .iter()
                .filter(|record| record.error.is_some())
                .count(),
            milliseconds: milliseconds(started),
        })?;
        Ok(records)
    }

    /// Writes this process's greatest memory into the manifest, where it computed anything.
    pub(crate) fn note_peak_memory(&self) -> Result<(), RunnerError> {
        match self.peak_rss_bytes {
            0 => Ok(()),
            bytes => self.store.note_peak_memory(bytes),
        }
    }

    /// Runs cells that share a prefill and stores what they gave.
    fn cells(
        &mut self,
        ready: &ReadyModel,
        engine: &mut dyn Engine,
        job: &Job<'_>,
        cells: &[&Cell],
    ) -> Result<Vec<Record>, RunnerError> {
        let is_alone = self.plan.timing == TimingMode::Alone;
        if is_alone {
            restart_peak_rss();
        }
        let output = self.ask(ready, engine, job, cells)?;
        let peak = peak_rss_bytes();
        self.peak_rss_bytes = self.peak_rss_bytes.max(peak);
        let scoring = Scoring {
            tokenizer: ready.tokenizer.as_ref(),
            protocol: &self.plan.protocol,
            segmenter: self.options.segmenter,
        };
        let mut records = Vec::with_capacity(cells.len());
        let mut timings = Vec::with_capacity(cells.len());
        for (place, cell) in cells.iter().enumerate() {
            let result = match &output {
                Ok(output) => match output.cells.get(place) {
                    Some(Ok(result)) => answered_record(&scoring, job, cell, result),
                    Some(Err(error)) => Err(error.to_string()),
                    None => Err("the engine returned no result for this cell".to_owned()),
                },
                Err(message) => Err(message.clone()),
            };
            if let (Ok(output), Ok(_)) = (&output, &result)
                && let Some(Ok(cell_result)) = output.cells.get(place)
            {
                timings.push(Timing {
                    cell: cell.key.clone(),
                    sample: job.record.id.clone(),
                    prefill_ms: output.prefill_ms,
                    compress_ms: cell_result.compress_ms,
                    decode_ms: cell_result.decode_ms,
                    peak_rss_bytes: peak,
                    alone: is_alone,
                });
            }
            let mut record = result.unwrap_or_else(|error| failed_record(job, cell, error));
            if cell.profile_recipe().is_some() {
                record.profile_hash.clone_from(&self.profile.hash);
            }
            if let Some((_, pair)) = self.profile.calibrated.get(&cell.key) {
                record.calibrated = Some(*pair);
            }
            records.push(record);
        }
        if let Ok(output) = &output
            && self.plan.store_kept != StoreKept::None
        {
            let tokenizer = ready.tokenizer.as_ref();
            let known = &mut self.known_prompts;
            shown::store(&mut self.store, known, job, cells, tokenizer, output)?;
        }
        self.store
            .append(job.model, job.task.info.name, &records, &timings)?;
        for text in self.store.take_warnings() {
            self.tell(Event::Warning { text })?;
        }
        Ok(records)
    }

    /// Asks the engine. The inner error is a failed prompt; the outer one stops the run.
    fn ask(
        &self,
        ready: &ReadyModel,
        engine: &mut dyn Engine,
        job: &Job<'_>,
        cells: &[&Cell],
    ) -> Result<Result<PromptOutput, String>, RunnerError> {
        let tokenizer = ready.tokenizer.as_ref();
        let stop = match StopRule::new(job.task.info, tokenizer) {
            Ok(stop) => stop.with_min_new_tokens(self.plan.protocol.min_new_tokens),
            Err(error) => return Ok(Err(error.to_string())),
        };
        let cells: Vec<CellRequest<'_>> = cells
            .iter()
            .map(|cell| CellRequest {
                key: &cell.key,
                method: match self.profile.calibrated.get(&cell.key) {
                    Some((method, _)) => method,
                    None => &cell.method,
                },
                budget: cell.budget.as_deref(),
            })
            .collect();
        let request = PromptRequest {
            ids: &job.prompt.ids,
            cells: &cells,
            max_new_tokens: job.task.max_new_tokens,
            stop: &stop,
            short_prompts: self.plan.protocol.short_prompts,
            answer_kl_tokens: self.plan.protocol.answer_kl_tokens,
            prefill: self.plan.prefill,
            want_kept: job.want_kept,
            signals: &self.profile.signals,
        };
        match engine.evaluate(&request) {
            Ok(output) => Ok(Ok(output)),
            Err(EngineError::Prompt(message)) => Ok(Err(message)),
            Err(source) => Err(RunnerError::Model {
                model: job.model.to_owned(),
                source,
            }),
        }
    }

    fn tell_failures(&mut self, job: &Job<'_>, records: &[Record]) -> Result<(), RunnerError> {
        for (record, cell) in records.iter().zip(&job.cells) {
            let Some(error) = &record.error else { continue };
            self.retried
                .push((record.cell.0.clone(), record.sample.clone()));
            let budget = cell.budget.as_deref().unwrap_or("no budget");
            self.tell(Event::SampleFailed {
                model: job.model.to_owned(),
                task: job.task.info.name.to_owned(),
                sample: record.sample.clone(),
                cell: format!("{} {budget}", cell.method.label),
                error: error.clone(),
            })?;
        }
        Ok(())
    }
}

/// The beginning of a hash, enough to tell two apart.
fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
