//! SwiGLU's gate, `silu(gate) * up` (Shazeer 2020).

use pulp::{Simd, WithSimd};
use ripplekv_cache::exponential::exp2;

/// `gate` becomes `silu(gate) * up`.
pub(crate) fn swiglu(gate: &mut [f32], up: &[f32]) {
    pulp::Arch::new().dispatch(SwiGlu { gate, up });
}

struct SwiGlu<'a> {
    gate: &'a mut [f32],
    up: &'a [f32],
}

impl WithSimd for SwiGlu<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (gate, gate_tail) = S::as_mut_simd_f32s(self.gate);
        let (up, up_tail) = S::as_simd_f32s(self.up);
        for (gate, up) in gate.iter_mut().zip(up) {
            *gate = gated(simd, *gate, *up);
        }
        if !gate_tail.is_empty() {
            let value = simd.partial_load_f32s(gate_tail);
            let value = gated(simd, value, simd.partial_load_f32s(up_tail));
            simd.partial_store_f32s(gate_tail, value);
        }
    }
}

#[inline(always)]
fn gated<S: Simd>(simd: S, gate: S::f32s, up: S::f32s) -> S::f32s {
    let negative = simd.mul_f32s(gate, simd.splat_f32s(-std::f32::consts::LOG2_E));
    let below = simd.add_f32s(simd.splat_f32s(1.0), exp2(simd, negative));
    simd.mul_f32s(simd.div_f32s(gate, below), up)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_is_right_for_odd_lengths() {
        let gate: Vec<f32> = (0..501u16).map(|i| f32::from(i) / 6.0 - 40.0).collect();
        let up: Vec<f32> = (0..501u16).map(|i| 2.0 - f32::from(i % 17) / 5.0).collect();
        let mut got = gate.clone();
        swiglu(&mut got, &up);
        for ((got, gate), up) in got.iter().zip(&gate).zip(&up) {
            let gate = f64::from(*gate);
            let exact = gate / (1.0 + (-gate).exp()) * f64::from(*up);
            assert!((f64::from(*got) - exact).abs() < 1e-5, "{got} {exact}");
        }
    }
}
