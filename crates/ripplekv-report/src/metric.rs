//! What a sample is judged by: its task's score, or how near the cell stays to the full cache's next-token distributions
//! (`Record::answer_kl`). Tables and figures take the metric as an argument, so that both are treated alike.

use ripplekv_runner::record::Record;

/// A number of a record that rows are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Metric {
    /// Task score in points, 0 to 100.
    Score,
    /// Answer KL in nats.
    AnswerKl,
}

/// Which end of a metric is the good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Greater,
    Lower,
}

impl Better {
    /// The value turned so that greater is better.
    pub(crate) fn oriented(self, value: f64) -> f64 {
        match self {
            Better::Greater => value,
            Better::Lower => -value,
        }
    }
}

impl Metric {
    pub(crate) const ALL: [Metric; 2] = [Metric::Score, Metric::AnswerKl];

    /// The record's number in the metric's unit; `None` where it was not measured.
    pub(crate) fn of(self, record: &Record) -> Option<f64> {
        match self {
            Metric::Score => record.score.map(|score| 100.0 * score),
            Metric::AnswerKl => record.answer_kl,
        }
    }

    pub(crate) fn better(self) -> Better {
        match self {
            Metric::Score => Better::Greater,
            Metric::AnswerKl => Better::Lower,
        }
    }

    /// As columns and texts call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Metric::Score => "score",
            Metric::AnswerKl => "KL",
        }
    }

    /// Column of a figure's data.
    pub(crate) fn data_name(self) -> &'static str {
        match self {
            Metric::Score => "score",
            Metric::AnswerKl => "answer_kl",
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Metric::Score => "points",
            Metric::AnswerKl => "nats",
        }
    }

    /// Range or unit with the better end.
    pub(crate) fn scale(self) -> &'static str {
        match self {
            Metric::Score => "0 to 100",
            Metric::AnswerKl => "nats, lower is nearer to the full cache",
        }
    }
}

/// What the tables say about KL.
pub(crate) const KL_NOTE: &str = "KL: mean over the tokens of the full cache's own answer (the first left out), fed to both caches, of the KL divergence in nats from the full cache's next-token distribution to the row's; 0 is the full cache, lower is nearer to it. Only samples whose answer is long enough have it.";

/// As a sentence begins.
pub(crate) fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map(|first| first.to_uppercase().chain(characters).collect())
        .unwrap_or_default()
}
