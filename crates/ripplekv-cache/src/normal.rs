//! Standard normal numbers from random words (Box and Muller, 1958), as many at a time as a register holds. Logarithm, sine
//! and cosine are polynomials of our own (fitted at Chebyshev nodes; each within 3e-8 of the function), in plain products
//! and sums, so that every processor gives the same bits.

use pulp::{Simd, WithSimd};

use crate::philox::philox_lanes;

/// Numbers that one counter gives.
const BLOCK: usize = 4;
/// Most lanes of a register.
const MOST_LANES: usize = 16;

/// (ln(1 + f) - f + f^2 / 2) / f^3 over [1/sqrt(2) - 1, sqrt(2) - 1], highest power first.
const LOGARITHM: [f32; 8] = [
    -0.081_015_58,
    0.127_123_08,
    -0.129_722_39,
    0.142_021_74,
    -0.166_422_48,
    0.200_014_68,
    -0.250_002_96,
    0.333_333_3,
];
/// (sin(x) / x - 1) / x^2 as a polynomial in x^2 over [0, pi/4].
const SINE: [f32; 3] = [-1.958_795e-4, 8.332_749e-3, -0.166_666_65];
/// (cos(x) - 1 + x^2 / 2) / x^4 as a polynomial in x^2 over [0, pi/4].
const COSINE: [f32; 3] = [2.454_799_2e-5, -1.388_830_3e-3, 0.041_666_664];

/// Fills `numbers` with normal numbers times `scale`; number `i` depends on `i`, `place` and `key` alone.
pub(crate) fn fill_normal(numbers: &mut [f32], scale: f32, place: [u32; 2], key: [u32; 2]) {
    pulp::Arch::new().dispatch(Fill {
        numbers,
        scale,
        place,
        key,
    });
}

struct Fill<'a> {
    numbers: &'a mut [f32],
    scale: f32,
    place: [u32; 2],
    key: [u32; 2],
}

impl WithSimd for Fill<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = S::F32_LANES;
        let mut counters = [0u32; MOST_LANES];
        let mut normals = [[0.0f32; MOST_LANES]; BLOCK];
        for (step, numbers) in self.numbers.chunks_mut(lanes * BLOCK).enumerate() {
            for (lane, counter) in counters[..lanes].iter_mut().enumerate() {
                *counter = (step * lanes + lane) as u32;
            }
            let counter = [
                simd.partial_load_u32s(&counters[..lanes]),
                simd.splat_u32s(self.place[0]),
                simd.splat_u32s(self.place[1]),
                simd.splat_u32s(0),
            ];
            let words = philox_lanes(simd, counter, self.key);
            let pairs = [[words[0], words[1]], [words[2], words[3]]];
            for (pair, normals) in pairs.into_iter().zip(normals.chunks_exact_mut(2)) {
                for (normal, kept) in box_muller(simd, pair).into_iter().zip(normals) {
                    let normal = simd.mul_f32s(normal, simd.splat_f32s(self.scale));
                    simd.partial_store_f32s(&mut kept[..lanes], normal);
                }
            }
            for (lane, numbers) in numbers.chunks_mut(BLOCK).enumerate() {
                for (number, normals) in numbers.iter_mut().zip(&normals) {
                    *number = normals[lane];
                }
            }
        }
    }
}

/// Two independent standard normal numbers from two random words.
#[inline(always)]
fn box_muller<S: Simd>(simd: S, [radius_word, angle_word]: [S::u32s; 2]) -> [S::f32s; 2] {
    let logarithm = log_of_share(simd, radius_word);
    let radius = simd.sqrt_f32s(simd.mul_f32s(logarithm, simd.splat_f32s(-2.0)));
    turn(simd, angle_word).map(|part| simd.mul_f32s(radius, part))
}

/// ln((word + 1/2) / 2^32), at most 0.
#[inline(always)]
fn log_of_share<S: Simd>(simd: S, word: S::u32s) -> S::f32s {
    /// Bits of the f32 next to 1/sqrt(2), less one power of two, so that no difference is negative.
    const FIRST: u32 = 0x3F35_04F3 - (1 << 23);
    let [high, low] = halves(simd, word);
    // above 0, so that the logarithm is finite
    let low = simd.add_f32s(low, simd.splat_f32s(0.5));
    let number = simd.add_f32s(simd.mul_f32s(high, simd.splat_f32s(65_536.0)), low);
    let bits = simd.transmute_u32s_f32s(number);
    // number = fraction * 2^(power - 1) with a fraction in [1/sqrt(2), sqrt(2))
    let shift = simd.splat_u32s(f32::MANTISSA_DIGITS - 1);
    let power = simd.wrapping_dyn_shr_u32s(simd.sub_u32s(bits, simd.splat_u32s(FIRST)), shift);
    let less = simd.wrapping_dyn_shl_u32s(simd.sub_u32s(power, simd.splat_u32s(1)), shift);
    let fraction = simd.transmute_f32s_u32s(simd.sub_u32s(bits, less));
    let fraction = simd.sub_f32s(fraction, simd.splat_f32s(1.0));
    let square = simd.mul_f32s(fraction, fraction);
    let cubic = simd.mul_f32s(square, fraction);
    let tail = simd.mul_f32s(cubic, polynomial(simd, &LOGARITHM, fraction));
    let half = simd.mul_f32s(square, simd.splat_f32s(0.5));
    let of_fraction = simd.add_f32s(fraction, simd.sub_f32s(tail, half));
    let power = simd.sub_f32s(small(simd, power), simd.splat_f32s(33.0));
    let of_power = simd.mul_f32s(power, simd.splat_f32s(std::f32::consts::LN_2));
    let logarithm = simd.add_f32s(of_power, of_fraction);
    simd.min_f32s(logarithm, simd.splat_f32s(0.0))
}

/// Cosine and sine of 2 pi word / 2^32.
#[inline(always)]
fn turn<S: Simd>(simd: S, word: S::u32s) -> [S::f32s; 2] {
    const EIGHTH: u32 = 1 << 29;
    const STEP: f32 = std::f32::consts::TAU / 4_294_967_296.0;
    let moved = simd.add_u32s(word, simd.splat_u32s(EIGHTH));
    let quarter = simd.wrapping_dyn_shr_u32s(moved, simd.splat_u32s(30));
    // what is left lies in [-1/8, 1/8) of a turn
    let [high, low] = halves(simd, simd.and_u32s(moved, simd.splat_u32s(2 * EIGHTH - 1)));
    let high = simd.sub_f32s(high, simd.splat_f32s((EIGHTH >> 16) as f32));
    let left = simd.add_f32s(simd.mul_f32s(high, simd.splat_f32s(65_536.0)), low);
    let angle = simd.mul_f32s(left, simd.splat_f32s(STEP));
    let square = simd.mul_f32s(angle, angle);
    let tail = simd.mul_f32s(square, polynomial(simd, &SINE, square));
    let sine = simd.add_f32s(angle, simd.mul_f32s(angle, tail));
    let tail = simd.mul_f32s(square, polynomial(simd, &COSINE, square));
    let tail = simd.sub_f32s(tail, simd.splat_f32s(0.5));
    let cosine = simd.add_f32s(simd.splat_f32s(1.0), simd.mul_f32s(square, tail));
    let [sine, cosine] = [sine, cosine].map(|part| simd.transmute_u32s_f32s(part));
    // odd quarters exchange the two; the signs follow the quarter
    let one = simd.splat_u32s(1);
    let exchanged = simd.sub_u32s(simd.splat_u32s(0), simd.and_u32s(quarter, one));
    let difference = simd.and_u32s(simd.xor_u32s(sine, cosine), exchanged);
    let negative = |quarter: S::u32s| {
        let second = simd.and_u32s(quarter, simd.splat_u32s(2));
        simd.wrapping_dyn_shl_u32s(second, simd.splat_u32s(30))
    };
    let sign_of_cosine = negative(simd.add_u32s(quarter, one));
    let parts = [(cosine, sign_of_cosine), (sine, negative(quarter))];
    parts.map(|(part, sign)| {
        let part = simd.xor_u32s(simd.xor_u32s(part, difference), sign);
        simd.transmute_f32s_u32s(part)
    })
}

/// Highest power first.
#[inline(always)]
fn polynomial<S: Simd>(simd: S, coefficients: &[f32], x: S::f32s) -> S::f32s {
    let mut value = simd.splat_f32s(coefficients[0]);
    for coefficient in &coefficients[1..] {
        value = simd.add_f32s(simd.mul_f32s(value, x), simd.splat_f32s(*coefficient));
    }
    value
}

/// Upper and lower 16 bits as numbers.
#[inline(always)]
fn halves<S: Simd>(simd: S, word: S::u32s) -> [S::f32s; 2] {
    let high = simd.wrapping_dyn_shr_u32s(word, simd.splat_u32s(16));
    let low = simd.and_u32s(word, simd.splat_u32s(0xFFFF));
    [high, low].map(|half| small(simd, half))
}

/// An integer below 2^23 as a number.
#[inline(always)]
fn small<S: Simd>(simd: S, integer: S::u32s) -> S::f32s {
    /// 2^23, whose lowest bit counts one.
    const ONES: f32 = 8_388_608.0;
    let bits = simd.or_u32s(integer, simd.splat_u32s(ONES.to_bits()));
    simd.sub_f32s(simd.transmute_f32s_u32s(bits), simd.splat_f32s(ONES))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two normal numbers for every pair of words.
    struct All<'a>(&'a [[u32; 2]], &'a mut Vec<[f32; 2]>);

    impl WithSimd for All<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            for words in self.0 {
                let pair = box_muller(simd, words.map(|word| simd.splat_u32s(word)));
                self.1.push(pair.map(|part| simd.reduce_max_f32s(part)));
            }
        }
    }

    fn words() -> Vec<[u32; 2]> {
        let ends = [
            0,
            1,
            2,
            0xFFFF,
            1 << 16,
            1 << 29,
            (1 << 29) - 1,
            1 << 30,
            1 << 31,
        ]
        .into_iter()
        .flat_map(|word: u32| [word, !word]);
        let ends: Vec<u32> = ends.collect();
        let mut words: Vec<[u32; 2]> = ends
            .iter()
            .flat_map(|radius| ends.iter().map(move |angle| [*radius, *angle]))
            .collect();
        words.extend((0..400_000u32).map(|i| {
            let word = i.wrapping_mul(0x9E37_79B9);
            [word, word.wrapping_mul(0x85EB_CA6B) ^ i]
        }));
        words
    }

    #[test]
    fn numbers_are_those_of_the_formula() {
        let (words, mut got) = (words(), Vec::new());
        pulp::Arch::new().dispatch(All(&words, &mut got));
        for ([radius_word, angle_word], got) in words.iter().zip(&got) {
            let share = (f64::from(*radius_word) + 0.5) / 2f64.powi(32);
            let radius = (-2.0 * share.ln()).sqrt();
            let angle = std::f64::consts::TAU * f64::from(*angle_word) / 2f64.powi(32);
            for (got, exact) in got.iter().zip([radius * angle.cos(), radius * angle.sin()]) {
                let error = (f64::from(*got) - exact).abs();
                // a share beside 1 is rounded to 24 bits, which moves the root of its logarithm most
                let bound = 1e-6f64.max(4e-8 / radius.max(1e-4));
                assert!(error < bound, "{radius_word} {angle_word}: {got} {exact}");
            }
        }
    }

    #[test]
    fn plain_numbers_give_the_bits_of_wide_registers() {
        let words = words();
        let (mut wide, mut plain) = (Vec::new(), Vec::new());
        pulp::Arch::new().dispatch(All(&words, &mut wide));
        All(&words, &mut plain).with_simd(pulp::Scalar::new());
        assert!(wide == plain);
    }

    #[test]
    fn a_number_depends_on_its_place_alone() {
        let numbers = |count: usize| {
            let mut numbers = vec![0.0; count];
            fill_normal(&mut numbers, 0.5, [7, 3], [1, 2]);
            numbers
        };
        let long = numbers(131);
        let mut plain = vec![0.0; 131];
        Fill {
            numbers: &mut plain,
            scale: 0.5,
            place: [7, 3],
            key: [1, 2],
        }
        .with_simd(pulp::Scalar::new());
        assert!(plain == long);
        for count in [1, 3, 4, 31, 32, 33, 130] {
            assert_eq!(numbers(count), long[..count]);
        }
    }
}
