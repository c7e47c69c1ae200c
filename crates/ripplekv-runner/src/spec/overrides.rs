//! `--set a.b=c`: changes the spec before it is read, so that an override is checked like the file itself.
//! The value is YAML; a path step in brackets (or a bare number) is a place in a list.

use serde_yaml::{Mapping, Value};

use crate::error::RunnerError;
use crate::spec::locate::{Step, steps};

/// Applies one `path=value` to a document.
///
/// # Errors
/// [`RunnerError::Usage`] when the text has no `=`, the value is no YAML, or the path leads nowhere.
pub(crate) fn apply(document: &mut Value, assignment: &str) -> Result<(), RunnerError> {
    let usage = |message: String| RunnerError::Usage {
        message,
        hint:
            "write --set key.path=value, for example --set tasks.limit=10 or --set budgets='[10%]'"
                .to_owned(),
    };
    let Some((path, text)) = assignment.split_once('=') else {
        return Err(usage(format!("--set {assignment}: no '=' in it")));
    };
    let value: Value = serde_yaml::from_str(text)
        .map_err(|error| usage(format!("--set {assignment}: the value is no YAML: {error}")))?;
    let steps = steps(path);
    if steps.is_empty() {
        return Err(usage(format!("--set {assignment}: no key before the '='")));
    }
    let mut place = document;
    for step in &steps {
        place = match step {
            Step::Key(key) => {
                if place.is_null() {
                    *place = Value::Mapping(Mapping::new());
                }
                place
                    .as_mapping_mut()
                    .ok_or_else(|| {
                        usage(format!(
                            "--set {assignment}: '{key}' is not inside a mapping"
                        ))
                    })?
                    .entry(Value::String(key.clone()))
                    .or_insert(Value::Null)
            }
            Step::Index(index) => place
                .as_sequence_mut()
                .and_then(|items| items.get_mut(*index))
                .ok_or_else(|| {
                    usage(format!(
                        "--set {assignment}: there is no list entry {index}"
                    ))
                })?,
        };
    }
    *place = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::apply;
    use serde_yaml::Value;

    #[test]
    fn sets_makes_and_refuses() {
        let mut document: Value =
            serde_yaml::from_str("tasks: {pack: a}\nmethods: [full, {name: snapkv}]").unwrap();
        apply(&mut document, "tasks.limit=3").unwrap();
        apply(&mut document, "methods[1].params.window=16").unwrap();
        apply(&mut document, "budgets=[10%, 64]").unwrap();
        let expected: Value = serde_yaml::from_str(
            "tasks: {pack: a, limit: 3}\nmethods: [full, {name: snapkv, params: {window: 16}}]\nbudgets: ['10%', 64]",
        )
        .unwrap();
        assert_eq!(document, expected);
        for wrong in [
            "tasks.limit",
            "=3",
            "methods[7]=a",
            "tasks.pack.deeper=1",
            "a=[1",
        ] {
            assert!(apply(&mut document, wrong).is_err(), "{wrong}");
        }
    }
}
