//! Cuts a text into words: the likeliest path through the dictionary, then the model.
//! Follows jieba 0.42.1 `Tokenizer.cut(text, cut_all=False, HMM=True)`.

use super::dictionary::Dictionary;
use super::finalseg::Model;
use super::{JiebaError, is_han};

/// The texts of jieba's data files as the Python package ships them.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// `jieba/dict.txt`.
    pub dictionary: &'a str,
    /// `jieba/finalseg/prob_start.py`.
    pub start: &'a str,
    /// `jieba/finalseg/prob_trans.py`.
    pub transition: &'a str,
    /// `jieba/finalseg/prob_emit.py`.
    pub emission: &'a str,
}

/// A segmenter equal to `jieba.cut` of Python; about 20 MB, shareable between threads.
pub struct Segmenter {
    dictionary: Dictionary,
    model: Model,
}

impl std::fmt::Debug for Segmenter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Segmenter").finish_non_exhaustive()
    }
}

impl Segmenter {
    /// Builds the segmenter from the package's files.
    ///
    /// # Errors
    /// If a file cannot be read or lacks what the algorithm needs; the error names it.
    pub fn from_sources(sources: &Sources<'_>) -> Result<Self, JiebaError> {
        Ok(Self {
            dictionary: Dictionary::parse(sources.dictionary)?,
            model: Model::parse(sources.start, sources.transition, sources.emission)?,
        })
    }

    /// The words of the text in order; joined they give the text again.
    pub fn cut<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let mut words = Vec::new();
        let mut block = Block::default();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if is_block_character(first) {
                let end = rest
                    .find(|character| !is_block_character(character))
                    .unwrap_or(rest.len());
                let (inside, tail) = rest.split_at(end);
                block.cut(self, inside, &mut words);
                rest = tail;
            } else {
                // Outside the blocks everything stands alone, except a Windows line end.
                let length = if rest.starts_with("\r\n") {
                    2
                } else {
                    first.len_utf8()
                };
                let (word, tail) = rest.split_at(length);
                words.push(word);
                rest = tail;
            }
        }
        words
    }
}

/// `[\u4E00-\u9FD5a-zA-Z0-9+#&._%-]`.
fn is_block_character(character: char) -> bool {
    is_han(character) || character.is_ascii_alphanumeric() || "+#&._%-".contains(character)
}

/// Working memory of one block, kept for the next one.
#[derive(Default)]
struct Block {
    characters: Vec<char>,
    /// By start: the weight of the best path to the end, and where its first word ends.
    best: Vec<(f64, usize)>,
    /// Lengths of the words in characters.
    lengths: Vec<usize>,
}

impl Block {
    fn cut<'a>(&mut self, segmenter: &Segmenter, text: &'a str, words: &mut Vec<&'a str>) {
        self.characters.clear();
        self.characters.extend(text.chars());
        self.lengths.clear();
        self.find_best_path(&segmenter.dictionary);
        self.collect_lengths(segmenter);

        let mut rest = text;
        let mut characters = self.characters.iter();
        for length in &self.lengths {
            let bytes = characters
                .by_ref()
                .take(*length)
                .map(|character| character.len_utf8())
                .sum();
            let (word, tail) = rest.split_at(bytes);
            words.push(word);
            rest = tail;
        }
    }

    /// From the end to the start; of equal weights the longer first word wins.
    fn find_best_path(&mut self, dictionary: &Dictionary) {
        let count = self.characters.len();
        self.best.clear();
        self.best.resize(count + 1, (0.0, 0));
        for start in (0..count).rev() {
            let characters = self.characters[start..].iter().copied();
            let mut best = None;
            for (length, weight) in dictionary.words_from(characters) {
                let total = weight + self.best[start + length].0;
                if best.is_none_or(|(other, _)| total >= other) {
                    best = Some((total, start + length));
                }
            }
            self.best[start] = best.unwrap_or_else(|| {
                let total = dictionary.unknown_weight() + self.best[start + 1].0;
                (total, start + 1)
            });
        }
    }

    /// Runs of single characters on the path go to the model together.
    fn collect_lengths(&mut self, segmenter: &Segmenter) {
        let count = self.characters.len();
        let (mut start, mut singles) = (0, 0);
        while start < count {
            let end = self.best[start].1;
            if end - start > 1 {
                self.flush(segmenter, singles, start);
                self.lengths.push(end - start);
                singles = end;
            }
            start = end;
        }
        self.flush(segmenter, singles, count);
    }

    fn flush(&mut self, segmenter: &Segmenter, start: usize, end: usize) {
        let singles = &self.characters[start..end];
        let single = singles.len() < 2;
        if single || segmenter.dictionary.is_word(singles.iter().copied()) {
            self.lengths.extend(std::iter::repeat_n(1, singles.len()));
        } else {
            segmenter.model.cut(singles, &mut self.lengths);
        }
    }
}
