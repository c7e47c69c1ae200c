//! ROUGE-N and summary-level ROUGE-L over sets of words.
//! Follows the Python package `rouge` 1.0.1 (`rouge.py`, `rouge_score.py`), not Google's.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::python::split_whitespace;

/// Most steps of one recursive LCS walk before CPython's limit of 1000 frames is hit when
/// `eval.py` calls `rouge_score`; a longer walk raises and scores 0.
pub(crate) const WALK_LIMIT_STEPS: usize = 990;

/// The same below `rouge_zh_score`, which is one frame deeper.
pub(crate) const WALK_LIMIT_STEPS_ZH: usize = 989;

/// Keeps the denominator of F away from 0, as in the package.
const EPSILON: f64 = 1e-8;

/// Words of each sentence. Only "." ends a sentence; a piece of nothing but whitespace is a
/// sentence with one empty word, a piece of length 0 is none.
fn sentences(text: &str) -> Vec<Vec<&str>> {
    text.split('.')
        .filter(|piece| !piece.is_empty())
        .map(|piece| {
            let words: Vec<_> = split_whitespace(piece).collect();
            if words.is_empty() { vec![""] } else { words }
        })
        .collect()
}

/// F of the package: no beta, epsilon inside.
fn f_score(overlap: usize, hypothesis: usize, reference: usize) -> f64 {
    let ratio = |whole: usize| {
        if whole == 0 {
            0.0
        } else {
            overlap as f64 / whole as f64
        }
    };
    let (precision, recall) = (ratio(hypothesis), ratio(reference));
    2.0 * ((precision * recall) / (precision + recall + EPSILON))
}

/// ROUGE-1 F: distinct words. 0 where the package raises on an empty text.
pub(crate) fn rouge_1(hypothesis: &str, reference: &str) -> f64 {
    rouge_n(hypothesis, reference, |words| words.to_vec())
}

/// ROUGE-2 F: distinct pairs of neighbouring words, across sentence ends.
pub(crate) fn rouge_2(hypothesis: &str, reference: &str) -> f64 {
    rouge_n(hypothesis, reference, |words| {
        words.windows(2).map(|pair| (pair[0], pair[1])).collect()
    })
}

fn rouge_n<'a, G: Hash + Eq>(
    hypothesis: &'a str,
    reference: &'a str,
    grams: impl Fn(&[&'a str]) -> Vec<G>,
) -> f64 {
    let (hypothesis, reference) = (sentences(hypothesis), sentences(reference));
    if hypothesis.is_empty() || reference.is_empty() {
        return 0.0;
    }
    let hypothesis: HashSet<G> = grams(&hypothesis.concat()).into_iter().collect();
    let reference: HashSet<G> = grams(&reference.concat()).into_iter().collect();
    let overlap = hypothesis.intersection(&reference).count();
    f_score(overlap, hypothesis.len(), reference.len())
}

/// ROUGE-L F. 0 where the package raises: on an empty text, and on an LCS walk of more than
/// `walk_limit` steps.
pub(crate) fn rouge_l(hypothesis: &str, reference: &str, walk_limit: usize) -> f64 {
    let (hypothesis, reference) = (sentences(hypothesis), sentences(reference));
    if hypothesis.is_empty() || reference.is_empty() {
        return 0.0;
    }
    let mut ids = HashMap::new();
    let hypothesis = intern(&hypothesis, &mut ids);
    let hypothesis_words = ids.len();
    let reference = intern(&reference, &mut ids);
    let reference_words = distinct(&reference, ids.len());

    let mut union = vec![false; ids.len()];
    let mut table = LcsTable::default();
    for reference_sentence in &reference {
        for hypothesis_sentence in &hypothesis {
            if !table.mark_walk(
                reference_sentence,
                hypothesis_sentence,
                walk_limit,
                &mut union,
            ) {
                return 0.0;
            }
        }
    }
    let overlap = union.into_iter().filter(|taken| *taken).count();
    f_score(overlap, hypothesis_words, reference_words)
}

/// Words as numbers from 0, so that the table compares integers.
fn intern<'a>(sentences: &[Vec<&'a str>], ids: &mut HashMap<&'a str, u32>) -> Vec<Vec<u32>> {
    sentences
        .iter()
        .map(|words| {
            words
                .iter()
                .map(|word| {
                    let next = ids.len() as u32;
                    *ids.entry(word).or_insert(next)
                })
                .collect()
        })
        .collect()
}

fn distinct(sentences: &[Vec<u32>], words: usize) -> usize {
    let mut seen = vec![false; words];
    for word in sentences.iter().flatten() {
        seen[*word as usize] = true;
    }
    seen.into_iter().filter(|seen| *seen).count()
}

/// LCS lengths of one sentence pair. A walk of at most `limit` steps from the end sees only the
/// last `limit` + 1 rows and columns, so nothing else is kept however long a sentence is.
#[derive(Default)]
struct LcsTable {
    previous: Vec<u32>,
    current: Vec<u32>,
    window: Vec<u32>,
}

impl LcsTable {
    /// Walks back from the end of both sentences and sets `union` for every word of the path;
    /// false if the path is longer than `limit` steps. On equal words the walk goes diagonally,
    /// else to the strictly larger neighbour, a tie shortening the hypothesis: the order decides
    /// which of several longest subsequences is taken.
    fn mark_walk(
        &mut self,
        reference: &[u32],
        hypothesis: &[u32],
        limit: usize,
        union: &mut [bool],
    ) -> bool {
        let (rows, columns) = (reference.len(), hypothesis.len());
        if rows.min(columns) > limit {
            return false;
        }
        let (first_row, first_column) = (rows.saturating_sub(limit), columns.saturating_sub(limit));
        let width = columns - first_column + 1;
        self.fill(reference, hypothesis, first_row, first_column);
        let at = |row: usize, column: usize| {
            self.window[(row - first_row) * width + (column - first_column)]
        };

        let (mut row, mut column) = (rows, columns);
        let mut steps = 0;
        while row > 0 && column > 0 {
            if steps == limit {
                return false;
            }
            steps += 1;
            if reference[row - 1] == hypothesis[column - 1] {
                union[reference[row - 1] as usize] = true;
                row -= 1;
                column -= 1;
            } else if at(row - 1, column) > at(row, column - 1) {
                row -= 1;
            } else {
                column -= 1;
            }
        }
        true
    }

    fn fill(
        &mut self,
        reference: &[u32],
        hypothesis: &[u32],
        first_row: usize,
        first_column: usize,
    ) {
        let columns = hypothesis.len();
        self.window.clear();
        self.previous.clear();
        self.previous.resize(columns + 1, 0);
        self.current.clear();
        self.current.resize(columns + 1, 0);
        if first_row == 0 {
            self.window
                .extend_from_slice(&self.previous[first_column..]);
        }
        for (index, word) in reference.iter().enumerate() {
            for (column, other) in hypothesis.iter().enumerate() {
                self.current[column + 1] = if word == other {
                    self.previous[column] + 1
                } else {
                    self.previous[column + 1].max(self.current[column])
                };
            }
            if index + 1 >= first_row {
                self.window.extend_from_slice(&self.current[first_column..]);
            }
            std::mem::swap(&mut self.previous, &mut self.current);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn l(hypothesis: &str, reference: &str) -> f64 {
        rouge_l(hypothesis, reference, WALK_LIMIT_STEPS)
    }

    #[test]
    fn pieces_of_whitespace_are_sentences_with_an_empty_word() {
        assert_eq!(
            sentences("a b. c . ."),
            [vec!["a", "b"], vec!["c"], vec![""]]
        );
        assert!(sentences("...").is_empty());
    }

    #[test]
    fn ties_shorten_the_hypothesis_first() {
        assert_eq!(l("a a b", "a b a"), 0.499_999_995_000_000_1);
        assert_eq!(l("a b a", "a a b"), 0.999_999_995);
    }

    #[test]
    fn epsilon_keeps_identical_texts_below_one() {
        assert_eq!(l("all done", "all done"), 0.999_999_995);
        assert_eq!(l("", "all done"), 0.0);
    }

    #[test]
    fn a_walk_of_exactly_the_limit_still_scores() {
        let words = |count: usize| vec!["w"; count].join(" ");
        assert!(l(&words(990), &words(990)) > 0.99);
        assert_eq!(l(&words(991), &words(991)), 0.0);
        assert_eq!(rouge_l(&words(990), &words(990), WALK_LIMIT_STEPS_ZH), 0.0);
    }

    #[test]
    fn the_window_gives_the_same_walk_as_the_whole_table() {
        // The last words agree, so the walk is short although the sentences are long.
        let long = format!("{} x y z", vec!["w"; 3000].join(" "));
        assert!(l(&long, "x y z") > 0.8);
        assert!(l("x y z", &long) > 0.8);
        assert_eq!(l(&format!("{long} q"), &"v ".repeat(2000)), 0.0);
    }

    #[test]
    fn pairs_cross_sentence_ends() {
        assert!(rouge_2("a b. c d", "b c") > 0.0);
        assert_eq!(rouge_2("a", "a"), 0.0);
        assert_eq!(rouge_1("b a", "a b."), 0.999_999_995);
    }
}
