//! A figure as a list of shapes in pixels, before any drawing library sees it: so tests can ask whether texts overlap.
//! Texts are measured with the bundled font.

use std::sync::OnceLock;

use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};

use crate::figures::style::{Marker, Rgb, STYLE};

/// Side of the text that its x stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A text. `x`, `y` is a point of its baseline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Label {
    pub(crate) text: String,
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) size: f64,
    pub(crate) color: Rgb,
    pub(crate) anchor: Anchor,
    /// Reads from bottom to top.
    pub(crate) upward: bool,
}

/// One shape.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Line {
        points: Vec<(f64, f64)>,
        color: Rgb,
        width: f64,
    },
    Area {
        points: Vec<(f64, f64)>,
        color: Rgb,
        opacity: f64,
    },
    Disc {
        x: f64,
        y: f64,
        radius: f64,
        color: Rgb,
    },
    Text(Label),
}

/// Everything in a figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scene {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) shapes: Vec<Shape>,
}

impl Scene {
    pub(crate) fn new(width: f64, height: f64) -> Scene {
        Scene {
            width: width.ceil(),
            height: height.ceil(),
            shapes: Vec::new(),
        }
    }

    pub(crate) fn line(&mut self, points: &[(f64, f64)], color: Rgb, width: f64) {
        self.shapes.push(Shape::Line {
            points: points.to_vec(),
            color,
            width,
        });
    }

    /// A line of dashes 6 long with gaps of 4.
    pub(crate) fn dashed(&mut self, from: (f64, f64), to: (f64, f64), color: Rgb, width: f64) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy);
        let mut start = 0.0;
        while start < length {
            let end = (start + 6.0).min(length);
            let at = |distance: f64| {
                (
                    from.0 + dx * distance / length,
                    from.1 + dy * distance / length,
                )
            };
            self.line(&[at(start), at(end)], color, width);
            start += 10.0;
        }
    }

    pub(crate) fn area(&mut self, points: &[(f64, f64)], color: Rgb, opacity: f64) {
        self.shapes.push(Shape::Area {
            points: points.to_vec(),
            color,
            opacity,
        });
    }

    /// A marker with a thin rim of background, so that overlapping ones stay apart.
    pub(crate) fn marker(&mut self, x: f64, y: f64, marker: Marker, color: Rgb, radius: f64) {
        self.plain_marker(x, y, marker, STYLE.background, radius + 1.25);
        self.plain_marker(x, y, marker, color, radius);
    }

    /// A marker that is only a rim.
    pub(crate) fn ring(&mut self, x: f64, y: f64, color: Rgb, radius: f64) {
        self.plain_marker(x, y, Marker::Circle, color, radius);
        self.plain_marker(x, y, Marker::Circle, STYLE.background, radius - 1.5);
    }

    fn plain_marker(&mut self, x: f64, y: f64, marker: Marker, color: Rgb, radius: f64) {
        // Sides are chosen so that all shapes cover about the area of the disc.
        let outline: &[(f64, f64)] = match marker {
            Marker::Circle => {
                self.shapes.push(Shape::Disc {
                    x,
                    y,
                    radius,
                    color,
                });
                return;
            }
            Marker::Square => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            Marker::TriangleUp => &[(0.0, -1.3), (1.2, 0.85), (-1.2, 0.85)],
            Marker::Diamond => &[(0.0, -1.35), (1.15, 0.0), (0.0, 1.35), (-1.15, 0.0)],
            Marker::TriangleDown => &[(0.0, 1.3), (1.2, -0.85), (-1.2, -0.85)],
        };
        let points: Vec<(f64, f64)> = outline
            .iter()
            .map(|(dx, dy)| (x + dx * radius, y + dy * radius))
            .collect();
        self.area(&points, color, 1.0);
    }

    pub(crate) fn text(&mut self, label: Label) {
        let text = label
            .text
            .chars()
            .map(|character| {
                if character.is_control() {
                    ' '
                } else {
                    character
                }
            })
            .collect();
        self.shapes.push(Shape::Text(Label { text, ..label }));
    }
}

/// A plain label; the caller changes what differs.
pub(crate) fn label(text: impl Into<String>, x: f64, y: f64) -> Label {
    Label {
        text: text.into(),
        x,
        y,
        size: STYLE.text_size,
        color: STYLE.ink,
        anchor: Anchor::Start,
        upward: false,
    }
}

static FONT: &[u8] = include_bytes!("../../assets/OpenSans-Regular.ttf");

/// Line height of the bundled font in ems, which the drawing library takes for its size.
pub(crate) const FONT_HEIGHT_EM: f64 = 2789.0 / 2048.0;

/// Makes the bundled font known to the drawing library, once; false when the library refuses it.
pub(crate) fn font_is_ready() -> bool {
    static READY: OnceLock<bool> = OnceLock::new();
    *READY.get_or_init(|| register_font(STYLE.font_family, FontStyle::Normal, FONT).is_ok())
}

/// Room for viewers of the SVG that have another font: DejaVu Sans, the widest usual one, needs 1.11.
const OTHER_FONTS: f64 = 1.12;

/// Most pixels a text takes, in the bundled font or in the one a viewer puts in its place.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    // Measured large, because the library rounds widths to whole pixels.
    const MEASURE_EM: f64 = 1000.0;
    let measured = font_is_ready().then(|| {
        let family = FontFamily::Name(STYLE.font_family);
        let font = FontDesc::new(family, MEASURE_EM * FONT_HEIGHT_EM, FontStyle::Normal);
        font.box_size(text).ok()
    });
    match measured.flatten() {
        Some((width, _)) => OTHER_FONTS * f64::from(width) * size / MEASURE_EM,
        None => 0.6 * size * text.chars().count() as f64,
    }
}

/// The text, ended by an ellipsis where it would be wider than `width`.
pub(crate) fn fitted(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut kept: String = text.to_owned();
    while kept.pop().is_some() {
        let shortened = format!("{}…", kept.trim_end());
        if text_width(&shortened, size) <= width {
            return shortened;
        }
    }
    String::new()
}

/// Each text as [`fitted`]; those that would read the same lose what all of them say instead, so that a sweep's methods can
/// be told apart: `ripplekv(…gamma=2,…r=4)`.
pub(crate) fn fitted_apart(texts: &[&str], size: f64, width: f64) -> Vec<String> {
    let plain: Vec<String> = texts.iter().map(|text| fitted(text, size, width)).collect();
    let words = |text: &str| -> Vec<String> {
        let words = text.split_inclusive([' ', ',', '(']);
        words.map(str::to_owned).collect()
    };
    let of_text = |(place, text): (usize, &&str)| {
        let alike: Vec<Vec<String>> = texts
            .iter()
            .zip(&plain)
            .filter(|(_, shown)| **shown == plain[place])
            .map(|(other, _)| words(other))
            .collect();
        if alike.len() < 2 {
            return plain[place].clone();
        }
        let mut shown = String::new();
        for (word_place, word) in words(text).iter().enumerate() {
            if word_place == 0 || !alike.iter().all(|other| other.contains(word)) {
                shown.push_str(word);
            } else if !shown.ends_with('…') {
                shown.push('…');
            }
        }
        fitted(&shown, size, width)
    };
    texts.iter().enumerate().map(of_text).collect()
}

/// Lines of whole words, none wider than `width`.
pub(crate) fn wrapped(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let joined = lines.last().map(|line| format!("{line} {word}"));
        match (joined, lines.last_mut()) {
            (Some(joined), Some(line)) if text_width(&joined, size) <= width => *line = joined,
            _ => lines.push(fitted(word, size, width)),
        }
    }
    lines
}

#[cfg(test)]
pub(crate) mod check {
    //! What every figure must hold, whatever is in it.

    use super::*;

    type Rectangle = (f64, f64, f64, f64);

    fn rectangle(label: &Label) -> Rectangle {
        let width = text_width(&label.text, label.size);
        let start = match label.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -width / 2.0,
            Anchor::End => -width,
        };
        let (above, below) = (0.76 * label.size, 0.22 * label.size);
        if label.upward {
            let bottom = label.y - start;
            (label.x - above, bottom - width, label.x + below, bottom)
        } else {
            let left = label.x + start;
            (left, label.y - above, left + width, label.y + below)
        }
    }

    /// Panics when two texts overlap or one leaves the figure.
    pub(crate) fn texts_are_readable(scene: &Scene) {
        let texts: Vec<(&Label, Rectangle)> = scene
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Text(label) if !label.text.is_empty() => Some((label, rectangle(label))),
                _ => None,
            })
            .collect();
        assert!(!texts.is_empty(), "a figure without any text");
        for (index, (label, area)) in texts.iter().enumerate() {
            assert!(
                area.0 >= 0.0 && area.1 >= 0.0 && area.2 <= scene.width && area.3 <= scene.height,
                "`{}` leaves the figure: {area:?} in {} x {}",
                label.text,
                scene.width,
                scene.height
            );
            for (other, other_area) in &texts[index + 1..] {
                let apart = area.2 <= other_area.0
                    || other_area.2 <= area.0
                    || area.3 <= other_area.1
                    || other_area.3 <= area.1;
                assert!(apart, "`{}` overlaps `{}`", label.text, other.text);
            }
        }
    }

    #[test]
    fn widths_follow_the_font() {
        assert!(font_is_ready());
        let narrow = text_width("iiii", 12.0);
        let wide = text_width("MMMM", 12.0);
        assert!(
            narrow > 8.0 && narrow < wide && wide < 54.0,
            "{narrow} {wide}"
        );
        assert_eq!(fitted("short", 12.0, 200.0), "short");
        let cut = fitted("a label that is far too long", 12.0, 60.0);
        assert!(cut.ends_with('…') && text_width(&cut, 12.0) <= 60.0);
        let sweep = |gamma: u32, r: u32| {
            format!("ripplekv(center=geometric,gamma={gamma},kernel=5,window=64,r={r})")
        };
        let sweep = [sweep(2, 4), sweep(2, 16), sweep(4, 4), "snapkv".to_owned()];
        let sweep: Vec<&str> = sweep.iter().map(String::as_str).collect();
        assert_eq!(
            fitted_apart(&sweep, 12.0, 200.0),
            [
                "ripplekv(…gamma=2,…r=4)",
                "ripplekv(…gamma=2,…r=16)",
                "ripplekv(…gamma=4,…r=4)",
                "snapkv"
            ]
        );
        assert!(wrapped("one two three four five", 12.0, 60.0).len() > 1);
    }
}
