//! The damage stage's part in a run: before any cell, one model after another, over the spec's own prompts.

use serde_json::json;

use crate::catalog::Catalog;
use crate::damage::{DamageJob, DamageProgress, DamageRecipe, DamageSummary, measure};
use crate::engine::{Loader, ModelShape};
use crate::error::RunnerError;
use crate::plan::{METRIC_VERSION, Plan, PlannedDamage, PreparedModel, prepare_task};
use crate::profile::{ProfileDocument, profile_path, read_profile};
use crate::run::{Event, RunOptions, Teller, profile};
use ripplekv_tasks::Tokenise;

/// Every task of the plan that `--only` allows, whether or not a cell asks for it.
pub(crate) fn prepare_for_damage(
    plan: &Plan,
    catalog: &Catalog,
    model: usize,
    tokenizer: &dyn Tokenise,
    shape: &ModelShape,
) -> Result<PreparedModel, RunnerError> {
    let name = &plan.models[model].name;
    let mut tasks = Vec::new();
    for (place, task) in plan.tasks.iter().enumerate() {
        if plan.only.allows_model(name) && plan.only.allows_task(task.info.name) {
            tasks.push(prepare_task(plan, catalog, model, place, tokenizer, shape)?);
        }
    }
    Ok(PreparedModel {
        model,
        max_context: crate::plan::prompt_options(plan, shape).max_context,
        tasks,
    })
}

fn recipe(plan: &Plan, catalog: &Catalog, planned: &PlannedDamage) -> DamageRecipe {
    let PlannedDamage {
        method,
        budgets,
        spec,
    } = planned;
    let protocol = &plan.protocol;
    let data = plan.tasks.iter().map(|task| {
        let hashes = json!([task.template_hash, task.data_hash, task.max_new_tokens]);
        (task.info.name.to_owned(), hashes)
    });
    DamageRecipe {
        method: method.name.clone(),
        params: method.params.clone(),
        budgets: budgets.clone(),
        answer_tokens: spec.answer_tokens,
        leave_in: spec.leave_in,
        reference_nll: spec.reference_nll,
        task_score: spec.task_score,
        joint: spec.joint,
        mapping: json!({ "r": spec.r, "gamma": spec.gamma, "center": spec.center }),
        seed: spec.seed,
        first_token: spec.first_token,
        protocol: json!({
            "data": data.collect::<serde_json::Map<_, _>>(),
            "chat_template": protocol.chat_template,
            "max_context": protocol.max_context.map_or(json!("auto"), |tokens| json!(tokens)),
            "bos": protocol.bos,
            "clean_up_spaces": protocol.clean_up_spaces,
            "min_new_tokens": protocol.min_new_tokens,
            "code_similarity": protocol.code_similarity,
            "short_prompts": protocol.short_prompts,
            "numerics": catalog.numerics_version,
            "metrics": METRIC_VERSION,
        }),
    }
}

/// All of a job but the profile.
struct Whole<'a> {
    plan: &'a Plan,
    catalog: &'a Catalog,
    options: &'a RunOptions<'a>,
    prepared: &'a PreparedModel,
    recipe: &'a DamageRecipe,
}

impl<'a> Whole<'a> {
    fn job(&self, profile: &'a ProfileDocument) -> DamageJob<'a> {
        DamageJob {
            results: self.options.out,
            plan: self.plan,
            prepared: self.prepared,
            recipe: self.recipe,
            profile,
            ripple_weights: self.catalog.ripple_weights,
            segmenter: self.options.segmenter,
        }
    }
}

/// Measures the damage of every prepared model, or finds it stored.
pub(crate) fn damage_of(
    plan: &Plan,
    catalog: &Catalog,
    loader: &dyn Loader,
    options: &RunOptions<'_>,
    models: &[PreparedModel],
    teller: &mut Teller<'_>,
) -> Result<DamageSummary, RunnerError> {
    let mut total = DamageSummary::default();
    let (Some(planned), Some(wanted)) = (&plan.damage, &plan.profile) else {
        return Ok(total);
    };
    let recipe = recipe(plan, catalog, planned);
    for prepared in models {
        if options.stop.is_set() {
            let prompts = prepared.tasks.iter().map(|task| task.prompts.len());
            total.left += prompts.sum::<usize>();
            continue;
        }
        let resolved = &plan.models[prepared.model];
        let whole = Whole {
            plan,
            catalog,
            options,
            prepared,
            recipe: &recipe,
        };
        // what is done needs no weights
        let stored = profile_path(options.out, &resolved.name);
        if stored.is_file()
            && let document = read_profile(&stored)?
            && document.recipe_hash == wanted.recipe_hash
        {
            let status = whole.job(&document).status()?;
            if status.left == 0 {
                add(&mut total, status);
                continue;
            }
        }
        let mut engine = profile::load(loader, resolved, teller)?;
        let Some(document) = profile::profile_of(wanted, engine.as_mut(), options, teller)? else {
            let status = DamageSummary {
                left: 1,
                ..DamageSummary::default()
            };
            add(&mut total, status);
            continue;
        };
        let mut failure = None;
        let mut tell = |progress: DamageProgress| {
            let model = resolved.name.clone();
            let told = match progress {
                DamageProgress::Warning { text } => teller.warn(format!("model '{model}': {text}")),
                progress @ DamageProgress::Layer { .. } => {
                    teller.show(&Event::Damage { model, progress });
                    Ok(())
                }
                progress => teller.tell(Event::Damage { model, progress }),
            };
            if let Err(error) = told {
                failure.get_or_insert(error);
            }
        };
        let summary = measure(
            &whole.job(&document),
            engine.as_mut(),
            options.stop,
            &mut tell,
        )?;
        match failure {
            Some(error) => return Err(error),
            None => add(&mut total, summary),
        }
    }
    total.interrupted = options.stop.is_set();
    Ok(total)
}

fn add(total: &mut DamageSummary, one: DamageSummary) {
    total.samples += one.samples;
    total.stored_before += one.stored_before;
    total.measured += one.measured;
    total.measured_jointly += one.measured_jointly;
    total.dropped += one.dropped;
    total.failed += one.failed;
    total.left += one.left;
}
