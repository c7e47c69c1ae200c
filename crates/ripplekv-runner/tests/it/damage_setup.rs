//! The damage stage over the small packs, with a made-up profile and an engine that is watched.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ripplekv_runner::RunnerError;
use ripplekv_runner::damage::{
    DamageJob, DamageProgress, DamageRecipe, DamageSummary, StoredDamage, measure, read_damage,
};
use ripplekv_runner::engine::{
    DamageOutput, DamageRequest, Engine, EngineError, FirstToken, Injection, Loader, ModelIdentity,
    NoiseNorm, NoisePositions, PromptOutput, PromptRequest, SensitivityNews, SensitivityRequest,
};
use ripplekv_runner::fake::{self, FakeLoader};
use ripplekv_runner::plan::{Plan, PlanOptions, PreparedModel, prepare_model};
use ripplekv_runner::profile::{
    PROFILE_SCHEMA, ProfileDocument, ProfileModel, ProfileRecipe, ProfileSample, SigmaChoice,
};
use ripplekv_runner::run::StopSignal;
use ripplekv_tasks::Tokenise;
use serde_json::json;
use tempfile::TempDir;

use crate::pack::{self, SPEC};

/// What one call of the engine asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) text: String,
    pub(crate) single_layers: bool,
    pub(crate) reference_ids: Vec<u32>,
    pub(crate) allocations: Vec<(String, Vec<f64>)>,
}

/// Changes what the fake answers.
pub(crate) type Script = dyn Fn(&DamageRequest<'_>, &dyn Tokenise, &mut DamageOutput);

/// The fake engine, watched.
pub(crate) struct Watched<'a> {
    inner: Box<dyn Engine>,
    pub(crate) calls: Vec<Call>,
    script: Option<&'a Script>,
}

impl Engine for Watched<'_> {
    fn identity(&self) -> &ModelIdentity {
        self.inner.identity()
    }

    fn tokenizer(&self) -> Arc<dyn Tokenise> {
        self.inner.tokenizer()
    }

    fn evaluate(&mut self, request: &PromptRequest<'_>) -> Result<PromptOutput, EngineError> {
        self.inner.evaluate(request)
    }

    fn sensitivity(
        &mut self,
        requests: &[SensitivityRequest<'_>],
        tell: &mut dyn FnMut(usize, SensitivityNews) -> ControlFlow<()>,
    ) {
        self.inner.sensitivity(requests, tell);
    }

    fn damage(
        &mut self,
        request: &DamageRequest<'_>,
        on_layer: &mut dyn FnMut(usize),
    ) -> Result<DamageOutput, EngineError> {
        let tokenizer = self.tokenizer();
        let allocations = request.allocations.iter();
        self.calls.push(Call {
            text: tokenizer.decode(request.ids, false).unwrap(),
            single_layers: request.single_layers,
            reference_ids: request.reference_ids.to_vec(),
            allocations: allocations
                .map(|allocation| (allocation.name.to_owned(), allocation.weights.to_vec()))
                .collect(),
        });
        let mut output = self.inner.damage(request, on_layer)?;
        if let Some(script) = self.script {
            script(request, tokenizer.as_ref(), &mut output);
        }
        Ok(output)
    }
}

/// A pack in a temporary folder and all that a damage job needs.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) recipe: DamageRecipe,
    pub(crate) profile: ProfileDocument,
    pub(crate) loader: FakeLoader,
    pub(crate) options: PlanOptions,
}

/// How a measured stage went.
pub(crate) struct Outcome {
    pub(crate) summary: DamageSummary,
    pub(crate) calls: Vec<Call>,
    pub(crate) events: Vec<DamageProgress>,
}

impl Outcome {
    pub(crate) fn warnings(&self) -> Vec<&str> {
        self.events
            .iter()
            .filter_map(|event| match event {
                DamageProgress::Warning { text } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Calls of the first and of the second pass.
    pub(crate) fn passes(&self) -> (usize, usize) {
        let single = self.calls.iter().filter(|call| call.single_layers).count();
        (single, self.calls.len() - single)
    }
}

impl Bench {
    /// Two tasks of `records` records, budgets 25% and 50%, everything measured.
    pub(crate) fn new(records: usize) -> Self {
        let folder = TempDir::new().unwrap();
        pack::write(&folder.path().join("pack"), records);
        let loader = FakeLoader::default();
        let profile = profile(&loader);
        let recipe = DamageRecipe {
            method: "snapkv".to_owned(),
            params: json!({"window": 8, "kernel": 5}),
            budgets: vec!["25%".to_owned(), "50%".to_owned()],
            answer_tokens: 4,
            leave_in: true,
            reference_nll: true,
            task_score: true,
            joint: true,
            mapping: json!({"r": 4}),
            seed: 7,
            first_token: FirstToken::Reread,
            protocol: json!({"chat_template": "auto"}),
        };
        Self {
            folder,
            recipe,
            profile,
            loader,
            options: PlanOptions::default(),
        }
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.out().join("damage/tiny").join(name)
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.file(name)).unwrap()
    }

    pub(crate) fn stored(&self) -> StoredDamage {
        read_damage(&self.out(), "tiny").unwrap().unwrap()
    }

    /// Runs to the end.
    pub(crate) fn run(&self) -> Result<Outcome, RunnerError> {
        self.run_with(None, usize::MAX)
    }

    /// Runs with a script, and asks to stop once so many samples are stored.
    pub(crate) fn run_with(
        &self,
        script: Option<&Script>,
        stop_after: usize,
    ) -> Result<Outcome, RunnerError> {
        let (plan, prepared) = self.prepared();
        let mut engine = Watched {
            inner: self.loader.load(&plan.models[0]).unwrap(),
            calls: Vec::new(),
            script,
        };
        let stop = StopSignal::default();
        let mut events = Vec::new();
        let mut stored = 0;
        let out = self.out();
        let job = self.job(&plan, &prepared, &out);
        let summary = measure(&job, &mut engine, &stop, &mut |event| {
            use DamageProgress::{JointDone, SampleDone};
            stored += usize::from(matches!(event, SampleDone { .. } | JointDone { .. }));
            if stored >= stop_after {
                stop.set();
            }
            events.push(event);
        })?;
        Ok(Outcome {
            summary,
            calls: engine.calls,
            events,
        })
    }

    pub(crate) fn status(&self) -> Result<DamageSummary, RunnerError> {
        let (plan, prepared) = self.prepared();
        let out = self.out();
        self.job(&plan, &prepared, &out).status()
    }

    fn prepared(&self) -> (Plan, PreparedModel) {
        let plan = pack::plan(SPEC, self.folder.path(), self.options.clone()).unwrap();
        let model = &plan.models[0];
        let tokenizer = self.loader.tokenizer(model).unwrap();
        let shape = self.loader.shape(model).unwrap();
        let prepared =
            prepare_model(&plan, &fake::catalog(), 0, tokenizer.as_ref(), &shape).unwrap();
        (plan, prepared)
    }

    fn job<'a>(
        &'a self,
        plan: &'a Plan,
        prepared: &'a PreparedModel,
        out: &'a Path,
    ) -> DamageJob<'a> {
        DamageJob {
            results: out,
            plan,
            prepared,
            recipe: &self.recipe,
            profile: &self.profile,
            // Positive and plain, so that weights tell which signal they came from.
            ripple_weights: |signal, _| Ok(signal.iter().map(|value| value + 100.0).collect()),
            segmenter: None,
        }
    }
}

/// Two samples whose `kl` averages to 2, 3, 4, 5 over the layers.
pub(crate) fn profile(loader: &FakeLoader) -> ProfileDocument {
    let bare = TempDir::new().unwrap();
    pack::write(&bare.path().join("pack"), 1);
    let plan = pack::plan(SPEC, bare.path(), PlanOptions::default()).unwrap();
    let engine = loader.load(&plan.models[0]).unwrap();
    let identity = engine.identity();
    let sample = |name: &str, factor: f64| {
        let column = |scale: f64| -> Vec<f64> {
            (0..fake::LAYERS)
                .map(|layer| (layer as f64 + 2.0) * scale * factor)
                .collect()
        };
        ProfileSample {
            task: "prose".to_owned(),
            sample: name.to_owned(),
            prompt_tokens: 100,
            answer_tokens: 8,
            positions: 7,
            kl: column(1.0),
            local_response: column(0.5),
            window_entropy: column(16.0),
            hidden_change: column(0.25),
            all_layers_kl: Some(1.0),
        }
    };
    ProfileDocument {
        schema: PROFILE_SCHEMA,
        recipe_hash: "recipe".to_owned(),
        content_hash: "content".to_owned(),
        recipe: ProfileRecipe {
            calibration: "calibration".to_owned(),
            data_hash: "data".to_owned(),
            samples: 2,
            answer_tokens: 8,
            sigma: Some(0.1),
            sigma_samples: 0,
            draws: 2,
            seed: 0,
            norm: NoiseNorm::Token,
            positions: NoisePositions::All,
            inject: Injection::Cache,
            first_token: FirstToken::Skip,
            stop_at_reliability: None,
            signals: true,
            protocol: json!(null),
            numerics: 1,
        },
        model: ProfileModel {
            name: identity.name.clone(),
            model_hash: identity.model_hash.clone(),
            tokenizer_hash: identity.tokenizer_hash.clone(),
            template_hash: None,
            layers: identity.shape.layers,
            dtype: identity.dtype.clone(),
        },
        sigma: SigmaChoice {
            chosen: 0.1,
            given: true,
            ladder: Vec::new(),
        },
        sensitivity: Vec::new(),
        reliability: None,
        stopped_early: false,
        samples: vec![sample("one", 0.5), sample("two", 1.5)],
        dropped: Vec::new(),
    }
}
