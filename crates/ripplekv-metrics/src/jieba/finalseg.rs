//! Words that are not in the dictionary: a hidden Markov model over character positions.
//! Follows jieba 0.42.1 `finalseg/__init__.py` (`viterbi`, `__cut`, `cut`).

use super::python_literal::{Value, parse};
use super::{JiebaError, SOURCE_FILES, is_han};

const START_FILE: &str = SOURCE_FILES[1];
const TRANSITION_FILE: &str = SOURCE_FILES[2];
const EMISSION_FILE: &str = SOURCE_FILES[3];

/// Begin, middle, end of a word, single character: in the alphabetical order of their letters,
/// so that comparing indices compares the letters as Python's tuple comparison does.
const STATES: [&str; 4] = ["B", "E", "M", "S"];
const BEGIN: usize = 0;
const END: usize = 1;
const MIDDLE: usize = 2;
const SINGLE: usize = 3;

/// States that may stand before each state.
const BEFORE: [[usize; 2]; 4] = [
    [END, SINGLE],
    [BEGIN, MIDDLE],
    [BEGIN, MIDDLE],
    [END, SINGLE],
];

/// jieba's `MIN_FLOAT`: the log-probability of what the tables do not list.
const IMPOSSIBLE: f64 = -3.14e100;

const FIRST_HAN: u32 = 0x4e00;
const HAN_COUNT: usize = 0x9fd5 - 0x4e00 + 1;

/// The model's tables, in logarithms.
pub(crate) struct Model {
    start: [f64; 4],
    /// `[from][to]`.
    transition: [[f64; 4]; 4],
    /// `[character - FIRST_HAN][state]`.
    emission: Vec<[f64; 4]>,
}

impl Model {
    /// Reads the texts of `prob_start.py`, `prob_trans.py` and `prob_emit.py`.
    pub(crate) fn parse(start: &str, transition: &str, emission: &str) -> Result<Self, JiebaError> {
        let start = state_table(START_FILE, start)?;
        let transition = state_table(TRANSITION_FILE, transition)?;
        let mut model = Self {
            start: [0.0; 4],
            transition: [[IMPOSSIBLE; 4]; 4],
            emission: vec![[IMPOSSIBLE; 4]; HAN_COUNT],
        };
        for (state, value) in start.into_iter().enumerate() {
            model.start[state] = number(START_FILE, state, &value)?;
        }
        for (from, value) in transition.into_iter().enumerate() {
            for (to, value) in table(TRANSITION_FILE, from, value)? {
                let to = STATES.iter().position(|state| *state == to);
                if let Some(to) = to {
                    model.transition[from][to] = number(TRANSITION_FILE, from, &value)?;
                }
            }
        }
        for (state, value) in state_table(EMISSION_FILE, emission)?
            .into_iter()
            .enumerate()
        {
            for (key, value) in table(EMISSION_FILE, state, value)? {
                // Only Han characters are ever looked up.
                if let Some(index) = single_han(&key) {
                    model.emission[index][state] = number(EMISSION_FILE, state, &value)?;
                }
            }
        }
        Ok(model)
    }

    /// Appends the lengths, in characters, of the words of `characters`.
    pub(crate) fn cut(&self, characters: &[char], lengths: &mut Vec<usize>) {
        let mut rest = characters;
        while let Some(first) = rest.first() {
            let run = run_length(rest, |character| is_han(character) == is_han(*first));
            let (block, tail) = rest.split_at(run);
            if is_han(*first) {
                self.cut_han(block, lengths);
            } else {
                cut_others(block, lengths);
            }
            rest = tail;
        }
    }

    fn cut_han(&self, characters: &[char], lengths: &mut Vec<usize>) {
        let states = self.viterbi(characters);
        let (mut begin, mut next) = (0, 0);
        for (index, state) in states.into_iter().enumerate() {
            match state {
                BEGIN => begin = index,
                END => {
                    lengths.push(index + 1 - begin);
                    next = index + 1;
                }
                SINGLE => {
                    lengths.push(1);
                    next = index + 1;
                }
                _ => {}
            }
        }
        if next < characters.len() {
            lengths.push(characters.len() - next);
        }
    }

    /// The likeliest state of each character; equal probabilities go to the later letter.
    fn viterbi(&self, characters: &[char]) -> Vec<usize> {
        let Some((first, others)) = characters.split_first() else {
            return Vec::new();
        };
        let emission = |character: &char| {
            let index = u32::from(*character).wrapping_sub(FIRST_HAN) as usize;
            self.emission.get(index).unwrap_or(&[IMPOSSIBLE; 4])
        };
        let first = emission(first);
        let mut scores: [f64; 4] = std::array::from_fn(|state| self.start[state] + first[state]);
        let mut from: Vec<[usize; 4]> = Vec::with_capacity(others.len());
        for character in others {
            let emitted = emission(character);
            let mut best = [(0.0, 0); 4];
            for (state, best) in best.iter_mut().enumerate() {
                let [low, high] = BEFORE[state].map(|before| {
                    let score = scores[before] + self.transition[before][state] + emitted[state];
                    (score, before)
                });
                *best = if low.0 > high.0 { low } else { high };
            }
            scores = best.map(|(score, _)| score);
            from.push(best.map(|(_, before)| before));
        }
        let mut state = if scores[END] > scores[SINGLE] {
            END
        } else {
            SINGLE
        };
        let mut states = vec![state; characters.len()];
        for (index, before) in from.iter().enumerate().rev() {
            state = before[state];
            states[index] = state;
        }
        states
    }
}

/// Splits by `[a-zA-Z0-9]+(?:\.\d+)?%?`: the matches and whatever lies between them.
fn cut_others(characters: &[char], lengths: &mut Vec<usize>) {
    let mut rest = characters;
    while !rest.is_empty() {
        let gap = run_length(rest, |character| !character.is_ascii_alphanumeric());
        let length = if gap > 0 { gap } else { number_or_name(rest) };
        lengths.push(length);
        rest = &rest[length..];
    }
}

fn number_or_name(characters: &[char]) -> usize {
    let mut length = run_length(characters, |character| character.is_ascii_alphanumeric());
    if characters.get(length) == Some(&'.') {
        let digits = run_length(&characters[length + 1..], |character| {
            character.is_ascii_digit()
        });
        if digits > 0 {
            length += 1 + digits;
        }
    }
    length + usize::from(characters.get(length) == Some(&'%'))
}

fn run_length(characters: &[char], belongs: impl Fn(char) -> bool) -> usize {
    characters
        .iter()
        .position(|character| !belongs(*character))
        .unwrap_or(characters.len())
}

/// The entries of the four states, in the order of [`STATES`].
fn state_table(file: &'static str, text: &str) -> Result<[Value; 4], JiebaError> {
    let mut entries = parse(file, text)?;
    let mut take = |state: &str| {
        let index = entries.iter().rposition(|(key, _)| key == state);
        let index = index.ok_or_else(|| incomplete(file, format!("no state `{state}`")))?;
        Ok(entries.swap_remove(index).1)
    };
    Ok([take("B")?, take("E")?, take("M")?, take("S")?])
}

fn table(
    file: &'static str,
    state: usize,
    value: Value,
) -> Result<Vec<(String, Value)>, JiebaError> {
    match value {
        Value::Table(entries) => Ok(entries),
        Value::Number(_) => {
            let state = STATES[state];
            Err(incomplete(
                file,
                format!("state `{state}` is a number, not a dictionary"),
            ))
        }
    }
}

fn number(file: &'static str, state: usize, value: &Value) -> Result<f64, JiebaError> {
    match value {
        Value::Number(number) => Ok(*number),
        Value::Table(_) => {
            let state = STATES[state];
            Err(incomplete(
                file,
                format!("state `{state}` holds a dictionary, not a number"),
            ))
        }
    }
}

fn incomplete(file: &'static str, reason: String) -> JiebaError {
    JiebaError::Incomplete { file, reason }
}

fn single_han(key: &str) -> Option<usize> {
    let mut characters = key.chars();
    let character = characters.next().filter(|first| is_han(*first))?;
    characters
        .next()
        .is_none()
        .then(|| (u32::from(character) - FIRST_HAN) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "P={'B': -0.3, 'E': -3.14e+100, 'M': -3.14e+100, 'S': -1.4}";
    const TRANSITION: &str = "P={'B': {'E': -0.5, 'M': -0.9}, 'E': {'B': -0.6, 'S': -0.8}, 'M': {'E': -0.3, 'M': -1.2}, 'S': {'B': -0.7, 'S': -0.6}}";
    const EMISSION: &str =
        "P={'B': {'\\u4e00': -1.0}, 'E': {'\\u4e01': -1.0}, 'M': {}, 'S': {'\\u4e02': -1.0}}";

    fn cut(text: &str) -> Vec<usize> {
        let model = Model::parse(START, TRANSITION, EMISSION).unwrap();
        let mut lengths = Vec::new();
        model.cut(&text.chars().collect::<Vec<_>>(), &mut lengths);
        lengths
    }

    #[test]
    fn han_runs_follow_the_model() {
        assert_eq!(cut("\u{4e00}\u{4e01}\u{4e02}"), [2, 1]);
        assert_eq!(cut("\u{4e02}\u{4e00}\u{4e01}"), [1, 2]);
        assert_eq!(cut(""), [0; 0]);
    }

    #[test]
    fn other_runs_split_into_names_numbers_and_the_rest() {
        assert_eq!(cut("GPT-4"), [3, 1, 1]);
        assert_eq!(cut("12.5%--a.b.1"), [5, 2, 1, 1, 3]);
        assert_eq!(cut("v1.2x%"), [4, 2]);
        assert_eq!(cut("a\u{4e00}\u{4e01}b"), [1, 2, 1]);
    }

    #[test]
    fn missing_states_and_wrong_shapes_are_named() {
        let error = |start: &str, transition: &str, emission: &str| {
            Model::parse(start, transition, emission)
                .err()
                .unwrap()
                .to_string()
        };
        assert!(
            error("P={'B': 1}", TRANSITION, EMISSION)
                .contains("`finalseg/prob_start.py`: no state `E`")
        );
        assert!(error(START, START, EMISSION).contains("`finalseg/prob_trans.py`"));
        assert!(error(START, TRANSITION, START).contains("not a dictionary"));
        assert!(error(TRANSITION, TRANSITION, EMISSION).contains("not a number"));
    }
}
