//! 2^x as a polynomial of degree 6 after range reduction, relative error under 1e-6 including that of the argument's
//! scaling for e^x; explicit SIMD, so that it does not depend on what the compiler inlines.

use pulp::Simd;

/// Below this 2^x stays at about 1e-38.
const SMALLEST: f32 = -125.0;
/// Above this 2^x stays at 2^126; callers that need infinities do not come here.
const LARGEST: f32 = 126.0;
/// Adding and subtracting this rounds to the nearest integer, which then stands in the lowest bits.
const ROUND: f32 = 12_582_912.0;
/// ln(2)^k / k! for k = 6 down to 0.
const COEFFICIENTS: [f32; 7] = [
    1.540_353e-4,
    1.333_355_8e-3,
    9.618_129e-3,
    5.550_411e-2,
    2.402_265e-1,
    std::f32::consts::LN_2,
    1.0,
];

/// 2^x in every lane.
#[inline(always)]
pub fn exp2<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let x = simd.max_f32s(x, simd.splat_f32s(SMALLEST));
    let x = simd.min_f32s(x, simd.splat_f32s(LARGEST));
    let shifted = simd.add_f32s(x, simd.splat_f32s(ROUND));
    let fraction = simd.sub_f32s(x, simd.sub_f32s(shifted, simd.splat_f32s(ROUND)));
    let mut value = simd.splat_f32s(COEFFICIENTS[0]);
    for coefficient in &COEFFICIENTS[1..] {
        value = simd.mul_add_f32s(value, fraction, simd.splat_f32s(*coefficient));
    }
    // the integer part goes into the exponent; the bits of ROUND itself are shifted out
    let exponent = simd.wrapping_dyn_shl_u32s(
        simd.transmute_u32s_f32s(shifted),
        simd.splat_u32s(f32::MANTISSA_DIGITS - 1),
    );
    simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(value), exponent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulp::WithSimd;

    struct All<'a>(&'a mut [f32]);

    impl WithSimd for All<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let (body, tail) = S::as_mut_simd_f32s(self.0);
            assert!(tail.is_empty());
            for value in body {
                *value = exp2(simd, *value);
            }
        }
    }

    #[test]
    fn the_exponential_is_accurate() {
        let arguments: Vec<f32> = (0..160_000)
            .map(|step| step as f32 * 1e-3 - 120.0)
            .collect();
        let mut values = arguments.clone();
        pulp::Arch::new().dispatch(All(&mut values));
        let mut worst = 0.0f64;
        for (x, value) in arguments.iter().zip(&values) {
            let exact = f64::from(*x).exp2();
            worst = worst.max((f64::from(*value) - exact).abs() / exact);
        }
        assert!(worst < 5e-7, "{worst}");
        let mut ends = [0.0f32, -0.0, f32::NEG_INFINITY, -1e30, 1.0, 2.0, -1.0, 10.0].repeat(2);
        pulp::Arch::new().dispatch(All(&mut ends));
        assert_eq!(ends[..2], [1.0, 1.0]);
        assert!(ends[2] < 1e-37 && ends[3] < 1e-37);
        assert_eq!(ends[4..8], [2.0, 4.0, 0.5, 1024.0]);
    }
}
