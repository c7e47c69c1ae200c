//! A grid of coloured cells with average and interval written in each. Colours are light enough for dark text and only
//! repeat what the numbers say: the darkest cell is the best one, by whichever metric.

use crate::averages::RowAverage;
use crate::figures::frame::Heading;
use crate::figures::scene::{Anchor, Label, Scene, label, text_width};
use crate::figures::style::{Rgb, STYLE, between};
use crate::group::Group;
use crate::metric::{Metric, capitalised};

const CELL_WIDTH: f64 = 128.0;
const CELL_HEIGHT: f64 = 50.0;
const WORST: Rgb = Rgb(0xf3, 0xf8, 0xfc);
const BEST: Rgb = Rgb(0x6f, 0xb4, 0xdf);
const ABSENT: Rgb = Rgb(0xf0, 0xf0, 0xf0);

/// One known cell.
pub(super) struct GridCell<'a> {
    /// Places in [`CellGrid::rows`] and [`CellGrid::columns`].
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) average: &'a RowAverage,
}

/// What a grid shows.
pub(super) struct CellGrid<'a> {
    pub(super) metric: Metric,
    pub(super) decimals: usize,
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) rows: &'a [String],
    pub(super) row_title: &'a str,
    pub(super) columns: &'a [String],
    pub(super) column_title: &'a str,
}

/// What every cell holds.
pub(super) fn subtitle(group: &Group, metric: Metric) -> String {
    format!(
        "{}. {} ({}), with its 95% bootstrap interval over {} samples; darker is better.",
        group.title(),
        capitalised(&group.average_title(metric)),
        metric.scale(),
        group.expected_in_average(metric)
    )
}

impl CellGrid<'_> {
    /// The cells that `average` knows.
    pub(super) fn cells<'b>(
        &self,
        average: impl Fn(&String, &String) -> Option<&'b RowAverage>,
    ) -> Vec<GridCell<'b>> {
        let mut cells = Vec::new();
        for (row, row_name) in self.rows.iter().enumerate() {
            for (column, column_name) in self.columns.iter().enumerate() {
                let average = average(row_name, column_name);
                cells.extend(average.map(|average| GridCell {
                    row,
                    column,
                    average,
                }));
            }
        }
        cells
    }

    pub(super) fn draw(&self, cells: &[GridCell<'_>]) -> Scene {
        let widest = self
            .rows
            .iter()
            .map(|r| text_width(r, STYLE.text_size))
            .fold(0.0, f64::max);
        let left = STYLE.margin + 24.0 + widest + 12.0;
        let grid_width = CELL_WIDTH * self.columns.len() as f64;
        let width = (left + grid_width + STYLE.margin).max(460.0);
        let heading = Heading::new(&self.title, &self.subtitle, width);
        let top = heading.height() + 6.0;
        let bottom = top + CELL_HEIGHT * self.rows.len() as f64;
        let mut scene = Scene::new(width, bottom + 44.0 + STYLE.margin);
        heading.draw(&mut scene);
        let goodness = || cells.iter().map(|cell| self.goodness(cell));
        let worst = goodness().fold(f64::INFINITY, f64::min);
        let best = goodness().fold(f64::NEG_INFINITY, f64::max);
        for row in 0..self.rows.len() {
            for column in 0..self.columns.len() {
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
        for (row, r) in self.rows.iter().enumerate() {
            scene.text(Label {
                anchor: Anchor::End,
                ..label(
                    r.clone(),
                    left - 10.0,
                    top + CELL_HEIGHT * (row as f64 + 0.5) + 4.0,
                )
            });
        }
        for (column, gamma) in self.columns.iter().enumerate() {
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
            ..label(self.column_title, left + grid_width / 2.0, bottom + 40.0)
        });
        if !self.row_title.is_empty() {
            scene.text(Label {
                anchor: Anchor::Middle,
                ..label(
                    self.row_title,
                    STYLE.margin + 8.0,
                    (top + bottom) / 2.0 + 4.0,
                )
            });
        }
        scene
    }

    /// Greater is better.
    fn goodness(&self, cell: &GridCell<'_>) -> f64 {
        self.metric.better().oriented(cell.average.value)
    }

    fn draw_cell(
        &self,
        scene: &mut Scene,
        corner: (f64, f64),
        cell: Option<&GridCell<'_>>,
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
        let decimals = self.decimals;
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
}
