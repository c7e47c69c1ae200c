//! Resolves `methods` and `budgets`: known names, checked parameters, sweeps multiplied out.

use serde_json::{Map, Value};

use crate::catalog::{Catalog, MethodEntry, ParamProblem};
use crate::cell::ResolvedMethod;
use crate::engine::PrefillMode;
use crate::error::SpecError;
use crate::nearest::hint_for;
use crate::spec::{MethodSpec, PARTS, Spec};

/// A method and the budgets it runs with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedMethod {
    pub(crate) method: ResolvedMethod,
    /// Canonical budgets; empty for a method that takes none.
    pub(crate) budgets: Vec<String>,
    /// Whether its allocation comes from the model's profile.
    pub(crate) needs_profile: bool,
}

pub(crate) fn resolve(spec: &Spec, catalog: &Catalog) -> Result<Vec<PlannedMethod>, SpecError> {
    let budgets = budgets(spec, catalog, &spec.budgets, "budgets")?;
    let mut planned = Vec::new();
    for (place, written) in spec.methods.iter().enumerate() {
        let path = format!("methods[{place}]");
        let names: Vec<&str> = catalog.methods.iter().map(|method| method.name).collect();
        let Some(entry) = catalog
            .methods
            .iter()
            .find(|method| method.name == written.name)
        else {
            let message = format!("unknown method '{}'", written.name);
            let hint = hint_for(&written.name, &names);
            return Err(spec.source.error(&path, message, Some(hint)));
        };
        if entry.takes_budget && budgets.is_empty() {
            return Err(spec.source.error(
                "",
                format!("the key 'budgets' is missing; '{}' needs one", entry.name),
                Some("write budgets: [10%, 20%, 30%]".to_owned()),
            ));
        }
        for method in sweep(spec, entry, written, &path)? {
            if spec.prefill == PrefillMode::Stream && (entry.needs_all_layers)(&method.params) {
                return Err(spec.source.error(
                    &path,
                    format!(
                        "'{}' sees all layers before it gives one a budget, so none can be compressed while prefilling",
                        method.label
                    ),
                    Some("write prefill: snapshot".to_owned()),
                ));
            }
            if planned.iter().any(|known: &PlannedMethod| {
                known.method.label == method.label && known.method != method
            }) {
                return Err(spec.source.error(
                    &path,
                    format!("two different methods are called '{}'", method.label),
                    Some("give one of them a `label`".to_owned()),
                ));
            }
            planned.push(PlannedMethod {
                needs_profile: (entry.needs_signal)(&method.params).is_some(),
                method,
                budgets: if entry.takes_budget {
                    budgets.clone()
                } else {
                    Vec::new()
                },
            });
        }
    }
    Ok(planned)
}

/// Canonical forms of the budgets written at the key `path`, each once.
pub(crate) fn budgets(
    spec: &Spec,
    catalog: &Catalog,
    texts: &[String],
    path: &str,
) -> Result<Vec<String>, SpecError> {
    let mut canonical: Vec<String> = Vec::with_capacity(texts.len());
    for (place, text) in texts.iter().enumerate() {
        let budget = (catalog.parse_budget)(text).map_err(|message| {
            spec.source.error(
                &format!("{path}[{place}]"),
                message,
                Some(
                    "write a share such as 10%, tokens a layer such as 512, or memory such as 64MiB"
                        .to_owned(),
                ),
            )
        })?;
        if !canonical.contains(&budget) {
            canonical.push(budget);
        }
    }
    Ok(canonical)
}

/// All combinations of the listed values, the last parameter changing fastest.
fn sweep(
    spec: &Spec,
    entry: &MethodEntry,
    written: &MethodSpec,
    path: &str,
) -> Result<Vec<ResolvedMethod>, SpecError> {
    let total: usize = written
        .params
        .iter()
        .map(|(_, values)| values.len())
        .product();
    let base = written.label.as_deref().unwrap_or(entry.name);
    let mut methods = Vec::with_capacity(total);
    for number in 0..total {
        let mut rest = number;
        let mut chosen: Vec<(&str, &Value)> = Vec::with_capacity(written.params.len());
        for (key, values) in written.params.iter().rev() {
            chosen.push((key, &values[rest % values.len()]));
            rest /= values.len();
        }
        chosen.reverse();
        let given: Map<String, Value> = chosen
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).clone()))
            .collect();
        let params = (entry.parse)(&Value::Object(given))
            .map_err(|problem| parameter_error(spec, entry, path, problem))?;
        let is_given = |name: &str| chosen.iter().any(|(key, _)| *key == name);
        if params["r"] == "calibrate" && is_given("gamma") {
            return Err(spec.source.error(
                &format!("{path}.params.gamma"),
                "stands beside 'r: calibrate', which picks gamma too",
                Some("leave gamma out, or give r as a number".to_owned()),
            ));
        }
        methods.push(ResolvedMethod {
            name: entry.name.to_owned(),
            label: label(base, written, &chosen),
            params,
        });
    }
    Ok(methods)
}

/// The label, with swept parameters and exchanged parts in brackets.
fn label(base: &str, written: &MethodSpec, chosen: &[(&str, &Value)]) -> String {
    let swept: Vec<String> = written
        .params
        .iter()
        .zip(chosen)
        .filter(|((key, values), _)| values.len() > 1 || PARTS.contains(&key.as_str()))
        .map(|(_, (key, value))| match value {
            Value::String(text) => format!("{key}={text}"),
            other => format!("{key}={other}"),
        })
        .collect();
    if swept.is_empty() {
        base.to_owned()
    } else {
        format!("{base}({})", swept.join(","))
    }
}

/// Puts a problem at the key it is about, with the nearest valid name.
pub(crate) fn parameter_error(
    spec: &Spec,
    entry: &MethodEntry,
    path: &str,
    problem: ParamProblem,
) -> SpecError {
    let place = match problem.key.as_deref() {
        Some(part) if PARTS.contains(&part) => format!("{path}.{part}"),
        Some(key) => format!("{path}.params.{key}"),
        None => format!("{path}.params"),
    };
    let known: Vec<&str> = problem.known.iter().map(String::as_str).collect();
    let hint = match problem.unknown {
        Some(_) if known.is_empty() => Some(format!("'{}' has no parameters", entry.name)),
        Some(name) => Some(hint_for(&name, &known)),
        None => entry
            .params
            .iter()
            .find(|info| problem.key.as_deref() == Some(info.name))
            .map(|info| format!("{}: {}; default {}", info.name, info.help, info.default)),
    };
    spec.source.error(&place, problem.message, hint)
}
