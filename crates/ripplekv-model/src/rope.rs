//! Rotary positions in the half-split form, frequencies as transformers computes them (f32).

use std::f32::consts::PI;

use candle_core::{DType, Device, Tensor};

use crate::config::{ModelConfig, RopeScaling};

/// Tables of cosines and sines.
#[derive(Debug, Clone)]
pub(crate) struct Rope {
    cos: Tensor,
    sin: Tensor,
}

impl Rope {
    /// Tables for positions `0..positions`, `[positions, head_dim / 2]`.
    pub(crate) fn new(
        config: &ModelConfig,
        positions: usize,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Self> {
        let frequencies = inverse_frequencies(config);
        let half = frequencies.len();
        let mut angles = Vec::with_capacity(positions * half);
        for position in 0..positions {
            angles.extend(
                frequencies
                    .iter()
                    .map(|frequency| position as f32 * frequency),
            );
        }
        let angles = Tensor::from_vec(angles, (positions, half), device)?;
        Ok(Self {
            cos: angles.cos()?.to_dtype(dtype)?,
            sin: angles.sin()?.to_dtype(dtype)?,
        })
    }

    /// Turns `[heads, seq, head_dim]` whose first entry stands at `position`.
    pub(crate) fn apply(&self, states: &Tensor, position: usize) -> candle_core::Result<Tensor> {
        let (_, seq, _) = states.dims3()?;
        let cos = self.cos.narrow(0, position, seq)?;
        let sin = self.sin.narrow(0, position, seq)?;
        candle_nn::rotary_emb::rope(&states.unsqueeze(0)?.contiguous()?, &cos, &sin)?.squeeze(0)
    }

    /// Positions in the table.
    pub(crate) fn positions(&self) -> usize {
        self.cos.dims().first().copied().unwrap_or(0)
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
