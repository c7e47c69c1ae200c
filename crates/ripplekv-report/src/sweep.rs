//! Swept methods of a group: rows that differ in `r` and `gamma` alone, as a grid.

use serde_json::{Map, Value};

use crate::group::Group;

/// One method with several settings of `r` and `gamma`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sweep {
    /// Name of the method, with the settings that set it apart from other sweeps of it.
    pub(crate) name: String,
    /// Values of r, ascending.
    pub(crate) r: Vec<String>,
    /// Values of gamma, ascending.
    pub(crate) gamma: Vec<String>,
    /// (r, gamma, label) of every setting.
    cells: Vec<(String, String, String)>,
    /// The other parameters.
    fixed: Map<String, Value>,
}

impl Sweep {
    /// Label of the method with these settings.
    pub(crate) fn label(&self, r: &str, gamma: &str) -> Option<&str> {
        self.cells
            .iter()
            .find(|(known_r, known_gamma, _)| known_r == r && known_gamma == gamma)
            .map(|(_, _, label)| label.as_str())
    }

    /// r, gamma and label of every setting.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.cells
            .iter()
            .map(|(r, gamma, label)| (r.as_str(), gamma.as_str(), label.as_str()))
    }

    /// The scorer that all settings share.
    pub(crate) fn scorer(&self) -> Option<&str> {
        self.fixed.get("scorer")?.as_str()
    }
}

/// Every sweep with at least two settings, in table order.
pub(crate) fn sweeps(group: &Group) -> Vec<Sweep> {
    let mut sweeps: Vec<(String, Sweep)> = Vec::new();
    for label in group.budgeted_methods() {
        let Some(method) = group
            .cells
            .iter()
            .find(|((known, _, _), _)| known == label)
            .map(|(_, cell)| &cell.cell.method)
        else {
            continue;
        };
        let Some(params) = method.params.as_object() else {
            continue;
        };
        let (Some(r), Some(gamma)) = (params.get("r"), params.get("gamma")) else {
            continue;
        };
        let cell = (plain(r), plain(gamma), label.to_owned());
        let mut fixed = params.clone();
        fixed.retain(|key, _| key != "r" && key != "gamma");
        let known = sweeps
            .iter_mut()
            .find(|(name, sweep)| *name == method.name && sweep.fixed == fixed);
        match known {
            Some((_, sweep)) => sweep.cells.push(cell),
            None => sweeps.push((
                method.name.clone(),
                Sweep {
                    name: method.name.clone(),
                    r: Vec::new(),
                    gamma: Vec::new(),
                    cells: vec![cell],
                    fixed,
                },
            )),
        }
    }
    sweeps.retain(|(_, sweep)| sweep.cells.len() > 1);
    let all: Vec<(String, Map<String, Value>)> = sweeps
        .iter()
        .map(|(name, sweep)| (name.clone(), sweep.fixed.clone()))
        .collect();
    sweeps
        .into_iter()
        .map(|(name, mut sweep)| {
            let others = all
                .iter()
                .filter(|(other, fixed)| *other == name && *fixed != sweep.fixed);
            let mut apart: Vec<&String> = others
                .flat_map(|(_, fixed)| fixed.iter())
                .filter(|(key, value)| sweep.fixed.get(*key) != Some(*value))
                .map(|(key, _)| key)
                .collect();
            apart.sort();
            apart.dedup();
            for key in apart {
                let value = sweep.fixed.get(key).map_or("none".to_owned(), plain);
                sweep.name.push_str(&format!(", {key} {value}"));
            }
            sweep.r = ascending(sweep.cells.iter().map(|(r, _, _)| r));
            sweep.gamma = ascending(sweep.cells.iter().map(|(_, gamma, _)| gamma));
            sweep
        })
        .collect()
}

/// A parameter as a reader writes it: `4.0` and `4` are the same.
fn plain(value: &Value) -> String {
    match (value, value.as_f64()) {
        (_, Some(number)) => number.to_string(),
        (Value::String(text), None) => text.clone(),
        (other, None) => other.to_string(),
    }
}

/// In order of size, each once.
pub(crate) fn ascending<'a>(values: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut values: Vec<String> = values.cloned().collect();
    let number = |text: &str| text.parse::<f64>().unwrap_or(f64::INFINITY);
    values.sort_by(|left, right| {
        number(left)
            .total_cmp(&number(right))
            .then_with(|| left.cmp(right))
    });
    values.dedup();
    values
}
