//! Lines in a form of the operator's own, such as `{time} {method} {path} {status}`.

use tollgate_core::log_fields::{FIELDS, Field};
use tollgate_core::text::is_printable;

/// The form of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The same in each line.
    Text(Box<str>),
    /// The value of a field.
    Field(Field),
}

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// `{methd}`
    #[error("there is no field `{0}`")]
    Unknown(String),
    /// `{method`
    #[error("a brace is not closed")]
    Open,
    /// `method}`
    #[error("a brace is not opened")]
    Closed,
    /// A character that would break the line, or change how it looks.
    #[error("there is a character that is not printable")]
    Control,
}

impl Template {
    /// Reads a template. `{{` and `}}` stand for braces.
    ///
    /// # Errors
    /// If a field does not exist, a brace has no other one, or there is a character that is not printable.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if !text.chars().all(is_printable) {
            return Err(TemplateError::Control);
        }
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(at);
            plain.push_str(before);
            if let Some(after) = brace.strip_prefix("{{").or(brace.strip_prefix("}}")) {
                plain.push_str(&brace[..1]);
                rest = after;
                continue;
            }
            let inner = brace.strip_prefix('{').ok_or(TemplateError::Closed)?;
            let (name, after) = inner.split_once('}').ok_or(TemplateError::Open)?;
            let field = Self::names().find(|(known, _)| *known == name);
            let (_, field) = field.ok_or_else(|| TemplateError::Unknown(name.to_owned()))?;
            parts.push(Part::Text(std::mem::take(&mut plain).into()));
            parts.push(Part::Field(field));
            rest = after;
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain.into()));
        Ok(Self(parts))
    }

    /// The names of fields in templates: our own, but for those that only JSON can hold.
    pub fn names() -> impl Iterator<Item = (&'static str, Field)> + Clone {
        let fields = FIELDS.iter().filter(|it| it.field != Field::Keys);
        fields.map(|it| (it.own, it.field))
    }

    /// Its parts, in their order.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_names_fields_that_exist() {
        let unknown = |name: &str| Err(TemplateError::Unknown(name.to_owned()));
        assert_eq!(Template::parse("{time} {methd}"), unknown("methd"));
        assert_eq!(Template::parse("{}"), unknown(""));
        assert_eq!(Template::parse("{keys}"), unknown("keys"));
        assert_eq!(Template::parse("{time"), Err(TemplateError::Open));
        assert_eq!(Template::parse("time}"), Err(TemplateError::Closed));
        assert_eq!(Template::parse("{time}\n"), Err(TemplateError::Control));
        for (name, field) in Template::names() {
            let template = Template::parse(&format!("{{{{{name}}}}}={{{name}}}"));
            let text = Part::Text(format!("{{{name}}}=").into());
            let parts = vec![text, Part::Field(field), Part::Text("".into())];
            assert_eq!(template, Ok(Template(parts)));
        }
    }
}
