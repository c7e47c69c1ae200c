//! One point a layer: sensitivity along, damage up, with the rank correlation and its interval in words.
//! Colour says depth; thin lines are 95% intervals. Axes are logarithmic where the values spread that far.

use crate::budget::Budget;
use crate::evidence::{DamageCurve, Estimate, Evidence, Measure, Outcome, SENSITIVITY};
use crate::figures::axes::{Axes, round_ticks, tick_text};
use crate::figures::frame::Heading;
use crate::figures::scene::{Anchor, Label, Scene, label, text_width};
use crate::figures::style::{Marker, Rgb, STYLE, between};
use crate::figures::{Data, Figure, data_exact};
use crate::stats::Interval;

const PLOT_WIDTH: f64 = 460.0;
const PLOT_HEIGHT: f64 = 360.0;
const BAR_WIDTH: f64 = 14.0;
/// Values that spread further than this are placed by their logarithm.
const LINEAR_UP_TO: f64 = 20.0;
const FIRST_LAYER: Rgb = Rgb(0x8f, 0xc8, 0xea);
const LAST_LAYER: Rgb = Rgb(0x00, 0x2a, 0x4e);
const INTERVAL_COLOR: Rgb = Rgb(0xc4, 0xc4, 0xc4);

pub(super) fn build(evidence: &Evidence) -> Vec<Figure> {
    let Some(profile) = &evidence.profile else {
        return Vec::new();
    };
    let sensitivity: Vec<Estimate> = profile
        .sensitivity
        .iter()
        .map(|layer| Estimate {
            value: layer.mean,
            interval: Some(Interval {
                low: layer.low,
                high: layer.high,
            }),
        })
        .collect();
    evidence
        .curves
        .iter()
        .filter(|curve| curve.layers.len() == sensitivity.len())
        .map(|curve| {
            let words = words(evidence, curve);
            Figure {
                part: Budget::parse(&curve.budget).file_part(),
                description: format!("sensitivity against damage at {}: {words}", curve.budget),
                scene: draw(evidence, &sensitivity, curve, &words),
                data: data(&sensitivity, curve),
            }
        })
        .collect()
}

/// The rank correlation with its interval and the n of both sides.
fn words(evidence: &Evidence, curve: &DamageCurve) -> String {
    let block = evidence.correlation(Measure::SingleLayer, &curve.budget);
    let row = block.and_then(|block| Some((block, block.row(SENSITIVITY)?)));
    match row.map(|(block, row)| (block, &row.outcome)) {
        Some((block, Outcome::Ranked { rho, .. })) => {
            let ends = rho.interval.map_or(String::new(), |ends| {
                format!("95% {:.2} to {:.2}; ", ends.low, ends.high)
            });
            format!(
                "rho {:.2} ({ends}{} x {} samples, {} layers)",
                rho.value, block.profile_samples, block.damage_samples, block.layers
            )
        }
        Some((_, Outcome::Undefined(reason))) => format!("rho {reason}"),
        _ => "rho undefined".to_owned(),
    }
}

/// One side of the plot: values, and where they lie.
struct Scale {
    logarithmic: bool,
    range: (f64, f64),
    ticks: Vec<(f64, String)>,
}

/// Smallest and greatest of the values and their intervals.
fn extent(values: &[Estimate]) -> (f64, f64) {
    let all = || {
        values.iter().flat_map(|estimate| {
            let ends = estimate.interval;
            [
                Some(estimate.value),
                ends.map(|ends| ends.low),
                ends.map(|ends| ends.high),
            ]
        })
    };
    (
        all().flatten().fold(f64::INFINITY, f64::min),
        all().flatten().fold(f64::NEG_INFINITY, f64::max),
    )
}

impl Scale {
    fn new((low, high): (f64, f64), logarithmic: bool) -> Scale {
        if logarithmic {
            let ends = (low.log10() - 0.06, high.log10() + 0.06);
            let inside = |ticks: Vec<(f64, String)>| -> Vec<(f64, String)> {
                let within = |place: f64| place >= ends.0 && place <= ends.1;
                ticks
                    .into_iter()
                    .filter(|(place, _)| within(*place))
                    .collect()
            };
            let mut ticks = inside(decades(low, high));
            if ticks.len() < 2 {
                // Less than a decade: round numbers, closer together than 1, 2, 5.
                let round = round_ticks(low, high, 4);
                let placed = round.iter().filter(|tick| **tick > 0.0);
                ticks = inside(
                    placed
                        .map(|tick| (tick.log10(), tick_text(*tick, &round)))
                        .collect(),
                );
            }
            return Scale {
                logarithmic: true,
                range: ends,
                ticks,
            };
        }
        let ticks = round_ticks(low, high, 5);
        Scale {
            logarithmic: false,
            range: (ticks[0], ticks[ticks.len() - 1]),
            ticks: ticks
                .iter()
                .map(|tick| (*tick, tick_text(*tick, &ticks)))
                .collect(),
        }
    }

    fn place(&self, value: f64) -> f64 {
        if self.logarithmic {
            value.log10()
        } else {
            value
        }
    }
}

/// Places and texts of 1, 2, 5 in every decade; of 1 alone where there are many.
fn decades(low: f64, high: f64) -> Vec<(f64, String)> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let steps: &[u8] = if last - first > 3 { &[1] } else { &[1, 2, 5] };
    (first..=last)
        .flat_map(|power| steps.iter().map(move |step| (power, *step)))
        .map(|(power, step)| {
            let place = f64::from(power) + f64::from(step).log10();
            let text = if (-3..=4).contains(&power) {
                let decimals = usize::try_from(-power).unwrap_or(0);
                format!("{:.decimals$}", f64::from(step) * 10_f64.powi(power))
            } else {
                format!("{step}e{power}")
            };
            (place, text)
        })
        .collect()
}

fn draw(evidence: &Evidence, sensitivity: &[Estimate], curve: &DamageCurve, words: &str) -> Scene {
    let (along, up) = (extent(sensitivity), extent(&curve.layers));
    // Both or neither, so that a power law is a straight line and shapes stay comparable.
    let logarithmic =
        along.0 > 0.0 && up.0 > 0.0 && (along.1 / along.0).max(up.1 / up.0) > LINEAR_UP_TO;
    let (x, y) = (Scale::new(along, logarithmic), Scale::new(up, logarithmic));
    let widest = y
        .ticks
        .iter()
        .map(|(_, text)| text_width(text, STYLE.small_size))
        .fold(0.0, f64::max);
    let last = curve.layers.len() - 1;
    let last_text = format!("layer {last}");
    let left = STYLE.margin + 24.0 + widest + 8.0;
    let bar_left = left + PLOT_WIDTH + 24.0;
    let width =
        bar_left + BAR_WIDTH + 8.0 + text_width(&last_text, STYLE.small_size) + STYLE.margin;
    let heading = Heading::new(
        &format!("Sensitivity against damage at {}", curve.budget),
        &format!(
            "{}. {words}. One point a layer; thin lines: 95% bootstrap intervals over samples.",
            evidence.model
        ),
        width,
    );
    let top = heading.height();
    let axes = Axes {
        left,
        top,
        right: left + PLOT_WIDTH,
        bottom: top + PLOT_HEIGHT,
        x_range: x.range,
        y_range: y.range,
    };
    let mut scene = Scene::new(width, axes.bottom + 44.0 + STYLE.margin);
    heading.draw(&mut scene);
    for (tick, _) in &x.ticks {
        let place = axes.x(*tick);
        scene.line(&[(place, axes.top), (place, axes.bottom)], STYLE.grid, 1.0);
    }
    axes.draw_y_texts(&mut scene, &y.ticks);
    axes.draw_x(&mut scene, &x.ticks);
    let scale = |scale: &Scale| {
        if scale.logarithmic {
            ", logarithmic"
        } else {
            ""
        }
    };
    axes.x_title(&mut scene, &format!("sensitivity, KL (nats{})", scale(&x)));
    let title = format!("damage, KL (nats{})", scale(&y));
    axes.y_title(&mut scene, &title, STYLE.margin + 10.0);
    let at = |along: f64, up: f64| (axes.x(x.place(along)), axes.y(y.place(up)));
    for (s, d) in sensitivity.iter().zip(&curve.layers) {
        if let Some(ends) = s.interval {
            scene.line(
                &[at(ends.low, d.value), at(ends.high, d.value)],
                INTERVAL_COLOR,
                1.0,
            );
        }
        if let Some(ends) = d.interval {
            scene.line(
                &[at(s.value, ends.low), at(s.value, ends.high)],
                INTERVAL_COLOR,
                1.0,
            );
        }
    }
    for (layer, (s, d)) in sensitivity.iter().zip(&curve.layers).enumerate() {
        let color = depth_color(layer, last);
        let (x, y) = at(s.value, d.value);
        scene.marker(x, y, Marker::Circle, color, STYLE.marker_radius);
    }
    draw_bar(&mut scene, &axes, bar_left, last, &last_text);
    scene
}

fn depth_color(layer: usize, last: usize) -> Rgb {
    between(FIRST_LAYER, LAST_LAYER, layer as f64 / last.max(1) as f64)
}

/// The colours of the layers, first on top.
fn draw_bar(scene: &mut Scene, axes: &Axes, left: f64, last: usize, last_text: &str) {
    let height = (axes.bottom - axes.top) / (last + 1) as f64;
    for layer in 0..=last {
        let top = axes.top + height * layer as f64;
        let (right, bottom) = (left + BAR_WIDTH, top + height);
        scene.area(
            &[(left, top), (right, top), (right, bottom), (left, bottom)],
            depth_color(layer, last),
            1.0,
        );
    }
    let text = |text: &str, y: f64| Label {
        size: STYLE.small_size,
        color: STYLE.muted,
        anchor: Anchor::Start,
        ..label(text, left + BAR_WIDTH + 8.0, y)
    };
    scene.text(text("layer 0", axes.top + 10.0));
    if last > 0 {
        scene.text(text(last_text, axes.bottom - 2.0));
    }
}

fn data(sensitivity: &[Estimate], curve: &DamageCurve) -> Data {
    let ends = |estimate: &Estimate| {
        [
            data_exact(Some(estimate.value)),
            data_exact(estimate.interval.map(|ends| ends.low)),
            data_exact(estimate.interval.map(|ends| ends.high)),
        ]
    };
    let rows = sensitivity
        .iter()
        .zip(&curve.layers)
        .enumerate()
        .map(|(layer, (s, d))| {
            let mut row = vec![layer.to_string()];
            row.extend(ends(s));
            row.extend(ends(d));
            row
        })
        .collect();
    Data {
        header: vec![
            "layer",
            "sensitivity",
            "sensitivity_low",
            "sensitivity_high",
            "damage",
            "damage_low",
            "damage_high",
        ],
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_are_named_as_people_write_them() {
        let texts: Vec<String> = decades(0.02, 0.6).into_iter().map(|tick| tick.1).collect();
        assert_eq!(
            texts,
            ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"]
        );
        let many = decades(1e-6, 0.5);
        assert_eq!(many[0].1, "1e-6");
        assert_eq!(many.len(), 7);
    }
}
