//! The prefix dictionary: every word and every prefix of a word, with the words' weights.
//! Follows jieba 0.42.1 `Tokenizer.gen_pfdict`, `calc` and `get_DAG`.

use super::JiebaError;

const FILE: &str = super::SOURCE_FILES[0];

/// Node of the prefix tree; 0 is the empty prefix.
type Node = u32;
const ROOT: Node = 0;

/// A prefix tree whose edges lie in one flat open-addressing table, so that extending a prefix
/// by a character is one multiplication and, mostly, one cache line.
pub(crate) struct Dictionary {
    /// 0 for a free slot, else [`edge_key`].
    keys: Vec<u64>,
    targets: Vec<Node>,
    /// By node: 0 for a prefix that is no word.
    frequencies: Vec<u64>,
    /// By node: log(frequency or 1) - log(total).
    weights: Vec<f64>,
    /// The weight of a character that is in no word.
    unknown_weight: f64,
}

impl Dictionary {
    /// Reads lines of `word frequency tag`.
    pub(crate) fn parse(text: &str) -> Result<Self, JiebaError> {
        let malformed = |line: usize, reason: String| JiebaError::Malformed {
            file: FILE,
            line,
            reason,
        };
        let mut dictionary = Self {
            keys: vec![0; 1 << 10],
            targets: vec![0; 1 << 10],
            frequencies: vec![0],
            weights: Vec::new(),
            unknown_weight: 0.0,
        };
        let mut total = 0_u64;
        let body = text.strip_suffix('\n').unwrap_or(text);
        for (index, line) in body.split('\n').enumerate() {
            let trimmed = line.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
            let mut fields = trimmed.split(' ');
            let (Some(word), Some(frequency)) = (fields.next(), fields.next()) else {
                let reason = format!("expected `word frequency tag`, found `{trimmed}`");
                return Err(malformed(index + 1, reason));
            };
            let frequency: u64 = frequency
                .parse()
                .map_err(|_| malformed(index + 1, format!("`{frequency}` is not a frequency")))?;
            total = total
                .checked_add(frequency)
                .ok_or_else(|| malformed(index + 1, "the frequencies overflow".to_string()))?;
            // Of a word that is there twice the later frequency counts, but both are in the total.
            dictionary.insert(word, frequency);
        }
        if total == 0 {
            return Err(JiebaError::Incomplete {
                file: FILE,
                reason: "no word has a frequency above 0".to_string(),
            });
        }
        dictionary.weigh(total);
        Ok(dictionary)
    }

    /// The ends (exclusive, ascending) of the words that start `characters`, with their weights.
    pub(crate) fn words_from<'a>(
        &'a self,
        characters: impl Iterator<Item = char> + 'a,
    ) -> impl Iterator<Item = (usize, f64)> + 'a {
        let mut node = ROOT;
        characters
            .map_while(move |character| {
                node = self.child(node, character)?;
                Some(node as usize)
            })
            .enumerate()
            .filter(|(_, node)| self.frequencies[*node] > 0)
            .map(|(index, node)| (index + 1, self.weights[node]))
    }

    /// Whether the characters together are a word with a frequency above 0.
    pub(crate) fn is_word(&self, characters: impl Iterator<Item = char>) -> bool {
        let mut node = ROOT;
        for character in characters {
            match self.child(node, character) {
                Some(next) => node = next,
                None => return false,
            }
        }
        self.frequencies[node as usize] > 0
    }

    pub(crate) fn unknown_weight(&self) -> f64 {
        self.unknown_weight
    }

    fn insert(&mut self, word: &str, frequency: u64) {
        let mut node = ROOT;
        for character in word.chars() {
            let key = edge_key(node, character);
            let slot = self.slot(key);
            if self.keys[slot] == key {
                node = self.targets[slot];
                continue;
            }
            let next = self.frequencies.len() as Node;
            self.frequencies.push(0);
            self.keys[slot] = key;
            self.targets[slot] = next;
            node = next;
            if self.frequencies.len() * 2 > self.keys.len() {
                self.grow();
            }
        }
        self.frequencies[node as usize] = frequency;
    }

    fn weigh(&mut self, total: u64) {
        // `ln` is the C library's `log`, as in CPython: equal bits decide between equal paths.
        let total_log = (total as f64).ln();
        self.weights = self
            .frequencies
            .iter()
            .map(|frequency| ((*frequency).max(1) as f64).ln() - total_log)
            .collect();
        self.unknown_weight = 0.0 - total_log;
    }

    fn child(&self, node: Node, character: char) -> Option<Node> {
        let key = edge_key(node, character);
        let slot = self.slot(key);
        (self.keys[slot] == key).then(|| self.targets[slot])
    }

    /// The slot that holds `key`, or the free one where it belongs.
    fn slot(&self, key: u64) -> usize {
        let mask = self.keys.len() - 1;
        let mut slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        while self.keys[slot] != 0 && self.keys[slot] != key {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        let keys = std::mem::take(&mut self.keys);
        let targets = std::mem::take(&mut self.targets);
        self.keys = vec![0; keys.len() * 2];
        self.targets = vec![0; keys.len() * 2];
        for (key, target) in keys.into_iter().zip(targets).filter(|(key, _)| *key != 0) {
            let slot = self.slot(key);
            self.keys[slot] = key;
            self.targets[slot] = target;
        }
    }
}

/// Never 0: that marks a free slot.
fn edge_key(node: Node, character: char) -> u64 {
    ((u64::from(node) << 21) | u64::from(u32::from(character))) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(dictionary: &Dictionary, text: &str) -> Vec<usize> {
        let words = dictionary.words_from(text.chars());
        words.map(|(end, _)| end).collect()
    }

    #[test]
    fn prefixes_are_followed_and_only_words_are_given() {
        let dictionary = Dictionary::parse("北京大学 5 n\n北京 3 n\n北 0 n\n").unwrap();
        assert_eq!(ends(&dictionary, "北京大学生"), [2, 4]);
        assert_eq!(ends(&dictionary, "大学"), [0; 0]);
        assert!(dictionary.is_word("北京".chars()));
        assert!(!dictionary.is_word("北京大".chars()) && !dictionary.is_word("".chars()));
    }

    #[test]
    fn a_word_twice_counts_twice_in_the_total_only() {
        let dictionary = Dictionary::parse("B超 3 n\nB超 3 n").unwrap();
        let words: Vec<_> = dictionary.words_from("B超".chars()).collect();
        assert_eq!(words, [(2, 3_f64.ln() - 6_f64.ln())]);
        assert_eq!(dictionary.unknown_weight(), -(6_f64.ln()));
    }

    #[test]
    fn many_words_survive_the_growth_of_the_table() {
        let word = |index: u32| {
            let low = char::from_u32(0x4e00 + index % 97).unwrap();
            let high = char::from_u32(0x5e00 + index / 97).unwrap();
            format!("{low}{high}")
        };
        let text: Vec<_> = (0..5000)
            .map(|index| format!("{} 1 n", word(index)))
            .collect();
        let dictionary = Dictionary::parse(&text.join("\n")).unwrap();
        assert!((0..5000).all(|index| dictionary.is_word(word(index).chars())));
    }

    #[test]
    fn bad_lines_are_named() {
        let error = |text: &str| Dictionary::parse(text).err().unwrap().to_string();
        assert!(error("北京 3 n\n北京\n").contains("`dict.txt` line 2"));
        assert!(error("北京 many n").contains("`many` is not a frequency"));
        assert!(error("北京 -1 n").contains("line 1"));
        assert!(error("").contains("line 1"));
        assert!(error("北 0 n").contains("hint"));
        assert!(error(&format!("a {0} n\nb {0} n", u64::MAX)).contains("overflow"));
    }
}
