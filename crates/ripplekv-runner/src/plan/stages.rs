//! Resolves `profile` and `damage`: the calibration pack is opened and read, names are looked up, and the profile's
//! recipe is hashed. All before a model loads.

use std::path::Path;

use ripplekv_tasks::{Pack, PackError, pack_hash};
use serde_json::{Value, json};

use crate::canonical::canonical_hash;
use crate::catalog::Catalog;
use crate::cell::{ResolvedMethod, ResolvedModel};
use crate::error::RunnerError;
use crate::nearest::hint_for;
use crate::plan::{methods, models};
use crate::profile::ProfileRecipe;
use crate::select::Only;
use crate::spec::{DamageSpec, ProtocolSpec, Spec};

/// A profile as the spec wants it.
#[derive(Debug, Clone)]
pub struct PlannedProfile {
    /// Settings.
    pub recipe: ProfileRecipe,
    /// Hash of the settings; part of the key of every cell that uses the profile.
    pub recipe_hash: String,
    /// The calibration pack.
    pub pack: Pack,
    /// How its prompts are made; the context limit is always the official one.
    pub protocol: ProtocolSpec,
}

/// The damage stage as the spec wants it.
#[derive(Debug, Clone)]
pub struct PlannedDamage {
    /// Method whose scorer compresses.
    pub method: ResolvedMethod,
    /// Canonical budgets.
    pub budgets: Vec<String>,
    /// Everything else.
    pub spec: DamageSpec,
}

impl PlannedDamage {
    /// The settings as they go into the manifest, every default written out.
    pub(crate) fn resolved(&self) -> Value {
        let spec = &self.spec;
        json!({
            "method": self.method.name,
            "params": self.method.params,
            "budgets": self.budgets,
            "answer_tokens": spec.answer_tokens,
            "leave_in": spec.leave_in,
            "reference_nll": spec.reference_nll,
            "task_score": spec.task_score,
            "joint": spec.joint,
            "r": spec.r,
            "gamma": spec.gamma,
            "center": spec.center,
            "seed": spec.seed,
            "first_token": spec.first_token,
        })
    }
}

/// What the verb `profile` needs: models and the calibration pack, but no benchmark.
#[derive(Debug, Clone)]
pub struct ProfilePlan {
    /// Name of the experiment.
    pub name: String,
    /// Models, in the order of the spec.
    pub models: Vec<ResolvedModel>,
    /// The profile.
    pub profile: PlannedProfile,
}

impl ProfilePlan {
    /// Resolves a spec against the catalog and the calibration pack in `calibration`.
    ///
    /// # Errors
    /// Whatever is wrong with spec or pack, with its place; no model that passes `--only`.
    pub fn new(
        spec: &Spec,
        catalog: &Catalog,
        calibration: &Path,
        only: &Only,
    ) -> Result<Self, RunnerError> {
        let mut models = models::resolve(spec, catalog)?;
        methods::resolve(spec, catalog)?;
        models.retain(|model| only.allows_model(&model.name));
        if models.is_empty() {
            return Err(RunnerError::NothingSelected(format!(
                "no model passes --only {only}\nhint: the spec lists the models"
            )));
        }
        Ok(Self {
            name: spec.name.clone(),
            models,
            profile: profile(spec, catalog, calibration)?,
        })
    }
}

/// Opens the calibration pack, reads all its records, and writes the recipe down.
pub(crate) fn profile(
    spec: &Spec,
    catalog: &Catalog,
    folder: &Path,
) -> Result<PlannedProfile, RunnerError> {
    let wanted = &spec.profile;
    let protocol = &spec.protocol;
    let at_key = |message: String, hint: String| -> RunnerError {
        spec.source
            .error("profile.calibration", message, Some(hint))
            .into()
    };
    if spec.damage.is_some() && !wanted.signals {
        let message = "`damage` ranks layers by these signals as well, so they are needed";
        let hint = "leave `signals` out, or leave `damage` out";
        return Err(spec
            .source
            .error("profile.signals", message.to_owned(), Some(hint.to_owned()))
            .into());
    }
    let pack = Pack::open(folder).map_err(|error| match error {
        PackError::NoFolder { path, .. } => at_key(
            format!("no calibration pack at {}", path.display()),
            "name a pack or its folder; `default` is datasets/calibration".to_owned(),
        ),
        error => error.into(),
    })?;
    let mut records = 0;
    for task in pack.tasks() {
        for record in pack.records(task)? {
            record?;
            records += 1;
        }
    }
    if records < 2 {
        return Err(at_key(
            format!("the calibration pack {} has {records} record", pack.name()),
            "a profile needs at least 2".to_owned(),
        ));
    }
    let recipe = ProfileRecipe {
        calibration: pack.name().to_owned(),
        data_hash: pack_hash(&pack)?,
        samples: wanted.samples,
        answer_tokens: wanted.answer_tokens,
        sigma: wanted.sigma,
        sigma_samples: wanted.sigma_samples,
        draws: wanted.draws,
        seed: wanted.seed,
        norm: wanted.norm,
        positions: wanted.positions,
        inject: wanted.inject,
        first_token: wanted.first_token,
        stop_at_reliability: wanted.stop_at_reliability,
        signals: wanted.signals,
        protocol: json!({
            "chat_template": protocol.chat_template,
            "bos": protocol.bos,
            "clean_up_spaces": protocol.clean_up_spaces,
            "max_context": "auto",
        }),
        numerics: catalog.numerics_version,
    };
    Ok(PlannedProfile {
        recipe_hash: canonical_hash(&json!(recipe)),
        recipe,
        pack,
        protocol: protocol.clone(),
    })
}

/// Looks up the method whose scorer compresses, and the budgets.
pub(crate) fn damage(
    spec: &Spec,
    catalog: &Catalog,
    wanted: &DamageSpec,
) -> Result<PlannedDamage, RunnerError> {
    let with_scorer = || {
        catalog
            .methods
            .iter()
            .filter(|method| method.scorer.is_some())
    };
    let Some(entry) = with_scorer().find(|method| method.name == wanted.scorer) else {
        let names: Vec<&str> = with_scorer().map(|method| method.name).collect();
        return Err(spec
            .source
            .error(
                "damage.scorer",
                format!("no method with a scorer is called '{}'", wanted.scorer),
                Some(hint_for(&wanted.scorer, &names)),
            )
            .into());
    };
    let params = (entry.parse)(&Value::Object(wanted.params.clone()))
        .map_err(|problem| methods::parameter_error(spec, entry, "damage", problem))?;
    let budgets = if wanted.budgets.is_empty() {
        methods::budgets(spec, catalog, &spec.budgets, "budgets")?
    } else {
        methods::budgets(spec, catalog, &wanted.budgets, "damage.budgets")?
    };
    if budgets.is_empty() {
        return Err(spec
            .source
            .error(
                "damage",
                "no budget is given, neither here nor at the top",
                Some("write budgets: [10%]".to_owned()),
            )
            .into());
    }
    Ok(PlannedDamage {
        method: ResolvedMethod {
            name: entry.name.to_owned(),
            label: entry.name.to_owned(),
            params,
        },
        budgets,
        spec: wanted.clone(),
    })
}
