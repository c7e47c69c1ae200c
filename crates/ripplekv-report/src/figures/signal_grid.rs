//! The signal ablation as a grid of coloured cells: rows are methods with the scorer of `ripplekv` that differ from it in
//! the allocator, columns are budgets.

use crate::figures::cell_grid::{CellGrid, subtitle};
use crate::figures::{Data, Figure, data_exact, data_number};
use crate::group::Group;
use crate::metric::{Metric, capitalised};
use crate::tables::compared_allocators;

pub(super) fn build(group: &Group, metric: Metric) -> Vec<Figure> {
    let Some((reference, others)) = compared_allocators(group) else {
        return Vec::new();
    };
    if others.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![reference.clone()];
    rows.extend(others.into_iter().map(|(label, _)| label.to_owned()));
    let columns: Vec<String> = group.budgets.iter().map(|b| b.text.clone()).collect();
    let decimals = columns
        .iter()
        .map(|budget| group.decimals(metric, Some(budget)))
        .max();
    let grid = CellGrid {
        metric,
        decimals: decimals.unwrap_or_default(),
        title: format!(
            "{} under other allocators than {reference}'s",
            capitalised(metric.name())
        ),
        subtitle: subtitle(group, metric),
        rows: &rows,
        row_title: "",
        columns: &columns,
        column_title: "budget",
    };
    let cells = grid.cells(|label, budget| group.average(metric, label, Some(budget)));
    if cells.is_empty() {
        return Vec::new();
    }
    let number = match metric {
        Metric::Score => data_number,
        Metric::AnswerKl => data_exact,
    };
    let data = cells.iter().map(|cell| {
        vec![
            rows[cell.row].clone(),
            columns[cell.column].clone(),
            number(Some(cell.average.value)),
            number(cell.average.interval.map(|ends| ends.low)),
            number(cell.average.interval.map(|ends| ends.high)),
            cell.average.complete.to_string(),
        ]
    });
    vec![Figure {
        part: String::new(),
        description: format!(
            "{} of methods that differ in the allocator alone, by budget",
            group.average_title(metric)
        ),
        scene: grid.draw(&cells),
        data: Data {
            header: vec![
                "method",
                "budget",
                metric.data_name(),
                "ci_low",
                "ci_high",
                "complete",
            ],
            rows: data.collect(),
        },
    }]
}
