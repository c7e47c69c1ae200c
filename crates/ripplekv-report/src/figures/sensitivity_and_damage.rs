//! One model's layers from first to last: a panel of sensitivity above one panel of damage for each budget, bands are 95%
//! bootstrap intervals over samples. Panels share the layers, each has its own scale: the shapes are to be compared.

use crate::evidence::{Estimate, Evidence};
use crate::figures::axes::{Axes, layer_ticks, round_ticks, tick_text};
use crate::figures::frame::Heading;
use crate::figures::scene::{Scene, label, text_width};
use crate::figures::style::{Marker, Rgb, STYLE, series_look};
use crate::figures::{Data, Figure, data_exact};
use crate::stats::Interval;

const PLOT_WIDTH: f64 = 640.0;
const PANEL_HEIGHT: f64 = 130.0;
/// Panel title and the room above it.
const ABOVE: f64 = 42.0;

/// What was measured of every layer of a model.
#[derive(Clone)]
pub(super) struct Curve {
    pub(super) title: String,
    /// `sensitivity`, or `damage` with its budget.
    pub(super) curve: &'static str,
    pub(super) budget: String,
    pub(super) samples: usize,
    pub(super) color: Rgb,
    pub(super) marker: Marker,
    pub(super) layers: Vec<Estimate>,
}

pub(super) fn build(evidence: &Evidence) -> Vec<Figure> {
    let panels = curves(evidence);
    if panels.is_empty() {
        return Vec::new();
    }
    vec![Figure {
        part: String::new(),
        description: format!(
            "sensitivity and damage of every layer of {}, {} panels",
            evidence.model,
            panels.len()
        ),
        scene: draw(evidence, &panels),
        data: data(&panels),
    }]
}

/// Sensitivity where it was measured, then damage at every budget.
pub(super) fn curves(evidence: &Evidence) -> Vec<Curve> {
    let mut panels = Vec::new();
    if let Some(profile) = &evidence.profile {
        panels.push(Curve {
            title: format!(
                "Sensitivity: KL under value noise of one layer, sigma {} (n = {} samples)",
                profile.sigma.chosen,
                profile.samples.len()
            ),
            curve: "sensitivity",
            budget: String::new(),
            samples: profile.samples.len(),
            color: series_look(0).0,
            marker: series_look(0).1,
            layers: profile
                .sensitivity
                .iter()
                .map(|layer| Estimate {
                    value: layer.mean,
                    interval: Some(Interval {
                        low: layer.low,
                        high: layer.high,
                    }),
                })
                .collect(),
        });
    }
    for (place, curve) in evidence.curves.iter().enumerate() {
        panels.push(Curve {
            title: format!(
                "Damage: KL with one layer compressed to {} (n = {} samples)",
                curve.budget, curve.samples
            ),
            curve: "damage",
            budget: curve.budget.clone(),
            samples: curve.samples,
            color: series_look(place + 1).0,
            marker: series_look(place + 1).1,
            layers: curve.layers.clone(),
        });
    }
    panels
}

fn draw(evidence: &Evidence, panels: &[Curve]) -> Scene {
    let ticks: Vec<Vec<f64>> = panels.iter().map(y_ticks).collect();
    let widest = ticks
        .iter()
        .flat_map(|ticks| ticks.iter().map(|tick| tick_text(*tick, ticks)))
        .map(|text| text_width(&text, STYLE.small_size))
        .fold(0.0, f64::max);
    let left = STYLE.margin + 24.0 + widest + 8.0;
    let width = left + PLOT_WIDTH + STYLE.margin + 8.0;
    let heading = Heading::new(
        "Sensitivity and measured damage of every layer",
        &format!(
            "{}. Bands: 95% bootstrap interval over samples; each panel has its own scale.",
            evidence.model
        ),
        width,
    );
    let step = ABOVE + PANEL_HEIGHT;
    let bottom = heading.height() + step * panels.len() as f64;
    let mut scene = Scene::new(width, bottom + 44.0 + STYLE.margin);
    heading.draw(&mut scene);
    for (index, (panel, ticks)) in panels.iter().zip(&ticks).enumerate() {
        let top = heading.height() + step * index as f64 + ABOVE;
        let last = panel.layers.len() as f64 - 1.0;
        let axes = Axes {
            left,
            top,
            right: left + PLOT_WIDTH,
            bottom: top + PANEL_HEIGHT,
            x_range: (-0.5, last + 0.5),
            y_range: (ticks[0], ticks[ticks.len() - 1]),
        };
        scene.text(label(panel.title.clone(), left, top - 12.0));
        axes.draw_y(&mut scene, ticks);
        axes.y_title(&mut scene, "KL (nats)", STYLE.margin + 10.0);
        draw_curve(&mut scene, &axes, panel);
        if index + 1 == panels.len() {
            axes.draw_x(&mut scene, &layer_ticks(panel.layers.len()));
            axes.x_title(&mut scene, "layer (0 is the first)");
        }
    }
    scene
}

pub(super) fn draw_curve(scene: &mut Scene, axes: &Axes, panel: &Curve) {
    let at = |layer: usize, value: f64| (axes.x(layer as f64), axes.y(value));
    let bands: Vec<(usize, Interval)> = panel
        .layers
        .iter()
        .enumerate()
        .filter_map(|(layer, estimate)| Some((layer, estimate.interval?)))
        .collect();
    if bands.len() > 1 {
        let upper = bands.iter().map(|(layer, ends)| at(*layer, ends.high));
        let lower = bands.iter().rev().map(|(layer, ends)| at(*layer, ends.low));
        let outline: Vec<(f64, f64)> = upper.chain(lower).collect();
        scene.area(&outline, panel.color, 2.0 * STYLE.band_opacity);
    }
    let points: Vec<(f64, f64)> = panel
        .layers
        .iter()
        .enumerate()
        .map(|(layer, estimate)| at(layer, estimate.value))
        .collect();
    scene.line(&points, panel.color, STYLE.line_width);
    for (x, y) in points {
        scene.marker(x, y, panel.marker, panel.color, STYLE.marker_radius - 1.5);
    }
}

fn y_ticks(panel: &Curve) -> Vec<f64> {
    let (mut low, mut high) = (0.0_f64, f64::MIN_POSITIVE);
    for estimate in &panel.layers {
        let ends = estimate.interval;
        low = low
            .min(estimate.value)
            .min(ends.map_or(0.0, |ends| ends.low));
        high = high
            .max(estimate.value)
            .max(ends.map_or(0.0, |ends| ends.high));
    }
    round_ticks(low, high, 4)
}

fn data(panels: &[Curve]) -> Data {
    let mut rows = Vec::new();
    for panel in panels {
        for (layer, estimate) in panel.layers.iter().enumerate() {
            rows.push(vec![
                panel.curve.to_owned(),
                panel.budget.clone(),
                layer.to_string(),
                data_exact(Some(estimate.value)),
                data_exact(estimate.interval.map(|ends| ends.low)),
                data_exact(estimate.interval.map(|ends| ends.high)),
            ]);
        }
    }
    Data {
        header: vec!["curve", "budget", "layer", "kl", "ci_low", "ci_high"],
        rows,
    }
}
