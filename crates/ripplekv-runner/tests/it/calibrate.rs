//! `r: calibrate`: the pair is picked on half of the calibration samples, stored, handed to the engine and told.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use ripplekv_runner::cell::ResolvedModel;
use ripplekv_runner::engine::{
    Availability, BudgetDamage, DamageOutput, DamageRequest, Engine, EngineError, Loader,
    ModelIdentity, ModelShape, PromptOutput, PromptRequest, SensitivityNews, SensitivityRequest,
};
use ripplekv_runner::fake::{self, FakeLoader};
use ripplekv_runner::plan::PlanOptions;
use ripplekv_runner::profile::{CalibrationFile, calibration_path};
use ripplekv_runner::run::{Event, RunOptions, StopSignal, run};
use ripplekv_runner::store::read_run;
use ripplekv_tasks::Tokenise;

use crate::pack;
use crate::profile::{RIPPLE, folder};

/// The fake with a joint KL that is least for one name of an allocation.
#[derive(Clone, Default)]
struct Joint {
    fake: FakeLoader,
    /// Prompt lengths and budgets that were asked for, and the r and gamma of evaluated cells.
    asked: Arc<Mutex<Vec<(usize, usize)>>>,
    evaluated: Arc<Mutex<Vec<(String, String)>>>,
}

const BEST: &str = "r=8,gamma=2";

impl Loader for Joint {
    fn availability(&self, model: &ResolvedModel) -> Availability {
        self.fake.availability(model)
    }

    fn shape(&self, model: &ResolvedModel) -> Result<ModelShape, EngineError> {
        self.fake.shape(model)
    }

    fn tokenizer(&self, model: &ResolvedModel) -> Result<Arc<dyn Tokenise>, EngineError> {
        self.fake.tokenizer(model)
    }

    fn load(&self, model: &ResolvedModel) -> Result<Box<dyn Engine>, EngineError> {
        Ok(Box::new(JointEngine {
            engine: self.fake.load(model)?,
            loader: self.clone(),
        }))
    }
}

struct JointEngine {
    engine: Box<dyn Engine>,
    loader: Joint,
}

impl Engine for JointEngine {
    fn identity(&self) -> &ModelIdentity {
        self.engine.identity()
    }

    fn tokenizer(&self) -> Arc<dyn Tokenise> {
        self.engine.tokenizer()
    }

    fn evaluate(&mut self, request: &PromptRequest<'_>) -> Result<PromptOutput, EngineError> {
        for cell in request.cells {
            if cell.method.name == "ripplekv" {
                let params = &cell.method.params;
                let pair = (params["r"].to_string(), params["gamma"].to_string());
                self.loader.evaluated.lock().unwrap().push(pair);
            }
        }
        self.engine.evaluate(request)
    }

    fn sensitivity(
        &mut self,
        requests: &[SensitivityRequest<'_>],
        tell: &mut dyn FnMut(usize, SensitivityNews) -> ControlFlow<()>,
    ) {
        self.engine.sensitivity(requests, tell);
    }

    fn damage(
        &mut self,
        request: &DamageRequest<'_>,
        _on_layer: &mut dyn FnMut(usize),
    ) -> Result<DamageOutput, EngineError> {
        assert!(!request.single_layers && !request.leave_in && !request.outputs);
        assert_eq!(request.allocations[0].weights, [1.0; fake::LAYERS]);
        assert!(request.method.params["r"].is_number());
        let asked = (request.allocations.len(), request.budgets.len());
        self.loader.asked.lock().unwrap().push(asked);
        let joint_kl = request
            .allocations
            .iter()
            .map(|allocation| match allocation.name {
                "uniform" => 0.5,
                BEST => 0.25,
                _ => 0.4,
            });
        let budget = BudgetDamage {
            joint_kl: joint_kl.collect(),
            ..BudgetDamage::default()
        };
        Ok(DamageOutput {
            output_ids: vec![1, 2, 3],
            positions: 2,
            reference_nll: None,
            budgets: vec![budget; request.budgets.len()],
            warnings: Vec::new(),
        })
    }
}

#[test]
fn the_picked_pair_reaches_the_engine_and_the_record_but_not_the_key() {
    let folder = folder(4);
    let spec = RIPPLE.replace(
        "snapkv, ripplekv]",
        "snapkv, {name: ripplekv, params: {r: calibrate}}]",
    );
    let plan = pack::plan(&spec, folder.path(), PlanOptions::default()).unwrap();
    let loader = Joint::default();
    let stop = StopSignal::default();
    let (out, home) = (folder.path().join("out"), folder.path().join("home"));
    let options = RunOptions {
        out: &out,
        home: &home,
        retry_failed: false,
        stop: &stop,
        segmenter: None,
        program_version: "test",
        only_stages: false,
    };
    let mut told = Vec::new();
    let mut go = || {
        run(
            &plan,
            &fake::catalog(),
            &loader,
            &options,
            &mut |event: &Event| {
                if let Event::Calibrated {
                    r,
                    gamma,
                    relative_kl,
                    ..
                } = event
                {
                    told.push((*r, *gamma, *relative_kl));
                }
            },
        )
        .unwrap()
    };
    go();
    assert_eq!(
        *loader.asked.lock().unwrap(),
        [(13, 3); 2],
        "uniform and 4 x 3 pairs, on every second sample of each task"
    );
    assert!(!loader.evaluated.lock().unwrap().is_empty());
    for (r, gamma) in loader.evaluated.lock().unwrap().iter() {
        assert_eq!((r.as_str(), gamma.as_str()), ("8.0", "2.0"));
    }
    let path = calibration_path(&out, "tiny", "snapkv");
    let bytes = std::fs::read(&path).unwrap();
    let file: CalibrationFile = serde_json::from_slice(&bytes).unwrap();
    let found = file.calibrations.values().next().unwrap();
    assert_eq!((found.r, found.gamma, found.rows.len()), (8.0, 2.0, 15));
    assert_eq!(
        found.samples,
        ["logbook_qa/logbook_qa-1", "ticket_class/ticket_class-1"]
    );
    let stored = read_run(&out).unwrap();
    for record in &stored.records {
        let method = &stored.cells[&record.cell].method;
        let picked = record.calibrated.map(|pair| (pair.r, pair.gamma));
        assert_eq!(picked, (method.name == "ripplekv").then_some((8.0, 2.0)));
        if method.name == "ripplekv" {
            assert_eq!(method.params["r"], "calibrate");
        }
    }
    // once more with nothing stored but the profiles: the table is read, not measured
    std::fs::remove_dir_all(out.join("records")).unwrap();
    go();
    assert_eq!(loader.asked.lock().unwrap().len(), 2);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert_eq!(told, [(8.0, 2.0, 0.5)]);
}
