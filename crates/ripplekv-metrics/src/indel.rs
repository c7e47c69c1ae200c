//! Ratio of two strings by insertions and deletions alone.
//! Follows `Levenshtein.ratio` of python-Levenshtein 0.27.5 (rapidfuzz): `1 - distance / length`.

use std::collections::HashMap;

/// `1 - d / (len(a) + len(b))` with d = len(a) + len(b) - 2 LCS; 1 for two empty strings.
///
/// The form matters: `2 LCS / length` rounds differently, for example at a length of 80.
pub(crate) fn ratio(a: &[char], b: &[char]) -> f64 {
    let length = a.len() + b.len();
    if length == 0 {
        return 1.0;
    }
    let distance = length - 2 * lcs_length(a, b);
    1.0 - distance as f64 / length as f64
}

/// Length of the longest common subsequence, 64 characters of `b` at a time (Hyyrö 2004): a zero
/// bit of the row marks a column where the length grows.
fn lcs_length(a: &[char], b: &[char]) -> usize {
    let words = b.len().div_ceil(64);
    let mut masks: HashMap<char, Vec<u64>> = HashMap::new();
    for (index, character) in b.iter().enumerate() {
        let mask = masks.entry(*character).or_insert_with(|| vec![0; words]);
        mask[index / 64] |= 1 << (index % 64);
    }
    let mut row = vec![u64::MAX; words];
    for character in a {
        let Some(mask) = masks.get(character) else {
            continue;
        };
        let mut carry = false;
        for (bits, mask) in row.iter_mut().zip(mask) {
            let matched = *bits & mask;
            let (sum, first) = bits.overflowing_add(matched);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            carry = first || second;
            *bits = sum | (*bits & !mask);
        }
    }
    row.iter()
        .enumerate()
        .map(|(index, bits)| {
            let used = (b.len() - index * 64).min(64);
            let zeros = !bits;
            let inside = if used == 64 {
                zeros
            } else {
                zeros & ((1 << used) - 1)
            };
            inside.count_ones() as usize
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chars(text: &str) -> Vec<char> {
        text.chars().collect()
    }

    fn plain_lcs(a: &[char], b: &[char]) -> usize {
        let mut row = vec![0; b.len() + 1];
        for x in a {
            let mut diagonal = 0;
            for (index, y) in b.iter().enumerate() {
                let above = row[index + 1];
                row[index + 1] = if x == y {
                    diagonal + 1
                } else {
                    above.max(row[index])
                };
                diagonal = above;
            }
        }
        row[b.len()]
    }

    #[test]
    fn ratio_is_one_minus_distance() {
        assert_eq!(ratio(&chars("tide"), &chars("diet")), 0.5);
        assert_eq!(ratio(&chars("abc"), &chars("abc")), 1.0);
        assert_eq!(ratio(&[], &[]), 1.0);
    }

    proptest::proptest! {
        #[test]
        fn bits_equal_the_plain_table(a in "[abc]{0,200}", b in "[abcd]{0,200}") {
            proptest::prop_assert_eq!(
                lcs_length(&chars(&a), &chars(&b)),
                plain_lcs(&chars(&a), &chars(&b))
            );
        }
    }
}
