//! Which prompts are worst: those that lose most of the full cache's score on average over the compressed cells.

use ripplekv_runner::run::SHOWN_PROMPTS;

use crate::shown::TaskRows;

/// One prompt of a task with what compression did to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RankedPrompt<'a> {
    /// 1 is the worst.
    pub(super) rank: usize,
    pub(super) sample: &'a str,
    /// Score of the full cache, in points; `None` where it has none.
    pub(super) full: Option<f64>,
    /// Mean score of the cells with a budget, in points; a failed one counts 0.
    pub(super) compressed: Option<f64>,
    /// `full` less `compressed`.
    pub(super) drop: Option<f64>,
    /// Cells with a budget that failed.
    pub(super) failed: usize,
}

/// How the order is told on the pages.
pub(super) const ORDER: &str = "Worst first: by how far the mean score over all cells with a budget lies below the full cache's, \
     then by the lowest mean score, then in the task's order. A failed cell counts as 0 here, and here only.";

/// Prompts of a task, worst first.
pub(super) fn ranked<'a>(rows: &TaskRows<'a>) -> Vec<RankedPrompt<'a>> {
    let mut prompts: Vec<RankedPrompt<'a>> = rows
        .samples()
        .into_iter()
        .map(|sample| of_sample(rows, sample))
        .collect();
    // a prompt without a drop comes after those with one; the sort is stable, so ties keep the task's order
    let lowest = |value: Option<f64>| value.unwrap_or(f64::INFINITY);
    prompts.sort_by(|left, right| {
        let drop = |prompt: &RankedPrompt<'_>| prompt.drop.unwrap_or(f64::NEG_INFINITY);
        drop(right)
            .total_cmp(&drop(left))
            .then(lowest(left.compressed).total_cmp(&lowest(right.compressed)))
    });
    for (place, prompt) in prompts.iter_mut().enumerate() {
        prompt.rank = place + 1;
    }
    prompts
}

/// The prompts that have a page: the worst, and the first ones of the task, whose kept positions a run stores by default.
pub(super) fn paged<'a>(rows: &TaskRows<'a>, most: usize) -> Vec<RankedPrompt<'a>> {
    let samples = rows.samples();
    let first = &samples[..samples.len().min(SHOWN_PROMPTS.min(most))];
    let has_page =
        |prompt: &RankedPrompt<'a>| prompt.rank <= most || first.contains(&prompt.sample);
    ranked(rows).into_iter().filter(has_page).collect()
}

fn of_sample<'a>(rows: &TaskRows<'a>, sample: &'a str) -> RankedPrompt<'a> {
    let (mut full, mut total, mut count, mut failed) = (None, 0.0, 0_usize, 0_usize);
    for row in &rows.rows {
        let Some(record) = row.records.get(sample) else {
            continue;
        };
        let points = record.score.map(|score| 100.0 * score);
        if row.summary.cell.budget.is_none() {
            if row.summary.cell.method.name == crate::group::FULL {
                full = points;
            }
            continue;
        }
        failed += usize::from(points.is_none());
        total += points.unwrap_or(0.0);
        count += 1;
    }
    let compressed = (count > 0).then(|| total / count as f64);
    RankedPrompt {
        rank: 0,
        sample,
        full,
        compressed,
        drop: full
            .zip(compressed)
            .map(|(full, compressed)| full - compressed),
        failed,
    }
}
