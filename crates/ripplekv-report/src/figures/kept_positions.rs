//! Kept positions of one prompt: position in bins on x, layer on y, the share of kept entries as a colour; one panel a method,
//! one budget. The colour runs from nearly white to dark blue, so that it reads without hue too.

use std::ops::Range;

use ripplekv_runner::kept::KeptBits;

use crate::figures::axes::{Axes, round_ticks, tick_text};
use crate::figures::frame::Heading;
use crate::figures::scene::{Anchor, Label, Scene, fitted_apart, label, text_width};
use crate::figures::style::{Rgb, STYLE, between};
use crate::figures::{Data, Figure, data_number};
use crate::shown::KeptPrompt;

const PANEL_WIDTH: f64 = 380.0;
const PANELS_A_LINE: usize = 2;
/// Height of one layer, within these limits of a panel.
const LAYER_HEIGHT: f64 = 5.0;
const LEAST_HEIGHT: f64 = 100.0;
const MOST_HEIGHT: f64 = 260.0;
/// Panel title above; axis with its title below.
const ABOVE: f64 = 30.0;
const BELOW: f64 = 56.0;
const GAP: f64 = 30.0;
/// Bins along the prompt: fine enough to see sinks and window, coarse enough for a small file.
const BINS: usize = 32;
/// Steps of the colour.
const LEVELS: usize = 10;
const KEY_STEP: f64 = 24.0;
const KEY_HEIGHT: f64 = 12.0;
/// Space for the colour key below the heading.
const KEY_ROOM: f64 = 48.0;
const NOTHING: Rgb = Rgb(0xf2, 0xf5, 0xf8);
const EVERYTHING: Rgb = Rgb(0x08, 0x2a, 0x54);

struct Panel<'a> {
    label: &'a str,
    /// Share of entries kept of a bin, over its positions and the layer's KV heads, `[layer][bin]`.
    shares: Vec<Vec<f64>>,
    /// First position of each bin, and the end of the last.
    edges: Vec<usize>,
}

pub(super) fn build(prompt: &KeptPrompt) -> Vec<Figure> {
    let panels: Vec<Panel<'_>> = prompt
        .methods
        .iter()
        .filter(|(_, _, kept)| kept.prompt_tokens() > 0 && kept.layers() > 0 && kept.kv_heads() > 0)
        .map(|(label, _, kept)| panel(label, kept))
        .collect();
    if panels.is_empty() {
        return Vec::new();
    }
    vec![Figure {
        part: String::new(),
        description: format!(
            "share of cache entries that {} methods keep of one prompt of {} ({}) at budget {}, by position and layer",
            panels.len(),
            prompt.task,
            prompt.sample,
            prompt.budget
        ),
        scene: draw(prompt, &panels),
        data: data(&panels),
    }]
}

fn panel<'a>(label: &'a str, kept: &KeptBits) -> Panel<'a> {
    let tokens = kept.prompt_tokens();
    let bins = BINS.min(tokens);
    let edges: Vec<usize> = (0..=bins).map(|bin| bin * tokens / bins).collect();
    let share = |layer: usize, bin: usize| {
        let (from, to) = (edges[bin], edges[bin + 1]);
        let heads = kept.kv_heads();
        let count = (0..heads)
            .flat_map(|head| (from..to).map(move |position| (head, position)))
            .filter(|(head, position)| kept.keeps(layer, *head, *position))
            .count();
        count as f64 / (heads * (to - from)) as f64
    };
    Panel {
        label,
        shares: (0..kept.layers())
            .map(|layer| (0..bins).map(|bin| share(layer, bin)).collect())
            .collect(),
        edges,
    }
}

/// Rounded up: what is kept at all can be seen.
fn level(share: f64) -> usize {
    ((share * LEVELS as f64).ceil() as usize).min(LEVELS)
}

fn color(level: usize) -> Rgb {
    between(NOTHING, EVERYTHING, level as f64 / LEVELS as f64)
}

fn draw(prompt: &KeptPrompt, panels: &[Panel<'_>]) -> Scene {
    let layers = panels
        .iter()
        .map(|panel| panel.shares.len())
        .max()
        .unwrap_or(1);
    let height = (layers as f64 * LAYER_HEIGHT).clamp(LEAST_HEIGHT, MOST_HEIGHT);
    let widest = text_width(&layers.to_string(), STYLE.small_size);
    let before = 24.0 + widest + 8.0;
    let columns = panels.len().min(PANELS_A_LINE);
    let step = before + PANEL_WIDTH + GAP;
    let width = 2.0 * STYLE.margin + columns as f64 * step - GAP;
    let heading = Heading::new(
        &format!("Kept positions of one prompt at budget {}", prompt.budget),
        &format!(
            "{}. {}, sample {}. Share of a layer's cache entries kept, over its KV heads and the positions of a bin, rounded up to tens of percent.",
            prompt.group, prompt.task, prompt.sample
        ),
        width,
    );
    let line_height = ABOVE + height + BELOW;
    let lines = panels.len().div_ceil(PANELS_A_LINE);
    let top = heading.height() + KEY_ROOM;
    let mut scene = Scene::new(width, top + lines as f64 * line_height + STYLE.margin);
    heading.draw(&mut scene);
    draw_key(&mut scene, STYLE.margin, heading.height());
    let labels: Vec<&str> = panels.iter().map(|panel| panel.label).collect();
    let names = fitted_apart(&labels, STYLE.text_size, PANEL_WIDTH);
    for (index, panel) in panels.iter().enumerate() {
        let (column, line) = (index % PANELS_A_LINE, index / PANELS_A_LINE);
        let left = STYLE.margin + column as f64 * step + before;
        let top = top + line as f64 * line_height + ABOVE;
        let axes = Axes {
            left,
            top,
            right: left + PANEL_WIDTH,
            bottom: top + height,
            x_range: (0.0, panel.edges[panel.edges.len() - 1] as f64),
            // the first layer on top, as the prompt passes through them
            y_range: (panel.shares.len() as f64 - 0.5, -0.5),
        };
        let title_x = left - before + 10.0;
        draw_panel(&mut scene, (panel, &names[index]), &axes, title_x);
    }
    scene
}

/// What the colours mean.
fn draw_key(scene: &mut Scene, left: f64, top: f64) {
    let title = "share kept";
    scene.text(label(title, left, top + KEY_HEIGHT - 2.0));
    let left = left + text_width(title, STYLE.text_size) + 14.0;
    for step in 0..=LEVELS {
        let x = left + step as f64 * KEY_STEP;
        rectangle(
            scene,
            (x, x + KEY_STEP),
            (top, top + KEY_HEIGHT),
            color(step),
        );
        if step % 5 == 0 {
            scene.text(Label {
                size: STYLE.small_size,
                color: STYLE.muted,
                anchor: Anchor::Middle,
                ..label(
                    format!("{}%", 100 * step / LEVELS),
                    x + KEY_STEP / 2.0,
                    top + KEY_HEIGHT + 14.0,
                )
            });
        }
    }
}

fn rectangle(scene: &mut Scene, x: (f64, f64), y: (f64, f64), color: Rgb) {
    scene.area(
        &[(x.0, y.0), (x.1, y.0), (x.1, y.1), (x.0, y.1)],
        color,
        1.0,
    );
}

/// Neighbouring bins of one colour and layer, as (level, layer, bins), colour by colour; what is not kept at all has none.
fn coloured_runs(panel: &Panel<'_>) -> Vec<(usize, usize, Range<usize>)> {
    let mut runs = Vec::new();
    for (layer, shares) in panel.shares.iter().enumerate() {
        let mut bin = 0;
        while bin < shares.len() {
            let here = level(shares[bin]);
            let same = shares[bin..]
                .iter()
                .take_while(|share| level(**share) == here);
            let end = bin + same.count();
            if here > 0 {
                runs.push((here, layer, bin..end));
            }
            bin = end;
        }
    }
    runs.sort_by_key(|(here, _, _)| *here);
    runs
}

fn draw_panel(scene: &mut Scene, (panel, name): (&Panel<'_>, &str), axes: &Axes, title_x: f64) {
    scene.text(label(name, axes.left, axes.top - 10.0));
    rectangle(
        scene,
        (axes.left, axes.right),
        (axes.top, axes.bottom),
        color(0),
    );
    for (here, layer, bins) in coloured_runs(panel) {
        let y = (axes.y(layer as f64 - 0.5), axes.y(layer as f64 + 0.5));
        let x = (
            axes.x(panel.edges[bins.start] as f64),
            axes.x(panel.edges[bins.end] as f64),
        );
        rectangle(scene, x, y, color(here));
    }
    for layer in (0..panel.shares.len()).step_by(layer_step(panel.shares.len())) {
        scene.text(Label {
            size: STYLE.small_size,
            color: STYLE.muted,
            anchor: Anchor::End,
            ..label(
                layer.to_string(),
                axes.left - 8.0,
                axes.y(layer as f64) + 4.0,
            )
        });
    }
    let tokens = axes.x_range.1;
    let ticks = round_ticks(0.0, tokens, 5);
    let inside: Vec<(f64, String)> = ticks
        .iter()
        .filter(|tick| **tick <= tokens)
        .map(|tick| (*tick, tick_text(*tick, &ticks)))
        .collect();
    axes.draw_x(scene, &inside);
    axes.x_title(scene, "position in the prompt (tokens)");
    axes.y_title(scene, "layer (0 is the first)", title_x);
}

/// Layers from one number to the next, so that numbers stay apart.
fn layer_step(layers: usize) -> usize {
    [1, 2, 5, 10, 20, 50]
        .into_iter()
        .find(|step| layers.div_ceil(*step) <= 8)
        .unwrap_or(100)
}

/// Bins of which nothing is kept have no row.
fn data(panels: &[Panel<'_>]) -> Data {
    let mut rows = Vec::new();
    for panel in panels {
        for (layer, shares) in panel.shares.iter().enumerate() {
            let bins = shares.iter().zip(panel.edges.windows(2));
            for (share, edges) in bins.filter(|(share, _)| **share > 0.0) {
                rows.push(vec![
                    panel.label.to_owned(),
                    layer.to_string(),
                    edges[0].to_string(),
                    edges[1].to_string(),
                    data_number(Some(*share)),
                ]);
            }
        }
    }
    Data {
        header: vec![
            "method",
            "layer",
            "from_position",
            "to_position",
            "share_kept",
        ],
        rows,
    }
}
