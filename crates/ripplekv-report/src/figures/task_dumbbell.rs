//! One panel a method, one row a task: the baseline's score (ring) and the method's (marker), joined by a line.
//! The difference stands in figures beside each row, so that nothing has to be read off the axis.

use crate::figures::axes::{Axes, round_ticks, tick_text};
use crate::figures::frame::Heading;
use crate::figures::scene::{Anchor, Label, Scene, fitted, fitted_apart, label, text_width};
use crate::figures::style::{Marker, Rgb, STYLE, series_look};
use crate::figures::{Data, Figure, data_number};
use crate::group::{Group, GroupTask};
use crate::metric::Metric;
use crate::options::ReportOptions;

const PANEL_WIDTH: f64 = 170.0;
const DIFFERENCE_WIDTH: f64 = 52.0;
const GAP: f64 = 22.0;
const ROW: f64 = 22.0;
const PANELS_A_LINE: usize = 4;
/// Panel title above; axis with its title below.
const ABOVE: f64 = 30.0;
const BELOW: f64 = 50.0;

struct Panel<'a> {
    label: &'a str,
    color: Rgb,
    marker: Marker,
    rows: Vec<Row>,
}

struct Row {
    /// The task's place in the group.
    place: usize,
    baseline: f64,
    method: f64,
    /// Samples of the method.
    samples: usize,
}

pub(super) fn build(group: &Group, options: &ReportOptions) -> Vec<Figure> {
    let Some(baseline) = group.baseline(Metric::Score, options) else {
        return Vec::new();
    };
    group
        .budgets
        .iter()
        .filter_map(|budget| {
            let panels = panels(group, baseline, &budget.text);
            (!panels.is_empty()).then(|| Figure {
                part: budget.file_part(),
                description: format!(
                    "score on each task at budget {} beside {baseline}",
                    budget.text
                ),
                scene: draw(group, baseline, &budget.text, &panels),
                data: data(group, &budget.text, &panels),
            })
        })
        .collect()
}

fn panels<'a>(group: &'a Group, baseline: &str, budget: &str) -> Vec<Panel<'a>> {
    group
        .budgeted_methods()
        .into_iter()
        .enumerate()
        .filter(|(_, label)| *label != baseline)
        .map(|(index, label)| {
            let (color, marker) = series_look(index);
            let rows = group
                .tasks
                .iter()
                .enumerate()
                .filter_map(|(place, task)| {
                    let method = group.cell(label, Some(budget), &task.name)?;
                    let cell = group
                        .cell(baseline, Some(budget), &task.name)
                        .or_else(|| group.cell(baseline, None, &task.name))?;
                    // Half of a task's samples are not its score.
                    if method.is_unfinished() || cell.is_unfinished() {
                        return None;
                    }
                    Some(Row {
                        place,
                        baseline: cell.score?,
                        method: method.score?,
                        samples: method.scored,
                    })
                })
                .collect();
            Panel {
                label,
                color,
                marker,
                rows,
            }
        })
        .filter(|panel| !panel.rows.is_empty())
        .collect()
}

fn draw(group: &Group, baseline: &str, budget: &str, panels: &[Panel<'_>]) -> Scene {
    let names: Vec<String> = group
        .tasks
        .iter()
        .map(|task| {
            let star = if at_chance(task) { " *" } else { "" };
            format!("{}{star}", fitted(&task.name, STYLE.small_size, 180.0))
        })
        .collect();
    let widest = names
        .iter()
        .map(|name| text_width(name, STYLE.small_size))
        .fold(0.0, f64::max);
    let left = STYLE.margin + widest + 10.0;
    let columns = panels.len().min(PANELS_A_LINE);
    let step = PANEL_WIDTH + DIFFERENCE_WIDTH + GAP;
    let width = (left + columns as f64 * step - GAP + STYLE.margin).max(460.0);
    let heading = Heading::new(
        &format!("Score on each task at budget {budget}"),
        &format!(
            "{}. {} Ring: {baseline}; marker: the method; at the right the difference in points.{}",
            group.title(),
            samples_sentence(panels),
            if group.tasks.iter().any(at_chance) {
                " *: full is at chance level."
            } else {
                ""
            }
        ),
        width,
    );
    let panel_height = ROW * group.tasks.len() as f64;
    let line_height = ABOVE + panel_height + BELOW;
    let lines = panels.len().div_ceil(PANELS_A_LINE);
    let mut scene = Scene::new(
        width,
        heading.height() + lines as f64 * line_height + STYLE.margin,
    );
    heading.draw(&mut scene);
    let (x_range, ticks) = x_axis(panels);
    let labels: Vec<&str> = panels.iter().map(|panel| panel.label).collect();
    let room = PANEL_WIDTH + DIFFERENCE_WIDTH - 14.0;
    let labels = fitted_apart(&labels, STYLE.text_size, room);
    for (index, panel) in panels.iter().enumerate() {
        let (column, line) = (index % PANELS_A_LINE, index / PANELS_A_LINE);
        let top = heading.height() + line as f64 * line_height + ABOVE;
        let start = left + column as f64 * step;
        let axes = Axes {
            left: start,
            top,
            right: start + PANEL_WIDTH,
            bottom: top + panel_height,
            x_range,
            y_range: (0.0, 1.0),
        };
        if column == 0 {
            draw_names(&mut scene, &names, &axes);
        }
        draw_panel(&mut scene, (panel, &labels[index]), &axes, &ticks);
    }
    scene
}

fn at_chance(task: &GroupTask) -> bool {
    let chance = task.chance.as_ref();
    chance.is_some_and(|chance| chance.is_reached == Some(true))
}

/// n of the rows: one number where all agree.
fn samples_sentence(panels: &[Panel<'_>]) -> String {
    let counts = || panels.iter().flat_map(|panel| &panel.rows);
    let least = counts().map(|row| row.samples).min().unwrap_or(0);
    let most = counts().map(|row| row.samples).max().unwrap_or(0);
    if least == most {
        format!("n = {most} a task.")
    } else {
        format!("n = {least} to {most} a task.")
    }
}

fn x_axis(panels: &[Panel<'_>]) -> ((f64, f64), Vec<f64>) {
    let values = || {
        let rows = panels.iter().flat_map(|panel| &panel.rows);
        rows.flat_map(|row| [row.baseline, row.method])
    };
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    let ticks = round_ticks(low, high, 4);
    ((ticks[0], ticks[ticks.len() - 1]), ticks)
}

fn row_middle(axes: &Axes, place: usize) -> f64 {
    axes.top + ROW * (place as f64 + 0.5)
}

fn draw_names(scene: &mut Scene, names: &[String], axes: &Axes) {
    for (place, name) in names.iter().enumerate() {
        scene.text(Label {
            size: STYLE.small_size,
            anchor: Anchor::End,
            ..label(
                name.clone(),
                axes.left - 10.0,
                row_middle(axes, place) + 4.0,
            )
        });
    }
}

fn draw_panel(scene: &mut Scene, (panel, name): (&Panel<'_>, &str), axes: &Axes, ticks: &[f64]) {
    let (x, y) = (axes.left + STYLE.marker_radius, axes.top - 13.0);
    scene.marker(x, y, panel.marker, panel.color, STYLE.marker_radius);
    scene.text(label(name, axes.left + 14.0, axes.top - 9.0));
    for tick in ticks {
        let x = axes.x(*tick);
        scene.line(&[(x, axes.top), (x, axes.bottom)], STYLE.grid, 1.0);
    }
    for row in &panel.rows {
        let y = row_middle(axes, row.place);
        let (from, to) = (axes.x(row.baseline), axes.x(row.method));
        scene.line(&[(from, y), (to, y)], panel.color, STYLE.line_width);
        scene.ring(from, y, STYLE.ink, STYLE.marker_radius + 0.5);
        scene.marker(to, y, panel.marker, panel.color, STYLE.marker_radius - 0.5);
        scene.text(Label {
            size: STYLE.small_size,
            color: STYLE.muted,
            anchor: Anchor::End,
            ..label(
                format!("{:+.1}", row.method - row.baseline),
                axes.right + DIFFERENCE_WIDTH - 4.0,
                y + 4.0,
            )
        });
    }
    let texts: Vec<(f64, String)> = ticks
        .iter()
        .map(|tick| (*tick, tick_text(*tick, ticks)))
        .collect();
    axes.draw_x(scene, &texts);
    scene.text(Label {
        size: STYLE.small_size,
        anchor: Anchor::Middle,
        ..label(
            "score (0 to 100)",
            (axes.left + axes.right) / 2.0,
            axes.bottom + 35.0,
        )
    });
}

fn data(group: &Group, budget: &str, panels: &[Panel<'_>]) -> Data {
    let mut rows = Vec::new();
    for panel in panels {
        for row in &panel.rows {
            rows.push(vec![
                group.tasks[row.place].name.clone(),
                panel.label.to_owned(),
                budget.to_owned(),
                data_number(Some(row.baseline)),
                data_number(Some(row.method)),
                data_number(Some(row.method - row.baseline)),
                row.samples.to_string(),
            ]);
        }
    }
    Data {
        header: vec![
            "task",
            "method",
            "budget",
            "baseline",
            "score",
            "difference",
            "n",
        ],
        rows,
    }
}
