//! Kept tokens of every layer: one panel a method, all on one scale, the mean over layers dashed. One figure a budget.

use crate::figures::axes::{Axes, layer_ticks, round_ticks, tick_text};
use crate::figures::frame::Heading;
use crate::figures::scene::{Scene, fitted_apart, label, text_width};
use crate::figures::style::{Rgb, STYLE, series_look};
use crate::figures::{Data, Figure, data_number};
use crate::group::Group;
use crate::options::ReportOptions;

const PANEL_WIDTH: f64 = 330.0;
const PANEL_HEIGHT: f64 = 110.0;
const PANELS_A_LINE: usize = 2;
/// Panel title above; axis with its title below.
const ABOVE: f64 = 30.0;
const BELOW: f64 = 52.0;
const GAP: f64 = 26.0;

struct Panel<'a> {
    label: &'a str,
    color: Rgb,
    prompts: usize,
    /// Mean kept tokens per KV head, one number a layer.
    kept: Vec<f64>,
}

pub(super) fn build(group: &Group, _options: &ReportOptions) -> Vec<Figure> {
    group
        .budgets
        .iter()
        .filter_map(|budget| {
            let panels = panels(group, &budget.text);
            (!panels.is_empty()).then(|| Figure {
                part: budget.file_part(),
                description: format!(
                    "kept tokens of every layer at budget {} for {} methods",
                    budget.text,
                    panels.len()
                ),
                scene: draw(group, &budget.text, &panels),
                data: data(&budget.text, &panels),
            })
        })
        .collect()
}

fn panels<'a>(group: &'a Group, budget: &str) -> Vec<Panel<'a>> {
    let tasks: Vec<_> = group.tasks.iter().collect();
    let labels = group.budgeted_methods().into_iter().enumerate();
    labels
        .filter(|(_, label)| !group.is_unfinished(label, Some(budget), &tasks))
        .filter_map(|(place, label)| {
            let (mut total, mut prompts) = (Vec::new(), 0_usize);
            for cell in group.row(label, Some(budget)) {
                // Layers that disagree (another depth under one name) are not averaged.
                if total.is_empty() {
                    total = vec![0.0; cell.kept_per_layer.len()];
                }
                if cell.kept_per_layer.len() == total.len() && cell.scored > 0 {
                    for (sum, kept) in total.iter_mut().zip(&cell.kept_per_layer) {
                        *sum += kept * cell.scored as f64;
                    }
                    prompts += cell.scored;
                }
            }
            (prompts > 0 && !total.is_empty()).then(|| Panel {
                label,
                color: series_look(place).0,
                prompts,
                kept: total.into_iter().map(|sum| sum / prompts as f64).collect(),
            })
        })
        .collect()
}

fn draw(group: &Group, budget: &str, panels: &[Panel<'_>]) -> Scene {
    let highest = panels
        .iter()
        .flat_map(|panel| panel.kept.iter().copied())
        .fold(1.0, f64::max);
    let ticks = round_ticks(0.0, highest, 3);
    let widest = ticks
        .iter()
        .map(|tick| text_width(&tick_text(*tick, &ticks), STYLE.small_size))
        .fold(0.0, f64::max);
    let before = 24.0 + widest + 8.0;
    let columns = panels.len().min(PANELS_A_LINE);
    let step = before + PANEL_WIDTH + GAP;
    let width = 2.0 * STYLE.margin + columns as f64 * step - GAP;
    let heading = Heading::new(
        &format!("Kept tokens of every layer at budget {budget}"),
        &format!(
            "{}. Mean over prompts, per KV head; dashed: mean over layers.",
            group.title()
        ),
        width,
    );
    let line_height = ABOVE + PANEL_HEIGHT + BELOW;
    let lines = panels.len().div_ceil(PANELS_A_LINE);
    let mut scene = Scene::new(
        width,
        heading.height() + lines as f64 * line_height + STYLE.margin,
    );
    heading.draw(&mut scene);
    let labels: Vec<&str> = panels.iter().map(|panel| panel.label).collect();
    // Room for n behind the name.
    let names = fitted_apart(&labels, STYLE.text_size, PANEL_WIDTH - 80.0);
    for (index, panel) in panels.iter().enumerate() {
        let (column, line) = (index % PANELS_A_LINE, index / PANELS_A_LINE);
        let left = STYLE.margin + column as f64 * step + before;
        let top = heading.height() + line as f64 * line_height + ABOVE;
        let axes = Axes {
            left,
            top,
            right: left + PANEL_WIDTH,
            bottom: top + PANEL_HEIGHT,
            x_range: (-0.5, panel.kept.len() as f64 - 0.5),
            y_range: (0.0, ticks[ticks.len() - 1]),
        };
        let title_x = left - before + 10.0;
        draw_panel(&mut scene, (panel, &names[index]), &axes, &ticks, title_x);
    }
    scene
}

fn draw_panel(
    scene: &mut Scene,
    (panel, name): (&Panel<'_>, &str),
    axes: &Axes,
    ticks: &[f64],
    title_x: f64,
) {
    let samples = format!(" (n = {})", panel.prompts);
    scene.text(label(
        format!("{name}{samples}"),
        axes.left,
        axes.top - 10.0,
    ));
    axes.draw_y(scene, ticks);
    for (layer, kept) in panel.kept.iter().enumerate() {
        let layer = layer as f64;
        let (left, right) = (axes.x(layer - 0.38), axes.x(layer + 0.38));
        let (top, bottom) = (axes.y(*kept), axes.bottom);
        scene.area(
            &[(left, top), (right, top), (right, bottom), (left, bottom)],
            panel.color,
            1.0,
        );
    }
    let mean = panel.kept.iter().sum::<f64>() / panel.kept.len() as f64;
    let y = axes.y(mean);
    scene.dashed((axes.left, y), (axes.right, y), STYLE.ink, 1.0);
    axes.draw_x(scene, &layer_ticks(panel.kept.len()));
    axes.x_title(scene, "layer (0 is the first)");
    axes.y_title(scene, "kept tokens", title_x);
}

fn data(budget: &str, panels: &[Panel<'_>]) -> Data {
    let mut rows = Vec::new();
    for panel in panels {
        for (layer, kept) in panel.kept.iter().enumerate() {
            rows.push(vec![
                panel.label.to_owned(),
                budget.to_owned(),
                layer.to_string(),
                data_number(Some(*kept)),
                panel.prompts.to_string(),
            ]);
        }
    }
    Data {
        header: vec!["method", "budget", "layer", "kept_tokens", "prompts"],
        rows,
    }
}
