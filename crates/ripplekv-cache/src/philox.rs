//! Philox4x32-10, a counter-based random generator: the output is a function of counter and key alone, so any order and
//! any number of threads give the same bits. Follows Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

use pulp::Simd;

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Added to the key after each round: the golden ratio and sqrt(3) - 1, in 32 bits.
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: u32 = 10;

/// Four random words for one counter and key.
pub(crate) fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    philox_lanes(pulp::Scalar::new(), counter, key)
}

/// Four random words for each counter, a counter a lane.
#[inline(always)]
pub(crate) fn philox_lanes<S: Simd>(simd: S, counter: [S::u32s; 4], key: [u32; 2]) -> [S::u32s; 4] {
    let ([mut c0, mut c1, mut c2, mut c3], [mut k0, mut k1]) = (counter, key);
    for _ in 0..ROUNDS {
        let (first, first_high) = simd.widening_mul_u32s(c0, simd.splat_u32s(MULTIPLIERS[0]));
        let (second, second_high) = simd.widening_mul_u32s(c2, simd.splat_u32s(MULTIPLIERS[1]));
        c0 = simd.xor_u32s(simd.xor_u32s(second_high, c1), simd.splat_u32s(k0));
        c1 = second;
        c2 = simd.xor_u32s(simd.xor_u32s(first_high, c3), simd.splat_u32s(k1));
        c3 = first;
        k0 = k0.wrapping_add(KEY_STEPS[0]);
        k1 = k1.wrapping_add(KEY_STEPS[1]);
    }
    [c0, c1, c2, c3]
}

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::*;

    /// Every lane's words, `[word][lane]`.
    struct Lanes {
        counter: [u32; 4],
        key: [u32; 2],
    }

    impl WithSimd for Lanes {
        type Output = [Vec<u32>; 4];

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
            let counter = self.counter.map(|word| simd.splat_u32s(word));
            philox_lanes(simd, counter, self.key).map(|words| {
                let mut lanes = vec![0; S::F32_LANES];
                simd.partial_store_u32s(&mut lanes, words);
                lanes
            })
        }
    }

    /// The lines `philox4x32 10` of `kat_vectors` in DEShawResearch/random123.
    #[test]
    fn known_answers_of_random123() {
        let known = [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in known {
            let wide = pulp::Arch::new().dispatch(Lanes { counter, key });
            for (lanes, expected) in wide.iter().zip(expected) {
                assert!(lanes.iter().all(|word| *word == expected));
            }
            assert_eq!(philox(counter, key), expected);
        }
    }
}
