//! From file: the ripple mapping of numbers that the user measured elsewhere. Parsing reads the file and writes its
//! numbers into the parameters, so that a cell's key stands for contents and not for a path.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::mapping::{MappingParams, check_signal, is_usable};
use super::{AllocationContext, Allocator, AllocatorInfo};
use crate::CacheError;
use crate::params::{self, ParamDoc, out_of_range};

const DOCS: &[ParamDoc] = &[
    (
        "file",
        "JSON file with one number a layer, from the working folder: a list, or a mapping whose key `signal` holds the \
         list; required",
    ),
    (
        "signal",
        "the numbers themselves, as read from `file`; instead of it",
    ),
];

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Source {
    file: Option<String>,
    signal: Option<Value>,
}

struct FromFile {
    signal: Vec<f64>,
    mapping: MappingParams,
}

fn read(given: &Map<String, Value>) -> Result<FromFile, CacheError> {
    let source: Source = params::read(given, DOCS)?;
    let signal = match (source.file, source.signal) {
        (Some(file), None) => read_file(&file).map_err(|reason| {
            // names the file, whatever part of it is wrong
            out_of_range("file", &format!("{file}: {reason}"))
        })?,
        (None, Some(list)) => numbers(&list).map_err(|reason| out_of_range("signal", &reason))?,
        (Some(_), Some(_)) => {
            return Err(out_of_range(
                "signal",
                "stands beside `file`; give one of them",
            ));
        }
        (None, None) => {
            return Err(out_of_range(
                "file",
                "is missing; give the path of a JSON file with one number a layer",
            ));
        }
    };
    Ok(FromFile {
        signal,
        mapping: MappingParams::read(given)?,
    })
}

fn read_file(file: &str) -> Result<Vec<f64>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot be read: {error}"))?;
    let document: Value =
        serde_json::from_str(&text).map_err(|error| format!("is not JSON: {error}"))?;
    match &document {
        Value::Object(object) => numbers(
            object
                .get("signal")
                .ok_or("the key `signal` is missing".to_owned())?,
        ),
        other => numbers(other),
    }
}

fn numbers(list: &Value) -> Result<Vec<f64>, String> {
    let list = list
        .as_array()
        .ok_or("`signal` must be a list of numbers".to_owned())?;
    if list.is_empty() {
        return Err("`signal` is empty; it holds one number a layer".to_owned());
    }
    list.iter()
        .enumerate()
        .map(|(layer, value)| {
            value
                .as_f64()
                .filter(|number| is_usable(*number))
                .ok_or_else(|| {
                    format!("`signal[{layer}]` is {value}; must be a finite number of at least 0")
                })
        })
        .collect()
}

pub(super) const INFO: AllocatorInfo = AllocatorInfo {
    name: "from-file",
    summary: "as ripple, by numbers from a file",
    source: "numbers measured elsewhere",
    params: || MappingParams::describe_after::<Source>(DOCS),
    signal: None,
    needs_all_layers: false,
    parse: |given| {
        let parsed = read(given)?;
        let mut canonical = parsed.mapping.canonical();
        canonical.insert("signal".to_owned(), parsed.signal.into());
        Ok(canonical.into())
    },
    build: |given| Ok(Box::new(read(given)?)),
};

impl Allocator for FromFile {
    fn weights(&self, context: &AllocationContext<'_>) -> Result<Vec<f64>, CacheError> {
        check_signal(&self.signal, "signal", context.layers)?;
        self.mapping.weights(&self.signal)
    }
}
