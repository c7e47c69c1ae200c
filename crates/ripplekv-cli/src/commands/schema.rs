//! `ripplekv schema`: the JSON Schema of the spec, made from the same tables that read it.

use ripplekv_runner::spec::KEYS;
use ripplekv_tasks::{GROUPS, TASKS};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::output::Output;
use crate::wiring;

pub(crate) fn schema(output: Output) -> Result<(), Failure> {
    output.line(&format!("{:#}", document()))?;
    Ok(())
}

fn document() -> Value {
    let catalog = wiring::catalog();
    let model_names: Vec<&str> = catalog.models.iter().map(|model| model.name).collect();
    let task_names: Vec<&str> = TASKS
        .iter()
        .map(|task| task.name)
        .chain(GROUPS.iter().map(|group| group.name))
        .collect();
    let methods: Vec<&str> = catalog.methods.iter().map(|method| method.name).collect();
    let with_scorer: Vec<&str> = catalog
        .methods
        .iter()
        .filter(|method| method.scorer.is_some())
        .map(|method| method.name)
        .collect();
    let mut top = properties("");
    top.insert(
        "models".to_owned(),
        json!({
            "description": help("models"),
            "type": ["array", "string"],
            "items": {"anyOf": [{"enum": model_names}, object("models[].", &[])]},
        }),
    );
    top.insert("tasks".to_owned(), described("tasks", object("tasks.", &[
        ("include", json!({"description": help("tasks.include"), "type": "array", "items": {"enum": task_names}})),
        ("limit", json!({"description": help("tasks.limit"), "type": ["integer", "string"]})),
        ("max_prompt_tokens", json!({"description": help("tasks.max_prompt_tokens"), "type": "integer", "minimum": 1})),
        ("samples", json!({"description": help("tasks.samples"), "type": "array", "items": {"type": ["string", "integer"]}})),
    ])));
    top.insert(
        "protocol".to_owned(),
        described(
            "protocol",
            object(
                "protocol.",
                &[("query", one_or_more("protocol.query", &["aware"]))],
            ),
        ),
    );
    top.insert("budgets".to_owned(), budgets("budgets"));
    top.insert(
        "methods".to_owned(),
        json!({
            "description": help("methods"),
            "type": "array",
            "items": {"anyOf": [{"enum": methods}, object("methods[].", &[
                ("name", json!({"description": help("methods[].name"), "enum": methods})),
                ("params", params(&catalog, "methods[].params")),
                ("scorer", one_or_more("methods[].scorer", &part_names(wiring::scorers()))),
                ("allocator", one_or_more("methods[].allocator", &part_names(wiring::allocators()))),
            ])]},
        }),
    );
    top.insert(
        "profile".to_owned(),
        described("profile", object("profile.", &[])),
    );
    top.insert(
        "damage".to_owned(),
        described(
            "damage",
            object(
                "damage.",
                &[
                    (
                        "scorer",
                        json!({"description": help("damage.scorer"), "enum": with_scorer}),
                    ),
                    ("params", params(&catalog, "damage.params")),
                    ("budgets", budgets("damage.budgets")),
                ],
            ),
        ),
    );
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ripplekv experiment",
        "type": "object",
        "required": ["schema", "models"],
        "anyOf": [{"required": ["methods"]}, {"required": ["damage"]}],
        "additionalProperties": false,
        "properties": top,
    })
}

fn budgets(path: &str) -> Value {
    json!({
        "description": help(path),
        "type": ["array", "string", "integer"],
        "items": {"type": ["string", "integer"], "pattern": "^[0-9.]+ ?(%|MiB|tokens)?$"},
    })
}

fn part_names(parts: Vec<wiring::Part>) -> Vec<&'static str> {
    parts.into_iter().map(|part| part.name).collect()
}

/// One of some names, or a list of them.
fn one_or_more(path: &str, names: &[&str]) -> Value {
    json!({
        "description": help(path),
        "anyOf": [{"enum": names}, {"type": "array", "items": {"enum": names}, "minItems": 1}],
    })
}

/// Every parameter of every method, with its default.
fn params(catalog: &ripplekv_runner::catalog::Catalog, path: &str) -> Value {
    let mut known = Map::new();
    for method in &catalog.methods {
        for param in &method.params {
            let entry = json!({"description": param.help, "default": param.default});
            known.entry(param.name.to_owned()).or_insert(entry);
        }
    }
    json!({"description": help(path), "type": "object", "properties": known})
}

fn help(path: &str) -> &'static str {
    KEYS.iter()
        .find(|key| key.path == path)
        .map_or("", |key| key.help)
}

fn described(path: &str, mut value: Value) -> Value {
    value["description"] = json!(help(path));
    value
}

fn object(prefix: &str, special: &[(&str, Value)]) -> Value {
    let mut known = properties(prefix);
    for (name, value) in special {
        known.insert((*name).to_owned(), value.clone());
    }
    json!({"type": "object", "additionalProperties": false, "properties": known})
}

/// The keys directly below `prefix`, typed by what their table row says may stand there.
fn properties(prefix: &str) -> Map<String, Value> {
    KEYS.iter()
        .filter_map(|key| {
            let name = key.path.strip_prefix(prefix)?;
            if name.is_empty() || name.contains(['.', '[']) {
                return None;
            }
            let mut value = values(key.values);
            value["description"] = json!(key.help);
            Some((name.to_owned(), value))
        })
        .collect()
}

fn values(text: &str) -> Value {
    match text {
        "text" => json!({"type": "string"}),
        "number" => json!({"type": "integer", "minimum": 0}),
        "mapping" => json!({"type": "object"}),
        "list" => json!({"type": "array"}),
        "true | false" => json!({"type": "boolean"}),
        words => {
            let options: Vec<Value> = words
                .split(" | ")
                .map(|word| match word {
                    "number" => json!({"type": "integer", "minimum": 0}),
                    "decimal" => json!({"type": "number", "minimum": 0}),
                    word => match word.parse::<u64>() {
                        Ok(number) => json!({"const": number}),
                        Err(_) => json!({"const": word}),
                    },
                })
                .collect();
            json!({"anyOf": options})
        }
    }
}
