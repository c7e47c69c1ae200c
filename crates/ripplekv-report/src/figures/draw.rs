//! Draws a scene with plotters, as SVG and as PNG. Both are made in memory; the same scene gives the same bytes.
//! Drawn at four times the size: the SVG keeps quarter pixels, the PNG is averaged down to twice the size, which smooths edges.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    FontDesc, FontFamily, FontStyle, FontTransform, RGBAColor, ShapeStyle, TextStyle,
};

use crate::figures::compact::compact;
use crate::figures::scene::{Anchor, FONT_HEIGHT_EM, Label, Scene, Shape, font_is_ready};
use crate::figures::style::{Rgb, STYLE};

const SCALE: f64 = 4.0;
/// Drawn pixels a side that become one pixel of the PNG.
const PER_PIXEL: usize = 2;

/// How a backend places text: its size for one em, and how far below the given point the baseline lies, in ems.
#[derive(Clone, Copy)]
struct TextMetrics {
    size_per_em: f64,
    baseline_em: f64,
}

/// plotters-svg writes `font-size = size / 1.24` and `dy = 0.76em` for text anchored at its top.
const SVG_TEXT: TextMetrics = TextMetrics {
    size_per_em: 1.24,
    baseline_em: 0.76,
};

/// plotters' ab_glyph takes the font's line height for the size and puts the baseline at half of it.
const BITMAP_TEXT: TextMetrics = TextMetrics {
    size_per_em: FONT_HEIGHT_EM,
    baseline_em: FONT_HEIGHT_EM / 2.0,
};

/// The scene as SVG text.
pub(crate) fn svg(scene: &Scene) -> Result<String, String> {
    let (width, height) = pixels(scene, SCALE);
    let mut text = String::new();
    {
        let mut backend = SVGBackend::with_string(&mut text, (width, height));
        draw(scene, &mut backend, SVG_TEXT)?;
        backend.present().map_err(|error| error.to_string())?;
    }
    let drawn = format!("width=\"{width}\" height=\"{height}\"");
    let shown = format!("width=\"{}\" height=\"{}\"", scene.width, scene.height);
    let text = text.replacen(&drawn, &shown, 1);
    // what every element repeats is said once, at the top: a report holds many figures
    let text = compact(&text.replace(" opacity=\"1\"", ""));
    let Some(family) = text.find(" font-family=").and_then(|start| {
        let end = text[start..].match_indices('"').nth(1)?.0;
        Some(text[start..=start + end].to_owned())
    }) else {
        return Ok(text);
    };
    let text = text.replace(&family, "");
    Ok(text.replacen(" xmlns=", &format!("{family} xmlns="), 1))
}

/// Writes the scene as a PNG of twice its size.
pub(crate) fn png(scene: &Scene, path: &Path) -> Result<(), String> {
    let (width, height) = pixels(scene, SCALE);
    let mut drawn = vec![0_u8; width as usize * height as usize * 3];
    {
        let mut backend = BitMapBackend::with_buffer(&mut drawn, (width, height));
        draw(scene, &mut backend, BITMAP_TEXT)?;
        backend.present().map_err(|error| error.to_string())?;
    }
    let (small_width, small_height) = pixels(scene, SCALE / PER_PIXEL as f64);
    let small = averaged(
        &drawn,
        width as usize,
        small_width as usize,
        small_height as usize,
    );
    let (palette, indices) = indexed(&small);
    let file = File::create(path).map_err(|error| error.to_string())?;
    let mut encoder = png::Encoder::new(BufWriter::new(file), small_width, small_height);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_palette(palette);
    encoder.set_compression(png::Compression::Best);
    encoder.set_filter(png::FilterType::NoFilter);
    let mut writer = encoder.write_header().map_err(|error| error.to_string())?;
    let written = writer.write_image_data(&indices);
    written
        .and_then(|()| writer.finish())
        .map_err(|error| error.to_string())
}

/// Colours of a palette.
const PALETTE_COLORS: usize = 256;

/// A palette (three bytes a colour) and each pixel's place in it: figures are flat, and so a fifth of the size. The commonest
/// colours are exact; the rare ones of smoothed edges become the nearest of them.
fn indexed(pixels: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let colors: Vec<[u8; 3]> = pixels
        .chunks_exact(3)
        .map(|rgb| [rgb[0], rgb[1], rgb[2]])
        .collect();
    let mut counts: BTreeMap<[u8; 3], usize> = BTreeMap::new();
    for color in &colors {
        *counts.entry(*color).or_default() += 1;
    }
    let mut by_count: Vec<([u8; 3], usize)> = counts.into_iter().collect();
    by_count.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let palette: Vec<[u8; 3]> = by_count
        .iter()
        .take(PALETTE_COLORS)
        .map(|(color, _)| *color)
        .collect();
    let distance = |left: &[u8; 3], right: &[u8; 3]| -> u32 {
        let pairs = left.iter().zip(right);
        pairs
            .map(|(left, right)| u32::from(left.abs_diff(*right)).pow(2))
            .sum()
    };
    let place_of = |color: &[u8; 3]| {
        let places = 0..palette.len();
        places
            .min_by_key(|place| distance(&palette[*place], color))
            .unwrap_or(0) as u8
    };
    let places: BTreeMap<[u8; 3], u8> = by_count
        .iter()
        .map(|(color, _)| (*color, place_of(color)))
        .collect();
    let indices = colors.iter().map(|color| places[color]).collect();
    (palette.concat(), indices)
}

fn pixels(scene: &Scene, scale: f64) -> (u32, u32) {
    ((scene.width * scale) as u32, (scene.height * scale) as u32)
}

fn averaged(drawn: &[u8], drawn_width: usize, width: usize, height: usize) -> Vec<u8> {
    let mut small = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        for x in 0..width {
            for channel in 0..3 {
                let mut total = 0_usize;
                for dy in 0..PER_PIXEL {
                    for dx in 0..PER_PIXEL {
                        let place = (y * PER_PIXEL + dy) * drawn_width + x * PER_PIXEL + dx;
                        total += usize::from(drawn[place * 3 + channel]);
                    }
                }
                small.push((total / (PER_PIXEL * PER_PIXEL)) as u8);
            }
        }
    }
    small
}

fn draw<Backend: DrawingBackend>(
    scene: &Scene,
    backend: &mut Backend,
    metrics: TextMetrics,
) -> Result<(), String> {
    if !font_is_ready() {
        return Err("the bundled font cannot be read".to_owned());
    }
    let (width, height) = pixels(scene, SCALE);
    let background = fill(STYLE.background, 1.0);
    backend
        .draw_rect((0, 0), (width as i32, height as i32), &background, true)
        .map_err(|error| error.to_string())?;
    for shape in &scene.shapes {
        let drawn = match shape {
            Shape::Line {
                points,
                color,
                width,
            } => backend.draw_path(scaled(points), &stroke(*color, *width)),
            Shape::Area {
                points,
                color,
                opacity,
            } => backend.fill_polygon(scaled(points), &fill(*color, *opacity)),
            Shape::Disc {
                x,
                y,
                radius,
                color,
            } => {
                let radius = (radius * SCALE).round() as u32;
                backend.draw_circle(point(*x, *y), radius, &fill(*color, 1.0), true)
            }
            Shape::Text(label) => {
                draw_text(label, backend, metrics)?;
                continue;
            }
        };
        drawn.map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn draw_text<Backend: DrawingBackend>(
    label: &Label,
    backend: &mut Backend,
    metrics: TextMetrics,
) -> Result<(), String> {
    if label.text.is_empty() {
        return Ok(());
    }
    let em = label.size * SCALE;
    let family = FontFamily::Name(STYLE.font_family);
    let font = FontDesc::new(family, em * metrics.size_per_em, FontStyle::Normal);
    let font = if label.upward {
        font.transform(FontTransform::Rotate270)
    } else {
        font
    };
    let horizontal = match label.anchor {
        Anchor::Start => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::End => HPos::Right,
    };
    let color = rgba(label.color, 1.0);
    let style = TextStyle::from(font)
        .color(&color)
        .pos(Pos::new(horizontal, VPos::Top));
    let shift = metrics.baseline_em * label.size;
    let at = if label.upward {
        point(label.x - shift, label.y)
    } else {
        point(label.x, label.y - shift)
    };
    backend
        .draw_text(&label.text, &style, at)
        .map_err(|error| error.to_string())
}

fn point(x: f64, y: f64) -> (i32, i32) {
    ((x * SCALE).round() as i32, (y * SCALE).round() as i32)
}

fn scaled(points: &[(f64, f64)]) -> Vec<(i32, i32)> {
    points.iter().map(|(x, y)| point(*x, *y)).collect()
}

fn rgba(color: Rgb, opacity: f64) -> RGBAColor {
    RGBAColor(color.0, color.1, color.2, opacity)
}

fn fill(color: Rgb, opacity: f64) -> ShapeStyle {
    ShapeStyle {
        color: rgba(color, opacity),
        filled: true,
        stroke_width: 0,
    }
}

fn stroke(color: Rgb, width: f64) -> ShapeStyle {
    ShapeStyle {
        color: rgba(color, 1.0),
        filled: false,
        stroke_width: ((width * SCALE).round() as u32).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_palette_holds_the_common_colours_and_near_ones_for_the_rest() {
        let mut pixels = Vec::new();
        for shade in 0..=255 {
            pixels.extend([shade; 3].repeat(2));
        }
        pixels.extend([200, 10, 10].repeat(9));
        pixels.extend([7, 8, 7]);
        let (palette, indices) = indexed(&pixels);
        assert_eq!(
            (palette.len(), indices.len()),
            (3 * PALETTE_COLORS, pixels.len() / 3)
        );
        for (pixel, index) in pixels.chunks(3).zip(&indices) {
            let shown = &palette[3 * usize::from(*index)..][..3];
            let is_near = shown
                .iter()
                .zip(pixel)
                .all(|(left, right)| left.abs_diff(*right) <= 1);
            assert!(is_near, "{pixel:?} became {shown:?}");
        }
    }
}
