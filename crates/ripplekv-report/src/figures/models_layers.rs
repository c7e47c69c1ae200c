//! Sensitivity and damage over depth of several models: one panel a model, both curves in it, bands are 95% bootstrap intervals
//! over samples. Each curve is a share of its own greatest layer, so that shapes of different size can be compared.

use crate::evidence::{Estimate, Evidence};
use crate::figures::axes::{Axes, layer_ticks, round_ticks};
use crate::figures::frame::{Heading, Legend, Swatch};
use crate::figures::scene::{Scene, fitted_apart, label};
use crate::figures::sensitivity_and_damage::{Curve, curves, draw_curve};
use crate::figures::style::STYLE;
use crate::figures::{Data, Figure, data_exact};
use crate::stats::Interval;

const PANEL_WIDTH: f64 = 420.0;
const PANEL_HEIGHT: f64 = 170.0;
/// Room for the numbers and the name of the y axis.
const BEFORE: f64 = 62.0;
/// Panel title above; axis with its title below.
const ABOVE: f64 = 42.0;
const BELOW: f64 = 44.0;
const BEFORE_LEGEND: f64 = 26.0;

/// One model.
struct Panel<'a> {
    model: &'a str,
    /// Sensitivity, then damage at the smallest budget, as they were measured.
    measured: Vec<Curve>,
    /// The same as shares of their greatest layers.
    shares: Vec<Curve>,
}

pub(super) fn build(models: &[Evidence]) -> Vec<Figure> {
    let panels: Vec<Panel<'_>> = models.iter().filter_map(panel).collect();
    // A single model has its own figure, in nats.
    if panels.len() < 2 {
        return Vec::new();
    }
    vec![Figure {
        part: String::new(),
        description: format!(
            "sensitivity and damage of every layer of {} models, one panel a model",
            panels.len()
        ),
        scene: draw(&panels),
        data: data(&panels),
    }]
}

fn panel(evidence: &Evidence) -> Option<Panel<'_>> {
    let mut measured = curves(evidence);
    let damage = measured.iter().position(|curve| curve.curve == "damage");
    measured.truncate(damage.map_or(1, |place| place + 1));
    let shares: Option<Vec<Curve>> = measured.iter().map(share).collect();
    let shares = shares.filter(|shares| !shares.is_empty())?;
    Some(Panel {
        model: &evidence.model,
        measured,
        shares,
    })
}

/// `None` where no layer has a positive value.
fn share(curve: &Curve) -> Option<Curve> {
    let values = curve.layers.iter().map(|layer| layer.value);
    let greatest = values.fold(0.0, f64::max);
    let scaled = |layer: &Estimate| Estimate {
        value: layer.value / greatest,
        interval: layer.interval.map(|ends| Interval {
            low: ends.low / greatest,
            high: ends.high / greatest,
        }),
    };
    (greatest > 0.0).then(|| Curve {
        layers: curve.layers.iter().map(scaled).collect(),
        ..curve.clone()
    })
}

fn draw(panels: &[Panel<'_>]) -> Scene {
    let mut entries: Vec<(Swatch, String)> = Vec::new();
    for curve in panels.iter().flat_map(|panel| &panel.shares) {
        let name = match curve.budget.as_str() {
            "" => curve.curve.to_owned(),
            budget => format!("{} at {budget}", curve.curve),
        };
        if !entries.iter().any(|(_, known)| *known == name) {
            entries.push((Swatch::Series(curve.color, curve.marker), name));
        }
    }
    let legend = Legend::new(entries);
    let left = STYLE.margin + BEFORE;
    let right = left + PANEL_WIDTH;
    let width = right + BEFORE_LEGEND + legend.width() + STYLE.margin;
    let heading = Heading::new(
        "Sensitivity and measured damage of every layer",
        "KL as a share of the greatest layer's; bands: 95% bootstrap interval over samples; n: samples of the profile and of the damage.",
        width,
    );
    let step = ABOVE + PANEL_HEIGHT + BELOW;
    let top = heading.height();
    let mut scene = Scene::new(width, top + step * panels.len() as f64 + STYLE.margin);
    heading.draw(&mut scene);
    let titles: Vec<String> = panels.iter().map(title).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let titles = fitted_apart(&titles, STYLE.text_size, PANEL_WIDTH);
    for (place, (panel, title)) in panels.iter().zip(titles).enumerate() {
        let top = top + step * place as f64 + ABOVE;
        let layers = panel.shares.iter().map(|curve| curve.layers.len());
        let layers = layers.max().unwrap_or(1);
        let ticks = y_ticks(&panel.shares);
        let axes = Axes {
            left,
            top,
            right,
            bottom: top + PANEL_HEIGHT,
            x_range: (-0.5, layers as f64 - 0.5),
            y_range: (ticks[0], ticks[ticks.len() - 1]),
        };
        scene.text(label(title, left, top - 12.0));
        axes.draw_y(&mut scene, &ticks);
        axes.y_title(&mut scene, "share of greatest KL", STYLE.margin + 10.0);
        for curve in &panel.shares {
            draw_curve(&mut scene, &axes, curve);
        }
        axes.draw_x(&mut scene, &layer_ticks(layers));
        axes.x_title(&mut scene, "layer (0 is the first)");
    }
    legend.draw(&mut scene, right + BEFORE_LEGEND, top + ABOVE);
    scene
}

fn title(panel: &Panel<'_>) -> String {
    let counts = panel.shares.iter().map(|curve| curve.samples.to_string());
    let counts: Vec<String> = counts.collect();
    format!("{} (n = {})", panel.model, counts.join(" and "))
}

fn y_ticks(curves: &[Curve]) -> Vec<f64> {
    let layers = || curves.iter().flat_map(|curve| &curve.layers);
    let ends = || layers().filter_map(|layer| layer.interval);
    let low = ends().map(|ends| ends.low).fold(0.0, f64::min);
    let high = ends().map(|ends| ends.high).fold(1.0, f64::max);
    round_ticks(low, high, 4)
}

fn data(panels: &[Panel<'_>]) -> Data {
    let mut rows = Vec::new();
    for panel in panels {
        for (share, measured) in panel.shares.iter().zip(&panel.measured) {
            for (layer, (share, kl)) in share.layers.iter().zip(&measured.layers).enumerate() {
                rows.push(vec![
                    panel.model.to_owned(),
                    measured.curve.to_owned(),
                    measured.budget.clone(),
                    layer.to_string(),
                    data_exact(Some(share.value)),
                    data_exact(share.interval.map(|ends| ends.low)),
                    data_exact(share.interval.map(|ends| ends.high)),
                    data_exact(Some(kl.value)),
                    measured.samples.to_string(),
                ]);
            }
        }
    }
    Data {
        header: vec![
            "model", "curve", "budget", "layer", "share", "ci_low", "ci_high", "kl", "n",
        ],
        rows,
    }
}
