//! Which method stays nearest to the full cache at each budget, in sentences, and whether that is established.

use ripplekv_metrics::statistics::holm;

use crate::group::Group;
use crate::metric::Metric;
use crate::options::ReportOptions;
use crate::pairing::{Difference, ESTABLISHED, rows_difference};
use crate::stats::Interval;

/// The two methods of the lowest KL at one budget.
struct Nearest<'a> {
    budget: &'a str,
    lowest: &'a str,
    value: f64,
    interval: Option<Interval>,
    /// How many methods have a KL at the budget.
    methods: usize,
    /// Label of the second, and lowest minus second.
    second: Option<(&'a str, Difference)>,
}

/// One sentence a budget; none where no row has a KL. p: Holm's correction over the budgets.
pub(crate) fn findings(group: &Group, options: &ReportOptions) -> Vec<String> {
    let found: Vec<Nearest<'_>> = group
        .budgets
        .iter()
        .filter_map(|budget| nearest(group, &budget.text, options))
        .collect();
    let compared = || found.iter().filter_map(|nearest| nearest.second.as_ref());
    let p_values: Vec<f64> = compared().map(|(_, found)| found.p_value).collect();
    let mut corrected = holm(&p_values).into_iter();
    let mut lines = Vec::new();
    for nearest in &found {
        let second = nearest.second.as_ref();
        let p_value = second.and_then(|_| corrected.next());
        lines.push(sentence(group, nearest, p_value.unwrap_or(1.0)));
    }
    if found.iter().any(|nearest| nearest.methods > 2) {
        lines.push(
            "the lowest of several methods is picked by its luck as well; for a comparison named beforehand see the table of differences of KL".to_owned(),
        );
    }
    lines
}

fn nearest<'a>(group: &'a Group, budget: &'a str, options: &ReportOptions) -> Option<Nearest<'a>> {
    let mut rows: Vec<(f64, &str)> = group
        .methods_at(Some(budget))
        .into_iter()
        .filter_map(|label| {
            let average = group.average(Metric::AnswerKl, label, Some(budget))?;
            Some((average.value, label))
        })
        .collect();
    rows.sort_by(|left, right| left.0.total_cmp(&right.0));
    let (value, lowest) = *rows.first()?;
    let second = rows.get(1).and_then(|(_, second)| {
        let labels = (lowest, *second);
        let found = rows_difference(group, Metric::AnswerKl, labels, budget, options)?;
        Some((*second, found))
    });
    let average = group.average(Metric::AnswerKl, lowest, Some(budget));
    Some(Nearest {
        budget,
        lowest,
        value,
        interval: average.and_then(|average| average.interval),
        methods: rows.len(),
        second,
    })
}

fn sentence(group: &Group, nearest: &Nearest<'_>, p_value: f64) -> String {
    let Nearest { budget, lowest, .. } = nearest;
    let decimals = group.decimals(Metric::AnswerKl, Some(budget));
    let ends = nearest.interval.map_or(String::new(), |ends| {
        format!(" (95% {:.decimals$} to {:.decimals$})", ends.low, ends.high)
    });
    let start = format!(
        "KL at {budget} (n = {}): {lowest} has the lowest, {:.decimals$} nats{ends}",
        group.expected_in_average(Metric::AnswerKl),
        nearest.value
    );
    let Some((second, found)) = &nearest.second else {
        return format!("{start}; no other method has one");
    };
    let words = found.in_words(p_value);
    let size = found.size(decimals);
    if words == ESTABLISHED {
        let size = size.unwrap_or_default();
        return format!("{start}; {second} is second, higher by {size}: established");
    }
    let size = size.map_or(String::new(), |size| format!(", difference {size}"));
    format!("{start}; {second} is second{size}: {words}")
}
