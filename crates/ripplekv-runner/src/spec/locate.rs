//! Finds the line of a key path in YAML text.
//! The YAML library tells places only through its errors, so a reader that fails on purpose at the path asks it.

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// One step of a key path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// Splits `methods[3].params.gamma` into its steps.
pub(crate) fn steps(path: &str) -> Vec<Step> {
    let mut found = Vec::new();
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let (key, indices) = part
            .split_once('[')
            .map_or((part, None), |(key, rest)| (key, Some(rest)));
        if let Ok(index) = key.parse::<usize>() {
            found.push(Step::Index(index));
        } else if !key.is_empty() {
            found.push(Step::Key(key.to_owned()));
        }
        for index in indices.unwrap_or_default().split('[') {
            if let Ok(index) = index.trim_end_matches(']').parse() {
                found.push(Step::Index(index));
            }
        }
    }
    found
}

/// Line (from 1) of the last step of `path` that exists in `text`.
pub(crate) fn line_of(text: &str, path: &str) -> Option<usize> {
    let steps = steps(path);
    (1..=steps.len()).rev().find_map(|length| {
        let deserializer = serde_yaml::Deserializer::from_str(text);
        let error = Walk {
            steps: &steps[..length],
        }
        .deserialize(deserializer)
        .err()?;
        let line = error.location()?.line();
        error.to_string().contains(MARK).then_some(line)
    })
}

const MARK: &str = "the place asked for";

#[derive(Clone, Copy)]
struct Walk<'a> {
    steps: &'a [Step],
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

macro_rules! scalars {
    ($($name:ident: $kind:ty),*) => {$(
        fn $name<E: Error>(self, _: $kind) -> Result<(), E> {
            self.scalar()
        }
    )*};
}

impl Walk<'_> {
    fn scalar<E: Error>(self) -> Result<(), E> {
        if self.steps.is_empty() {
            Err(E::custom(MARK))
        } else {
            Ok(())
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("anything")
    }

    scalars!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.scalar()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        self.scalar()?;
        let mut index = 0;
        loop {
            let inside = self.steps.split_first().and_then(|(first, rest)| {
                (*first == Step::Index(index)).then_some(Walk { steps: rest })
            });
            let more = match inside {
                Some(walk) => sequence.next_element_seed(walk)?.is_some(),
                None => sequence.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.scalar()?;
        let Some((Step::Key(wanted), rest)) = self.steps.split_first() else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(());
        };
        while let Some(found) = map.next_key_seed(Key {
            wanted,
            last: rest.is_empty(),
        })? {
            if found {
                map.next_value_seed(Walk { steps: rest })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct Key<'a> {
    wanted: &'a str,
    last: bool,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key<'_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<bool, E> {
        if key == self.wanted && self.last {
            return Err(E::custom(MARK));
        }
        Ok(key == self.wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::{Step, line_of, steps};

    const TEXT: &str = "schema: 1\nmethods:\n  - full\n  - name: snapkv\n    params:\n      window: 8\n      kernel: [5,\n        7]\n";

    #[test]
    fn paths_split() {
        assert_eq!(
            steps("a[2].b[0][1].3"),
            vec![
                Step::Key("a".into()),
                Step::Index(2),
                Step::Key("b".into()),
                Step::Index(0),
                Step::Index(1),
                Step::Index(3),
            ]
        );
    }

    #[test]
    fn lines_of_keys_values_and_lists() {
        assert_eq!(line_of(TEXT, "schema"), Some(1));
        assert_eq!(line_of(TEXT, "methods[0]"), Some(3));
        assert_eq!(line_of(TEXT, "methods[1].params.window"), Some(6));
        assert_eq!(line_of(TEXT, "methods[1].params.kernel[1]"), Some(8));
        assert_eq!(
            line_of(TEXT, "methods[1].params.absent"),
            Some(5),
            "the nearest parent that exists"
        );
        assert_eq!(line_of(TEXT, "nothing"), None);
    }
}
