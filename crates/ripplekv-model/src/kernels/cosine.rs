//! Cosine of two rows of hidden states.

use pulp::{Simd, WithSimd};

/// Sums beside each other, as vectors of the processor hold them.
const BESIDE: usize = 8;

/// Cosine between `first` and `second`, in f64 and in one fixed order of the sums.
pub(crate) fn cosine(first: &[f32], second: &[f32]) -> f64 {
    pulp::Arch::new().dispatch(Cosine { first, second })
}

/// Plain operations in wide registers; a closure in its place would be called and not inlined, and stay in narrow ones.
struct Cosine<'a> {
    first: &'a [f32],
    second: &'a [f32],
}

impl WithSimd for Cosine<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let [mut both, mut first, mut second] = [[0.0f64; BESIDE]; 3];
        let mut add = |a: &[f32], b: &[f32]| {
            for (place, (a, b)) in a.iter().zip(b).enumerate() {
                let (a, b) = (f64::from(*a), f64::from(*b));
                both[place] += a * b;
                first[place] += a * a;
                second[place] += b * b;
            }
        };
        let (a, a_rest) = self.first.as_chunks::<BESIDE>();
        let (b, b_rest) = self.second.as_chunks::<BESIDE>();
        for (a, b) in a.iter().zip(b) {
            add(a, b);
        }
        add(a_rest, b_rest);
        let [both, first, second] = [both, first, second].map(|sums| sums.iter().sum::<f64>());
        both / (first * second).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_by_hand() {
        let turned = |count: usize| -> (Vec<f32>, Vec<f32>) {
            // (1, 0) and (1, 1) again and again
            (0..count)
                .map(|i| ((i + 1) % 2) as f32)
                .zip([1.0; 40])
                .unzip()
        };
        for count in [2, 8, 10, 24, 38] {
            let (a, b) = turned(count);
            assert!((cosine(&a, &b) - 0.5f64.sqrt()).abs() < 1e-12, "{count}");
            assert_eq!(cosine(&a, &a), 1.0);
        }
    }
}
