//! What a task is: the fixed facts of one row of the task table.
//! Follows LongBench's `pred.py` and `eval.py` (THUDM/LongBench 2e00731).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The six groups LongBench sorts its tasks into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// A question about one document.
    SingleDocQa,
    /// A question about several documents.
    MultiDocQa,
    /// A summary of what was read.
    Summarization,
    /// Labelled or answered examples, then one more to answer.
    FewShot,
    /// Made-up retrieval and counting.
    Synthetic,
    /// The next line of a source file.
    Code,
}

impl Category {
    /// All categories in the order of LongBench's tables.
    pub const ALL: [Category; 6] = [
        Category::SingleDocQa,
        Category::MultiDocQa,
        Category::Summarization,
        Category::FewShot,
        Category::Synthetic,
        Category::Code,
    ];

    /// The name in specs and tables, e.g. `single_doc_qa`.
    pub const fn name(self) -> &'static str {
        match self {
            Category::SingleDocQa => "single_doc_qa",
            Category::MultiDocQa => "multi_doc_qa",
            Category::Summarization => "summarization",
            Category::FewShot => "few_shot",
            Category::Synthetic => "synthetic",
            Category::Code => "code",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// The language of a task's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// English.
    En,
    /// Chinese.
    Zh,
    /// A programming language.
    Code,
}

impl Language {
    /// The name in tables: `en`, `zh` or `code`.
    pub const fn name(self) -> &'static str {
        match self {
            Language::En => "en",
            Language::Zh => "zh",
            Language::Code => "code",
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// The collection a task comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suite {
    /// The 21 tasks of LongBench.
    LongBench,
    /// The 13 length-balanced tasks of LongBench-E (`<task>_e`).
    LongBenchE,
    /// Our own generated tasks, one a category (quickstart, study and calibration packs).
    Own,
    /// Our own generated tasks that the calibration pack alone has.
    Calibration,
}

impl Suite {
    /// The name of the pack that holds the suite's data as shipped or fetched.
    pub const fn pack_name(self) -> &'static str {
        match self {
            Suite::LongBench | Suite::LongBenchE => "longbench",
            Suite::Own => "quickstart",
            Suite::Calibration => "calibration",
        }
    }

    /// Whether the suite's prompt and length files are the official ones, pinned by digest.
    pub const fn has_pinned_config(self) -> bool {
        matches!(self, Suite::LongBench | Suite::LongBenchE)
    }
}

/// One row of the task table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TaskInfo {
    /// The name: file stem of the records and key of the results.
    pub name: &'static str,
    /// The key in `dataset2prompt.json` and `dataset2maxlen.json` (`qasper` for `qasper_e`).
    pub config_key: &'static str,
    /// Which of the six groups.
    pub category: Category,
    /// Language of the texts.
    pub language: Language,
    /// Name of the metric in `ripplekv_metrics::METRICS`.
    pub metric: &'static str,
    /// Most new tokens; a pack's `dataset2maxlen.json` says the same and wins.
    pub max_new_tokens: usize,
    /// Whether the chat template is applied under `chat_template: auto`.
    pub chat_template: bool,
    /// Whether only the first line of a prediction counts.
    pub first_line: bool,
    /// Whether a newline ends the answer (and no end token may come first).
    pub newline_stop: bool,
    /// Records in the full data set; for our own tasks those of the quickstart pack.
    pub expected_records: usize,
    /// Where the task comes from.
    pub suite: Suite,
    /// Whether it is one of the 16 tasks that KV-cache papers average.
    pub in_average: bool,
}

impl TaskInfo {
    /// The pack that holds this task's data as shipped or fetched.
    pub const fn pack_name(&self) -> &'static str {
        self.suite.pack_name()
    }
}

impl fmt::Display for TaskInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name)
    }
}
