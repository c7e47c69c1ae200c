//! Sum of e^x over a vocabulary in f32, written so that every compiler turns it into vector operations: neither calls nor
//! fused products, and the same bits on every machine.

/// Numbers that are worked on together.
const LANES: usize = 16;
/// Numbers whose powers are at hand at a time.
const BLOCK: usize = 256;
/// Below this e^x counts as this one's, 1.6e-38.
const SMALLEST: f32 = -87.0;
/// Adding and subtracting this rounds to the nearest integer, which then stands in the lowest bits.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts; products of the first with small integers are exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// 1 / k! for k = 6 down to 0.
const COEFFICIENTS: [f32; 7] = [
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
    1.0,
    1.0,
];

/// Sum of e^(x - shift) over `values`, none of them above `shift`; e^x to a relative error under 1e-6, the sum in f64.
#[inline(always)]
pub(super) fn sum(values: &[f32], shift: f32) -> f64 {
    let mut sums = [0.0f64; LANES];
    let (whole, rest) = values.as_chunks::<BLOCK>();
    let mut powers = [0.0; BLOCK];
    for values in whole {
        // one loop for one kind of number: compilers turn both into wide registers
        for (power, value) in powers.iter_mut().zip(values) {
            *power = exp(*value - shift);
        }
        add(&mut sums, &powers);
    }
    for (power, value) in powers.iter_mut().zip(rest) {
        *power = exp(*value - shift);
    }
    let (powers, rest) = powers[..rest.len()].split_at(rest.len() / LANES * LANES);
    add(&mut sums, powers);
    let rest = rest.iter().map(|power| f64::from(*power));
    sums.into_iter().chain(rest).sum()
}

/// Adds every [`LANES`]th number to its sum.
#[inline(always)]
fn add(sums: &mut [f64; LANES], powers: &[f32]) {
    for powers in powers.as_chunks::<LANES>().0 {
        for (sum, power) in sums.iter_mut().zip(powers) {
            *sum += f64::from(*power);
        }
    }
}

#[inline(always)]
fn exp(x: f32) -> f32 {
    let x = if x > SMALLEST { x } else { SMALLEST };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let integer = shifted - ROUND;
    let fraction = x - integer * LN_2[0] - integer * LN_2[1];
    let mut power = COEFFICIENTS[0];
    for coefficient in &COEFFICIENTS[1..] {
        power = power * fraction + coefficient;
    }
    // the integer part goes into the exponent; the bits of ROUND itself are shifted out
    f32::from_bits(
        power
            .to_bits()
            .wrapping_add(shifted.to_bits() << (f32::MANTISSA_DIGITS - 1)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_right_over_their_whole_range() {
        for step in 0..=870_000 {
            let x = step as f32 * -1e-4;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) / exact - 1.0).abs();
            assert!(error < 5e-7, "e^{x}: {error}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NEG_INFINITY) < 2e-38);
    }

    #[test]
    fn sums_hold_every_length() {
        for length in [0, 1, 15, 16, 17, 100, 255, 256, 257, 600] {
            let values: Vec<f32> = (0..length).map(|i| (i % 7) as f32 * -0.3).collect();
            let exact: f64 = values.iter().map(|&v| f64::from(v - 0.5).exp()).sum();
            assert!((sum(&values, 0.5) - exact).abs() <= 5e-7 * exact);
        }
    }
}
