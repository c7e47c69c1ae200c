//! Canonical JSON: keys sorted, no blanks. Equal values give equal text, whatever order they were written in.
//! `serde_json` alone does not promise that: a dependency may switch on its `preserve_order`.

use serde_json::Value;

/// The canonical text of a value.
#[must_use]
pub(crate) fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

/// blake3 of the canonical text, as hex.
#[must_use]
pub(crate) fn canonical_hash(value: &Value) -> String {
    blake3::hash(canonical_json(value).as_bytes())
        .to_hex()
        .to_string()
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|left, right| left.0.cmp(right.0));
            text.push('{');
            for (place, (key, value)) in entries.into_iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                text.push_str(&Value::String(key.clone()).to_string());
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::canonical_json;
    use serde_json::{Value, json};

    #[test]
    fn order_of_keys_does_not_matter() {
        let written: Value =
            serde_json::from_str(r#"{"b": [1, {"z": null, "a": "x\"y"}], "a": 0.5}"#).unwrap();
        assert_eq!(
            canonical_json(&written),
            r#"{"a":0.5,"b":[1,{"a":"x\"y","z":null}]}"#
        );
        assert_eq!(
            canonical_json(&written),
            canonical_json(&json!({"a": 0.5, "b": [1, {"a": "x\"y", "z": null}]}))
        );
    }
}
