//! What figures share around their plotting area: title lines on top, a legend at the right where no data can be.

use crate::figures::scene::{Label, Scene, fitted_apart, label, text_width, wrapped};
use crate::figures::style::{Marker, Rgb, STYLE};

/// Longest legend text in pixels; longer ones are cut, the data file has them whole.
const LEGEND_TEXT: f64 = 300.0;
const LEGEND_LINE: f64 = 21.0;
const SWATCH: f64 = 30.0;

/// How a legend entry is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Swatch {
    Series(Rgb, Marker),
    Dashed(Rgb),
}

/// Title and subtitle as they fit a width.
pub(crate) struct Heading {
    lines: Vec<(String, f64, Rgb)>,
}

impl Heading {
    pub(crate) fn new(title: &str, subtitle: &str, width: f64) -> Heading {
        let inner = width - 2.0 * STYLE.margin;
        let title = wrapped(title, STYLE.title_size, inner);
        let subtitle = wrapped(subtitle, STYLE.small_size, inner);
        let lines = title
            .into_iter()
            .map(|line| (line, STYLE.title_size, STYLE.ink))
            .chain(
                subtitle
                    .into_iter()
                    .map(|line| (line, STYLE.small_size, STYLE.muted)),
            )
            .collect();
        Heading { lines }
    }

    /// Height with the margins above and below.
    pub(crate) fn height(&self) -> f64 {
        let lines: f64 = self.lines.iter().map(|(_, size, _)| size * 1.5).sum();
        STYLE.margin + lines + 12.0
    }

    pub(crate) fn draw(&self, scene: &mut Scene) {
        let mut y = STYLE.margin;
        for (text, size, color) in &self.lines {
            y += size * 1.5;
            scene.text(Label {
                size: *size,
                color: *color,
                ..label(text.clone(), STYLE.margin, y - size * 0.4)
            });
        }
    }
}

/// Legend entries in the order of the rows.
pub(crate) struct Legend {
    pub(crate) entries: Vec<(Swatch, String)>,
}

impl Legend {
    pub(crate) fn new(entries: Vec<(Swatch, String)>) -> Legend {
        let texts: Vec<&str> = entries.iter().map(|(_, text)| text.as_str()).collect();
        let texts = fitted_apart(&texts, STYLE.text_size, LEGEND_TEXT);
        let swatches = entries.iter().map(|(swatch, _)| *swatch);
        Legend {
            entries: swatches.zip(texts).collect(),
        }
    }

    pub(crate) fn width(&self) -> f64 {
        let texts = self
            .entries
            .iter()
            .map(|(_, text)| text_width(text, STYLE.text_size));
        SWATCH + texts.fold(0.0, f64::max) + 4.0
    }

    pub(crate) fn height(&self) -> f64 {
        LEGEND_LINE * self.entries.len() as f64
    }

    pub(crate) fn draw(&self, scene: &mut Scene, left: f64, top: f64) {
        for (index, (swatch, text)) in self.entries.iter().enumerate() {
            let y = top + LEGEND_LINE * (index as f64 + 0.5);
            let (start, end) = (left, left + SWATCH - 8.0);
            match swatch {
                Swatch::Series(color, marker) => {
                    scene.line(&[(start, y), (end, y)], *color, STYLE.line_width);
                    let middle = (start + end) / 2.0;
                    scene.marker(middle, y, *marker, *color, STYLE.marker_radius);
                }
                Swatch::Dashed(color) => {
                    scene.dashed((start, y), (end, y), *color, STYLE.line_width)
                }
            }
            scene.text(label(text.clone(), left + SWATCH, y + 4.0));
        }
    }
}
