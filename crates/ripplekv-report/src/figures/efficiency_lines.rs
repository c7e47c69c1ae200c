//! What a cell costs against the length of its prompt: one panel a budget, all on one scale, one line a method.
//! Only of cells that ran alone (`timing: alone`): in company a row's share of a step says nothing of its method.

use std::collections::BTreeMap;

use crate::figures::axes::{Axes, round_ticks, tick_text};
use crate::figures::frame::{Heading, Legend, Swatch};
use crate::figures::scene::{Scene, label, text_width};
use crate::figures::style::{Marker, Rgb, STYLE, series_look};
use crate::figures::{Data, Figure, data_number};
use crate::group::Group;
use crate::summary::SampleCost;

const PANEL_WIDTH: f64 = 270.0;
const PANEL_HEIGHT: f64 = 220.0;
const PANELS_A_LINE: usize = 3;
/// Panel title above; axis with its title below.
const ABOVE: f64 = 28.0;
const BELOW: f64 = 54.0;
const GAP: f64 = 30.0;

/// One kind of cost.
pub(super) struct Measure {
    pub(super) title: &'static str,
    /// With its unit.
    pub(super) axis: &'static str,
    /// What the subtitle says of it.
    pub(super) note: &'static str,
    /// Column of the data file, with its unit.
    pub(super) column: &'static str,
    pub(super) of: fn(&SampleCost) -> Option<f64>,
}

struct Series<'a> {
    label: &'a str,
    color: Rgb,
    marker: Marker,
    points: Vec<Point>,
}

/// Prompts of one length.
struct Point {
    prompt_tokens: u64,
    mean: f64,
    samples: usize,
}

struct Panel<'a> {
    budget: &'a str,
    series: Vec<Series<'a>>,
}

pub(super) fn build(group: &Group, measure: &Measure) -> Vec<Figure> {
    let mut panels: Vec<Panel<'_>> = Vec::new();
    for budget in &group.budgets {
        let series = series(group, &budget.text, measure);
        if series.iter().any(|one| one.points.len() > 1) {
            panels.push(Panel {
                budget: &budget.text,
                series,
            });
        }
    }
    if panels.is_empty() {
        return Vec::new();
    }
    vec![Figure {
        part: String::new(),
        description: format!(
            "{} against prompt length at {} budgets",
            measure.title.to_lowercase(),
            panels.len()
        ),
        scene: draw(group, measure, &panels),
        data: data(measure, &panels),
    }]
}

/// Methods without a budget in ink first, then the others in the colours they have everywhere.
fn series<'a>(group: &'a Group, budget: &str, measure: &Measure) -> Vec<Series<'a>> {
    let flat = group
        .methods_at(None)
        .into_iter()
        .map(|label| (label, None, (STYLE.ink, Marker::Circle)));
    let with_budget = group.budgeted_methods().into_iter().enumerate();
    let with_budget = with_budget.map(|(place, label)| (label, Some(budget), series_look(place)));
    flat.chain(with_budget)
        .map(|(label, budget, (color, marker))| Series {
            label,
            color,
            marker,
            points: points(group, label, budget, measure),
        })
        .filter(|series| !series.points.is_empty())
        .collect()
}

fn points(group: &Group, label: &str, budget: Option<&str>, measure: &Measure) -> Vec<Point> {
    let mut by_length: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for cell in group.row(label, budget) {
        for cost in cell.costs.iter().filter(|cost| cost.alone) {
            if let Some(value) = (measure.of)(cost) {
                by_length.entry(cost.prompt_tokens).or_default().push(value);
            }
        }
    }
    by_length
        .into_iter()
        .map(|(prompt_tokens, values)| Point {
            prompt_tokens,
            mean: values.iter().sum::<f64>() / values.len() as f64,
            samples: values.len(),
        })
        .collect()
}

fn draw(group: &Group, measure: &Measure, panels: &[Panel<'_>]) -> Scene {
    let points = || {
        let series = panels.iter().flat_map(|panel| &panel.series);
        series.flat_map(|one| &one.points)
    };
    let lengths = || points().map(|point| point.prompt_tokens as f64);
    let highest = points().map(|point| point.mean).fold(0.0, f64::max);
    let y_ticks = round_ticks(0.0, highest, 5);
    let longest = lengths().fold(0.0, f64::max);
    let shortest = lengths().fold(f64::INFINITY, f64::min);
    let room = 0.04 * (longest - shortest).max(1.0);
    let widest = y_ticks
        .iter()
        .map(|tick| text_width(&tick_text(*tick, &y_ticks), STYLE.small_size))
        .fold(0.0, f64::max);
    let before = 24.0 + widest + 8.0;
    let legend = Legend::new(entries(panels));
    let columns = panels.len().min(PANELS_A_LINE);
    let step = before + PANEL_WIDTH + GAP;
    let legend_left = STYLE.margin + columns as f64 * step;
    let width = legend_left + legend.width() + STYLE.margin;
    let heading = Heading::new(
        &format!("{} against prompt length", measure.title),
        &format!(
            "{}. Every cell ran by itself, with a prefill of its own. {} A point is a prompt, or the mean of prompts of one length.",
            group.title(),
            measure.note
        ),
        width,
    );
    let line_height = ABOVE + PANEL_HEIGHT + BELOW;
    let lines = panels.len().div_ceil(PANELS_A_LINE);
    let height = (lines as f64 * line_height).max(ABOVE + legend.height());
    let mut scene = Scene::new(width, heading.height() + height + STYLE.margin);
    heading.draw(&mut scene);
    for (index, panel) in panels.iter().enumerate() {
        let left = STYLE.margin + (index % PANELS_A_LINE) as f64 * step + before;
        let top = heading.height() + (index / PANELS_A_LINE) as f64 * line_height + ABOVE;
        let axes = Axes {
            left,
            top,
            right: left + PANEL_WIDTH,
            bottom: top + PANEL_HEIGHT,
            x_range: (shortest - room, longest + room),
            y_range: (0.0, y_ticks[y_ticks.len() - 1]),
        };
        draw_panel(&mut scene, panel, &axes, &y_ticks);
        axes.y_title(&mut scene, measure.axis, left - before + 10.0);
    }
    legend.draw(&mut scene, legend_left, heading.height() + ABOVE);
    scene
}

fn entries(panels: &[Panel<'_>]) -> Vec<(Swatch, String)> {
    let mut entries: Vec<(Swatch, String)> = Vec::new();
    for one in panels.iter().flat_map(|panel| &panel.series) {
        if !entries.iter().any(|(_, known)| known == one.label) {
            entries.push((Swatch::Series(one.color, one.marker), one.label.to_owned()));
        }
    }
    entries
}

fn draw_panel(scene: &mut Scene, panel: &Panel<'_>, axes: &Axes, y_ticks: &[f64]) {
    scene.text(label(
        format!("budget {}", panel.budget),
        axes.left,
        axes.top - 10.0,
    ));
    axes.draw_y(scene, y_ticks);
    let (low, high) = axes.x_range;
    let round = round_ticks(low, high, 4);
    let x_ticks: Vec<(f64, String)> = round
        .iter()
        .filter(|tick| (low..=high).contains(*tick))
        .map(|tick| (*tick, tick_text(*tick, &round)))
        .collect();
    for one in &panel.series {
        let line: Vec<(f64, f64)> = one
            .points
            .iter()
            .map(|point| (axes.x(point.prompt_tokens as f64), axes.y(point.mean)))
            .collect();
        scene.line(&line, one.color, STYLE.line_width);
        for (x, y) in line {
            scene.marker(x, y, one.marker, one.color, STYLE.marker_radius);
        }
    }
    axes.draw_x(scene, &x_ticks);
    axes.x_title(scene, "prompt tokens");
}

fn data(measure: &Measure, panels: &[Panel<'_>]) -> Data {
    let mut rows = Vec::new();
    for panel in panels {
        for one in &panel.series {
            for point in &one.points {
                rows.push(vec![
                    panel.budget.to_owned(),
                    one.label.to_owned(),
                    point.prompt_tokens.to_string(),
                    data_number(Some(point.mean)),
                    point.samples.to_string(),
                ]);
            }
        }
    }
    Data {
        header: vec![
            "panel_budget",
            "method",
            "prompt_tokens",
            measure.column,
            "samples",
        ],
        rows,
    }
}
