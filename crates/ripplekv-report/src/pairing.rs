//! Pairs two rows by sample inside each task, and says what the pairs show.
//! Only samples that both rows have count; tasks weigh the same, as in the average (Miller, arXiv 2411.00640, on pairing).

use ripplekv_metrics::statistics::{Flips, flips};

use crate::group::Group;
use crate::metric::{Better, Metric};
use crate::options::ReportOptions;
use crate::stats::{self, Interval};
use crate::summary::CellSummary;

/// What the tables say of answers that flip.
pub(crate) const CORRECT_NOTE: &str = "A sample counts as correct from half of the words on for F1 (score 50), and with the whole score where an answer is right or wrong (class, paragraph, count, line of code); summaries are neither and are not counted.";

/// What the tables say about their smallest difference.
pub(crate) const SMALLEST_NOTE: &str = "Smallest n could show: the true difference that so many samples would have shown with a power of 80% (two-sided 5%). A smaller difference cannot be tested at this n, whatever its sign.";

/// What [`Difference::in_words`] says of a difference that is there.
pub(crate) const ESTABLISHED: &str = "established";

/// Greatest p of an established difference.
const SIGNIFICANCE: f64 = 0.05;

/// One task of both rows, in the metric's unit; same length, same samples.
pub(crate) struct TaskPairs {
    pub(crate) task: String,
    pub(crate) left: Vec<f64>,
    pub(crate) right: Vec<f64>,
    /// From which value on a sample counts as correct, where the task's metric says so.
    correct_from: Option<f64>,
}

impl TaskPairs {
    /// `None` where the two cells share no sample.
    pub(crate) fn new(
        metric: Metric,
        left: &CellSummary,
        right: &CellSummary,
    ) -> Option<TaskPairs> {
        let known: std::collections::BTreeMap<&str, f64> = right
            .values(metric)
            .iter()
            .map(|(sample, value)| (sample.as_str(), *value))
            .collect();
        let pairs: Vec<(f64, f64)> = left
            .values(metric)
            .iter()
            .filter_map(|(sample, value)| Some((*value, *known.get(sample.as_str())?)))
            .collect();
        (!pairs.is_empty()).then(|| TaskPairs {
            task: left.cell.task.clone(),
            left: pairs.iter().map(|pair| pair.0).collect(),
            right: pairs.iter().map(|pair| pair.1).collect(),
            correct_from: left.correct_from.filter(|_| metric == Metric::Score),
        })
    }

    fn flips(&self) -> Option<Flips> {
        Some(flips(&self.right, &self.left, self.correct_from?))
    }
}

/// What the pairs show about left minus right, in the metric's unit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    pub(crate) mean: f64,
    /// `None` where a task has fewer than two pairs.
    pub(crate) interval: Option<Interval>,
    /// True difference that the pairs would have shown; `None` where a task has fewer than two pairs.
    pub(crate) smallest_detectable: Option<f64>,
    pub(crate) p_value: f64,
    /// Samples where left is better.
    pub(crate) wins: usize,
    pub(crate) ties: usize,
    /// Samples where right is better.
    pub(crate) losses: usize,
    pub(crate) pairs: usize,
    /// Answers that are correct on one side only, right being before; `None` where no task says what is correct.
    pub(crate) flips: Option<Flips>,
    /// Task with the smallest difference.
    pub(crate) worst_task: Option<(String, f64)>,
    /// Smallest and greatest mean when one task is left out; `None` with a single task.
    pub(crate) leave_one_out: Option<(f64, f64)>,
}

impl Difference {
    /// What the difference establishes and, of an established KL, in which direction and by how much.
    pub(crate) fn sentence(
        &self,
        metric: Metric,
        (left, right): (&str, &str),
        decimals: usize,
        p_holm: f64,
    ) -> String {
        let words = self.in_words(p_holm);
        let size = (words == ESTABLISHED && metric == Metric::AnswerKl)
            .then(|| self.size(decimals))
            .flatten();
        match size {
            Some(size) if self.mean < 0.0 => format!(
                "{left}'s answers are nearer to the full cache than {right}'s: KL lower by {size}"
            ),
            Some(size) => format!(
                "{left}'s answers are farther from the full cache than {right}'s: KL higher by {size}"
            ),
            None => words.to_owned(),
        }
    }

    /// Size of the difference without its sign, with the interval's ends in the order of reading.
    pub(crate) fn size(&self, decimals: usize) -> Option<String> {
        let ends = self.interval?;
        let (low, high) = if self.mean < 0.0 {
            (-ends.high, -ends.low)
        } else {
            (ends.low, ends.high)
        };
        Some(format!(
            "{:.decimals$} ({low:.decimals$} to {high:.decimals$})",
            self.mean.abs()
        ))
    }

    /// What the difference establishes, given its p after Holm's correction.
    pub(crate) fn in_words(&self, p_holm: f64) -> &'static str {
        let Some((ends, smallest)) = self.interval.zip(self.smallest_detectable) else {
            return "not established: too few samples for an interval";
        };
        let is_apart = ends.low > 0.0 || ends.high < 0.0;
        if self.mean == 0.0 && smallest == 0.0 {
            "no difference on any sample"
        } else if self.mean.abs() < smallest {
            "cannot be tested at this n"
        } else if is_apart && p_holm <= SIGNIFICANCE {
            ESTABLISHED
        } else if is_apart {
            "not established: p (Holm) is above 0.05"
        } else {
            "not established: the interval holds 0"
        }
    }
}

/// Two rows of a group at one budget, paired over the averaged tasks; a method without a budget stands for itself.
pub(crate) fn rows_difference(
    group: &Group,
    metric: Metric,
    (left, right): (&str, &str),
    budget: &str,
    options: &ReportOptions,
) -> Option<Difference> {
    let pairs: Vec<TaskPairs> = group
        .averaged_tasks()
        .into_iter()
        .filter_map(|task| {
            let left = group.cell(left, Some(budget), &task.name)?;
            let right = group
                .cell(right, Some(budget), &task.name)
                .or_else(|| group.cell(right, None, &task.name))?;
            TaskPairs::new(metric, left, right)
        })
        .collect();
    difference(metric, &pairs, options)
}

pub(crate) fn difference(
    metric: Metric,
    tasks: &[TaskPairs],
    options: &ReportOptions,
) -> Option<Difference> {
    let left: Vec<Vec<f64>> = tasks.iter().map(|task| task.left.clone()).collect();
    let right: Vec<Vec<f64>> = tasks.iter().map(|task| task.right.clone()).collect();
    let paired = stats::paired(&left, &right, options)?;
    let enough = left.iter().all(|values| values.len() > 1);
    let flips = tasks.iter().filter_map(TaskPairs::flips);
    let flips = flips.reduce(|sum, of_task| Flips {
        correct_to_wrong: sum.correct_to_wrong + of_task.correct_to_wrong,
        wrong_to_correct: sum.wrong_to_correct + of_task.wrong_to_correct,
    });
    let (wins, losses) = match metric.better() {
        Better::Greater => (paired.wins, paired.losses),
        Better::Lower => (paired.losses, paired.wins),
    };
    Some(Difference {
        mean: paired.difference.estimate,
        interval: enough.then_some(Interval {
            low: paired.difference.low,
            high: paired.difference.high,
        }),
        smallest_detectable: paired.smallest_detectable,
        p_value: paired.p_value,
        wins,
        ties: paired.ties,
        losses,
        pairs: paired.samples(),
        flips,
        worst_task: tasks
            .iter()
            .zip(&paired.stratum_differences)
            .min_by(|left, right| {
                let oriented = |mean: &f64| metric.better().oriented(*mean);
                oriented(left.1).total_cmp(&oriented(right.1))
            })
            .map(|(task, mean)| (task.task.clone(), *mean)),
        leave_one_out: paired.leave_one_out,
    })
}
