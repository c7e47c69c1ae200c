//! A plotting area with its ticks, grid and titles. Ticks lie on round numbers (Heckbert 1990, Graphics Gems).

use crate::figures::scene::{Anchor, Label, Scene, label, text_width};
use crate::figures::style::STYLE;

/// A rectangle of the scene and the values along its sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Axes {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
    pub(crate) x_range: (f64, f64),
    pub(crate) y_range: (f64, f64),
}

impl Axes {
    pub(crate) fn x(&self, value: f64) -> f64 {
        let (low, high) = self.x_range;
        self.left + (value - low) / (high - low) * (self.right - self.left)
    }

    pub(crate) fn y(&self, value: f64) -> f64 {
        let (low, high) = self.y_range;
        self.bottom - (value - low) / (high - low) * (self.bottom - self.top)
    }

    /// Horizontal grid lines with their numbers left of the area.
    pub(crate) fn draw_y(&self, scene: &mut Scene, ticks: &[f64]) {
        let texts: Vec<(f64, String)> = ticks
            .iter()
            .map(|tick| (*tick, tick_text(*tick, ticks)))
            .collect();
        self.draw_y_texts(scene, &texts);
    }

    /// As [`Axes::draw_y`], with texts of their own.
    pub(crate) fn draw_y_texts(&self, scene: &mut Scene, ticks: &[(f64, String)]) {
        for (tick, text) in ticks {
            let y = self.y(*tick);
            scene.line(&[(self.left, y), (self.right, y)], STYLE.grid, 1.0);
            scene.text(Label {
                size: STYLE.small_size,
                color: STYLE.muted,
                anchor: Anchor::End,
                ..label(text.clone(), self.left - 8.0, y + 4.0)
            });
        }
    }

    /// Small ticks below the area with their texts; a text that would touch the one before is left out.
    pub(crate) fn draw_x(&self, scene: &mut Scene, ticks: &[(f64, String)]) {
        scene.line(
            &[(self.left, self.bottom), (self.right, self.bottom)],
            STYLE.muted,
            1.0,
        );
        let mut free_from = f64::NEG_INFINITY;
        for (value, text) in ticks {
            let x = self.x(*value);
            scene.line(
                &[(x, self.bottom), (x, self.bottom + 4.0)],
                STYLE.muted,
                1.0,
            );
            let width = text_width(text, STYLE.small_size);
            if x - width / 2.0 < free_from {
                continue;
            }
            free_from = x + width / 2.0 + 6.0;
            scene.text(Label {
                size: STYLE.small_size,
                color: STYLE.muted,
                anchor: Anchor::Middle,
                ..label(text.clone(), x, self.bottom + 18.0)
            });
        }
    }

    pub(crate) fn x_title(&self, scene: &mut Scene, text: &str) {
        scene.text(Label {
            anchor: Anchor::Middle,
            ..label(text, (self.left + self.right) / 2.0, self.bottom + 40.0)
        });
    }

    /// Left of the numbers, reading upward.
    pub(crate) fn y_title(&self, scene: &mut Scene, text: &str, x: f64) {
        scene.text(Label {
            anchor: Anchor::Middle,
            upward: true,
            ..label(text, x, (self.top + self.bottom) / 2.0)
        });
    }
}

/// Round numbers from below `low` to above `high`, about `count` of them.
pub(crate) fn round_ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let span = if high > low { high - low } else { 1.0 };
    let rough = span / count.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(10.0 * power);
    let first = (low / step).floor() as i64;
    let last = (high / step).ceil() as i64;
    (first..=last.max(first + 1))
        .map(|index| index as f64 * step)
        .collect()
}

/// Layers to put a number at: at most 16, always layer 0.
pub(crate) fn layer_ticks(layers: usize) -> Vec<(f64, String)> {
    let step = [1, 2, 5, 10, 20]
        .into_iter()
        .find(|step| layers.div_ceil(*step) <= 16)
        .unwrap_or(50);
    (0..layers)
        .step_by(step)
        .map(|layer| (layer as f64, layer.to_string()))
        .collect()
}

/// As many decimals as the distance of the ticks needs.
pub(crate) fn tick_text(tick: f64, ticks: &[f64]) -> String {
    let step = ticks
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .fold(f64::INFINITY, f64::min);
    let decimals = if step.is_finite() && step < 1.0 {
        (-step.log10()).ceil().clamp(0.0, 6.0) as usize
    } else {
        0
    };
    format!("{:.decimals$}", tick + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_data() {
        assert_eq!(
            round_ticks(0.0, 100.0, 5),
            [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
        );
        assert_eq!(round_ticks(31.2, 33.9, 4), [31.0, 32.0, 33.0, 34.0]);
        let ticks = round_ticks(5.0, 5.0, 4);
        assert!(ticks.len() > 1 && ticks[0] <= 5.0 && ticks[ticks.len() - 1] >= 5.0);
        let fine = [0.1, 0.15, 0.2];
        assert_eq!(tick_text(0.15, &fine), "0.15");
        assert_eq!(tick_text(20.0, &[0.0, 20.0]), "20");
    }
}
