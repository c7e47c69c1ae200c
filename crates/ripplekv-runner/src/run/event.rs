//! What happens during a run. Progress bar, log file and tests all read the same events.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::error::RunnerError;
use crate::store::Store;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A model is not on this machine yet and will be fetched.
    Fetching {
        /// Model name.
        model: String,
    },
    /// Prompts of a model are about to be made.
    Preparing {
        /// Model name.
        model: String,
    },
    /// Prompts of a model are made.
    Prepared {
        /// Model name.
        model: String,
        /// Tokens before the middle is cut.
        max_context: usize,
        /// Prompts to run.
        prompts: usize,
        /// Records that `max_prompt_tokens` left out.
        too_long: usize,
        /// Prompts below some must-keep set, to which `short_prompts` applies.
        short_prompts: usize,
    },
    /// All checks are done.
    Started {
        /// Cells of the plan.
        cells: usize,
        /// Prompts of this run.
        prompts: usize,
        /// Prompts of which some cell is missing.
        prompts_to_do: usize,
        /// Their tokens.
        tokens_to_do: usize,
        /// Cells of prompts that are missing.
        cells_to_do: usize,
    },
    /// Weights are being read.
    Loading {
        /// Model name.
        model: String,
    },
    /// Weights are in memory.
    Loaded {
        /// Model name.
        model: String,
        /// How long it took.
        milliseconds: f64,
    },
    /// The profile of a model is about to be measured.
    ProfileStarted {
        /// Model name.
        model: String,
        /// Calibration samples.
        samples: usize,
        /// Those that an earlier, interrupted run measured.
        done: usize,
        /// L.
        layers: usize,
    },
    /// A layer of a calibration sample is measured; shown, never logged.
    ProfileLayer {
        /// Model name.
        model: String,
        /// Place of the sample, from 1.
        sample: usize,
        /// Calibration samples.
        samples: usize,
        /// Layers that are done.
        layers_done: usize,
        /// L.
        layers: usize,
    },
    /// A calibration sample is measured, or left out.
    ProfileSampleDone {
        /// Model name.
        model: String,
        /// Task.
        task: String,
        /// Sample.
        sample: String,
        /// Samples looked at so far.
        done: usize,
        /// Calibration samples.
        samples: usize,
        /// Why it was left out.
        dropped: Option<String>,
        /// How long it took.
        milliseconds: f64,
    },
    /// A stored profile fits and is used.
    ProfileFound {
        /// Model name.
        model: String,
        /// The file.
        from: String,
    },
    /// Another process measures the same profile; this one waits for it.
    ProfileBusy {
        /// Model name.
        model: String,
    },
    /// The profile of a model is measured and stored.
    ProfileFinished {
        /// Model name.
        model: String,
        /// The file.
        path: String,
        /// Noise scale.
        sigma: f64,
        /// Samples used.
        samples: usize,
        /// Samples left out.
        dropped: usize,
        /// Corrected split-half reliability; `None` below 4 samples.
        reliability: Option<f64>,
        /// Whether it stopped at the wanted reliability.
        stopped_early: bool,
        /// How long this run measured.
        milliseconds: f64,
    },
    /// What the profile says an allocation can gain.
    PredictedRatio {
        /// Model name.
        model: String,
        /// Exponent of the law damage ~ budget^-exponent.
        exponent: f64,
        /// Total damage under the best allocation over that under a uniform one; `None` where undefined.
        ratio: Option<f64>,
    },
    /// r and gamma were picked on the calibration pack.
    Calibrated {
        /// Model name.
        model: String,
        /// Label of the method.
        method: String,
        /// Picked r.
        r: f64,
        /// Picked gamma.
        gamma: f64,
        /// Mean KL relative to uniform.
        relative_kl: f64,
    },
    /// Another process works on this block.
    UnitBusy {
        /// Model name.
        model: String,
        /// Task name.
        task: String,
        /// Block of records.
        block: usize,
    },
    /// All missing cells of a prompt are stored.
    PromptDone {
        /// Model name.
        model: String,
        /// Task name.
        task: String,
        /// Sample.
        sample: String,
        /// n: prompt tokens.
        prompt_tokens: usize,
        /// Cells computed.
        cells: usize,
        /// Cells that failed.
        failed: usize,
        /// How long the prompt took.
        milliseconds: f64,
    },
    /// A sample failed in one cell, or in all of a prompt.
    SampleFailed {
        /// Model name.
        model: String,
        /// Task name.
        task: String,
        /// Sample.
        sample: String,
        /// Label of the method and budget, or `all cells`.
        cell: String,
        /// Why.
        error: String,
    },
    /// Something a reader should know.
    Warning {
        /// What.
        text: String,
    },
    /// The run is over.
    Finished {
        /// Cells of prompts computed.
        computed: usize,
        /// Failed samples stored.
        failed: usize,
        /// Cells of prompts that are not stored.
        left: usize,
        /// Whether it was asked to stop.
        interrupted: bool,
        /// How long the run took after the checks.
        milliseconds: f64,
    },
}

/// Somebody who wants to know.
pub trait Observer {
    /// Called for every event, in order.
    fn event(&mut self, event: &Event);
}

impl<F: FnMut(&Event)> Observer for F {
    fn event(&mut self, event: &Event) {
        self(event);
    }
}

/// Tells the log and the observer.
pub(crate) struct Teller<'a> {
    pub(crate) store: &'a mut Store,
    pub(crate) observer: &'a mut dyn Observer,
}

impl Teller<'_> {
    pub(crate) fn tell(&mut self, event: Event) -> Result<(), RunnerError> {
        self.store
            .log(&LogLine::now(self.store.writer().to_owned(), &event))?;
        self.observer.event(&event);
        Ok(())
    }

    pub(crate) fn warn(&mut self, text: String) -> Result<(), RunnerError> {
        self.tell(Event::Warning { text })
    }

    /// Tells the observer alone: for what happens too often to be kept.
    pub(crate) fn show(&mut self, event: &Event) {
        self.observer.event(event);
    }
}

/// One line of `log.jsonl`.
#[derive(Debug, Serialize)]
pub(crate) struct LogLine<'a> {
    /// Seconds since 1970.
    unix_seconds: u64,
    writer: String,
    happened: &'a Event,
}

impl<'a> LogLine<'a> {
    pub(crate) fn now(writer: String, happened: &'a Event) -> Self {
        Self::at(unix_seconds(), writer, happened)
    }

    pub(crate) fn at(unix_seconds: u64, writer: String, happened: &'a Event) -> Self {
        Self {
            unix_seconds,
            writer,
            happened,
        }
    }
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
