//! In which order tasks, methods and labels stand, and what makes two labels distinct.
//! Tasks follow the caller's table, methods the spec, settings of one method their numbers.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::group::{FULL, GroupTask};
use crate::options::{OTHER_CATEGORY, ReportOptions};
use crate::read::CellSamples;

/// Labels, made distinct where two settings of a method carry the same one.
pub(crate) fn unique_labels(cells: &[&CellSamples], warnings: &mut Vec<String>) -> Vec<String> {
    let mut settings: BTreeMap<&str, Vec<(String, String)>> = BTreeMap::new();
    let mut labels = Vec::new();
    for data in cells {
        let method = &data.cell.method;
        let identity = (method.name.clone(), method.params.to_string());
        let known = settings.entry(&method.label).or_default();
        let number = match known.iter().position(|other| *other == identity) {
            Some(position) => position + 1,
            None => {
                known.push(identity);
                if known.len() > 1 {
                    warnings.push(format!(
                        "two settings are labelled `{}`; the one with {} is shown as `{} #{}`",
                        method.label,
                        method.params,
                        method.label,
                        known.len()
                    ));
                }
                known.len()
            }
        };
        labels.push(if number == 1 {
            method.label.clone()
        } else {
            format!("{} #{number}", method.label)
        });
    }
    labels
}

pub(crate) fn order_tasks<'a>(
    names: impl Iterator<Item = &'a str>,
    options: &ReportOptions,
) -> Vec<GroupTask> {
    let mut tasks: Vec<(usize, GroupTask)> = names
        .map(|name| {
            let position = options.tasks.iter().position(|task| task.name == name);
            let known = position.map(|position| &options.tasks[position]);
            (
                position.unwrap_or(usize::MAX),
                GroupTask {
                    name: name.to_owned(),
                    category: known.map_or(OTHER_CATEGORY.to_owned(), |task| task.category.clone()),
                    in_average: known.is_some_and(|task| task.in_average),
                    metric: known.map(|task| task.metric.clone()),
                    chance: None,
                },
            )
        })
        .collect();
    // Categories must stay together even where the caller's list mixes them.
    let first_of = |category: &str| {
        options
            .tasks
            .iter()
            .position(|task| task.category == category)
            .unwrap_or(usize::MAX)
    };
    tasks.sort_by(|left, right| {
        (first_of(&left.1.category), left.0, &left.1.name).cmp(&(
            first_of(&right.1.category),
            right.0,
            &right.1.name,
        ))
    });
    tasks.into_iter().map(|(_, task)| task).collect()
}

/// Names of methods in the order in which the manifests' specs list them.
pub(crate) fn method_order(manifests: &[Value]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for manifest in manifests {
        let listed = ["spec", "resolved_spec"]
            .iter()
            .filter_map(|key| manifest.get(key))
            .filter_map(|spec| spec.get("methods"))
            .filter_map(Value::as_array)
            .flatten();
        for method in listed {
            let name = method.as_str().or_else(|| method.get("name")?.as_str());
            if let Some(name) = name
                && !names.iter().any(|known| known == name)
            {
                names.push(name.to_owned());
            }
        }
    }
    names
}

pub(crate) fn order_labels(
    cells: &[&CellSamples],
    labels: &[String],
    order: &[String],
) -> Vec<String> {
    let mut rows: Vec<(bool, usize, &str, Vec<LabelPart>, &String)> = Vec::new();
    for (data, label) in cells.iter().zip(labels) {
        if rows.iter().any(|row| row.4 == label) {
            continue;
        }
        let name = &data.cell.method.name;
        let position = order.iter().position(|known| known == name);
        rows.push((
            name != FULL,
            position.unwrap_or(usize::MAX),
            name,
            label_parts(label),
            label,
        ));
    }
    rows.sort();
    rows.into_iter().map(|row| row.4.clone()).collect()
}

/// Digits compare as numbers, so that `r=10` comes after `r=2`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum LabelPart {
    Number(u64),
    Text(String),
}

fn label_parts(label: &str) -> Vec<LabelPart> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut digits = String::new();
    for character in label.chars().chain(std::iter::once('\0')) {
        if character.is_ascii_digit() {
            if !text.is_empty() {
                parts.push(LabelPart::Text(std::mem::take(&mut text)));
            }
            digits.push(character);
            continue;
        }
        if !digits.is_empty() {
            parts.push(match digits.parse() {
                Ok(number) => LabelPart::Number(number),
                Err(_) => LabelPart::Text(digits.clone()),
            });
            digits.clear();
        }
        text.push(character);
    }
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_in_labels_count_as_numbers() {
        let mut labels = ["r=10", "r=2,gamma=4", "r=2", "a", "r=2,gamma=16"];
        labels.sort_by_key(|label| label_parts(label));
        assert_eq!(labels, ["a", "r=2", "r=2,gamma=4", "r=2,gamma=16", "r=10"]);
    }

    #[test]
    fn methods_follow_the_first_spec_that_names_them() {
        let one = json!({"spec": {"methods": ["full", {"name": "snapkv"}]}});
        let two = json!({"spec": {"methods": [{"name": "ripplekv"}, "full"]}});
        assert_eq!(method_order(&[one, two]), ["full", "snapkv", "ripplekv"]);
        assert!(method_order(&[json!(null), json!({"spec": 3})]).is_empty());
    }
}
