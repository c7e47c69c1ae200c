//! e^x as a polynomial of degree 6 after range reduction (Cody and Waite), relative error under 3e-7.
//! Branch-free, so that the compiler vectorises loops over it.

/// Below this the result is zero.
const SMALLEST: f32 = -87.0;
/// Above this the result stays at e^88; callers that need infinities do not come here.
const LARGEST: f32 = 88.0;

/// e^x for x <= 88; zero below -87.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts, the first with trailing zeros so that its product with an integer is exact
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // adding and subtracting this rounds to the nearest integer without a branch
    const ROUND: f32 = 12_582_912.0;
    let clamped = if x < SMALLEST { SMALLEST } else { x };
    let clamped = if clamped > LARGEST { LARGEST } else { clamped };
    let exponent = (clamped * LOG2_E + ROUND) - ROUND;
    let r = clamped - exponent * LN2_HIGH - exponent * LN2_LOW;
    let polynomial = 1.0
        + r * (1.0
            + r * (0.5
                + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0))))));
    let power = f32::from_bits(((exponent as i32 + 127) << 23) as u32);
    let value = polynomial * power;
    if x < SMALLEST { 0.0 } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_accurate() {
        let mut worst = 0.0f64;
        for step in -870_000..=880_000 {
            let x = step as f32 * 1e-4;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - exact).abs() / exact);
        }
        assert!(worst < 3e-7, "{worst}");
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-100.0), 0.0);
    }
}
