//! One look for all figures: font, sizes, and the Okabe-Ito palette, which colour-blind readers can tell apart.
//! Okabe and Ito 2008, "Color Universal Design"; their yellow, weak on white, is darkened, and a wine red takes the place of
//! black, which stands for what is not compressed. Shapes repeat what colours say.

/// Red, green, blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rgb(pub(crate) u8, pub(crate) u8, pub(crate) u8);

/// Shape of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    Circle,
    Square,
    TriangleUp,
    Diamond,
    TriangleDown,
}

/// Everything that makes figures look alike. Lengths are in pixels of the SVG; the PNG has twice as many.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Style {
    /// As in CSS: what an SVG viewer falls back to where Open Sans is not installed.
    pub(crate) font_family: &'static str,
    pub(crate) title_size: f64,
    pub(crate) text_size: f64,
    pub(crate) small_size: f64,
    pub(crate) ink: Rgb,
    pub(crate) muted: Rgb,
    pub(crate) grid: Rgb,
    pub(crate) background: Rgb,
    pub(crate) line_width: f64,
    pub(crate) marker_radius: f64,
    pub(crate) band_opacity: f64,
    pub(crate) margin: f64,
}

/// The style of every figure.
pub(crate) const STYLE: Style = Style {
    font_family: "Open Sans, Noto Sans, Segoe UI, Helvetica, Arial, sans-serif",
    title_size: 16.0,
    text_size: 12.0,
    small_size: 11.0,
    ink: Rgb(0x22, 0x22, 0x22),
    muted: Rgb(0x5f, 0x5f, 0x5f),
    grid: Rgb(0xe4, 0xe4, 0xe4),
    background: Rgb(0xff, 0xff, 0xff),
    line_width: 1.75,
    marker_radius: 4.0,
    band_opacity: 0.13,
    margin: 18.0,
};

const PALETTE: [Rgb; 8] = [
    Rgb(0x00, 0x72, 0xb2),
    Rgb(0xd5, 0x5e, 0x00),
    Rgb(0x00, 0x9e, 0x73),
    Rgb(0xcc, 0x79, 0xa7),
    Rgb(0x56, 0xb4, 0xe9),
    Rgb(0xe6, 0x9f, 0x00),
    Rgb(0x8a, 0x7d, 0x00),
    Rgb(0x66, 0x11, 0x00),
];

const MARKERS: [Marker; 5] = [
    Marker::Circle,
    Marker::Square,
    Marker::TriangleUp,
    Marker::Diamond,
    Marker::TriangleDown,
];

/// Colour and shape of the series at a place; eight colours and five shapes repeat together only after 40.
pub(crate) fn series_look(place: usize) -> (Rgb, Marker) {
    (
        PALETTE[place % PALETTE.len()],
        MARKERS[place % MARKERS.len()],
    )
}

/// Between two colours: 0 is the first, 1 the second.
pub(crate) fn between(from: Rgb, to: Rgb, share: f64) -> Rgb {
    let mix = |from: u8, to: u8| {
        let (from, to) = (f64::from(from), f64::from(to));
        (from + (to - from) * share.clamp(0.0, 1.0)).round() as u8
    };
    Rgb(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_series_look_different() {
        for left in 0..40 {
            for right in left + 1..40 {
                assert_ne!(series_look(left), series_look(right), "{left} and {right}");
            }
        }
    }
}
