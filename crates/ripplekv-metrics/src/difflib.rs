//! Ratio of two strings by longest matching blocks, with the autojunk heuristic.
//! Follows CPython 3 `difflib.SequenceMatcher(None, a, b).ratio()`.

use std::collections::HashMap;

/// Length from which `b` is checked for popular characters.
const AUTOJUNK_LENGTH: usize = 200;

/// `2 * matches / (len(a) + len(b))`; 1 for two empty strings. Not symmetric.
pub(crate) fn ratio(a: &[char], b: &[char]) -> f64 {
    let length = a.len() + b.len();
    if length == 0 {
        return 1.0;
    }
    2.0 * Matcher::new(a, b).matching_characters() as f64 / length as f64
}

struct Matcher<'a> {
    a: &'a [char],
    b: &'a [char],
    /// Ascending positions in `b` of each character that may start a match.
    positions: HashMap<char, Vec<usize>>,
    /// Length of the match that ends at the previous character of `a` and at each place of `b`.
    previous: Vec<usize>,
    current: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Span {
    a: (usize, usize),
    b: (usize, usize),
}

impl<'a> Matcher<'a> {
    fn new(a: &'a [char], b: &'a [char]) -> Self {
        let mut positions: HashMap<char, Vec<usize>> = HashMap::new();
        for (index, character) in b.iter().enumerate() {
            positions.entry(*character).or_default().push(index);
        }
        if b.len() >= AUTOJUNK_LENGTH {
            let most = b.len() / 100 + 1;
            positions.retain(|_, places| places.len() <= most);
        }
        Self {
            a,
            b,
            positions,
            previous: vec![0; b.len() + 1],
            current: vec![0; b.len() + 1],
        }
    }

    fn matching_characters(mut self) -> usize {
        let mut total = 0;
        let mut open = vec![Span {
            a: (0, self.a.len()),
            b: (0, self.b.len()),
        }];
        while let Some(span) = open.pop() {
            let (i, j, size) = self.longest_match(span);
            if size == 0 {
                continue;
            }
            total += size;
            let parts = [
                Span {
                    a: (span.a.0, i),
                    b: (span.b.0, j),
                },
                Span {
                    a: (i + size, span.a.1),
                    b: (j + size, span.b.1),
                },
            ];
            open.extend(
                parts
                    .into_iter()
                    .filter(|part| part.a.0 < part.a.1 && part.b.0 < part.b.1),
            );
        }
        total
    }

    /// Start in `a`, start in `b` and length of the longest match, the earliest in `a` and then
    /// in `b`; popular characters may only extend it.
    fn longest_match(&mut self, span: Span) -> (usize, usize, usize) {
        let Self {
            a,
            b,
            positions,
            previous,
            current,
        } = self;
        let places = |a_index: usize| {
            let all = positions.get(&a[a_index]).map_or(&[][..], Vec::as_slice);
            let start = all.partition_point(|place| *place < span.b.0);
            let end = all.partition_point(|place| *place < span.b.1);
            &all[start..end]
        };
        let (mut i, mut j, mut size) = (span.a.0, span.b.0, 0);
        for a_index in span.a.0..span.a.1 {
            for place in places(a_index) {
                // Rows are shifted by one, so that the place before 0 exists and holds 0.
                let length = previous[*place] + 1;
                current[place + 1] = length;
                if length > size {
                    (i, j, size) = (a_index + 1 - length, place + 1 - length, length);
                }
            }
            if a_index > span.a.0 {
                clear(previous, places(a_index - 1));
            }
            std::mem::swap(previous, current);
        }
        // Both rows are all zero again for the next span.
        if span.a.0 < span.a.1 {
            clear(previous, places(span.a.1 - 1));
        }
        while i > span.a.0 && j > span.b.0 && a[i - 1] == b[j - 1] {
            (i, j, size) = (i - 1, j - 1, size + 1);
        }
        while i + size < span.a.1 && j + size < span.b.1 && a[i + size] == b[j + size] {
            size += 1;
        }
        (i, j, size)
    }
}

fn clear(row: &mut [usize], places: &[usize]) {
    for place in places {
        row[place + 1] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(a: &str, b: &str) -> f64 {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        ratio(&chars(a), &chars(b))
    }

    #[test]
    fn longest_block_first_makes_it_asymmetric() {
        assert_eq!(of("tide", "diet"), 0.25);
        assert_eq!(of("diet", "tide"), 0.5);
        assert_eq!(of("", ""), 1.0);
        assert_eq!(of("abcd", "bcde"), 0.75);
    }

    #[test]
    fn popular_characters_of_a_long_second_string_start_no_match() {
        let popular = "x".repeat(200);
        assert_eq!(of("yxxxx", &popular), 0.0);
        assert!(of(&popular, "yxxxx") > 0.0);
        assert!(of("yxxxx", &"x".repeat(199)) > 0.0);
        // Where both begin alike the empty match at the start still grows.
        assert_eq!(of("xxxx", &popular), 2.0 * 4.0 / 204.0);
        // One rare character anchors the block, which then grows over the popular ones.
        let anchored = format!("{}q{}", "x".repeat(100), "x".repeat(100));
        assert_eq!(of("xxqxx", &anchored), 2.0 * 5.0 / 206.0);
    }
}
