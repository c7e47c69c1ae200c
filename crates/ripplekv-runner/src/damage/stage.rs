//! Drives the damage stage of one model: two passes over its samples, one line a sample, appended when it exists.

use std::path::PathBuf;
use std::time::Instant;

use crate::damage::ask::{Asked, Setup};
use crate::damage::files::{self, LineFile};
use crate::damage::job::{DamageJob, State, has_both_halves, usable};
use crate::damage::joint::Joint;
use crate::damage::progress::{DamageProgress, DamageSummary};
use crate::damage::single::measure_layers;
use crate::damage::visit::{Place, RecordReader, places};
use crate::engine::{Engine, ModelIdentity};
use crate::error::RunnerError;
use crate::run::{StopSignal, milliseconds};
use crate::store::locks;

/// Measures what is not stored yet. Nothing is computed twice, but for joint lines that belong to another profile or
/// selection: they are removed with a warning. A stop ends it after the sample in hand.
///
/// # Errors
/// Everything that stops the whole stage. A failing sample does not: it is stored with its reason.
pub fn measure(
    job: &DamageJob<'_>,
    engine: &mut dyn Engine,
    stop: &StopSignal,
    progress: &mut dyn FnMut(DamageProgress),
) -> Result<DamageSummary, RunnerError> {
    check_model(job, engine.identity())?;
    if job.recipe.joint {
        Joint::check(job)?;
    }
    let lock = format!("damage/{}.lock", job.model());
    let Some(_claim) = locks::try_claim(job.results, &lock)? else {
        let text = format!(
            "another process measures the damage of model '{}'",
            job.model()
        );
        progress(DamageProgress::Warning { text });
        return job.status();
    };
    let before = job.status()?;
    let setup = Setup::new(job, engine)?;
    files::write_head(&job.folder(), &setup.head)?;
    let mut stage = Stage {
        setup: &setup,
        engine,
        stop,
        progress,
        measured: 0,
        measured_jointly: 0,
    };
    if stage.single_layers()? && job.recipe.joint {
        stage.joint()?;
    }
    let (measured, measured_jointly) = (stage.measured, stage.measured_jointly);
    Ok(DamageSummary {
        stored_before: before.stored_before,
        measured,
        measured_jointly,
        interrupted: stop.is_set(),
        ..job.status()?
    })
}

/// The profile must be of the loaded model.
fn check_model(job: &DamageJob<'_>, loaded: &ModelIdentity) -> Result<(), RunnerError> {
    let profiled = &job.profile.model;
    let layers = (profiled.layers.to_string(), loaded.shape.layers.to_string());
    let fields = [
        ("layers", &layers.0, &layers.1),
        ("model_hash", &profiled.model_hash, &loaded.model_hash),
        (
            "tokenizer_hash",
            &profiled.tokenizer_hash,
            &loaded.tokenizer_hash,
        ),
    ];
    let Some((field, profiled, loaded)) = fields.iter().find(|(_, one, other)| one != other) else {
        return Ok(());
    };
    Err(RunnerError::Data {
        message: format!(
            "the profile of model '{}' is of another model: its {field} is {profiled}, that of the loaded model {loaded}",
            job.model()
        ),
        hint: "measure the profile again with `ripplekv profile`".to_owned(),
    })
}

/// The stage while it runs.
struct Stage<'a> {
    setup: &'a Setup<'a>,
    engine: &'a mut dyn Engine,
    stop: &'a StopSignal,
    progress: &'a mut dyn FnMut(DamageProgress),
    measured: usize,
    measured_jointly: usize,
}

impl Stage<'_> {
    fn warn(&mut self, text: String) {
        (self.progress)(DamageProgress::Warning { text });
    }

    fn open(&mut self, path: PathBuf) -> Result<LineFile, RunnerError> {
        let name = path.display().to_string();
        let (file, was_cut) = LineFile::open(path)?;
        if was_cut {
            self.warn(format!(
                "{name}: the last line was cut by a killed process and was removed"
            ));
        }
        Ok(file)
    }

    fn state(&self) -> Result<State, RunnerError> {
        let Setup { job, head, .. } = self.setup;
        Ok(State::new(job, files::stored(&job.folder(), head)?))
    }

    /// First pass; true where every sample has its line.
    fn single_layers(&mut self) -> Result<bool, RunnerError> {
        let setup = self.setup;
        let mut file = self.open(files::samples_path(&setup.job.folder()))?;
        let state = self.state()?;
        let places = places(setup.job);
        let samples = places.len();
        let missing = |place: &Place<'_>| !state.samples.contains_key(&place.id());
        let to_do: Vec<Place<'_>> = places.into_iter().filter(missing).collect();
        (self.progress)(DamageProgress::Started {
            samples,
            to_do: to_do.len(),
        });
        let mut records = RecordReader::new(setup.job);
        for place in &to_do {
            if self.stop.is_set() {
                return Ok(false);
            }
            let started = Instant::now();
            let asked = Asked::new(setup, place, &mut records)?;
            let of = setup.head.layers;
            let progress = &mut *self.progress;
            let mut on_layer = |done| progress(DamageProgress::Layer { done, of });
            let sample = measure_layers(&asked, self.engine, &mut on_layer)?;
            file.append(&sample)?;
            self.measured += 1;
            (self.progress)(DamageProgress::SampleDone {
                task: sample.task,
                sample: sample.sample,
                prompt_tokens: place.prompt.tokens,
                dropped: sample.dropped,
                milliseconds: milliseconds(started),
            });
        }
        Ok(true)
    }

    /// Second pass.
    fn joint(&mut self) -> Result<(), RunnerError> {
        let setup = self.setup;
        let path = files::joint_path(&setup.job.folder());
        let name = path.display().to_string();
        let mut file = self.open(path)?;
        let State { samples, mut joint } = self.state()?;
        let usable = usable(setup.job, &samples);
        let recipe = files::joint_recipe(&setup.head, usable.iter().map(|(_, line)| *line))?;
        if joint.values().any(|line| line.recipe != recipe) {
            file.clear()?;
            joint.clear();
            self.warn(format!(
                "{name}: belongs to another profile or other samples and starts afresh"
            ));
        }
        if !has_both_halves(&usable) {
            self.warn(
                "joint damage is left out: it takes two samples of a task that are not dropped, \
                 so that each half can give the other its oracle"
                    .to_owned(),
            );
            return Ok(());
        }
        let missing = |place: &&Place<'_>| !joint.contains_key(&place.id());
        let places = usable.iter().map(|(place, _)| place);
        let to_do: Vec<&Place<'_>> = places.filter(missing).collect();
        (self.progress)(DamageProgress::JointStarted {
            samples: usable.len(),
            to_do: to_do.len(),
        });
        let allocations = Joint::new(setup.job, &usable)?;
        let mut records = RecordReader::new(setup.job);
        for place in to_do {
            if self.stop.is_set() {
                return Ok(());
            }
            let started = Instant::now();
            let asked = Asked::new(setup, place, &mut records)?;
            let (sample, failure) = allocations.measure(&asked, &recipe, self.engine)?;
            file.append(&sample)?;
            self.measured_jointly += 1;
            if let Some(reason) = failure {
                self.warn(format!(
                    "sample '{}': no joint damage: {reason}",
                    place.id()
                ));
            }
            (self.progress)(DamageProgress::JointDone {
                task: sample.task,
                sample: sample.sample,
                milliseconds: milliseconds(started),
            });
        }
        Ok(())
    }
}
