//! A swept method as a grid of coloured cells: rows r, columns gamma, average and interval written in each cell.
//! One figure a budget, one block a sweep; colours are light enough for dark text and only repeat what the numbers say:
//! the darkest cell is the best one, by whichever metric.

use crate::averages::RowAverage;
use crate::figures::frame::Heading;
use crate::figures::scene::{Anchor, Label, Scene, label, text_width};
use crate::figures::style::{Rgb, STYLE, between};
use crate::figures::{Data, Figure, data_exact, data_number};
use crate::group::Group;
use crate::metric::{Metric, capitalised};
use crate::sweep::{Sweep, sweeps};

const CELL_WIDTH: f64 = 128.0;
const CELL_HEIGHT: f64 = 50.0;
const WORST: Rgb = Rgb(0xf3, 0xf8, 0xfc);
const BEST: Rgb = Rgb(0x6f, 0xb4, 0xdf);
const ABSENT: Rgb = Rgb(0xf0, 0xf0, 0xf0);

pub(super) fn build(group: &Group, metric: Metric) -> Vec<Figure> {
    let sweeps = sweeps(group);
    let mut figures = Vec::new();
    for budget in &group.budgets {
        for (place, sweep) in sweeps.iter().enumerate() {
            let grid = Grid {
                group,
                metric,
                sweep,
                budget: &budget.text,
            };
            let cells = grid.cells();
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
                data: grid.data(&cells),
            });
        }
    }
    figures
}

struct Cell<'a> {
    /// Places of r and gamma.
    row: usize,
    column: usize,
    average: &'a RowAverage,
}

/// One sweep at one budget by one metric.
struct Grid<'a> {
    group: &'a Group,
    metric: Metric,
    sweep: &'a Sweep,
    budget: &'a str,
}

impl<'a> Grid<'a> {
    fn cells(&self) -> Vec<Cell<'a>> {
        let sweep = self.sweep;
        let mut cells = Vec::new();
        for (row, r) in sweep.r.iter().enumerate() {
            for (column, gamma) in sweep.gamma.iter().enumerate() {
                let average = sweep
                    .label(r, gamma)
                    .and_then(|label| self.group.average(self.metric, label, Some(self.budget)));
                cells.extend(average.map(|average| Cell {
                    row,
                    column,
                    average,
                }));
            }
        }
        cells
    }

    fn draw(&self, cells: &[Cell<'_>]) -> Scene {
        let Grid {
            group,
            metric,
            sweep,
            budget,
        } = *self;
        let widest = sweep
            .r
            .iter()
            .map(|r| text_width(r, STYLE.text_size))
            .fold(0.0, f64::max);
        let left = STYLE.margin + 24.0 + widest + 12.0;
        let grid_width = CELL_WIDTH * sweep.gamma.len() as f64;
        let width = (left + grid_width + STYLE.margin).max(460.0);
        let heading = Heading::new(
            &format!(
                "{} of {} at budget {budget}, r by gamma",
                capitalised(metric.name()),
                sweep.name
            ),
            &format!(
                "{}. {} ({}), with its 95% bootstrap interval over {} samples; darker is better.",
                group.title(),
                capitalised(&group.average_title(metric)),
                metric.scale(),
                group.expected_in_average(metric)
            ),
            width,
        );
        let top = heading.height() + 6.0;
        let bottom = top + CELL_HEIGHT * sweep.r.len() as f64;
        let mut scene = Scene::new(width, bottom + 44.0 + STYLE.margin);
        heading.draw(&mut scene);
        let goodness = || cells.iter().map(|cell| self.goodness(cell));
        let worst = goodness().fold(f64::INFINITY, f64::min);
        let best = goodness().fold(f64::NEG_INFINITY, f64::max);
        for row in 0..sweep.r.len() {
            for column in 0..sweep.gamma.len() {
                let known = cells
                    .iter()
                    .find(|cell| cell.row == row && cell.column == column);
                let corner = (
                    left + CELL_WIDTH * column as f64,
                    top + CELL_HEIGHT * row as f64,
                );
                self.draw_cell(&mut scene, corner, known, (worst, best));
            }
        }
        for (row, r) in sweep.r.iter().enumerate() {
            scene.text(Label {
                anchor: Anchor::End,
                ..label(
                    r.clone(),
                    left - 10.0,
                    top + CELL_HEIGHT * (row as f64 + 0.5) + 4.0,
                )
            });
        }
        for (column, gamma) in sweep.gamma.iter().enumerate() {
            scene.text(Label {
                anchor: Anchor::Middle,
                ..label(
                    gamma.clone(),
                    left + CELL_WIDTH * (column as f64 + 0.5),
                    bottom + 18.0,
                )
            });
        }
        scene.text(Label {
            anchor: Anchor::Middle,
            ..label(
                "gamma (greatest multiplier)",
                left + grid_width / 2.0,
                bottom + 40.0,
            )
        });
        scene.text(Label {
            anchor: Anchor::Middle,
            ..label("r", STYLE.margin + 8.0, (top + bottom) / 2.0 + 4.0)
        });
        scene
    }

    /// Greater is better.
    fn goodness(&self, cell: &Cell<'_>) -> f64 {
        self.metric.better().oriented(cell.average.value)
    }

    fn draw_cell(
        &self,
        scene: &mut Scene,
        corner: (f64, f64),
        cell: Option<&Cell<'_>>,
        range: (f64, f64),
    ) {
        let (left, top) = (corner.0 + 1.0, corner.1 + 1.0);
        let (right, bottom) = (corner.0 + CELL_WIDTH - 1.0, corner.1 + CELL_HEIGHT - 1.0);
        let color = cell.map_or(ABSENT, |cell| {
            let span = range.1 - range.0;
            let share = if span > 0.0 {
                (self.goodness(cell) - range.0) / span
            } else {
                0.5
            };
            between(WORST, BEST, share)
        });
        scene.area(
            &[(left, top), (right, top), (right, bottom), (left, bottom)],
            color,
            1.0,
        );
        let middle = (left + right) / 2.0;
        let text = |text: String, y: f64, size: f64| Label {
            size,
            anchor: Anchor::Middle,
            ..label(text, middle, y)
        };
        let Some(cell) = cell else {
            scene.text(text(
                format!("no {}", self.metric.name()),
                top + 28.0,
                STYLE.small_size,
            ));
            return;
        };
        let decimals = self.group.decimals(self.metric, Some(self.budget));
        scene.text(text(
            format!("{:.decimals$}", cell.average.value),
            top + 21.0,
            STYLE.text_size,
        ));
        if let Some(ends) = cell.average.interval {
            let ends = format!("{:.decimals$} to {:.decimals$}", ends.low, ends.high);
            scene.text(text(ends, top + 38.0, STYLE.small_size));
        }
    }

    fn data(&self, cells: &[Cell<'_>]) -> Data {
        let Grid { sweep, budget, .. } = *self;
        let number = match self.metric {
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
                self.metric.data_name(),
                "ci_low",
                "ci_high",
                "complete",
            ],
            rows,
        }
    }
}
