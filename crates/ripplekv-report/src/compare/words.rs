//! Comparisons as sentences: what differs, by how much, how sure that is, and on how many tasks nothing can be seen.

use crate::metric::Metric;
use crate::pairing::Difference;
use crate::stats::Interval;

use super::{SIGNIFICANCE, TaskComparison};

/// What the two sides and their common ground are called.
pub(super) struct Names {
    pub(super) left: String,
    pub(super) right: String,
    /// ` at 10%` where both have that budget.
    pub(super) at: String,
}

/// The verdict on one pair of rows.
pub(super) struct Verdict<'a> {
    pub(super) metric: Metric,
    pub(super) names: &'a Names,
    pub(super) found: &'a Difference,
    pub(super) is_detectable: bool,
    pub(super) tasks: &'a [TaskComparison],
    /// Of the metric's numbers.
    pub(super) decimals: usize,
    /// Answers that are not the same, where both sides are the same row of two folders.
    pub(super) changed_answers: Option<usize>,
}

impl Verdict<'_> {
    pub(super) fn sentence(&self) -> String {
        let Names { left, right, at } = self.names;
        let count = match self.tasks.len() {
            1 => "1 task".to_owned(),
            many => format!("{many} tasks"),
        };
        let base = format!("n = {}, {count}", with_commas(self.found.pairs));
        let unit = match self.metric {
            Metric::Score => "points",
            Metric::AnswerKl => "nats of KL",
        };
        let Some(ends) = self.found.interval else {
            return format!(
                "{left} and {right}{at} differ by {} {unit} on {base}: too few samples for an interval.",
                self.number(self.found.mean)
            );
        };
        if self.found.wins + self.found.losses == 0 {
            return format!(
                "{left} and {right}{at} have the same {} on every sample ({base}){}.",
                self.metric.name(),
                self.changed()
            );
        }
        let mut text = if self.is_detectable {
            self.difference(ends, &base)
        } else {
            let of = match self.metric {
                Metric::Score => "",
                Metric::AnswerKl => " of KL",
            };
            format!(
                "no detectable difference{of} between {left} and {right}{at} ({} {unit}, 95% interval {}, {base})",
                self.number(self.found.mean),
                self.interval(ends)
            )
        };
        if self.tasks.len() > 1 {
            let quiet = self.tasks.iter().filter(|task| !task.detectable).count();
            text.push_str(&format!(
                "; no detectable difference on {quiet} of {} tasks",
                self.tasks.len()
            ));
            text.push_str(&self.too_small());
        }
        text.push_str(&self.changed());
        let smallest = self.found.smallest_detectable;
        if let Some(smallest) = smallest.filter(|smallest| self.found.mean.abs() < *smallest) {
            text.push_str(&format!(
                "; a true difference below {} {unit} would often be missed at this n",
                self.number(smallest)
            ));
        }
        text.push('.');
        text
    }

    /// Before and after: what changed is a fact, whatever the tests say of other samples.
    fn changed(&self) -> String {
        let Some(changed) = self.changed_answers else {
            return String::new();
        };
        let Difference {
            wins,
            losses,
            pairs,
            ..
        } = self.found;
        format!(
            "; {changed} of {pairs} answers changed, {wins} for the better, {losses} for the worse"
        )
    }

    /// How many tasks have so few samples that no difference on them could pass the sign-flip test: its least p is that
    /// of two sign patterns among all, times Holm's factor.
    fn too_small(&self) -> String {
        let all = self.tasks.len() as f64;
        let cannot = |samples: usize| all * 0.5_f64.powi(samples as i32 - 1) > SIGNIFICANCE;
        match self.tasks.iter().filter(|task| cannot(task.n)).count() {
            0 => String::new(),
            few if few == self.tasks.len() => " (all have too few samples to show one)".to_owned(),
            few => format!(" ({few} have too few samples to show one)"),
        }
    }

    /// A difference that is there, told without a sign.
    fn difference(&self, ends: Interval, base: &str) -> String {
        let Names { left, right, at } = self.names;
        let is_above = self.found.mean > 0.0;
        let ends = if is_above {
            ends
        } else {
            Interval {
                low: -ends.high,
                high: -ends.low,
            }
        };
        let size = self.number(self.found.mean.abs());
        let ground = format!("(95% interval {}, {base})", self.interval(ends));
        match (self.metric, is_above) {
            (Metric::Score, true) => format!("{left} is {size} points above {right}{at} {ground}"),
            (Metric::Score, false) => format!("{left} is {size} points below {right}{at} {ground}"),
            (Metric::AnswerKl, true) => format!(
                "{left}'s answers are {size} nats of KL farther from the full cache than {right}'s{at} {ground}"
            ),
            (Metric::AnswerKl, false) => format!(
                "{left}'s answers are {size} nats of KL nearer to the full cache than {right}'s{at} {ground}"
            ),
        }
    }

    fn interval(&self, ends: Interval) -> String {
        format!("{} to {}", self.number(ends.low), self.number(ends.high))
    }

    /// A rounded zero has no sign.
    fn number(&self, value: f64) -> String {
        let decimals = self.decimals;
        let text = format!("{value:.decimals$}");
        let is_zero = !text.contains(|digit| matches!(digit, '1'..='9'));
        if is_zero {
            text.trim_start_matches('-').to_owned()
        } else {
            text
        }
    }
}

pub(super) fn with_commas(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_commas() {
        assert_eq!(with_commas(7), "7");
        assert_eq!(with_commas(1150), "1,150");
        assert_eq!(with_commas(1_234_567), "1,234,567");
    }
}
