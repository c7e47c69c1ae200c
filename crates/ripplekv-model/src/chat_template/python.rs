//! Values written as Python would write them: `str()` for output, `json.dumps` for `tojson`.
//! minijinja alone writes `true`, `none` and `1e-7` where a template's author saw `True`, `None`, `1e-07`.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// The arguments of `json.dumps` that templates use.
#[derive(Clone, Debug)]
pub(super) struct JsonStyle {
    pub(super) indent: Option<String>,
    pub(super) item_separator: String,
    pub(super) key_separator: String,
    pub(super) sorts_keys: bool,
    pub(super) ascii_only: bool,
}

impl Default for JsonStyle {
    fn default() -> Self {
        Self {
            indent: None,
            item_separator: ", ".to_owned(),
            key_separator: ": ".to_owned(),
            sorts_keys: false,
            ascii_only: false,
        }
    }
}

/// Python's `str()`.
pub(super) fn to_str(value: &Value) -> String {
    match value.kind() {
        ValueKind::String => value.as_str().unwrap_or_default().to_owned(),
        ValueKind::Undefined => String::new(),
        _ => to_repr(value),
    }
}

fn to_repr(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => "Undefined".to_owned(),
        ValueKind::None => "None".to_owned(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_owned(),
        ValueKind::Number => number(value),
        ValueKind::String => quoted(value.as_str().unwrap_or_default()),
        ValueKind::Seq => {
            let items: Vec<String> = items(value).iter().map(to_repr).collect();
            let joined = items.join(", ");
            match (value.is_tuple(), items.len()) {
                (true, 1) => format!("({joined},)"),
                (true, _) => format!("({joined})"),
                (false, _) => format!("[{joined}]"),
            }
        }
        ValueKind::Map => {
            let pairs: Vec<String> = pairs(value)
                .iter()
                .map(|(key, value)| format!("{}: {}", to_repr(key), to_repr(value)))
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
        _ => value.to_string(),
    }
}

fn items(value: &Value) -> Vec<Value> {
    value.try_iter().map(Iterator::collect).unwrap_or_default()
}

fn pairs(map: &Value) -> Vec<(Value, Value)> {
    items(map)
        .into_iter()
        .map(|key| {
            let value = map.get_item(&key).unwrap_or(Value::UNDEFINED);
            (key, value)
        })
        .collect()
}

fn number(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(float) if !value.is_integer() => float_repr(float),
        _ => value.to_string(),
    }
}

/// Shortest digits, with an exponent below 1e-4 and from 1e16 on.
fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return format!("{value:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::from(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            other if other == quote => out.extend(['\\', other]),
            '\0'..='\x1f' | '\x7f'..='\u{a0}' | '\u{ad}' => {
                out.push_str(&format!("\\x{:02x}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
    out.push(quote);
    out
}

/// Python's `json.dumps`.
pub(super) fn to_json(value: &Value, style: &JsonStyle) -> Result<String, Error> {
    let mut out = String::new();
    write_json(&mut out, value, style, 0)?;
    Ok(out)
}

fn write_json(
    out: &mut String,
    value: &Value,
    style: &JsonStyle,
    depth: usize,
) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&json_number(value)),
        ValueKind::String => write_json_text(out, value.as_str().unwrap_or_default(), style),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<(Option<String>, Value)> =
                items(value).into_iter().map(|item| (None, item)).collect();
            write_json_group(out, ['[', ']'], &items, style, depth)?;
        }
        ValueKind::Map => {
            let mut entries: Vec<(Option<String>, Value)> = pairs(value)
                .into_iter()
                .map(|(key, item)| Ok((Some(json_key(&key)?), item)))
                .collect::<Result<_, Error>>()?;
            if style.sorts_keys {
                entries.sort_by(|left, right| left.0.cmp(&right.0));
            }
            write_json_group(out, ['{', '}'], &entries, style, depth)?;
        }
        kind => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("tojson cannot write a value of kind {kind}"),
            ));
        }
    }
    Ok(())
}

fn write_json_group(
    out: &mut String,
    brackets: [char; 2],
    entries: &[(Option<String>, Value)],
    style: &JsonStyle,
    depth: usize,
) -> Result<(), Error> {
    let new_line = |out: &mut String, depth: usize| {
        if let Some(indent) = style.indent.as_ref().filter(|_| !entries.is_empty()) {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    };
    out.push(brackets[0]);
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.push_str(&style.item_separator);
        }
        new_line(out, depth + 1);
        if let Some(key) = key {
            write_json_text(out, key, style);
            out.push_str(&style.key_separator);
        }
        write_json(out, value, style, depth + 1)?;
    }
    new_line(out, depth);
    out.push(brackets[1]);
    Ok(())
}

fn json_number(value: &Value) -> String {
    match number(value).as_str() {
        "nan" => "NaN".to_owned(),
        "inf" => "Infinity".to_owned(),
        "-inf" => "-Infinity".to_owned(),
        plain => plain.to_owned(),
    }
}

fn json_key(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_owned()),
        ValueKind::None => Ok("null".to_owned()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::Number => Ok(json_number(key)),
        kind => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("tojson cannot write a key of kind {kind}"),
        )),
    }
}

fn write_json_text(out: &mut String, text: &str, style: &JsonStyle) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\0'..='\x1f' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            other if style.ascii_only && !other.is_ascii() => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_as_python_prints_them() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-10, "1.5e-10"),
            (123_456_789.0, "123456789.0"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (1e16, "1e+16"),
            (1e100, "1e+100"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(float_repr(value), expected);
        }
    }

    #[test]
    fn texts_in_lists_are_quoted_as_python_quotes_them() {
        let value = Value::from(vec!["a", "it's", "\"it's\"", "\n\\"]);
        assert_eq!(to_str(&value), r#"['a', "it's", '"it\'s"', '\n\\']"#);
    }

    #[test]
    fn undefined_is_nothing_in_text_and_an_error_in_json() {
        assert_eq!(to_str(&Value::UNDEFINED), "");
        assert!(to_json(&Value::UNDEFINED, &JsonStyle::default()).is_err());
    }
}
