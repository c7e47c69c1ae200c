//! Rotary positions in the half-split form, frequencies as transformers computes them (f32).

use std::f32::consts::PI;

use crate::config::{ModelConfig, RopeScaling};

/// Tables of cosines and sines.
#[derive(Debug, Clone)]
pub(crate) struct Rope {
    /// Channel pairs of a head.
    half: usize,
    /// Cosine and sine, `[positions, half]`.
    turns: Vec<(f32, f32)>,
}

impl Rope {
    /// Tables for positions `0..positions`.
    pub(crate) fn new(config: &ModelConfig, positions: usize) -> Self {
        let frequencies = inverse_frequencies(config);
        let turn = |position: usize, frequency: &f32| {
            let angle = position as f32 * frequency;
            (angle.cos(), angle.sin())
        };
        let turns = (0..positions).flat_map(|position| {
            let frequencies = frequencies.iter();
            frequencies.map(move |frequency| turn(position, frequency))
        });
        Self {
            half: frequencies.len(),
            turns: turns.collect(),
        }
    }

    /// Turns the heads of one position, `[heads, head_dim]`.
    pub(crate) fn apply(&self, states: &mut [f32], position: usize) {
        let turns = &self.turns[position * self.half..(position + 1) * self.half];
        for head in states.chunks_exact_mut(2 * self.half) {
            let (lower, upper) = head.split_at_mut(self.half);
            for ((a, b), (cos, sin)) in lower.iter_mut().zip(upper).zip(turns) {
                (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
            }
        }
    }

    /// Positions in the table.
    pub(crate) fn positions(&self) -> usize {
        self.turns.len() / self.half.max(1)
    }
}

/// One frequency a channel pair, `[head_dim / 2]`.
fn inverse_frequencies(config: &ModelConfig) -> Vec<f32> {
    let plain = (0..config.head_dim).step_by(2).map(|channel| {
        let exponent = channel as f32 / config.head_dim as f32;
        1.0 / config.rope_theta.powf(exponent)
    });
    match &config.rope_scaling {
        RopeScaling::None => plain.collect(),
        RopeScaling::Linear { factor } => plain.map(|frequency| frequency / factor).collect(),
        RopeScaling::PerChannel(factors) => plain
            .zip(factors)
            .map(|(frequency, factor)| frequency / factor)
            .collect(),
        RopeScaling::Llama3 {
            factor,
            low_freq_factor,
            high_freq_factor,
            original_context,
        } => plain
            .map(|frequency| {
                let original = *original_context as f32;
                let wavelength = 2.0 * PI / frequency;
                if wavelength < original / high_freq_factor {
                    frequency
                } else if wavelength > original / low_freq_factor {
                    frequency / factor
                } else {
                    let smooth = (original / wavelength - low_freq_factor)
                        / (high_freq_factor - low_freq_factor);
                    (1.0 - smooth) * frequency / factor + smooth * frequency
                }
            })
            .collect(),
    }
}
