//! F1 of two token lists as multisets.
//! Follows LongBench `metrics.py`, `f1_score`, in its order of operations.

use std::collections::HashMap;

/// Counts of the prediction's tokens, ready to be compared with several answers.
pub(crate) struct TokenCounts<T> {
    counts: HashMap<T, usize>,
    total: usize,
}

impl<T: std::hash::Hash + Eq> TokenCounts<T> {
    pub(crate) fn new(tokens: impl IntoIterator<Item = T>) -> Self {
        let mut counts = HashMap::new();
        let mut total = 0;
        for token in tokens {
            *counts.entry(token).or_insert(0) += 1;
            total += 1;
        }
        Self { counts, total }
    }

    /// F1 of these tokens, the prediction's, against the answer's.
    pub(crate) fn f1(&self, answer: &Self) -> f64 {
        let shared: usize = self
            .counts
            .keys()
            .map(|token| {
                let theirs = answer.counts.get(token).copied().unwrap_or(0);
                self.counts[token].min(theirs)
            })
            .sum();
        if shared == 0 {
            return 0.0;
        }
        let precision = shared as f64 / self.total as f64;
        let recall = shared as f64 / answer.total as f64;
        (2.0 * precision * recall) / (precision + recall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_tokens_count_as_often_as_both_have_them() {
        let prediction = TokenCounts::new(["a", "a", "b"]);
        let answer = TokenCounts::new(["a", "c"]);
        assert_eq!(prediction.f1(&answer), 0.4);
    }

    #[test]
    fn nothing_against_nothing_is_zero() {
        let empty = TokenCounts::<&str>::new([]);
        assert_eq!(empty.f1(&TokenCounts::new([])), 0.0);
    }
}
