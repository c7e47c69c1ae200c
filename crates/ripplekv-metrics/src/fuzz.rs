//! Whole-number similarity of two strings, 0 to 100.
//! Follows `fuzzywuzzy` 0.18.0, `fuzz.ratio`.

use crate::metric::CodeSimilarity;
use crate::{difflib, indel};

/// 100 for equal strings (two empty ones too), 0 if one is empty, else the ratio in percent
/// rounded half to even. Works on code points.
pub(crate) fn ratio_percent(first: &str, second: &str, flavour: CodeSimilarity) -> f64 {
    if first == second {
        return 100.0;
    }
    if first.is_empty() || second.is_empty() {
        return 0.0;
    }
    let first: Vec<char> = first.chars().collect();
    let second: Vec<char> = second.chars().collect();
    let ratio = match flavour {
        CodeSimilarity::Difflib => difflib::ratio(&first, &second),
        CodeSimilarity::Levenshtein => indel::ratio(&first, &second),
    };
    (100.0 * ratio).round_ties_even()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_round_to_even() {
        let difflib = |a, b| ratio_percent(a, b, CodeSimilarity::Difflib);
        assert_eq!(difflib("abcdefgh", "aqrstuvw"), 12.0);
        assert_eq!(difflib("abcdefgh", "abcqrstu"), 38.0);
    }

    #[test]
    fn empty_strings_are_special() {
        for flavour in [CodeSimilarity::Difflib, CodeSimilarity::Levenshtein] {
            assert_eq!(ratio_percent("", "", flavour), 100.0);
            assert_eq!(ratio_percent("a", "", flavour), 0.0);
            assert_eq!(ratio_percent("", "a", flavour), 0.0);
        }
    }
}
