//! Our own generated tasks: the quickstart, the study and the calibration pack.
//! All texts are ours; the file formats are LongBench's.
//!
//! To add a generated task: a row in `src/table.rs`, a file here with a `make` function, a line in
//! [`GENERATORS`], and its prompt and length in `prompts.rs`.

mod dossier;
mod draw;
mod logbook;
mod made;
mod minutes;
mod module;
mod order_table;
mod paragraph;
mod place;
mod prompts;
mod select;
mod ticket;
mod words;
mod write;

use serde::{Deserialize, Serialize};

use self::draw::Draw;
use self::made::Made;
use self::place::{share, words};
use crate::groups::find_task;
use crate::record::Record;
use crate::task::{Suite, TaskInfo};

pub use self::select::{SelectError, select_quickstart};
pub use self::write::{
    KeptRecord, Manifest, TaskManifest, WriteError, read_manifest, write_calibration, write_pack,
    write_study,
};

/// Changes whenever the same seed would give other bytes.
pub const GENERATOR_VERSION: u32 = 1;
/// The seed of the committed packs and of `ripplekv fetch study`.
pub const DEFAULT_SEED: u64 = 20_260_808;
/// Quickstart records to choose from, per task.
pub const QUICKSTART_CANDIDATES_PER_TASK: usize = 12;
/// Quickstart records kept, per task.
pub const QUICKSTART_RECORDS_PER_TASK: usize = 4;
/// Study records per task; none is left out.
pub const STUDY_RECORDS_PER_TASK: usize = 36;
/// Calibration records per task; none is left out.
pub const CALIBRATION_RECORDS_PER_TASK: usize = 4;

/// Which of the generated packs. Each draws from streams of its own, so no two share a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackKind {
    /// Committed, 24 records of 1,500 to 3,000 tokens.
    Quickstart,
    /// Generated on demand, 216 records of 1,500 to 8,000 tokens.
    Study,
    /// Committed, 28 records of 1,536 to 3,072 tokens: what sensitivity profiles are measured on.
    /// Never a benchmark.
    Calibration,
}

impl PackKind {
    /// The pack's name.
    pub const fn name(self) -> &'static str {
        match self {
            PackKind::Quickstart => "quickstart",
            PackKind::Study => "study",
            PackKind::Calibration => "calibration",
        }
    }

    const fn records_per_task(self) -> usize {
        match self {
            PackKind::Quickstart => QUICKSTART_CANDIDATES_PER_TASK,
            PackKind::Study => STUDY_RECORDS_PER_TASK,
            PackKind::Calibration => CALIBRATION_RECORDS_PER_TASK,
        }
    }

    /// Whether the pack has the task.
    fn holds(self, task: &TaskInfo) -> bool {
        task.suite == Suite::Own || self == PackKind::Calibration
    }

    /// Shortest and longest wanted prompt in tokens of a byte-level BPE of 49,152 (SmolLM2's),
    /// a little inside the promised range as the estimate is off by some percent.
    const fn token_range(self) -> (f64, f64) {
        match self {
            PackKind::Quickstart => (1_650.0, 2_400.0),
            PackKind::Study => (1_650.0, 7_300.0),
            PackKind::Calibration => (1_700.0, 2_700.0),
        }
    }
}

/// Where a record's answer lies in its context, as shares from 0 (start) to 1 (end).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerPosition {
    /// The wanted place: one in each of as many equal parts as the task has records.
    pub wanted: f64,
    /// The middle of each sentence the answer rests on.
    pub evidence: Vec<f64>,
}

/// A generated record.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Its task.
    pub task: &'static TaskInfo,
    /// The record.
    pub record: Record,
    /// Where its answer lies.
    pub position: AnswerPosition,
}

struct Generator {
    task: &'static str,
    make: fn(&mut Draw, usize, f64) -> Made,
    /// Measured with SmolLM2's tokenizer over 12 records.
    tokens_per_word: f64,
}

const GENERATORS: &[Generator] = &[
    Generator {
        task: "logbook_qa",
        make: logbook::make,
        tokens_per_word: 1.25,
    },
    Generator {
        task: "dossier_qa",
        make: dossier::make,
        tokens_per_word: 1.28,
    },
    Generator {
        task: "minutes_sum",
        make: minutes::make,
        tokens_per_word: 1.27,
    },
    Generator {
        task: "ticket_class",
        make: ticket::make,
        tokens_per_word: 1.48,
    },
    Generator {
        task: "paragraph_find",
        make: paragraph::make,
        tokens_per_word: 1.20,
    },
    Generator {
        task: "module_line",
        make: module::make,
        tokens_per_word: 2.24,
    },
    Generator {
        task: "order_table",
        make: order_table::make,
        tokens_per_word: 1.40,
    },
];

/// Tokens of the prompt text and chat template around a context, roughly.
const AROUND_TOKENS: f64 = 100.0;

/// All records of the study or calibration pack, or all that the quickstart pack chooses from.
/// The same seed gives the same bytes; no two kinds share a record.
pub fn generate_candidates(kind: PackKind, seed: u64) -> Vec<Candidate> {
    GENERATORS
        .iter()
        .map(|generator| (generator, own_task(generator.task)))
        .filter(|(_, task)| kind.holds(task))
        .flat_map(|(generator, task)| candidates_of(generator, task, kind, seed))
        .collect()
}

fn own_task(name: &str) -> &'static TaskInfo {
    find_task(name).unwrap_or_else(|error| unreachable!("{error}"))
}

fn candidates_of(
    generator: &Generator,
    task: &'static TaskInfo,
    kind: PackKind,
    seed: u64,
) -> Vec<Candidate> {
    let count = kind.records_per_task();
    let stream = format!("{}/{}", kind.name(), task.name);
    let mut draw = Draw::new(seed, &stream);
    let places = stratified(&mut draw, count);
    let sizes = stratified(&mut draw, count);
    let (shortest, longest) = kind.token_range();
    (0..count)
        .map(|index| {
            let mut draw = Draw::new(seed, &format!("{stream}/{index}"));
            let tokens = shortest * (longest / shortest).powf(sizes[index]);
            let target_words = (tokens - AROUND_TOKENS) / generator.tokens_per_word;
            let made = (generator.make)(&mut draw, target_words as usize, places[index]);
            candidate(task, made, places[index])
        })
        .collect()
}

/// `count` numbers, one in each of `count` equal parts of 0 to 1, in random order.
fn stratified(draw: &mut Draw, count: usize) -> Vec<f64> {
    let parts: Vec<usize> = (0..count).collect();
    let mixed = draw.shuffled(&parts);
    mixed
        .into_iter()
        .map(|part| (part as f64 + draw.unit()) / count as f64)
        .collect()
}

fn candidate(task: &'static TaskInfo, made: Made, wanted: f64) -> Candidate {
    let evidence = made
        .evidence
        .iter()
        .map(|sentence| {
            share(&made.context, sentence)
                .unwrap_or_else(|| unreachable!("`{sentence}` is once in the context"))
        })
        .map(round_share)
        .collect();
    let length = words(&made.context) + words(&made.input) + words(&made.answers[0]);
    let mut record = Record {
        input: made.input,
        context: made.context,
        answers: made.answers,
        length: length as u64,
        dataset: task.name.to_owned(),
        language: made.language.to_owned(),
        all_classes: made.all_classes,
        id: String::new(),
    };
    let digest = blake3::hash(record.to_line().as_bytes());
    record.id = digest.to_hex()[..48].to_owned();
    Candidate {
        task,
        record,
        position: AnswerPosition {
            wanted: round_share(wanted),
            evidence,
        },
    }
}

/// Shares are stored with six digits.
fn round_share(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}
