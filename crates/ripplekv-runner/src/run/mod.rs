//! Drives a plan: prepares prompts, claims units, asks the engine, scores and stores.
//! What happens is told as [`Event`]s; progress, log and exit code are made from them.

mod damage;
mod evaluate;
mod event;
mod job;
mod profile;
mod shown;
mod status;
mod stop;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ripplekv_metrics::jieba::Segmenter;
use ripplekv_tasks::Tokenise;

use crate::catalog::Catalog;
use crate::engine::Loader;
use crate::error::RunnerError;
use crate::exit;
use crate::plan::{METRIC_VERSION, Plan, PreparedModel, Unit, prepare_model, units};
use crate::store::{
    Host, MANIFEST_SCHEMA, Manifest, PackState, ProgramState, Store, TaskState, git_state,
    peak_rss_bytes,
};

pub(crate) use event::Teller;
pub use event::{Event, Observer};
pub use profile::{ProfileSummary, run_profiles};
pub use shown::SHOWN_PROMPTS;
pub use status::{TaskStatus, status};
pub use stop::StopSignal;

/// What a run needs besides plan and loader.
#[derive(Clone, Copy)]
pub struct RunOptions<'a> {
    /// Results folder.
    pub out: &'a Path,
    /// Folder that keeps profiles between experiments, below `profiles/`.
    pub home: &'a Path,
    /// Whether failed samples run again.
    pub retry_failed: bool,
    /// Asks the run to end after the prompt in hand.
    pub stop: &'a StopSignal,
    /// For Chinese tasks.
    pub segmenter: Option<&'a Segmenter>,
    /// Version of the program, for the manifest.
    pub program_version: &'a str,
    /// Leaves the cells alone: only the profile and the damage are measured.
    pub only_stages: bool,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunSummary {
    /// Cells of prompts computed by this run.
    pub computed: usize,
    /// Cells of prompts that were stored before.
    pub stored_before: usize,
    /// Failed samples among all selected ones, now stored.
    pub failed: usize,
    /// Selected cells of prompts that are not stored yet: interrupted, or held by another process.
    pub left: usize,
    /// Visits of samples in the profile and damage stages that are not done: the run was asked to stop, or another
    /// process is at them.
    pub stages_left: usize,
    /// Samples that failed in the damage stage.
    pub stages_failed: usize,
    /// Whether the run was asked to stop.
    pub interrupted: bool,
}

impl RunSummary {
    /// Exit code of the run.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if self.left + self.stages_left > 0 {
            exit::INCOMPLETE
        } else if self.failed + self.stages_failed > 0 {
            exit::FAILED_SAMPLES
        } else {
            exit::DONE
        }
    }
}

/// A tokenizer and everything prepared with it.
pub(crate) struct ReadyModel {
    pub(crate) tokenizer: Arc<dyn Tokenise>,
    pub(crate) prepared: PreparedModel,
    /// What the damage stage visits, where the spec has one.
    pub(crate) damage: Option<PreparedModel>,
    pub(crate) options: ripplekv_tasks::PromptOptions,
}

/// What happens before the results folder is opened: told at once, logged later, so that a run that fails in
/// preparation leaves no folder.
struct EarlyEvents<'a> {
    observer: &'a mut dyn Observer,
    events: Vec<(u64, Event)>,
}

impl EarlyEvents<'_> {
    fn tell(&mut self, event: Event) {
        self.observer.event(&event);
        self.events.push((event::unix_seconds(), event));
    }
}

/// Runs a plan. Nothing is computed twice: what the folder holds is left alone.
///
/// # Errors
/// Everything that stops the whole run. A failing sample does not: it is stored with its error.
pub fn run(
    plan: &Plan,
    catalog: &Catalog,
    loader: &dyn Loader,
    options: &RunOptions<'_>,
    observer: &mut dyn Observer,
) -> Result<RunSummary, RunnerError> {
    Store::check_folder(options.out)?;
    let mut early = EarlyEvents {
        observer,
        events: Vec::new(),
    };
    for warning in &plan.warnings {
        early.tell(Event::Warning {
            text: warning.clone(),
        });
    }
    let ready = prepare_all(plan, catalog, loader, &mut early)?;
    let EarlyEvents { observer, events } = early;
    let prepared: Vec<PreparedModel> = ready.iter().map(|model| model.prepared.clone()).collect();
    let all = units(&prepared);
    let mine = &all[plan.shard.places(all.len())];
    if mine.is_empty() && !plan.cells.is_empty() {
        return Err(RunnerError::NothingSelected(nothing_reason(
            plan,
            all.len(),
        )));
    }
    let mut store = Store::open(options.out)?;
    for (unix_seconds, event) in &events {
        store.log(&event::LogLine::at(
            *unix_seconds,
            store.writer().to_owned(),
            event,
        ))?;
    }
    store.write_plan(&manifest(plan, catalog, &ready, options), &plan.cells)?;
    let mut summary = stages(plan, catalog, loader, options, &ready, &mut store, observer)?;
    if plan.cells.is_empty() || options.only_stages || summary.interrupted {
        return Ok(summary);
    }
    let mut evaluation = evaluate::Evaluation::new(plan, catalog, options, &ready, store, observer);
    let before = evaluation.count_missing(mine)?;
    summary.stored_before = before.stored;
    let started = Instant::now();
    evaluation.tell(Event::Started {
        cells: plan.selected.len(),
        prompts: mine.iter().map(|unit| unit.prompts.len()).sum(),
        prompts_to_do: before.prompts,
        tokens_to_do: before.tokens,
        cells_to_do: before.missing,
    })?;
    if before.missing > 0 {
        for (place, ready) in ready.iter().enumerate() {
            let of_model: Vec<&Unit> = mine
                .iter()
                .filter(|unit| unit.model == ready.prepared.model)
                .collect();
            if evaluation.is_done(&of_model)? || options.stop.is_set() {
                continue;
            }
            evaluation.model(place, loader, &of_model, &mut summary)?;
        }
    }
    evaluation.note_peak_memory()?;
    let after = evaluation.count_missing(mine)?;
    summary.failed = after.failed;
    summary.left = after.missing;
    summary.interrupted = options.stop.is_set();
    evaluation.tell(Event::Finished {
        computed: summary.computed,
        failed: summary.failed,
        left: summary.left,
        interrupted: summary.interrupted,
        milliseconds: milliseconds(started),
    })?;
    Ok(summary)
}

/// What comes before the cells: the damage stage with its profiles, or the profiles alone of a spec without cells.
/// (The profiles that cells need are measured with the model's cells, so that it is loaded once.)
fn stages(
    plan: &Plan,
    catalog: &Catalog,
    loader: &dyn Loader,
    options: &RunOptions<'_>,
    ready: &[ReadyModel],
    store: &mut Store,
    observer: &mut dyn Observer,
) -> Result<RunSummary, RunnerError> {
    let mut summary = RunSummary::default();
    if plan.damage.is_some() {
        let models: Vec<PreparedModel> = ready
            .iter()
            .filter_map(|model| model.damage.clone())
            .collect();
        let mut teller = Teller { store, observer };
        let damage = damage::damage_of(plan, catalog, loader, options, &models, &mut teller)?;
        if damage.measured + damage.measured_jointly > 0 {
            store.note_peak_memory(peak_rss_bytes())?;
        }
        summary.stages_left = damage.left;
        summary.stages_failed = damage.failed;
    }
    summary.interrupted = options.stop.is_set();
    Ok(summary)
}

pub(crate) fn milliseconds(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}

fn nothing_reason(plan: &Plan, units: usize) -> String {
    if units == 0 {
        let limit = plan
            .limit
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        format!("no record is left by the limit '{limit}' and the sample list")
    } else {
        format!(
            "shard {}/{} of {units} units is empty",
            plan.shard.index, plan.shard.count
        )
    }
}

/// Tokenizer, shape and prompts of every model that has a selected cell, before any weights load.
fn prepare_all(
    plan: &Plan,
    catalog: &Catalog,
    loader: &dyn Loader,
    early: &mut EarlyEvents<'_>,
) -> Result<Vec<ReadyModel>, RunnerError> {
    let mut ready = Vec::new();
    for (place, model) in plan.models.iter().enumerate() {
        if !plan.uses_model(&model.name) {
            continue;
        }
        if profile::check_available(loader, model)? {
            early.tell(Event::Fetching {
                model: model.name.clone(),
            });
        }
        let failed = |source| RunnerError::Model {
            model: model.name.clone(),
            source,
        };
        early.tell(Event::Preparing {
            model: model.name.clone(),
        });
        let tokenizer = loader.tokenizer(model).map_err(failed)?;
        let shape = loader.shape(model).map_err(failed)?;
        let prepared = prepare_model(plan, catalog, place, tokenizer.as_ref(), &shape)?;
        let damage = match plan.damage {
            Some(_) => Some(damage::prepare_for_damage(
                plan,
                catalog,
                place,
                tokenizer.as_ref(),
                &shape,
            )?),
            None => None,
        };
        let prompts = prepared.tasks.iter().map(|task| task.prompts.len()).sum();
        early.tell(Event::Prepared {
            model: model.name.clone(),
            max_context: prepared.max_context,
            prompts,
            too_long: prepared.tasks.iter().map(|task| task.too_long).sum(),
            short_prompts: prepared.tasks.iter().map(|task| task.short_prompts).sum(),
        });
        ready.push(ReadyModel {
            damage,
            options: crate::plan::prompt_options(plan, &shape),
            tokenizer,
            prepared,
        });
    }
    Ok(ready)
}

fn manifest(
    plan: &Plan,
    catalog: &Catalog,
    ready: &[ReadyModel],
    options: &RunOptions<'_>,
) -> Manifest {
    let tasks = plan.tasks.iter().map(|task| {
        let state = TaskState {
            data_hash: task.data_hash.clone(),
            template_hash: task.template_hash.clone(),
            records: task.records,
        };
        (task.info.name.to_owned(), state)
    });
    let max_context = ready.iter().map(|model| {
        let name = plan.models[model.prepared.model].name.clone();
        (name, model.prepared.max_context)
    });
    Manifest {
        schema: MANIFEST_SCHEMA,
        name: plan.name.clone(),
        spec: plan.resolved.clone(),
        cells: plan.cells.iter().map(|cell| cell.key.clone()).collect(),
        selected: selected(plan, ready),
        max_context: max_context.collect::<BTreeMap<_, _>>(),
        program: ProgramState {
            version: options.program_version.to_owned(),
            working_folder_git: git_state(Path::new(".")),
            numerics_version: catalog.numerics_version,
            metric_version: METRIC_VERSION,
        },
        host: Host::here(),
        peak_rss_bytes: 0,
        models: BTreeMap::new(),
        pack: PackState {
            name: plan.pack.name().to_owned(),
            tasks: tasks.collect(),
        },
    }
}

/// Ids of all selected samples, whichever shard runs them.
fn selected(plan: &Plan, ready: &[ReadyModel]) -> BTreeMap<String, BTreeMap<String, Vec<String>>> {
    let of_model = |model: &ReadyModel| {
        let tasks = model.prepared.tasks.iter().map(|task| {
            let ids = task.prompts.iter().map(|prompt| prompt.sample.clone());
            (plan.tasks[task.task].info.name.to_owned(), ids.collect())
        });
        (
            plan.models[model.prepared.model].name.clone(),
            tasks.collect(),
        )
    };
    ready.iter().map(of_model).collect()
}
