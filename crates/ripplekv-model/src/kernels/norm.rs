//! RMS norm of one row (Zhang and Sennrich 2019): `x / sqrt(mean(x^2) + epsilon) * weight`.

use pulp::{Simd, WithSimd};

/// Writes the norm of `states` to `out`; all three as long as each other.
pub(crate) fn rms_norm(states: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let mean = pulp::Arch::new().dispatch(SquareSum(states)) / states.len() as f32;
    let factor = 1.0 / (mean + epsilon).sqrt();
    for ((out, state), weight) in out.iter_mut().zip(states).zip(weight) {
        *out = state * factor * weight;
    }
}

struct SquareSum<'a>(&'a [f32]);

impl WithSimd for SquareSum<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let (body, tail) = S::as_simd_f32s(self.0);
        let mut sums = simd.splat_f32s(0.0);
        for value in body {
            sums = simd.mul_add_f32s(*value, *value, sums);
        }
        let rest: f32 = tail.iter().map(|value| value * value).sum();
        simd.reduce_sum_f32s(sums) + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_norm_is_right_for_odd_widths() {
        let states: Vec<f32> = (0..37u8).map(|i| f32::from(i) / 7.0 - 2.0).collect();
        let weight: Vec<f32> = (0..37u8).map(|i| 1.0 + f32::from(i) / 40.0).collect();
        let mut out = vec![0.0; 37];
        rms_norm(&states, &weight, 1e-5, &mut out);
        let wide = || states.iter().map(|value| f64::from(*value));
        let mean = wide().map(|value| value * value).sum::<f64>() / 37.0;
        for ((got, state), weight) in out.iter().zip(wide()).zip(&weight) {
            let exact = state / (mean + 1e-5).sqrt() * f64::from(*weight);
            assert!((f64::from(*got) - exact).abs() < 1e-6, "{got} {exact}");
        }
    }
}
