//! Parameters of scorers and allocators: a typed struct with defaults, shown and checked as a JSON object.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::CacheError;

/// One parameter, for listings and error messages.
#[derive(Debug, Clone, PartialEq)]
pub struct ParamInfo {
    /// Key.
    pub name: &'static str,
    /// One line on what it does, with its unit.
    pub help: &'static str,
    /// Default value.
    pub default: Value,
}

/// The constant part of a parameter: key and help; the default comes from the struct.
pub(crate) type ParamDoc = (&'static str, &'static str);

/// Pairs the documented keys with the defaults of `P`.
pub(crate) fn describe<P: Default + Serialize>(docs: &[ParamDoc]) -> Vec<ParamInfo> {
    let defaults = serde_json::to_value(P::default()).unwrap_or(Value::Null);
    docs.iter()
        .map(|&(name, help)| ParamInfo {
            name,
            help,
            default: defaults.get(name).cloned().unwrap_or(Value::Null),
        })
        .collect()
}

/// Reads those keys of `given` that belong to `P`, field by field so that an error names its key.
pub(crate) fn read<P>(given: &Map<String, Value>, docs: &[ParamDoc]) -> Result<P, CacheError>
where
    P: Default + Serialize + DeserializeOwned,
{
    let mut merged = Map::new();
    for &(name, _) in docs {
        if let Some(value) = given.get(name) {
            let single = Value::Object(Map::from_iter([(name.to_owned(), value.clone())]));
            serde_json::from_value::<P>(single).map_err(|error| CacheError::Param {
                key: name.to_owned(),
                reason: error.to_string(),
            })?;
            merged.insert(name.to_owned(), value.clone());
        }
    }
    serde_json::from_value(Value::Object(merged)).map_err(|error| CacheError::Param {
        key: "params".to_owned(),
        reason: error.to_string(),
    })
}

/// An error for a value out of range.
pub(crate) fn out_of_range(key: &str, reason: &str) -> CacheError {
    CacheError::Param {
        key: key.to_owned(),
        reason: reason.to_owned(),
    }
}
