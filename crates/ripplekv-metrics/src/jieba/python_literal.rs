//! Reads `P={...}` of jieba's `prob_*.py`: a dictionary of numbers or of such dictionaries.
//! Follows the subset of Python's literal syntax that jieba 0.42.1 uses.

use super::JiebaError;

/// A number or a dictionary with its entries in file order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Number(f64),
    Table(Vec<(String, Value)>),
}

/// Dictionaries in dictionaries: the emission file has two levels.
const DEEPEST: usize = 2;

/// The dictionary assigned to `P` in the text of `file`.
pub(crate) fn parse(file: &'static str, text: &str) -> Result<Vec<(String, Value)>, JiebaError> {
    let start = text
        .match_indices("P=")
        .chain(text.match_indices("P ="))
        .map(|(start, found)| (start, start + found.len()))
        .find(|(start, _)| *start == 0 || text.as_bytes()[start - 1] == b'\n')
        .map(|(_, end)| end)
        .ok_or_else(|| JiebaError::Incomplete {
            file,
            reason: "no line starts with `P=`".to_string(),
        })?;
    let mut reader = Reader {
        file,
        text,
        position: start,
    };
    reader.skip_blanks();
    let table = reader.table(1)?;
    reader.skip_blanks();
    if reader.position < text.len() {
        return Err(reader.error("something follows the dictionary"));
    }
    Ok(table)
}

struct Reader<'a> {
    file: &'static str,
    text: &'a str,
    position: usize,
}

impl Reader<'_> {
    fn error(&self, reason: &str) -> JiebaError {
        let before = &self.text.as_bytes()[..self.position];
        JiebaError::Malformed {
            file: self.file,
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            reason: reason.to_string(),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.position += 1;
        }
    }

    /// Takes `byte` and the blanks behind it, if it is next.
    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        if there {
            self.position += 1;
            self.skip_blanks();
        }
        there
    }

    fn table(&mut self, depth: usize) -> Result<Vec<(String, Value)>, JiebaError> {
        if !self.take(b'{') {
            return Err(self.error("expected `{`"));
        }
        let mut entries = Vec::new();
        while !self.take(b'}') {
            let key = self.key()?;
            if !self.take(b':') {
                return Err(self.error("expected `:` after a key"));
            }
            let value = match self.peek() {
                Some(b'{') if depth < DEEPEST => Value::Table(self.table(depth + 1)?),
                _ => Value::Number(self.number()?),
            };
            entries.push((key, value));
            if !self.take(b',') && self.peek() != Some(b'}') {
                return Err(self.error("expected `,` or `}`"));
            }
        }
        Ok(entries)
    }

    fn key(&mut self) -> Result<String, JiebaError> {
        let quote = match self.peek() {
            Some(quote @ (b'\'' | b'"')) => char::from(quote),
            _ => return Err(self.error("expected a quoted key")),
        };
        let start = self.position + 1;
        let length = self.text[start..]
            .find([quote, '\n'])
            .filter(|length| self.text[start + length..].starts_with(quote))
            .ok_or_else(|| self.error("the key's quote is not closed"))?;
        let key = self.unescape(&self.text[start..start + length])?;
        self.position = start + length + 1;
        self.skip_blanks();
        Ok(key)
    }

    fn unescape(&self, raw: &str) -> Result<String, JiebaError> {
        let mut key = String::new();
        let mut rest = raw;
        while let Some(start) = rest.find('\\') {
            key.push_str(&rest[..start]);
            let character = rest[start..]
                .strip_prefix("\\u")
                .and_then(|digits| digits.get(..4))
                .and_then(|digits| u32::from_str_radix(digits, 16).ok())
                .and_then(char::from_u32)
                .ok_or_else(|| self.error("only `\\uXXXX` escapes are known"))?;
            key.push(character);
            rest = &rest[start + 6..];
        }
        key.push_str(rest);
        Ok(key)
    }

    fn number(&mut self) -> Result<f64, JiebaError> {
        let rest = &self.text[self.position..];
        let length = rest
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte))
            .count();
        let number: f64 = rest[..length]
            .parse()
            .map_err(|_| self.error("expected a number"))?;
        if !number.is_finite() {
            return Err(self.error("the number is too large"));
        }
        self.position += length;
        self.skip_blanks();
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "finalseg/prob_emit.py";

    #[test]
    fn both_levels_and_escapes_are_read() {
        let text = "from __future__ import unicode_literals\n\nP={'B': {'\\u4e00': -3.5,\n '丁': 2e1},\n 'E': -3.14e+100}\n";
        let table = parse(FILE, text).unwrap();
        let inner = vec![
            ("一".to_string(), Value::Number(-3.5)),
            ("丁".to_string(), Value::Number(20.0)),
        ];
        assert_eq!(table[0], ("B".to_string(), Value::Table(inner)));
        assert_eq!(table[1], ("E".to_string(), Value::Number(-3.14e100)));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let error = |text: &str| parse(FILE, text).unwrap_err().to_string();
        assert!(error("Q={}").contains("no line starts with `P=`"));
        assert!(error("P={'B': 1,\n'E' 2}").contains("line 2: expected `:`"));
        assert!(error("P={'B': x}").contains("expected a number"));
        assert!(error("P={'B': 1 2}").contains("expected `,` or `}`"));
        assert!(error("P={'B': {'a': {'b': 1}}}").contains("expected a number"));
        assert!(error("P={'\\x41': 1}").contains("escapes"));
        assert!(error("P={'\\u4e").contains("not closed"));
        assert!(error("P={'B\n': 1}").contains("not closed"));
        assert!(error("P={B: 1}").contains("quoted key"));
        assert!(error("P={'B': 1e999}").contains("too large"));
        assert!(error("P={'B': 1} + x").contains("something follows"));
        assert!(error("P={'B': 1").contains("expected `,` or `}`"));
        assert!(error("P=").contains("expected `{`"));
    }
}
