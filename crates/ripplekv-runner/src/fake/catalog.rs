//! The catalog of the fake engine: methods with typed parameters, models, and budgets of its own.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::LAYERS;
use crate::catalog::{Catalog, MethodEntry, ModelEntry, ParamInfo, ParamProblem};

/// Methods, budgets and models that the fake knows: `full`, `streaming-llm`, `snapkv`, `pyramidkv`, `ripplekv`; `tiny`,
/// `absent`.
#[must_use]
pub fn catalog() -> Catalog {
    let method = |name, params: &'static [Param], must_keep: &'static str| MethodEntry {
        name,
        summary: "a method of the fake engine",
        source: "this program's tests",
        scorer: (name != "full").then_some(name),
        allocator: (name != "full").then_some("uniform"),
        takes_budget: name != "full",
        params: infos(params),
        parse: Arc::new(|given| parse(given, params)),
        must_keep_tokens: Arc::new(|params| number(params, must_keep)),
        needs_signal: Arc::new(|_| None),
        needs_all_layers: Arc::new(|_| false),
    };
    let ripplekv = MethodEntry {
        scorer: Some("snapkv"),
        allocator: Some("ripple"),
        parse: Arc::new(parse_ripple),
        needs_signal: Arc::new(|_| Some("sensitivity")),
        ..method("ripplekv", WINDOW, "window")
    };
    let model = |name| ModelEntry {
        name,
        summary: "a model of the fake engine",
        context_length: 4096,
        layers: LAYERS,
    };
    Catalog {
        methods: vec![
            method("full", &[], ""),
            method("streaming-llm", SINKS, "sinks"),
            method("snapkv", WINDOW, "window"),
            method("pyramidkv", WINDOW_BETA, "window"),
            ripplekv,
        ],
        models: vec![model("tiny"), model("absent")],
        parse_budget,
        total_entries,
        ripple_weights,
        numerics_version: 1,
    }
}

/// Key, default and least value of a parameter.
type Param = (&'static str, u64, u64);

const SINKS: &[Param] = &[("sinks", 4, 1)];
const WINDOW: &[Param] = &[("window", 8, 1), ("kernel", 5, 1)];
const WINDOW_BETA: &[Param] = &[("window", 8, 1), ("kernel", 5, 1), ("beta", 20, 2)];

fn infos(params: &[Param]) -> Vec<ParamInfo> {
    params
        .iter()
        .map(|(name, default, _)| ParamInfo {
            name,
            help: "a number of the fake engine",
            default: json!(default),
        })
        .collect()
}

pub(super) fn number(params: &Value, key: &str) -> usize {
    params[key].as_u64().unwrap_or(0) as usize
}

fn parse(given: &Value, params: &[Param]) -> Result<Value, ParamProblem> {
    let empty = Map::new();
    let given = given.as_object().unwrap_or(&empty);
    if let Some(key) = given
        .keys()
        .find(|key| !params.iter().any(|(name, _, _)| name == key))
    {
        return Err(ParamProblem {
            key: Some(key.clone()),
            message: "unknown parameter".to_owned(),
            known: params
                .iter()
                .map(|(name, _, _)| (*name).to_owned())
                .collect(),
            unknown: Some(key.clone()),
        });
    }
    let mut parsed = Map::new();
    for (name, default, least) in params {
        let value = given.get(*name).map_or(Some(*default), Value::as_u64);
        let Some(value) = value.filter(|value| value >= least) else {
            return Err(ParamProblem {
                key: Some((*name).to_owned()),
                message: format!("must be a whole number of at least {least}"),
                known: Vec::new(),
                unknown: None,
            });
        };
        parsed.insert((*name).to_owned(), json!(value));
    }
    Ok(Value::Object(parsed))
}

/// `r` and `gamma` beside the parameters of [`WINDOW`].
fn parse_ripple(given: &Value) -> Result<Value, ParamProblem> {
    let mut rest = given.as_object().cloned().unwrap_or_default();
    let mut take = |key: &str, default: f64, least: f64| match rest.remove(key) {
        None => Ok(json!(default)),
        Some(value) if key == "r" && value == "calibrate" => Ok(value),
        Some(value) if value.as_f64().is_some_and(|number| number >= least) => Ok(value),
        Some(_) => Err(ParamProblem {
            key: Some(key.to_owned()),
            message: format!("must be a number of at least {least}"),
            known: Vec::new(),
            unknown: None,
        }),
    };
    let (r, gamma) = (take("r", 4.0, 0.01)?, take("gamma", 2.0, 1.0)?);
    let mut parsed = parse(&Value::Object(rest), WINDOW)?;
    parsed["r"] = r;
    parsed["gamma"] = gamma;
    Ok(parsed)
}

/// The ripple mapping without a centre; as strict about keys as the real one.
fn ripple_weights(signal: &[f64], params: &Value) -> Result<Vec<f64>, ParamProblem> {
    const KEYS: [&str; 3] = ["r", "gamma", "center"];
    let mut given = params.as_object().into_iter().flat_map(Map::keys);
    if let Some(key) = given.find(|key| !KEYS.contains(&key.as_str())) {
        return Err(ParamProblem {
            key: Some(key.clone()),
            message: "unknown parameter".to_owned(),
            known: KEYS.map(str::to_owned).to_vec(),
            unknown: Some(key.clone()),
        });
    }
    let number = |key: &str| params[key].as_f64().unwrap_or(1.0);
    let (r, gamma) = (number("r"), number("gamma"));
    let least = signal.iter().copied().fold(f64::INFINITY, f64::min);
    let most = signal.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let width = if most > least { most - least } else { 1.0 };
    Ok(signal
        .iter()
        .map(|value| libm::pow(r, (value - least) / width).clamp(1.0 / gamma, gamma))
        .collect())
}

fn parse_budget(text: &str) -> Result<String, String> {
    let (digits, share) = text
        .strip_suffix('%')
        .map_or((text, false), |digits| (digits, true));
    match digits.parse::<u64>() {
        Ok(1..=100) => Ok(text.to_owned()),
        Ok(number) if number > 0 && !share => Ok(text.to_owned()),
        _ => Err(format!("budget '{text}' is none")),
    }
}

pub(super) fn total_entries(budget: &str, n: usize, layers: usize, _entry_bytes: usize) -> u64 {
    let everything = n * layers;
    let total = match budget.strip_suffix('%') {
        Some(digits) => (2 * digits.parse().unwrap_or(0) * everything + 100) / 200,
        None => budget.parse().unwrap_or(0) * layers,
    };
    total.min(everything) as u64
}
