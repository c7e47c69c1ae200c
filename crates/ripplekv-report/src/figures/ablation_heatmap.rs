//! A swept method as a grid of coloured cells: rows r, columns gamma, average and interval written in each cell.
//! One figure a budget, one block a sweep.

use crate::figures::cell_grid::{CellGrid, GridCell, subtitle};
use crate::figures::{Data, Figure, data_exact, data_number};
use crate::group::Group;
use crate::metric::{Metric, capitalised};
use crate::sweep::{Sweep, sweeps};

pub(super) fn build(group: &Group, metric: Metric) -> Vec<Figure> {
    let sweeps = sweeps(group);
    let mut figures = Vec::new();
    for budget in &group.budgets {
        for (place, sweep) in sweeps.iter().enumerate() {
            let averages = |r: &String, gamma: &String| {
                let label = sweep.label(r, gamma)?;
                group.average(metric, label, Some(&budget.text))
            };
            let grid = CellGrid {
                metric,
                decimals: group.decimals(metric, Some(&budget.text)),
                title: format!(
                    "{} of {} at budget {}, r by gamma",
                    capitalised(metric.name()),
                    sweep.name,
                    budget.text
                ),
                subtitle: subtitle(group, metric),
                rows: &sweep.r,
                row_title: "r",
                columns: &sweep.gamma,
                column_title: "gamma (greatest multiplier)",
            };
            let cells = grid.cells(averages);
            if cells.is_empty() {
                continue;
            }
            let mut part = budget.file_part();
            if sweeps.len() > 1 {
                part = format!("{part}-{}", place + 1);
            }
            figures.push(Figure {
                part,
                description: format!(
                    "{} of {} at budget {}, r by gamma",
                    group.average_title(metric),
                    sweep.name,
                    budget.text
                ),
                scene: grid.draw(&cells),
                data: data(metric, sweep, &budget.text, &cells),
            });
        }
    }
    figures
}

fn data(metric: Metric, sweep: &Sweep, budget: &str, cells: &[GridCell<'_>]) -> Data {
    let number = match metric {
        Metric::Score => data_number,
        Metric::AnswerKl => data_exact,
    };
    let rows = cells
        .iter()
        .map(|cell| {
            vec![
                sweep.name.clone(),
                budget.to_owned(),
                sweep.r[cell.row].clone(),
                sweep.gamma[cell.column].clone(),
                number(Some(cell.average.value)),
                number(cell.average.interval.map(|ends| ends.low)),
                number(cell.average.interval.map(|ends| ends.high)),
                cell.average.complete.to_string(),
            ]
        })
        .collect();
    Data {
        header: vec![
            "method",
            "budget",
            "r",
            "gamma",
            metric.data_name(),
            "ci_low",
            "ci_high",
            "complete",
        ],
        rows,
    }
}
