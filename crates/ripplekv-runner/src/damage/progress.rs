//! What happens during the damage stage, and how it ends.

use crate::exit;

/// What happens during the stage.
#[derive(Debug, Clone, PartialEq)]
pub enum DamageProgress {
    /// Single layers are about to be measured.
    Started {
        /// Samples of the selection.
        samples: usize,
        /// Samples without a line.
        to_do: usize,
    },
    /// Layers of the sample in hand are done.
    Layer {
        /// How many.
        done: usize,
        /// L.
        of: usize,
    },
    /// A sample's layers are stored.
    SampleDone {
        /// Task name.
        task: String,
        /// Sample.
        sample: String,
        /// n: prompt tokens.
        prompt_tokens: usize,
        /// Why it was dropped.
        dropped: Option<String>,
        /// How long it took.
        milliseconds: f64,
    },
    /// All layers at once are about to be measured.
    JointStarted {
        /// Samples that were not dropped.
        samples: usize,
        /// Samples without a line.
        to_do: usize,
    },
    /// A sample's joint damage is stored.
    JointDone {
        /// Task name.
        task: String,
        /// Sample.
        sample: String,
        /// How long it took.
        milliseconds: f64,
    },
    /// Something a reader should know.
    Warning {
        /// What.
        text: String,
    },
}

/// How the stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DamageSummary {
    /// Samples of the selection.
    pub samples: usize,
    /// Samples whose layers were measured before.
    pub stored_before: usize,
    /// Samples whose layers this run measured.
    pub measured: usize,
    /// Samples that this run measured jointly.
    pub measured_jointly: usize,
    /// Stored samples left out because their answer is too short to compare.
    pub dropped: usize,
    /// Stored samples that the engine failed on, in either pass.
    pub failed: usize,
    /// Visits of both passes that are not stored: interrupted, or another process is at them.
    pub left: usize,
    /// Whether it was asked to stop.
    pub interrupted: bool,
}

impl DamageSummary {
    /// Exit code of the stage.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if self.left > 0 {
            exit::INCOMPLETE
        } else if self.failed > 0 {
            exit::FAILED_SAMPLES
        } else {
            exit::DONE
        }
    }
}
