//! Which cells may stand in one table: everything in their protocol must agree, except what belongs to a single task
//! (its data, prompt text, limit), which must agree within the task, and what applies to some cells only (`null` elsewhere).

use std::collections::{BTreeMap, BTreeSet};

use ripplekv_runner::cell::{Cell, Query};
use serde_json::{Map, Value};

/// Keys of `Cell::protocol` that differ from task to task.
const PER_TASK: &[&str] = &["data", "template", "max_new_tokens"];

/// Keys that are `null` in cells they do not apply to (`full` has no `short_prompts`, only code has `code_similarity`, only
/// allocations from a profile have its recipe).
const WHERE_IT_APPLIES: &[&str] = &["code_similarity", "short_prompts", "profile"];

/// Key that says over how many tokens the KL of an answer is measured; it changes no answer and no score.
const ANSWER_KL: &str = "answer_kl_tokens";

/// The part of the protocol that sets a cell's table apart, as JSON text; equal texts share a table.
pub(crate) fn table_protocols(cells: &[&Cell]) -> Vec<String> {
    let keys: Vec<TableKey> = cells.iter().map(|cell| TableKey::new(cell)).collect();
    let mut task_values: BTreeMap<(&TableKey, &str, &str), BTreeSet<String>> = BTreeMap::new();
    let mut other_values: BTreeMap<(&TableKey, &str), BTreeSet<String>> = BTreeMap::new();
    for (cell, key) in cells.iter().zip(&keys) {
        for name in PER_TASK {
            if let Some(value) = set(&cell.protocol, name) {
                task_values
                    .entry((key, &cell.task, name))
                    .or_default()
                    .insert(value.to_string());
            }
        }
        for name in WHERE_IT_APPLIES {
            if let Some(value) = set(&cell.protocol, name) {
                other_values
                    .entry((key, name))
                    .or_default()
                    .insert(value.to_string());
            }
        }
    }
    cells
        .iter()
        .zip(&keys)
        .map(|(cell, key)| {
            let mut shown = key.shared.clone();
            let conflicting =
                |values: Option<&BTreeSet<String>>| values.is_some_and(|values| values.len() > 1);
            for name in PER_TASK {
                if conflicting(task_values.get(&(key, cell.task.as_str(), *name)))
                    && let Some(value) = set(&cell.protocol, name)
                {
                    shown.insert((*name).to_owned(), value.clone());
                }
            }
            for name in WHERE_IT_APPLIES {
                if conflicting(other_values.get(&(key, *name)))
                    && let Some(value) = set(&cell.protocol, name)
                {
                    shown.insert((*name).to_owned(), value.clone());
                }
            }
            Value::Object(shown).to_string()
        })
        .collect()
}

/// Keys in which the two sides of a comparison may differ: what computed the answer or scored it, not what was asked.
/// A comparison before and after a change of the program is one over such a key.
const MAY_DIFFER: &[&str] = &["numerics", "metrics", "dtype", "profile"];

/// Whether two cells of one model, query mode and task may be compared sample by sample: the settings in which they differ
/// all the same, as `key value against value`; an error holds those in which they ask different questions.
pub(crate) fn told_apart(left: &Cell, right: &Cell) -> Result<Vec<String>, Vec<String>> {
    let names: BTreeSet<&String> = [&left.protocol, &right.protocol]
        .into_iter()
        .filter_map(Value::as_object)
        .flat_map(Map::keys)
        .collect();
    let mut differences = Vec::new();
    let mut asked = Vec::new();
    for name in names {
        let (one, other) = (set(&left.protocol, name), set(&right.protocol, name));
        // Where it does not apply to one of them it cannot have made a difference.
        let applies_to_one =
            WHERE_IT_APPLIES.contains(&name.as_str()) && (one.is_none() || other.is_none());
        if one == other || applies_to_one || name == ANSWER_KL {
            continue;
        }
        let text = |value: Option<&Value>| match value {
            Some(Value::String(text)) => shortened(text).to_owned(),
            Some(value) => value.to_string(),
            None => "none".to_owned(),
        };
        let difference = format!("{name} {} against {}", text(one), text(other));
        if MAY_DIFFER.contains(&name.as_str()) {
            differences.push(difference);
        } else {
            asked.push(difference);
        }
    }
    if asked.is_empty() {
        Ok(differences)
    } else {
        Err(asked)
    }
}

/// Whether the KLs of two cells are over the same tokens of the answers.
pub(crate) fn same_answer_kl(left: &Cell, right: &Cell) -> bool {
    set(&left.protocol, ANSWER_KL) == set(&right.protocol, ANSWER_KL)
}

/// What no two cells of a table may differ in. Ordered by its text, which is canonical: serde_json sorts the keys.
struct TableKey {
    model: String,
    query: Query,
    shared: Map<String, Value>,
    text: String,
}

impl TableKey {
    fn new(cell: &Cell) -> TableKey {
        let shared: Map<String, Value> = match &cell.protocol {
            Value::Object(map) => map
                .iter()
                .filter(|(key, _)| !PER_TASK.contains(&key.as_str()))
                .filter(|(key, _)| !WHERE_IT_APPLIES.contains(&key.as_str()))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            Value::Null => Map::new(),
            other => Map::from_iter([("protocol".to_owned(), other.clone())]),
        };
        // Sorted by hand: another crate of the build may have switched serde_json to insertion order.
        let sorted: BTreeMap<&String, &Value> = shared.iter().collect();
        let text = sorted
            .into_iter()
            .map(|(key, value)| format!("{key}={value}\n"))
            .collect();
        TableKey {
            model: cell.model.clone(),
            query: cell.query,
            shared,
            text,
        }
    }

    fn parts(&self) -> (&str, Query, &str) {
        (&self.model, self.query, &self.text)
    }
}

impl PartialEq for TableKey {
    fn eq(&self, other: &TableKey) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for TableKey {}

impl PartialOrd for TableKey {
    fn partial_cmp(&self, other: &TableKey) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TableKey {
    fn cmp(&self, other: &TableKey) -> std::cmp::Ordering {
        self.parts().cmp(&other.parts())
    }
}

fn set<'a>(protocol: &'a Value, name: &str) -> Option<&'a Value> {
    protocol.get(name).filter(|value| !value.is_null())
}

/// The settings in which `this` differs from its siblings, as `key value, key value`; empty without siblings.
pub(crate) fn note(this: &str, siblings: &[&str]) -> String {
    if siblings.len() < 2 {
        return String::new();
    }
    let own = flat(this);
    let others: Vec<Vec<(String, String)>> = siblings
        .iter()
        .filter(|text| **text != this)
        .map(|text| flat(text))
        .collect();
    let mut parts: Vec<String> = own
        .iter()
        .filter(|pair| !others.iter().all(|other| other.contains(pair)))
        .map(|(key, value)| format!("{key} {}", shortened(value)))
        .collect();
    for (key, _) in others.iter().flatten() {
        let absent = format!("no {key}");
        if !own.iter().any(|(known, _)| known == key) && !parts.contains(&absent) {
            parts.push(absent);
        }
    }
    parts.join(", ")
}

/// Hashes are told apart by their first digits.
fn shortened(value: &str) -> &str {
    let is_hash = value.len() >= 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { &value[..8] } else { value }
}

fn flat(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    if let Ok(value) = serde_json::from_str(text) {
        flatten("", &value, &mut pairs);
    }
    pairs.sort();
    pairs
}

fn flatten(path: &str, value: &Value, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                flatten(&path, value, pairs);
            }
        }
        Value::String(text) => pairs.push((path.to_owned(), text.clone())),
        other => pairs.push((path.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use ripplekv_runner::cell::{CellKey, ResolvedMethod};
    use serde_json::json;

    use super::*;

    fn cell(task: &str, protocol: Value) -> Cell {
        Cell {
            key: CellKey("k".to_owned()),
            model: "m".to_owned(),
            task: task.to_owned(),
            method: ResolvedMethod {
                name: "snapkv".to_owned(),
                label: "snapkv".to_owned(),
                params: Value::Null,
            },
            budget: None,
            query: Query::Aware,
            protocol,
        }
    }

    #[test]
    fn tasks_own_settings_do_not_split_a_table() {
        let one = cell(
            "a",
            json!({"bos": "auto", "data": "d1", "short_prompts": null}),
        );
        let two = cell(
            "b",
            json!({"bos": "auto", "data": "d2", "short_prompts": "shrink"}),
        );
        let texts = table_protocols(&[&one, &two]);
        assert_eq!(texts[0], texts[1]);
    }

    #[test]
    fn other_settings_and_other_data_of_one_task_do() {
        let one = cell("a", json!({"bos": "auto", "data": "d1"}));
        let other_bos = cell("a", json!({"bos": "never", "data": "d1"}));
        let other_data = cell("a", json!({"bos": "auto", "data": "d2"}));
        let texts = table_protocols(&[&one, &other_bos, &other_data]);
        assert_ne!(texts[0], texts[1]);
        assert_ne!(texts[0], texts[2]);
        let shrink = cell("a", json!({"short_prompts": "shrink"}));
        let full = cell("a", json!({"short_prompts": "full"}));
        let texts = table_protocols(&[&shrink, &full]);
        assert_ne!(texts[0], texts[1]);
    }

    #[test]
    fn only_the_same_question_is_compared() {
        let base = json!({"bos": "auto", "data": "d1", "numerics": 1, "short_prompts": "shrink", "profile": null});
        let with = |key: &str, value: Value| {
            let mut protocol = base.clone();
            protocol[key] = value;
            cell("a", protocol)
        };
        let one = cell("a", base.clone());
        for (key, value, expected) in [
            ("bos", json!("auto"), Ok("")),
            ("short_prompts", Value::Null, Ok("")),
            ("answer_kl_tokens", json!(32), Ok("")),
            ("profile", json!("ab"), Ok("")),
            ("numerics", json!(2), Ok("numerics 1 against 2")),
            ("dtype", json!("f16"), Ok("dtype none against f16")),
            ("bos", json!("never"), Err("bos auto against never")),
            ("data", json!("d2"), Err("data d1 against d2")),
            (
                "short_prompts",
                json!("full"),
                Err("short_prompts shrink against full"),
            ),
            (
                "a_key_of_tomorrow",
                json!(1),
                Err("a_key_of_tomorrow none against 1"),
            ),
        ] {
            let found = told_apart(&one, &with(key, value));
            let found = found
                .map(|parts| parts.join(", "))
                .map_err(|parts| parts.join(", "));
            assert_eq!(
                found,
                expected.map(str::to_owned).map_err(str::to_owned),
                "{key}"
            );
        }
        assert!(!same_answer_kl(&one, &with("answer_kl_tokens", json!(32))));
    }

    #[test]
    fn differences_are_named() {
        let one = json!({"chat_template": "auto", "model": {"dtype": "f32"}, "seed": 1});
        let two = json!({"chat_template": "off", "model": {"dtype": "f32"}});
        let (one, two) = (one.to_string(), two.to_string());
        assert_eq!(note(&one, &[&one, &two]), "chat_template auto, seed 1");
        assert_eq!(note(&two, &[&one, &two]), "chat_template off, no seed");
        assert_eq!(note(&one, &[&one]), "");
    }
}
