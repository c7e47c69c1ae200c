//! The plan: a spec with every name looked up, every default filled in and every cell hashed.
//! Everything that can go wrong before a model loads goes wrong here or in [`prepare`](crate::plan::prepare_task).

mod cells;
mod methods;
mod models;
mod prepare;
mod stages;

use std::path::{Path, PathBuf};

use ripplekv_tasks::{Pack, TaskInfo};
use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::cell::{Cell, ResolvedModel};
use crate::engine::PrefillMode;
use crate::error::RunnerError;
use crate::select::{Limit, Only, OnlyTarget, Shard};
use crate::spec::{ProtocolSpec, Spec, StoreKept, TimingMode};

pub(crate) use prepare::prompt_options;
pub use prepare::{
    BLOCK_PROMPTS, PreparedModel, PreparedPrompt, PreparedTask, Unit, prepare_model, prepare_task,
    units,
};

pub use stages::{PlannedDamage, PlannedProfile, ProfilePlan};

/// Changes whenever a score could; part of every cell key.
pub const METRIC_VERSION: u32 = 1;

/// What the command line adds to a spec.
#[derive(Debug, Clone)]
pub struct PlanOptions {
    /// Filters on cells.
    pub only: Only,
    /// Wins over `tasks.limit`.
    pub limit: Option<Limit>,
    /// Which part of the units.
    pub shard: Shard,
    /// Folder of the calibration pack that the spec names; opened where something needs a profile.
    pub calibration: PathBuf,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            only: Only::default(),
            limit: None,
            shard: Shard::ALL,
            calibration: PathBuf::from("datasets/calibration"),
        }
    }
}

/// One task of the plan.
#[derive(Debug, Clone)]
pub struct PlannedTask {
    /// Its row in the task table.
    pub info: &'static TaskInfo,
    /// Prompt text.
    pub template: String,
    /// blake3 of the prompt text.
    pub template_hash: String,
    /// blake3 of the record file.
    pub data_hash: String,
    /// Most new tokens.
    pub max_new_tokens: usize,
    /// Records in the file.
    pub records: usize,
}

/// A spec, resolved.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Name of the experiment.
    pub name: String,
    /// Models, in the order of the spec.
    pub models: Vec<ResolvedModel>,
    /// The pack.
    pub pack: Pack,
    /// Tasks, in the order of the task table.
    pub tasks: Vec<PlannedTask>,
    /// Every cell of the spec: model, task, method and budget in this order of nesting.
    pub cells: Vec<Cell>,
    /// Cells that pass `--only`: places in [`Plan::cells`].
    pub selected: Vec<usize>,
    /// Protocol.
    pub protocol: ProtocolSpec,
    /// Whether cells share a prefill and their decoding steps.
    pub timing: TimingMode,
    /// Which of the fitting records to take.
    pub limit: Option<Limit>,
    /// Longest prompt to take.
    pub max_prompt_tokens: Option<usize>,
    /// Ids to take; empty means all.
    pub samples: Vec<String>,
    /// Which part of the units to run.
    pub shard: Shard,
    /// The profile, where a cell or the damage stage needs one.
    pub profile: Option<PlannedProfile>,
    /// The damage stage, where the spec has one.
    pub damage: Option<PlannedDamage>,
    /// Filters on cells; those on models hold for the stages too.
    pub only: Only,
    /// What is stored of prompts and kept positions.
    pub store_kept: StoreKept,
    /// When layers are compressed.
    pub prefill: PrefillMode,
    /// What a reader should know.
    pub warnings: Vec<String>,
    /// The resolved spec as it goes into the manifest.
    pub resolved: Value,
}

/// Looks up the names that need no pack: models, methods, parameters, budgets.
///
/// # Errors
/// The first wrong name, with its place.
pub fn check_names(spec: &Spec, catalog: &Catalog) -> Result<(), RunnerError> {
    models::resolve(spec, catalog)?;
    methods::resolve(spec, catalog)?;
    if let Some(damage) = &spec.damage {
        stages::damage(spec, catalog, damage)?;
    }
    Ok(())
}

impl Plan {
    /// The profile that a selected cell of the model, or the damage stage, needs.
    #[must_use]
    pub fn profile_of(&self, model: &str) -> Option<&PlannedProfile> {
        let mut selected = self.selected.iter().map(|&place| &self.cells[place]);
        let of_cells = selected.any(|cell| cell.model == model && cell.profile_recipe().is_some());
        let of_damage = self.damage.is_some() && self.only.allows_model(model);
        self.profile.as_ref().filter(|_| of_cells || of_damage)
    }

    /// Resolves a spec against the catalog and the pack in `pack_dir`. Reads every record of the
    /// tasks, so that a broken line is found before a model loads.
    ///
    /// # Errors
    /// Whatever is wrong with spec or data, with its place.
    pub fn new(
        spec: &Spec,
        catalog: &Catalog,
        pack_dir: &Path,
        options: PlanOptions,
    ) -> Result<Self, RunnerError> {
        let models = models::resolve(spec, catalog)?;
        let methods = methods::resolve(spec, catalog)?;
        let pack = Pack::open(pack_dir)?;
        let mut warnings = Vec::new();
        let tasks = resolve_tasks(spec, &pack, &mut warnings)?;
        let damage = spec.damage.as_ref();
        let damage = damage.map(|wanted| stages::damage(spec, catalog, wanted));
        let damage = damage.transpose()?;
        let needs_profile = damage.is_some() || methods.iter().any(|method| method.needs_profile);
        let profile = if needs_profile {
            Some(stages::profile(spec, catalog, &options.calibration)?)
        } else {
            None
        };
        if let Some(profile) = &profile {
            warn_of_shared_records(profile, &tasks, &mut warnings)?;
        }
        let recipe_hash = profile.as_ref().map(|profile| profile.recipe_hash.as_str());
        let cells = cells::expand(spec, catalog, &models, &tasks, &methods, recipe_hash);
        let selected: Vec<usize> = (0..cells.len())
            .filter(|place| {
                let cell = &cells[*place];
                options.only.allows(&OnlyTarget {
                    model: &cell.model,
                    task: &cell.task,
                    method: &cell.method.name,
                    label: &cell.method.label,
                    budget: cell.budget.as_deref(),
                })
            })
            .collect();
        if selected.is_empty() && !cells.is_empty() {
            return Err(RunnerError::NothingSelected(format!(
                "no cell passes --only {}\nhint: `ripplekv plan` lists the cells",
                options.only
            )));
        }
        let limit = options.limit.or_else(|| spec.tasks.limit.clone());
        let mut resolved = resolved_spec(spec, &models, &pack, &tasks, &methods, limit.as_ref());
        if let Some(profile) = &profile {
            resolved["profile"] = json!(profile.recipe);
        }
        if let Some(damage) = &damage {
            resolved["damage"] = damage.resolved();
        }
        Ok(Self {
            name: spec.name.clone(),
            models,
            pack,
            tasks,
            cells,
            selected,
            protocol: spec.protocol.clone(),
            timing: spec.timing,
            limit,
            max_prompt_tokens: spec.tasks.max_prompt_tokens,
            samples: spec.tasks.samples.clone(),
            shard: options.shard,
            profile,
            damage,
            only: options.only,
            store_kept: spec.store_kept,
            prefill: spec.prefill,
            warnings,
            resolved,
        })
    }

    /// Selected cells of one model and task, in plan order.
    pub fn cells_of<'a>(&'a self, model: &'a str, task: &'a str) -> impl Iterator<Item = &'a Cell> {
        self.selected
            .iter()
            .map(|place| &self.cells[*place])
            .filter(move |cell| cell.model == model && cell.task == task)
    }

    /// Whether a model has something to do: a selected cell, or a stage where the spec has no cells.
    #[must_use]
    pub fn uses_model(&self, model: &str) -> bool {
        if self.cells.is_empty() {
            return self.only.allows_model(model);
        }
        self.selected
            .iter()
            .any(|place| self.cells[*place].model == model)
    }

    /// Whether scoring needs the Chinese segmenter.
    #[must_use]
    pub fn needs_segmenter(&self) -> bool {
        let scores_damage = self
            .damage
            .as_ref()
            .is_some_and(|damage| damage.spec.task_score);
        self.tasks.iter().any(|task| {
            let is_scored = |place: &usize| self.cells[*place].task == task.info.name;
            task.info.metric_info().needs_segmenter
                && (self.selected.iter().any(is_scored) || scores_damage)
        })
    }
}

/// Calibrating on the benchmark's own records would make its scores meaningless, so it never passes in silence.
fn warn_of_shared_records(
    profile: &PlannedProfile,
    tasks: &[PlannedTask],
    warnings: &mut Vec<String>,
) -> Result<(), RunnerError> {
    for info in profile.pack.tasks() {
        let hash = profile.pack.hash(info)?;
        if let Some(task) = tasks.iter().find(|task| task.data_hash == hash) {
            warnings.push(format!(
                "task '{}' has the records of the calibration pack '{}': its scores say nothing of new prompts",
                task.info.name,
                profile.pack.name()
            ));
        }
    }
    Ok(())
}

fn resolve_tasks(
    spec: &Spec,
    pack: &Pack,
    warnings: &mut Vec<String>,
) -> Result<Vec<PlannedTask>, RunnerError> {
    let infos: Vec<&'static TaskInfo> = if spec.tasks.include.is_empty() {
        pack.tasks().collect()
    } else {
        named_tasks(spec, pack, warnings)?
    };
    let mut ids_found = vec![false; spec.tasks.samples.len()];
    let mut tasks = Vec::with_capacity(infos.len());
    for info in infos {
        let mut records = 0;
        for record in pack.records(info)? {
            let record = record?;
            records += 1;
            for (found, id) in ids_found.iter_mut().zip(&spec.tasks.samples) {
                *found |= *id == record.id;
            }
        }
        let max_new_tokens = pack.max_new_tokens(info)?;
        let least = spec.protocol.min_new_tokens;
        if least > max_new_tokens {
            return Err(spec
                .source
                .error(
                    "protocol.min_new_tokens",
                    format!(
                        "{least} is above the most new tokens of task '{}', {max_new_tokens}",
                        info.name
                    ),
                    Some(format!(
                        "write at most {max_new_tokens}, or leave the task out"
                    )),
                )
                .into());
        }
        let template = pack.template(info)?.to_owned();
        tasks.push(PlannedTask {
            info,
            template_hash: blake3::hash(template.as_bytes()).to_hex().to_string(),
            template,
            data_hash: pack.hash(info)?,
            max_new_tokens,
            records,
        });
    }
    if let Some(place) = ids_found.iter().position(|found| !found) {
        return Err(spec
            .source
            .error(
                &format!("tasks.samples[{place}]"),
                format!(
                    "no selected task has a record '{}'",
                    spec.tasks.samples[place]
                ),
                Some(format!(
                    "an id is the field `_id` of a record in {}",
                    pack.dir().join("data").display()
                )),
            )
            .into());
    }
    Ok(tasks)
}

fn named_tasks(
    spec: &Spec,
    pack: &Pack,
    warnings: &mut Vec<String>,
) -> Result<Vec<&'static TaskInfo>, RunnerError> {
    for (place, name) in spec.tasks.include.iter().enumerate() {
        if let Err(error) = pack.select(&[name]) {
            let text = error.to_string();
            let (message, hint) = text
                .split_once("\nhint: ")
                .map_or((text.as_str(), None), |(message, hint)| {
                    (message, Some(hint.to_owned()))
                });
            let path = format!("tasks.include[{place}]");
            return Err(spec.source.error(&path, message, hint).into());
        }
    }
    let selection = pack.select(&spec.tasks.include)?;
    if !selection.absent.is_empty() {
        let names: Vec<&str> = selection.absent.iter().map(|task| task.name).collect();
        warnings.push(format!(
            "the pack {} lacks {} of the named groups",
            pack.dir().display(),
            names.join(", ")
        ));
    }
    Ok(selection.tasks)
}

fn resolved_spec(
    spec: &Spec,
    models: &[ResolvedModel],
    pack: &Pack,
    tasks: &[PlannedTask],
    methods: &[methods::PlannedMethod],
    limit: Option<&Limit>,
) -> Value {
    let protocol = &spec.protocol;
    let budgets: Vec<&String> = methods
        .iter()
        .find(|method| !method.budgets.is_empty())
        .map(|method| method.budgets.iter().collect())
        .unwrap_or_default();
    json!({
        "schema": crate::spec::SPEC_SCHEMA,
        "name": spec.name,
        "models": models,
        "tasks": {
            "pack": pack.name(),
            "include": tasks.iter().map(|task| task.info.name).collect::<Vec<_>>(),
            "limit": limit.map(ToString::to_string),
            "max_prompt_tokens": spec.tasks.max_prompt_tokens,
            "samples": spec.tasks.samples,
        },
        "protocol": {
            "query": protocol.query,
            "chat_template": protocol.chat_template,
            "max_context": protocol.max_context.map_or(json!("auto"), |tokens| json!(tokens)),
            "bos": protocol.bos,
            "clean_up_spaces": protocol.clean_up_spaces,
            "min_new_tokens": protocol.min_new_tokens,
            "code_similarity": protocol.code_similarity,
            "short_prompts": protocol.short_prompts,
            "answer_kl_tokens": protocol.answer_kl_tokens,
        },
        "timing": spec.timing,
        "store_kept": spec.store_kept,
        "prefill": spec.prefill,
        "budgets": budgets,
        "methods": methods.iter().map(|method| &method.method).collect::<Vec<_>>(),
    })
}
