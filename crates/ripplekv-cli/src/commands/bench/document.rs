//! What a benchmark stores, and what it reads of a peer's document (schema in tools/peers/bench_peers.py).

use ripplekv_runner::store::Host;
use serde::{Deserialize, Serialize};

use crate::arguments::{BenchArguments, BenchPart};
use crate::failure::Failure;

/// Version of [`Document`].
pub(super) const SCHEMA: u32 = 2;

/// Prompts of exact lengths.
#[derive(Debug, Deserialize)]
pub(super) struct Prompts {
    prompts: Vec<Prompt>,
}

#[derive(Debug, Deserialize)]
struct Prompt {
    tokens: usize,
    ids: Vec<u32>,
}

impl Prompts {
    pub(super) fn lengths(&self) -> Vec<usize> {
        self.prompts.iter().map(|prompt| prompt.tokens).collect()
    }

    /// The ids of the prompt of this length.
    ///
    /// # Errors
    /// No such prompt, or one whose ids are not as many as it says.
    pub(super) fn of(&self, tokens: usize) -> Result<&[u32], Failure> {
        let found = self.prompts.iter().find(|prompt| prompt.tokens == tokens);
        match found {
            Some(prompt) if prompt.ids.len() == tokens && tokens > 0 => Ok(&prompt.ids),
            Some(prompt) => Err(Failure::Data(format!(
                "prompts: the one of {tokens} tokens has {} ids",
                prompt.ids.len()
            ))),
            None => Err(Failure::Data(format!(
                "prompts: none has {tokens} tokens\nhint: lengths there are: {:?}",
                self.lengths()
            ))),
        }
    }
}

/// Everything measured of this program.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    schema: u32,
    program_version: String,
    pub(super) machine: Host,
    pub(super) threads: usize,
    pub(super) model: String,
    /// Every command that added to this document.
    commands: Vec<String>,
    pub(super) forward: Vec<Forward>,
    #[serde(default)]
    pub(super) attention: Vec<Attention>,
    pub(super) grid: Vec<Grid>,
    pub(super) profile: Vec<Profile>,
}

/// Prefill and one-row decode.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Forward {
    pub(super) tokens: usize,
    /// One a repeat; their median counts.
    pub(super) prefill_seconds: Vec<f64>,
    pub(super) decode_milliseconds: f64,
    pub(super) decode_steps: usize,
    /// Weights and cache entries of one decoding step in f32.
    pub(super) decode_step_bytes: u64,
    /// The same as they are kept: what the step reads.
    pub(super) decode_read_bytes: u64,
    /// Reading memory with all threads, right after the steps: the machine's speed changes from minute to minute.
    pub(super) memory_bytes_per_second: f64,
    pub(super) peak_rss_bytes: u64,
    /// Weights as they are kept, the snapshot and 200 MB.
    pub(super) accounted_bytes: u64,
}

/// Attention of a whole prompt in one layer by itself.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Attention {
    pub(super) tokens: usize,
    /// Median; the causal half is counted.
    pub(super) gflop_per_second: f64,
}

/// The common grid on one prompt.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Grid {
    pub(super) tokens: usize,
    pub(super) new_tokens: usize,
    /// The first cells of the grid, some and all of them.
    pub(super) runs: Vec<GridRun>,
    pub(super) peak_rss_bytes: u64,
    /// Weights as they are kept, the snapshot, all compressed caches and 200 MB.
    pub(super) accounted_bytes: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct GridRun {
    pub(super) cells: usize,
    /// Prefill, compression and decoding of all cells.
    pub(super) seconds: f64,
    pub(super) prefill_seconds: f64,
    pub(super) compress_seconds: f64,
    pub(super) decode_seconds: f64,
}

impl Grid {
    /// What one more cell costs, in seconds, between the two largest runs: all but the prefill that they share.
    pub(super) fn cell_seconds(&self) -> Option<f64> {
        let [.., fewer, all] = self.runs.as_slice() else {
            return None;
        };
        let own = |run: &GridRun| run.seconds - run.prefill_seconds;
        Some((own(all) - own(fewer)) / (all.cells - fewer.cells) as f64)
    }
}

/// The sensitivity profile of all layers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Profile {
    pub(super) tokens: usize,
    pub(super) answer_tokens: usize,
    pub(super) runs: Vec<ProfileRun>,
    /// Median prefill of the same prompt alone.
    pub(super) prefill_seconds: f64,
    pub(super) peak_rss_bytes: u64,
}

/// Prefill, answer and all perturbed layers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProfileRun {
    /// Samples that are measured together.
    pub(super) samples: usize,
    /// Whether the other signals and the control are measured too, as `profile.signals` says.
    pub(super) signals: bool,
    /// Of one sample.
    pub(super) seconds: f64,
}

impl Document {
    /// Notes where, with what and by which command measurements are added.
    pub(super) fn describe(&mut self, arguments: &BenchArguments) {
        self.schema = SCHEMA;
        env!("CARGO_PKG_VERSION").clone_into(&mut self.program_version);
        self.machine = Host::here();
        self.threads = rayon::current_num_threads();
        self.model.clone_from(&arguments.model);
        let words: Vec<String> = std::env::args().skip(1).collect();
        self.commands.push(format!("ripplekv {}", words.join(" ")));
    }

    /// Adds one measurement, in place of an earlier one of the same length.
    ///
    /// # Errors
    /// A text that is no such measurement.
    pub(super) fn add(&mut self, part: BenchPart, text: &str) -> Result<(), Failure> {
        let added = match part {
            BenchPart::Forward => put(&mut self.forward, text, |row| row.tokens),
            BenchPart::Attention => put(&mut self.attention, text, |row| row.tokens),
            BenchPart::Grid => put(&mut self.grid, text, |row| row.tokens),
            BenchPart::Profile => put(&mut self.profile, text, |row| row.tokens),
        };
        added.map_err(|error| Failure::Data(format!("bench: {part}: {error}")))
    }
}

fn put<T: serde::de::DeserializeOwned>(
    rows: &mut Vec<T>,
    text: &str,
    key: impl Fn(&T) -> usize,
) -> serde_json::Result<()> {
    let row: T = serde_json::from_str(text)?;
    rows.retain(|old| key(old) != key(&row));
    rows.push(row);
    rows.sort_by_key(key);
    Ok(())
}

/// What the table shows of a peer's document.
#[derive(Debug, Deserialize)]
pub(super) struct Peers {
    pub(super) versions: std::collections::BTreeMap<String, String>,
    pub(super) threads: usize,
    pub(super) forward: Vec<PeerForward>,
    #[serde(default)]
    pub(super) attention: Vec<Attention>,
    pub(super) grid: Vec<PeerGrid>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PeerForward {
    pub(super) tokens: usize,
    pub(super) prefill_seconds: Vec<f64>,
    pub(super) decode_milliseconds: f64,
    pub(super) peak_rss_bytes: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct PeerGrid {
    pub(super) tokens: usize,
    pub(super) new_tokens: usize,
    pub(super) cells: Vec<PeerCell>,
    pub(super) median_cell_seconds: f64,
    pub(super) peak_rss_bytes: u64,
}

impl PeerGrid {
    /// Seconds of the first `count` cells, one after the other; `None` where fewer were measured.
    pub(super) fn seconds_of(&self, count: usize) -> Option<f64> {
        let cells = self.cells.get(..count)?;
        Some(cells.iter().map(|cell| cell.seconds).sum())
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct PeerCell {
    pub(super) seconds: f64,
}
