//! The profile's part in a run: what a model's cells take from it, and the verb that only measures it.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::json;

use crate::catalog::Catalog;
use crate::cell::{Cell, CellKey, ResolvedMethod, ResolvedModel};
use crate::engine::{Availability, Engine, EngineError, Loader, Signals};
use crate::error::RunnerError;
use crate::plan::{Plan, PlannedProfile, ProfilePlan};
use crate::profile::{
    Calibrator, ProfileDocument, ProfileStage, ensure_profile, wants_calibration,
};
use crate::record::Calibrated;
use crate::run::{Event, Observer, RunOptions, Teller, milliseconds};
use crate::store::Store;

/// Predicted ratio above which allocation is not worth much.
const HOPELESS_RATIO: f64 = 0.98;

/// What the cells of the model in hand take from its profile; empty where none needs one.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModelProfile {
    /// Content hash of the document.
    pub(crate) hash: Option<String>,
    /// Per-layer numbers by name.
    pub(crate) signals: Signals,
    /// Methods whose r and gamma were calibrated, and the pair.
    pub(crate) calibrated: BTreeMap<CellKey, (ResolvedMethod, Calibrated)>,
}

/// What the profile verb did.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileSummary {
    /// Profiles that are stored, in the order of the models.
    pub documents: Vec<ProfileDocument>,
    /// Models without a profile yet, as the run was asked to stop.
    pub left: usize,
}

/// Measures or finds the profile of every model, and nothing else.
///
/// # Errors
/// As a run.
pub fn run_profiles(
    plan: &ProfilePlan,
    loader: &dyn Loader,
    options: &RunOptions<'_>,
    observer: &mut dyn Observer,
) -> Result<ProfileSummary, RunnerError> {
    for model in &plan.models {
        check_available(loader, model)?;
    }
    let mut store = Store::open(options.out)?;
    let mut teller = Teller {
        store: &mut store,
        observer,
    };
    profiles_of(&plan.profile, &plan.models, loader, options, &mut teller)
}

/// The profile of each model in turn, each with its prediction.
pub(crate) fn profiles_of<'a>(
    profile: &PlannedProfile,
    models: impl IntoIterator<Item = &'a ResolvedModel>,
    loader: &dyn Loader,
    options: &RunOptions<'_>,
    teller: &mut Teller<'_>,
) -> Result<ProfileSummary, RunnerError> {
    let mut summary = ProfileSummary {
        documents: Vec::new(),
        left: 0,
    };
    for model in models {
        if options.stop.is_set() {
            summary.left += 1;
            continue;
        }
        let mut engine = load(loader, model, teller)?;
        match profile_of(profile, engine.as_mut(), options, teller)? {
            Some(document) => summary.documents.push(document),
            None => summary.left += 1,
        }
    }
    Ok(summary)
}

/// Reads the weights of a model; refuses another model than the one that made the folder's records.
pub(crate) fn load(
    loader: &dyn Loader,
    model: &ResolvedModel,
    teller: &mut Teller<'_>,
) -> Result<Box<dyn Engine>, RunnerError> {
    teller.tell(Event::Loading {
        model: model.name.clone(),
    })?;
    let started = Instant::now();
    let engine = loader.load(model).map_err(|source| RunnerError::Model {
        model: model.name.clone(),
        source,
    })?;
    teller.store.check_identity(engine.identity())?;
    teller.tell(Event::Loaded {
        model: model.name.clone(),
        milliseconds: milliseconds(started),
    })?;
    Ok(engine)
}

/// Whether the model must be fetched first.
pub(crate) fn check_available(
    loader: &dyn Loader,
    model: &ResolvedModel,
) -> Result<bool, RunnerError> {
    match loader.availability(model) {
        Availability::Broken(message) | Availability::NotRun(message) => Err(RunnerError::Model {
            model: model.name.clone(),
            source: EngineError::Model(message),
        }),
        Availability::Present => Ok(false),
        Availability::Fetchable | Availability::NotChecked(_) => Ok(true),
    }
}

/// The profile of the engine's model, and what it predicts; `None` where the run was asked to stop.
pub(crate) fn profile_of(
    profile: &PlannedProfile,
    engine: &mut dyn Engine,
    options: &RunOptions<'_>,
    teller: &mut Teller<'_>,
) -> Result<Option<ProfileDocument>, RunnerError> {
    let stage = ProfileStage {
        profile,
        results: options.out,
        home: options.home,
        stop: options.stop,
    };
    let Some(document) = ensure_profile(&stage, engine, teller)? else {
        return Ok(None);
    };
    for (exponent, ratio) in document.predicted_ratios() {
        teller.tell(Event::PredictedRatio {
            model: document.model.name.clone(),
            exponent,
            ratio,
        })?;
        if exponent == 1.0 && ratio.is_some_and(|ratio| ratio > HOPELESS_RATIO) {
            teller.warn(format!(
                "model '{}': the sensitivities are nearly equal, so no allocation can help much: at best {:.1}% of the damage of a uniform one",
                document.model.name,
                ratio.unwrap_or(1.0) * 100.0
            ))?;
        }
    }
    Ok(Some(document))
}

/// Per-layer numbers that methods may ask for.
pub(crate) fn signals(document: &ProfileDocument) -> Signals {
    Signals::from([
        ("sensitivity".to_owned(), document.mean_sensitivity()),
        ("local-response".to_owned(), document.mean_local_power()),
    ])
}

/// What the selected cells of a model take from its profile, calibrations included; `None` where the run was asked to
/// stop.
pub(crate) fn model_profile(
    plan: &Plan,
    profile: &PlannedProfile,
    catalog: &Catalog,
    options: &RunOptions<'_>,
    engine: &mut dyn Engine,
    teller: &mut Teller<'_>,
) -> Result<Option<ModelProfile>, RunnerError> {
    let Some(document) = profile_of(profile, engine, options, teller)? else {
        return Ok(None);
    };
    let signals = signals(&document);
    let mut calibrated = BTreeMap::new();
    let mut known: Vec<(ResolvedMethod, ResolvedMethod, Calibrated)> = Vec::new();
    for cell in selected_cells(plan, &document.model.name) {
        if !wants_calibration(&cell.method.params) {
            continue;
        }
        let (_, method, pair) = match known.iter().find(|(asked, _, _)| *asked == cell.method) {
            Some(found) => found.clone(),
            None => {
                let mut calibrator = Calibrator {
                    profile,
                    document: &document,
                    catalog,
                    short_prompts: plan.protocol.short_prompts,
                    results: options.out,
                    stop: options.stop,
                    engine: &mut *engine,
                    teller: &mut *teller,
                };
                let Some(found) = calibrator.calibrate(&cell.method)? else {
                    return Ok(None);
                };
                let mut method = cell.method.clone();
                method.params["r"] = json!(found.r);
                method.params["gamma"] = json!(found.gamma);
                let pair = Calibrated {
                    r: found.r,
                    gamma: found.gamma,
                };
                known.push((cell.method.clone(), method.clone(), pair));
                (cell.method.clone(), method, pair)
            }
        };
        calibrated.insert(cell.key.clone(), (method, pair));
    }
    Ok(Some(ModelProfile {
        hash: Some(document.content_hash),
        signals,
        calibrated,
    }))
}

fn selected_cells<'a>(plan: &'a Plan, model: &'a str) -> impl Iterator<Item = &'a Cell> {
    plan.selected
        .iter()
        .map(|place| &plan.cells[*place])
        .filter(move |cell| cell.model == model)
}

/// Whether a selected cell of the model takes its allocation from the profile.
pub(crate) fn needs_profile(plan: &Plan, model: &str) -> bool {
    selected_cells(plan, model).any(|cell| cell.profile_recipe().is_some())
}
