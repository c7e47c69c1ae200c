//! The same scorer under other allocators at equal budgets: what is lost when sensitivity is replaced.

use ripplekv_metrics::statistics::holm;

use crate::group::Group;
use crate::metric::{KL_NOTE, Metric, capitalised};
use crate::options::ReportOptions;
use crate::pairing::{Difference, ESTABLISHED, SMALLEST_NOTE, rows_difference};
use crate::tables::{Block, Column, Table, Value};

/// Method that the others are measured against.
const REFERENCE: &str = "ripplekv";
const REFERENCE_ALLOCATOR: &str = "ripple";

pub(super) fn build(group: &Group, metric: Metric, options: &ReportOptions) -> Option<Table> {
    let (reference, others) = compared_allocators(group)?;
    let scorer = parameter(group, &reference, "scorer")?;
    let blocks: Vec<Block> = group
        .budgets
        .iter()
        .map(|budget| Block {
            name: budget.text.clone(),
            rows: AtBudget {
                group,
                metric,
                reference: &reference,
                budget: &budget.text,
            }
            .rows(&others, options),
        })
        .filter(|block| !block.rows.is_empty())
        .collect();
    if blocks.is_empty() {
        return None;
    }
    let direction = match metric {
        Metric::Score => format!("negative: {reference} is better"),
        Metric::AnswerKl => format!("positive: {reference} is nearer to the full cache"),
    };
    let mut notes = vec![
        format!(
            "{} ({}) with its interval, and minus that of {reference} ({direction}), scorer {scorer} in all rows, paired by sample, every task weighing the same. Intervals: bootstrap inside each task. p: sign-flip test, Holm's correction over the rows of one budget.",
            capitalised(&group.average_title(metric)),
            metric.scale()
        ),
        SMALLEST_NOTE.to_owned(),
    ];
    if metric == Metric::AnswerKl {
        notes.push(KL_NOTE.to_owned());
    }
    Some(Table {
        title: format!(
            "Other allocators than {reference}'s by {}: {}",
            metric.name(),
            group.title()
        ),
        columns: vec![
            Column::label("budget"),
            Column::label("method"),
            Column::label("allocator"),
            Column::number(metric.name()),
            Column::interval("95% interval"),
            Column::number(&format!("minus {reference}")),
            Column::interval("95% interval of difference"),
            Column::number("smallest n could show"),
            Column::number("p (Holm)"),
            Column::number("n"),
            Column::label("in words"),
        ],
        blocks,
        notes,
    })
}

/// The method that others are measured against, and those with its scorer and another allocator: label and allocator.
pub(crate) fn compared_allocators(group: &Group) -> Option<(String, Vec<(&str, String)>)> {
    let reference = reference(group)?;
    let scorer = parameter(group, &reference, "scorer")?;
    let others = group
        .budgeted_methods()
        .into_iter()
        .filter(|label| parameter(group, label, "scorer").as_deref() == Some(&scorer))
        .filter_map(|label| Some((label, parameter(group, label, "allocator")?)))
        .filter(|(_, allocator)| allocator != REFERENCE_ALLOCATOR)
        .collect();
    Some((reference, others))
}

/// The method's plain setting where it was run, else its first one.
fn reference(group: &Group) -> Option<String> {
    let settings: Vec<&str> = group
        .budgeted_methods()
        .into_iter()
        .filter(|label| {
            group
                .cells
                .iter()
                .any(|((known, _, _), cell)| known == label && cell.cell.method.name == REFERENCE)
        })
        .filter(|label| {
            parameter(group, label, "allocator").as_deref() == Some(REFERENCE_ALLOCATOR)
        })
        .collect();
    settings
        .iter()
        .find(|label| **label == REFERENCE)
        .or(settings.first())
        .map(|label| (*label).to_owned())
}

fn parameter(group: &Group, label: &str, key: &str) -> Option<String> {
    let (_, cell) = group
        .cells
        .iter()
        .find(|((known, _, _), _)| known == label)?;
    let value = cell.cell.method.params.get(key)?;
    value.as_str().map(str::to_owned)
}

/// One budget of the table.
struct AtBudget<'a> {
    group: &'a Group,
    metric: Metric,
    reference: &'a str,
    budget: &'a str,
}

impl AtBudget<'_> {
    /// The reference, then every other; nothing where no pair was found.
    fn rows(&self, others: &[(&str, String)], options: &ReportOptions) -> Vec<Vec<Value>> {
        let found: Vec<(&str, &str, Difference)> = others
            .iter()
            .filter_map(|(label, allocator)| {
                let labels = (*label, self.reference);
                let difference =
                    rows_difference(self.group, self.metric, labels, self.budget, options)?;
                Some((*label, allocator.as_str(), difference))
            })
            .collect();
        if found.is_empty() {
            return Vec::new();
        }
        let p_values: Vec<f64> = found.iter().map(|row| row.2.p_value).collect();
        let mut rows = vec![self.row(self.reference, REFERENCE_ALLOCATOR, None)];
        rows.extend(found.iter().zip(holm(&p_values)).map(
            |((label, allocator, difference), p_value)| {
                self.row(label, allocator, Some((difference, p_value)))
            },
        ));
        rows
    }

    fn row(
        &self,
        label: &str,
        allocator: &str,
        compared: Option<(&Difference, f64)>,
    ) -> Vec<Value> {
        let decimals = self.group.decimals(self.metric, Some(self.budget));
        let average = self.group.average(self.metric, label, Some(self.budget));
        let mut values = vec![
            Value::text(self.budget),
            Value::text(label),
            Value::text(allocator),
            Value::number(average.map(|average| average.value), decimals),
            Value::interval(
                average.and_then(|average| average.interval),
                decimals,
                false,
            ),
        ];
        let Some((difference, p_value)) = compared else {
            values.extend(std::iter::repeat_n(Value::Empty, 5));
            values.push(Value::text("the reference"));
            return values;
        };
        values.extend([
            Value::signed(difference.mean, decimals),
            Value::interval(difference.interval, decimals, true),
            Value::number(difference.smallest_detectable, decimals),
            Value::number(Some(p_value), 4),
            Value::count(difference.pairs),
            Value::text(self.in_words(allocator, difference, p_value)),
        ]);
        values
    }

    /// Of an established KL, whether the other allocator hurts.
    fn in_words(&self, allocator: &str, difference: &Difference, p_value: f64) -> String {
        let words = difference.in_words(p_value);
        if self.metric == Metric::Score || words != ESTABLISHED {
            return words.to_owned();
        }
        let decimals = self.group.decimals(self.metric, Some(self.budget));
        let size = difference.size(decimals).unwrap_or_default();
        let (verb, verdict) = if difference.mean > 0.0 {
            ("raises", "hurts")
        } else {
            ("lowers", "does not hurt")
        };
        format!("using {allocator} instead of sensitivity {verb} KL by {size}: {verdict}")
    }
}
