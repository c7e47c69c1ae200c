//! Averages of a group's rows over its tasks, by either metric: over which tasks and samples, and in how many decimals.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use ripplekv_metrics::python::round_2;
use ripplekv_metrics::sixteen_task_average;
use ripplekv_metrics::statistics::leave_one_out;

use crate::evidence::decimals;
use crate::group::{Group, GroupTask};
use crate::metric::Metric;
use crate::options::ReportOptions;
use crate::stats::{self, Interval};
use crate::summary::mean;

/// Most decimals of a KL, so that columns stay readable.
const MOST_DECIMALS: usize = 6;

/// The average of one row and what it is an average of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowAverage {
    /// In the metric's unit.
    pub(crate) value: f64,
    pub(crate) interval: Option<Interval>,
    /// Least and greatest average when one task is left out; `None` of a single task.
    pub(crate) one_task_left_out: Option<Interval>,
    pub(crate) complete: bool,
}

impl Group {
    /// Tasks that the average is taken over: the sixteen of the papers where all are there, else every task.
    pub(crate) fn averaged_tasks(&self) -> Vec<&GroupTask> {
        let sixteen: Vec<&GroupTask> = self.tasks.iter().filter(|task| task.in_average).collect();
        if sixteen.len() == 16 {
            sixteen
        } else {
            self.tasks.iter().collect()
        }
    }

    /// Averaged tasks that have the metric: short answers have no KL.
    pub(crate) fn tasks_with(&self, metric: Metric) -> Vec<&GroupTask> {
        self.averaged_tasks()
            .into_iter()
            .filter(|task| metric == Metric::Score || self.expected_values(metric, task) > 0)
            .collect()
    }

    /// Whether some cell has the metric.
    pub(crate) fn has(&self, metric: Metric) -> bool {
        self.cells
            .values()
            .any(|cell| !cell.values(metric).is_empty())
    }

    /// Samples of a task that a complete row has the metric on.
    fn expected_values(&self, metric: Metric, task: &GroupTask) -> usize {
        let cells = self
            .cells
            .values()
            .filter(|cell| cell.cell.task == task.name);
        let counts = cells.map(|cell| match metric {
            Metric::Score => cell.expected,
            // Whether a prompt's answer is long enough is only known from its records.
            Metric::AnswerKl => cell.values(metric).len(),
        });
        counts.max().unwrap_or(0)
    }

    /// Samples behind the average of a complete row.
    pub(crate) fn expected_in_average(&self, metric: Metric) -> usize {
        self.averaged_tasks()
            .into_iter()
            .map(|task| self.expected_values(metric, task))
            .sum()
    }

    /// Decimals of the metric at a budget: three digits of the smallest task mean of a KL.
    pub(crate) fn decimals(&self, metric: Metric, budget: Option<&str>) -> usize {
        match metric {
            Metric::Score => 2,
            Metric::AnswerKl => {
                let means = self
                    .cells
                    .iter()
                    .filter(|((_, known, _), _)| known.as_deref() == budget)
                    .filter_map(|(_, cell)| cell.mean(metric))
                    .filter(|nats| *nats > 0.0);
                decimals(&[means.fold(f64::INFINITY, f64::min)]).min(MOST_DECIMALS)
            }
        }
    }

    /// Title of the metric's average.
    pub(crate) fn average_title(&self, metric: Metric) -> String {
        let tasks = self.tasks_with(metric);
        if metric == Metric::AnswerKl {
            return match tasks.len() {
                1 => "mean KL of 1 task".to_owned(),
                many => format!("mean KL of {many} tasks"),
            };
        }
        if tasks.len() == 16 && tasks.iter().all(|task| task.in_average) {
            "16-task average".to_owned()
        } else if tasks.len() == 1 {
            "average of 1 task".to_owned()
        } else {
            format!("average of {} tasks", tasks.len())
        }
    }

    /// Average of the row over [`Group::tasks_with`] the metric.
    pub(crate) fn average(
        &self,
        metric: Metric,
        label: &str,
        budget: Option<&str>,
    ) -> Option<&RowAverage> {
        self.averages
            .get(&(metric, label.to_owned(), budget.map(str::to_owned)))
    }

    /// Mean of the task means (scores: of the rounded ones), and whether no sample is missing; `None` unless every
    /// task has the metric of all its samples, because averages of different tasks or samples must not stand in one column.
    pub(crate) fn mean_of_tasks(
        &self,
        metric: Metric,
        label: &str,
        budget: Option<&str>,
        tasks: &[&GroupTask],
    ) -> Option<(f64, bool)> {
        let mut means = Vec::new();
        let mut complete = true;
        for task in tasks {
            let cell = self.cell(label, budget, &task.name)?;
            if cell.is_unfinished() {
                return None;
            }
            means.push(cell.mean(metric)?);
            complete &= cell.is_complete()
                && cell.values(metric).len() >= self.expected_values(metric, task);
        }
        let value = match (metric, <&[f64; 16]>::try_from(means.as_slice())) {
            (Metric::Score, Ok(sixteen)) => sixteen_task_average(sixteen),
            (Metric::Score, Err(_)) => round_2(mean(means)?),
            (Metric::AnswerKl, _) => mean(means)?,
        };
        Some((value, complete))
    }

    /// Interval of the row's mean over these tasks, drawn inside each.
    pub(crate) fn interval(
        &self,
        metric: Metric,
        (label, budget): (&str, Option<&str>),
        tasks: &[&GroupTask],
        options: &ReportOptions,
    ) -> Option<Interval> {
        let values: Vec<Vec<f64>> = tasks
            .iter()
            .filter_map(|task| self.cell(label, budget, &task.name))
            .map(|cell| cell.values(metric).iter().map(|pair| pair.1).collect())
            .collect();
        stats::mean_interval(&values, options)
    }

    fn one_task_left_out(
        &self,
        metric: Metric,
        (label, budget): (&str, Option<&str>),
        tasks: &[&GroupTask],
    ) -> Option<Interval> {
        let cells = tasks
            .iter()
            .map(|task| self.cell(label, budget, &task.name));
        let means: Option<Vec<f64>> = cells.map(|cell| cell?.mean(metric)).collect();
        let (low, high) = leave_one_out(&means?)?;
        Some(Interval { low, high })
    }

    pub(crate) fn fill_averages(&mut self, options: &ReportOptions) {
        let rows: BTreeSet<(String, Option<String>)> = self
            .cells
            .keys()
            .map(|(label, budget, _)| (label.clone(), budget.clone()))
            .collect();
        let mut averages = BTreeMap::new();
        for metric in Metric::ALL {
            let tasks = self.tasks_with(metric);
            let of_row = |(label, budget): &(String, Option<String>)| {
                let row = (label.as_str(), budget.as_deref());
                let (value, complete) = self.mean_of_tasks(metric, row.0, row.1, &tasks)?;
                let average = RowAverage {
                    value,
                    interval: self.interval(metric, row, &tasks, options),
                    one_task_left_out: self.one_task_left_out(metric, row, &tasks),
                    complete,
                };
                Some(((metric, label.clone(), budget.clone()), average))
            };
            let found: Vec<_> = rows.par_iter().filter_map(of_row).collect();
            averages.extend(found);
        }
        self.averages = averages;
    }
}
