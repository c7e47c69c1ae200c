//! What a comparison of two rows came to, as `ripplekv compare --json` prints it.

use serde::Serialize;

use crate::stats::Interval;

/// One row of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// The results folder.
    pub folder: String,
    /// Label of the method.
    pub method: String,
    /// Budget; `None` for methods without one.
    pub budget: Option<String>,
}

/// A task with a difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstTask {
    /// The task.
    pub task: String,
    /// Left minus right on it.
    pub difference: f64,
}

/// One task of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskComparison {
    /// The task.
    pub task: String,
    /// Left minus right, in the metric's unit.
    pub difference: f64,
    /// Its 95% interval; `None` below two pairs.
    pub interval: Option<Interval>,
    /// p of the sign-flip test.
    pub p_value: f64,
    /// The same after Holm's correction over the tasks.
    pub p_value_holm: f64,
    /// Samples where left is better.
    pub wins: usize,
    /// Samples where both are equal.
    pub ties: usize,
    /// Samples where right is better.
    pub losses: usize,
    /// Paired samples.
    pub n: usize,
    /// Whether the task alone shows a difference.
    pub detectable: bool,
}

/// One row of each side, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Model.
    pub model: String,
    /// Query mode.
    pub query: &'static str,
    /// `score` (points, greater is better) or `answer_kl` (nats from the full cache, lower is better).
    pub metric: &'static str,
    /// First side.
    pub left: Side,
    /// Second side.
    pub right: Side,
    /// Left minus right; every task weighs the same.
    pub difference: f64,
    /// Its 95% interval; `None` where a task has fewer than two pairs.
    pub interval: Option<Interval>,
    /// True difference that so many pairs would have shown with a power of 80%.
    pub smallest_detectable: Option<f64>,
    /// p of the sign-flip test.
    pub p_value: f64,
    /// The same after Holm's correction over all comparisons of the metric made together.
    pub p_value_holm: f64,
    /// Whether the two rows are told apart.
    pub detectable: bool,
    /// Samples where left is better.
    pub wins: usize,
    /// Samples where both are equal.
    pub ties: usize,
    /// Samples where right is better.
    pub losses: usize,
    /// Samples that right has correct and left has not; `None` where no task says what is correct.
    pub correct_to_wrong: Option<usize>,
    /// Samples that left has correct and right has not; `None` where no task says what is correct.
    pub wrong_to_correct: Option<usize>,
    /// Task on which left does worst against right.
    pub worst_task: Option<WorstTask>,
    /// Smallest and greatest difference when one task is left out; `None` with a single task.
    pub one_task_left_out: Option<Interval>,
    /// Paired samples.
    pub n: usize,
    /// Of these, how many have the same answer, word for word.
    pub same_answers: usize,
    /// Each task.
    pub tasks: Vec<TaskComparison>,
    /// Settings in which the sides differ besides method and budget, such as `numerics 1 against 2`.
    pub settings: Vec<String>,
    /// The verdict in words.
    pub sentence: String,
}
