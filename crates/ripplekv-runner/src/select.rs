//! Which part of an experiment to run: `--limit`, `--only`, `--shard`.
//! None of it enters a cell key: what runs does not change what a cell is.

use crate::error::RunnerError;
use crate::nearest::hint_for;

/// Which of the fitting records of a task to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limit {
    /// The first so many.
    First(usize),
    /// From the first to the second place, both included, counted from 1.
    Range(usize, usize),
    /// The first so many hundredths of a percent, at least one record.
    Share {
        /// Hundredths of a percent: 5% is 500.
        hundredths: usize,
    },
}

impl Limit {
    /// Reads `10`, `10-20` or `5%`.
    ///
    /// # Errors
    /// A lower-case message that shows the three forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is no limit\nhint: write a number `10`, places `10-20` or a share `5%`, above zero"
            )
        };
        let text = text.trim();
        if let Some(share) = text.strip_suffix('%') {
            let (whole, fraction) = share.split_once('.').unwrap_or((share, ""));
            if fraction.len() > 2 {
                return Err(wrong());
            }
            let hundredths: usize = format!("{whole}{fraction:0<2}")
                .parse()
                .map_err(|_| wrong())?;
            return match hundredths {
                1..=10_000 => Ok(Self::Share { hundredths }),
                _ => Err(wrong()),
            };
        }
        let place = |text: &str| text.trim().parse::<usize>().ok().filter(|place| *place > 0);
        if let Some((from, to)) = text.split_once('-') {
            return match (place(from), place(to)) {
                (Some(from), Some(to)) if from <= to => Ok(Self::Range(from, to)),
                _ => Err(wrong()),
            };
        }
        place(text).map(Self::First).ok_or_else(wrong)
    }

    /// How many records must be seen before the choice is known; `None` means all.
    #[must_use]
    pub fn enough(&self) -> Option<usize> {
        match self {
            Self::First(count) | Self::Range(_, count) => Some(*count),
            Self::Share { .. } => None,
        }
    }

    /// Places (from 0) to take out of `count` fitting records.
    #[must_use]
    pub fn places(&self, count: usize) -> std::ops::Range<usize> {
        match *self {
            Self::First(first) => 0..first.min(count),
            Self::Range(from, to) => (from - 1).min(count)..to.min(count),
            Self::Share { hundredths } => 0..(count * hundredths).div_ceil(10_000).min(count),
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::First(count) => write!(formatter, "{count}"),
            Self::Range(from, to) => write!(formatter, "{from}-{to}"),
            Self::Share { hundredths } => {
                write!(formatter, "{}", hundredths / 100)?;
                match hundredths % 100 {
                    0 => write!(formatter, "%"),
                    rest => write!(formatter, ".{rest:02}%"),
                }
            }
        }
    }
}

/// One of several equal parts of the work, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 1.
    pub index: usize,
    /// How many parts.
    pub count: usize,
}

impl Shard {
    /// The whole work.
    pub const ALL: Self = Self { index: 1, count: 1 };

    /// Reads `3/16`.
    ///
    /// # Errors
    /// A lower-case message that shows the form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(index, count)| {
            Some((index.trim().parse().ok()?, count.trim().parse().ok()?))
        });
        match numbers {
            Some((index, count)) if (1..=count).contains(&index) => Ok(Self { index, count }),
            _ => Err(format!(
                "'{text}' is no shard; write i/n with 1 <= i <= n, such as 3/16"
            )),
        }
    }

    /// The places of `total` units in plan order that are this shard's: a run of neighbours, so
    /// that a shard loads few models. Shards differ by at most one unit.
    #[must_use]
    pub fn places(&self, total: usize) -> std::ops::Range<usize> {
        total * (self.index - 1) / self.count..total * self.index / self.count
    }
}

/// Keys `--only` knows.
pub const ONLY_KEYS: [&str; 4] = ["model", "task", "method", "budget"];

/// The filters of all `--only` options: every one must hold, and within one any pattern may.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Only {
    filters: Vec<(String, Vec<String>)>,
}

/// What a filter looks at.
#[derive(Debug, Clone, Copy)]
pub struct OnlyTarget<'a> {
    /// Model name.
    pub model: &'a str,
    /// Task name.
    pub task: &'a str,
    /// Method name.
    pub method: &'a str,
    /// Method label.
    pub label: &'a str,
    /// Canonical budget; a cell without one passes every budget filter.
    pub budget: Option<&'a str>,
}

impl Only {
    /// Reads `key=pattern,pattern` texts; `*` stands for any letters.
    ///
    /// # Errors
    /// [`RunnerError::Usage`] for another form or an unknown key.
    pub fn parse<S: AsRef<str>>(texts: &[S]) -> Result<Self, RunnerError> {
        let mut filters = Vec::new();
        for text in texts {
            let text = text.as_ref();
            let (key, patterns) = text.split_once('=').unwrap_or((text, ""));
            if !ONLY_KEYS.contains(&key) {
                return Err(RunnerError::Usage {
                    message: format!("--only {text}: unknown key '{key}'"),
                    hint: hint_for(key, &ONLY_KEYS),
                });
            }
            let patterns: Vec<String> = patterns
                .split(',')
                .map(str::trim)
                .filter(|pattern| !pattern.is_empty())
                .map(str::to_owned)
                .collect();
            if patterns.is_empty() {
                return Err(RunnerError::Usage {
                    message: format!("--only {text}: no pattern after '='"),
                    hint: "write --only method=snapkv,ripple*".to_owned(),
                });
            }
            filters.push((key.to_owned(), patterns));
        }
        Ok(Self { filters })
    }

    /// Whether a cell passes all filters.
    #[must_use]
    pub fn allows(&self, target: &OnlyTarget<'_>) -> bool {
        self.filters.iter().all(|(key, patterns)| {
            patterns.iter().any(|pattern| match key.as_str() {
                "model" => glob(pattern, target.model),
                "task" => glob(pattern, target.task),
                "method" => glob(pattern, target.method) || glob(pattern, target.label),
                _ => target.budget.is_none_or(|budget| glob(pattern, budget)),
            })
        })
    }

    /// Whether the filters on models let one through; filters on other keys say nothing of it.
    #[must_use]
    pub fn allows_model(&self, model: &str) -> bool {
        self.filters
            .iter()
            .filter(|(key, _)| key == "model")
            .all(|(_, patterns)| patterns.iter().any(|pattern| glob(pattern, model)))
    }

    /// True without any filter.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }
}

impl std::fmt::Display for Only {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let texts: Vec<String> = self
            .filters
            .iter()
            .map(|(key, patterns)| format!("{key}={}", patterns.join(",")))
            .collect();
        formatter.write_str(&texts.join(" "))
    }
}

/// Whether `text` matches a pattern in which `*` stands for any letters.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(text) = text.strip_prefix(head) else {
        return false;
    };
    text.char_indices()
        .map(|(place, _)| place)
        .chain([text.len()])
        .any(|place| glob(rest, &text[place..]))
}

#[cfg(test)]
mod tests {
    use super::{Limit, Only, OnlyTarget, Shard, glob};

    #[test]
    fn limits_read_and_choose() {
        for (text, count, places) in [
            ("2", 10, 0..2),
            ("20", 10, 0..10),
            ("3-5", 10, 2..5),
            ("8-20", 10, 7..10),
            ("12-20", 10, 10..10),
            ("5%", 10, 0..1),
            ("12.5%", 200, 0..25),
            ("100%", 7, 0..7),
        ] {
            let limit = Limit::parse(text).unwrap();
            assert_eq!(limit.places(count), places, "{text}");
            assert_eq!(Limit::parse(&limit.to_string()).unwrap(), limit, "{text}");
        }
        for wrong in ["0", "-1", "5-3", "0-3", "0%", "101%", "1.234%", "two", ""] {
            assert!(Limit::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shards_read() {
        assert_eq!(
            Shard::parse("3/16").unwrap(),
            Shard {
                index: 3,
                count: 16
            }
        );
        for wrong in ["0/2", "3/2", "1/0", "1", "a/b"] {
            assert!(Shard::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn globs() {
        assert!(glob("snap*", "snapkv"));
        assert!(glob("*kv", "pyramidkv"));
        assert!(glob("*", ""));
        assert!(glob("a*b*c", "aXbYbc"));
        assert!(!glob("snap", "snapkv"));
        assert!(!glob("*-e", "snapkv"));
    }

    #[test]
    fn filters_and_or() {
        let target = OnlyTarget {
            model: "tiny",
            task: "lcc",
            method: "ripplekv",
            label: "ripplekv(r=2)",
            budget: Some("10%"),
        };
        let allows = |texts: &[&str]| Only::parse(texts).unwrap().allows(&target);
        assert!(allows(&[]));
        assert!(allows(&["method=snapkv,ripple*", "task=lcc"]));
        assert!(allows(&["method=ripplekv(r=2)"]));
        assert!(!allows(&["method=snapkv"]));
        assert!(!allows(&["method=ripple*", "task=qasper"]));
        assert!(!allows(&["budget=20%"]));
        let error = Only::parse(&["metod=a"]).unwrap_err().to_string();
        assert!(error.contains("did you mean 'method'?"), "{error}");
        assert!(Only::parse(&["method="]).is_err());
    }
}
