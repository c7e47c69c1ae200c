//! A prompt text with its record filled in, in one pass.
//! Follows Python's `str.format(**record)` as LongBench's `pred.py` uses it.

use crate::record::Record;

/// Why a prompt text cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// A placeholder that no record can fill.
    #[error(
        "unknown placeholder `{{{name}}}` at byte {at}\nhint: a prompt may hold {{context}} and {{input}}; write {{{{ and }}}} for braces"
    )]
    UnknownPlaceholder {
        /// What stands between the braces.
        name: String,
        /// Byte offset of the opening brace.
        at: usize,
    },
    /// An opening brace without its closing one.
    #[error("`{{` at byte {at} is never closed\nhint: write {{{{ for a brace")]
    Unclosed {
        /// Byte offset.
        at: usize,
    },
    /// A closing brace without its opening one.
    #[error("single `}}` at byte {at}\nhint: write }}}} for a brace")]
    Unopened {
        /// Byte offset.
        at: usize,
    },
    /// Nothing of the record's long text would be read.
    #[error("no {{context}} in the prompt text")]
    NoContext,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Context,
    Input,
}

/// A parsed prompt text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

/// A filled-in prompt and where the record's context ends in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    /// Byte offset one past the (last) context.
    pub(crate) context_end: usize,
}

impl Template {
    pub(crate) fn parse(template: &str) -> Result<Template, RenderError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = template;
        while let Some(brace) = rest.find(['{', '}']) {
            let at = template.len() - rest.len() + brace;
            literal.push_str(&rest[..brace]);
            let from_brace = &rest[brace..];
            if from_brace.starts_with("{{") || from_brace.starts_with("}}") {
                literal.push_str(&from_brace[..1]);
                rest = &from_brace[2..];
                continue;
            }
            if from_brace.starts_with('}') {
                return Err(RenderError::Unopened { at });
            }
            let close = from_brace.find('}').ok_or(RenderError::Unclosed { at })?;
            pieces.push(Piece::Text(std::mem::take(&mut literal)));
            pieces.push(match &from_brace[1..close] {
                "context" => Piece::Context,
                "input" => Piece::Input,
                name => {
                    return Err(RenderError::UnknownPlaceholder {
                        name: name.to_owned(),
                        at,
                    });
                }
            });
            rest = &from_brace[close + 1..];
        }
        literal.push_str(rest);
        pieces.push(Piece::Text(literal));
        if !pieces.contains(&Piece::Context) {
            return Err(RenderError::NoContext);
        }
        Ok(Template(pieces))
    }

    pub(crate) fn render(&self, record: &Record) -> Rendered {
        let mut text = String::with_capacity(record.context.len() + record.input.len() + 1024);
        let mut context_end = 0;
        for piece in &self.0 {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                Piece::Input => text.push_str(&record.input),
                Piece::Context => {
                    text.push_str(&record.context);
                    context_end = text.len();
                }
            }
        }
        Rendered { text, context_end }
    }
}

/// Fills a record into a prompt text. Braces inside the record are never looked at.
pub fn render(template: &str, record: &Record) -> Result<String, RenderError> {
    Ok(Template::parse(template)?.render(record).text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    #[test]
    fn braces_in_a_record_are_never_looked_at() {
        let record = record("{context}", "x = {input} {{}} }");
        assert_eq!(
            render("{input}|{context}|{input}", &record).unwrap(),
            "{context}|x = {input} {{}} }|{context}"
        );
    }

    #[test]
    fn doubled_braces_are_braces() {
        let record = record("i", "c");
        assert_eq!(
            render("{{}}{context}{{{input}}}", &record).unwrap(),
            "{}c{i}"
        );
        assert_eq!(render("{context}{{input}}", &record).unwrap(), "c{input}");
    }

    #[test]
    fn nothing_is_trimmed() {
        let record = record(" i ", "\nc\n");
        assert_eq!(
            render(" {context} {input}: ", &record).unwrap(),
            " \nc\n  i : "
        );
    }

    #[test]
    fn the_end_of_the_context_is_told() {
        let rendered = Template::parse("ü{context}\n{input}")
            .unwrap()
            .render(&record("i", "cé"));
        assert_eq!(&rendered.text[rendered.context_end..], "\ni");
    }

    #[test]
    fn errors_name_the_place() {
        let error = |template| render(template, &record("i", "c")).unwrap_err();
        let unknown = error("{context} {question}");
        assert_eq!(
            unknown,
            RenderError::UnknownPlaceholder {
                name: "question".into(),
                at: 10
            }
        );
        assert_eq!(
            unknown.to_string(),
            "unknown placeholder `{question}` at byte 10\nhint: a prompt may hold {context} and {input}; write {{ and }} for braces"
        );
        assert!(matches!(
            error("{context!r}"),
            RenderError::UnknownPlaceholder { .. }
        ));
        assert!(matches!(
            error("{context}{}"),
            RenderError::UnknownPlaceholder { .. }
        ));
        assert_eq!(error("{context} {input"), RenderError::Unclosed { at: 10 });
        assert_eq!(error("{context}}"), RenderError::Unopened { at: 9 });
        assert_eq!(error("{input}"), RenderError::NoContext);
    }
}
