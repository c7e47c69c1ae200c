//! Methods: a scorer and an allocator under the name a paper gives them. Any scorer can take any allocator:
//! the parameters `scorer` and `allocator` replace a method's own.

mod full;
mod h2o;
mod keydiff;
mod knorm;
mod observed_attention;
mod pyramidkv;
mod ripplekv;
mod snapkv;
mod streaming_llm;
mod tova;

use serde_json::{Map, Value};

use crate::allocators::{ALLOCATORS, Allocator, AllocatorInfo};
use crate::scorers::{SCORERS, Scorer, ScorerInfo};
use crate::{CacheError, ParamInfo};

/// One line of [`METHODS`].
#[derive(Debug, Clone, Copy)]
pub struct MethodInfo {
    /// Name in specs.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Paper or program followed.
    pub source: &'static str,
    /// Name in [`SCORERS`]; `None` only for `full`.
    pub scorer: Option<&'static str>,
    /// Name in [`ALLOCATORS`]; `None` only for `full`.
    pub allocator: Option<&'static str>,
}

/// All methods.
pub const METHODS: &[MethodInfo] = &[
    full::INFO,
    streaming_llm::INFO,
    snapkv::INFO,
    knorm::INFO,
    tova::INFO,
    keydiff::INFO,
    h2o::INFO,
    observed_attention::INFO,
    pyramidkv::INFO,
    ripplekv::INFO,
];

/// A method ready to run.
pub enum Method {
    /// Nothing is evicted.
    Full,
    /// A scorer with an allocator.
    Compress {
        /// Identity of the scorer with its parameters: equal texts give equal scores.
        scorer_key: String,
        /// Rates entries.
        scorer: Box<dyn Scorer>,
        /// Weighs layers.
        allocator: Box<dyn Allocator>,
    },
}

/// Finds a method by name.
///
/// # Errors
/// [`CacheError::UnknownName`] with the valid names.
pub fn method_by_name(name: &str) -> Result<&'static MethodInfo, CacheError> {
    METHODS
        .iter()
        .find(|info| info.name == name)
        .ok_or_else(|| unknown("method", name, METHODS.iter().map(|info| info.name)))
}

/// Parameters of a method with its own scorer and allocator, for listings.
#[must_use]
pub fn method_params(info: &MethodInfo) -> Vec<ParamInfo> {
    let mut all = Vec::new();
    if let (Some(scorer), Some(allocator)) = (info.scorer, info.allocator) {
        if let Ok(scorer) = find_scorer(scorer) {
            all.extend((scorer.params)());
        }
        if let Ok(allocator) = find_allocator(allocator) {
            all.extend((allocator.params)());
        }
    }
    all
}

/// Checks a method's parameters and writes all defaults out, the scorer's and allocator's names included.
///
/// # Errors
/// An unknown key, scorer or allocator, or a value out of range.
pub fn parse_method(name: &str, params: &Value) -> Result<Value, CacheError> {
    let parts = Parts::find(name, params)?;
    let Some((scorer, allocator)) = parts.pair else {
        return Ok(Value::Object(Map::new()));
    };
    let mut canonical = Map::new();
    canonical.insert("scorer".to_owned(), scorer.name.into());
    canonical.insert("allocator".to_owned(), allocator.name.into());
    for part in [
        (scorer.parse)(&parts.given)?,
        (allocator.parse)(&parts.given)?,
    ] {
        if let Value::Object(object) = part {
            canonical.extend(object);
        }
    }
    Ok(Value::Object(canonical))
}

/// Name of the profile signal that the allocator of a method with these parameters reads, if any.
#[must_use]
pub fn needed_signal(name: &str, params: &Value) -> Option<&'static str> {
    let (_, allocator) = Parts::find(name, params).ok()?.pair?;
    allocator.signal
}

/// Whether the allocator of a method with these parameters must see all layers of a prompt before it gives budgets.
#[must_use]
pub fn needs_all_layers(name: &str, params: &Value) -> bool {
    let parts = Parts::find(name, params).ok().and_then(|parts| parts.pair);
    parts.is_some_and(|(_, allocator)| allocator.needs_all_layers)
}

impl Method {
    /// Builds a method from its name and parameters.
    ///
    /// # Errors
    /// As [`parse_method`].
    pub fn build(name: &str, params: &Value) -> Result<Self, CacheError> {
        let parts = Parts::find(name, params)?;
        let Some((scorer, allocator)) = parts.pair else {
            return Ok(Self::Full);
        };
        let scorer_key = format!("{} {}", scorer.name, (scorer.parse)(&parts.given)?);
        Ok(Self::Compress {
            scorer_key,
            scorer: (scorer.build)(&parts.given)?,
            allocator: (allocator.build)(&parts.given)?,
        })
    }
}

struct Parts {
    given: Map<String, Value>,
    pair: Option<(&'static ScorerInfo, &'static AllocatorInfo)>,
}

impl Parts {
    fn find(name: &str, params: &Value) -> Result<Self, CacheError> {
        let info = method_by_name(name)?;
        let mut given = match params {
            Value::Null => Map::new(),
            Value::Object(object) => object.clone(),
            other => {
                return Err(CacheError::Param {
                    key: "params".to_owned(),
                    reason: format!("must be a mapping, not {other}"),
                });
            }
        };
        let (Some(scorer), Some(allocator)) = (info.scorer, info.allocator) else {
            return match given.keys().next() {
                Some(key) => Err(CacheError::UnknownParam {
                    key: key.clone(),
                    known: "none".to_owned(),
                }),
                None => Ok(Self { given, pair: None }),
            };
        };
        let scorer = find_scorer(&take_name(&mut given, "scorer", scorer)?)?;
        let allocator = find_allocator(&take_name(&mut given, "allocator", allocator)?)?;
        let known: Vec<&str> = (scorer.params)()
            .iter()
            .chain(&(allocator.params)())
            .map(|param| param.name)
            .collect();
        if let Some(key) = given.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(CacheError::UnknownParam {
                key: key.clone(),
                known: known.join(", "),
            });
        }
        Ok(Self {
            given,
            pair: Some((scorer, allocator)),
        })
    }
}

fn take_name(
    given: &mut Map<String, Value>,
    key: &str,
    default: &str,
) -> Result<String, CacheError> {
    match given.remove(key) {
        None => Ok(default.to_owned()),
        Some(Value::String(name)) => Ok(name),
        Some(other) => Err(CacheError::Param {
            key: key.to_owned(),
            reason: format!("must be a name, not {other}"),
        }),
    }
}

fn find_scorer(name: &str) -> Result<&'static ScorerInfo, CacheError> {
    SCORERS
        .iter()
        .find(|info| info.name == name)
        .ok_or_else(|| unknown("scorer", name, SCORERS.iter().map(|info| info.name)))
}

fn find_allocator(name: &str) -> Result<&'static AllocatorInfo, CacheError> {
    ALLOCATORS
        .iter()
        .find(|info| info.name == name)
        .ok_or_else(|| unknown("allocator", name, ALLOCATORS.iter().map(|info| info.name)))
}

fn unknown<'a>(kind: &'static str, name: &str, known: impl Iterator<Item = &'a str>) -> CacheError {
    CacheError::UnknownName {
        kind,
        name: name.to_owned(),
        known: known.collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_tables_are_sound() {
        let kebab = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        for names in [
            METHODS
                .iter()
                .map(|i| (i.name, i.summary, i.source))
                .collect::<Vec<_>>(),
            SCORERS
                .iter()
                .map(|i| (i.name, i.summary, i.source))
                .collect(),
            ALLOCATORS
                .iter()
                .map(|i| (i.name, i.summary, i.source))
                .collect(),
        ] {
            let mut seen = std::collections::BTreeSet::new();
            for (name, summary, source) in names {
                assert!(kebab(name), "{name}");
                assert!(seen.insert(name), "{name} stands twice");
                assert!(!summary.is_empty() && !source.is_empty(), "{name}");
            }
        }
        for info in METHODS {
            let canonical = parse_method(info.name, &Value::Null).unwrap();
            // defaults written out change nothing
            assert_eq!(parse_method(info.name, &canonical).unwrap(), canonical);
            assert!(Method::build(info.name, &canonical).is_ok());
            // a scorer and an allocator of one method never share a key
            let params = method_params(info);
            let names: std::collections::BTreeSet<_> = params.iter().map(|p| p.name).collect();
            assert_eq!(names.len(), params.len(), "{}", info.name);
            for param in params {
                assert!(
                    !param.help.is_empty() && !param.default.is_null(),
                    "{}",
                    param.name
                );
            }
        }
    }

    #[test]
    fn parameters_are_checked() {
        let message = |name: &str, params| parse_method(name, &params).unwrap_err().to_string();
        assert!(message("snapkv", json!({"windwo": 3})).contains("unknown parameter `windwo`"));
        assert!(message("snapkv", json!({"window": -3})).starts_with("window:"));
        assert!(message("snapkv", json!({"window": "a"})).starts_with("window:"));
        assert!(message("snapkv", json!({"kernel": 4})).contains("odd"));
        assert!(message("pyramidkv", json!({"beta": 0.5})).contains("beta"));
        assert!(message("full", json!({"window": 3})).contains("unknown parameter"));
        assert!(message("snapkv", json!({"allocator": "pyramidd"})).contains("unknown allocator"));
        assert!(message("snapk", json!({})).contains("unknown method"));
        let crossed = parse_method("pyramidkv", &json!({"scorer": "streaming-llm"})).unwrap();
        assert_eq!(
            crossed,
            json!({"scorer": "streaming-llm", "allocator": "pyramid", "sinks": 4, "beta": 20.0})
        );
    }
}
