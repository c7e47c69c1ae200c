//! Two selections of stored results, paired by sample inside each task, said in words.
//! A difference is called detectable when its 95% interval leaves out zero and the sign-flip test gives a p of at most
//! 0.05 after Holm's correction: over all comparisons of the metric made together, and for tasks over those of one comparison.

mod outcome;
mod selection;
mod sides;
mod words;

use ripplekv_metrics::statistics::holm;

use crate::error::ReportError;
use crate::metric::Metric;
use crate::options::ReportOptions;
use crate::pairing::{Difference, TaskPairs, difference};
use crate::read::read_results;
use crate::stats::Interval;

pub use outcome::{Comparison, Side, TaskComparison, WorstTask};
pub use selection::{CompareFilter, Selection};
use sides::{Apart, Pair, Selected};
use words::{Names, Verdict};

/// Greatest p of a detectable difference.
const SIGNIFICANCE: f64 = 0.05;

/// Everything two selections have to say to each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparisons {
    /// One a pair of rows and metric.
    pub rows: Vec<Comparison>,
    /// What a reader must know of the results first.
    pub warnings: Vec<String>,
}

/// Compares two selections. Rows are paired where model, query mode and what was asked agree:
/// two named methods at each budget they share (a method without budgets meets every budget); in two folders, where a
/// side names no method, the same method and budget; in one folder, where one side names no method, every other method.
///
/// # Errors
/// When a folder cannot be read, a side selects nothing, or no sample is shared.
pub fn compare(
    left: &Selection,
    right: &Selection,
    filter: &CompareFilter,
    options: &ReportOptions,
) -> Result<Comparisons, ReportError> {
    // Only the pairs are resampled here; the cells' own intervals are not shown.
    let unsampled = ReportOptions {
        bootstrap_resamples: 1,
        ..options.clone()
    };
    let left_results = read_results(std::slice::from_ref(&left.folder))?;
    let right_results = read_results(std::slice::from_ref(&right.folder))?;
    let pair = Pair::new(
        Selected::new(left, &left_results, filter, &unsampled)?,
        Selected::new(right, &right_results, filter, &unsampled)?,
    );
    let mut found: Vec<Compared> = Vec::new();
    let mut apart = Apart::default();
    for one in &pair.left.groups {
        for other in &pair.right.groups {
            if (&one.model, one.query) == (&other.model, other.query) {
                pair.compare_groups(one, other, options, (&mut found, &mut apart));
            }
        }
    }
    if found.is_empty() {
        return Err(pair.nothing_shared(&apart));
    }
    let warnings = pair.warnings(&found, &apart);
    for metric in Metric::ALL {
        let of_metric = || {
            let all = found.iter().enumerate();
            all.filter(move |(_, compared)| compared.metric == metric)
        };
        let places: Vec<usize> = of_metric().map(|(place, _)| place).collect();
        let p_values: Vec<f64> = of_metric().map(|(_, one)| one.found.p_value).collect();
        for (place, corrected) in places.into_iter().zip(holm(&p_values)) {
            found[place].p_value_holm = corrected;
        }
    }
    Ok(Comparisons {
        rows: found.into_iter().map(Compared::finish).collect(),
        warnings,
    })
}

/// A comparison before p is corrected over all of them.
struct Compared {
    metric: Metric,
    model: String,
    query: &'static str,
    left: Side,
    right: Side,
    names: Names,
    decimals: usize,
    found: Difference,
    p_value_holm: f64,
    tasks: Vec<TaskComparison>,
    settings: Vec<String>,
    same_answers: usize,
}

impl Compared {
    fn changed_answers(&self) -> Option<usize> {
        let row = |side: &Side| (side.method.clone(), side.budget.clone());
        let is_same_row =
            self.left.folder != self.right.folder && row(&self.left) == row(&self.right);
        (is_same_row && self.metric == Metric::Score).then(|| self.found.pairs - self.same_answers)
    }

    fn finish(self) -> Comparison {
        let found = &self.found;
        let is_detectable = is_detectable(found.interval, self.p_value_holm);
        let sentence = Verdict {
            metric: self.metric,
            names: &self.names,
            found,
            is_detectable,
            tasks: &self.tasks,
            decimals: self.decimals,
            changed_answers: self.changed_answers(),
        }
        .sentence();
        Comparison {
            model: self.model,
            query: self.query,
            metric: self.metric.data_name(),
            left: self.left,
            right: self.right,
            difference: found.mean,
            interval: found.interval,
            smallest_detectable: found.smallest_detectable,
            p_value: found.p_value,
            p_value_holm: self.p_value_holm,
            detectable: is_detectable,
            wins: found.wins,
            ties: found.ties,
            losses: found.losses,
            correct_to_wrong: found.flips.map(|flips| flips.correct_to_wrong),
            wrong_to_correct: found.flips.map(|flips| flips.wrong_to_correct),
            worst_task: found
                .worst_task
                .clone()
                .map(|(task, difference)| WorstTask { task, difference }),
            one_task_left_out: found
                .leave_one_out
                .map(|(low, high)| Interval { low, high }),
            n: found.pairs,
            same_answers: self.same_answers,
            tasks: self.tasks,
            settings: self.settings,
            sentence,
        }
    }
}

fn task_comparisons(
    metric: Metric,
    pairs: &[TaskPairs],
    options: &ReportOptions,
) -> Vec<TaskComparison> {
    let found: Vec<(&str, Difference)> = pairs
        .iter()
        .filter_map(|of_task| {
            let found = difference(metric, std::slice::from_ref(of_task), options)?;
            Some((of_task.task.as_str(), found))
        })
        .collect();
    let p_values: Vec<f64> = found.iter().map(|(_, one)| one.p_value).collect();
    found
        .iter()
        .zip(holm(&p_values))
        .map(|((task, found), p_value_holm)| TaskComparison {
            task: (*task).to_owned(),
            difference: found.mean,
            interval: found.interval,
            p_value: found.p_value,
            p_value_holm,
            wins: found.wins,
            ties: found.ties,
            losses: found.losses,
            n: found.pairs,
            detectable: is_detectable(found.interval, p_value_holm),
        })
        .collect()
}

fn is_detectable(interval: Option<Interval>, p_value: f64) -> bool {
    interval.is_some_and(|ends| ends.low > 0.0 || ends.high < 0.0) && p_value <= SIGNIFICANCE
}
