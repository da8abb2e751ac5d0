//! `${NAME}`, `${NAME:-default}` and `${file:PATH}` in any text of the file.
//!
//! The values may be secret. A text in which one was inserted keeps its original form, and messages
//! show only that form. `$${` gives a plain `${`. References in inserted values are not replaced.
//!
//! A reference in the form of another program, such as `$NAME`, is a mistake, except in the body of a
//! response: taken as it is, it could be guessed where it is a token.

use std::borrow::Cow;

use super::neighbours;
use super::node::{Node, TextSpan, Value};
use super::problem::Problems;
use super::secrecy::{MASK, Secrecy, contains_secret_field};
use super::surroundings::Surroundings;

/// The largest sum of all inserted values, in bytes. An alias can insert a value many times.
const MAX_TOTAL_BYTES: usize = 8 * 1024 * 1024;

/// The field with the text of a response, which may contain anything.
const BODY: &str = "body";

/// Replaces references in every text of `root`, but not in the keys of maps.
pub fn expand(root: &mut Node, around: &Surroundings<'_>, problems: &Problems) {
    let left_bytes = MAX_TOTAL_BYTES;
    let span = root.span;
    Expander { around, problems, left_bytes, span, is_shown: true }.node(root);
}

struct Expander<'a> {
    around: &'a Surroundings<'a>,
    problems: &'a Problems,
    left_bytes: usize,
    /// Where the text in hand is.
    span: TextSpan,
    /// Whether all of the text in hand may be shown.
    is_shown: bool,
}

impl Expander<'_> {
    fn node(&mut self, node: &mut Node) {
        self.span = node.span;
        self.is_shown = node.scalar().is_none_or(|text| node.secrecy.shows_all(text));
        match &mut node.value {
            Value::Text(text) if text.value.contains("${") => match self.text(&text.value) {
                Ok(value) => {
                    let written = std::mem::replace(&mut text.value, value);
                    text.written = Some(written);
                }
                Err(mistake) => {
                    self.problems.error(node.span, &mistake.message, mistake.advice);
                    // No later pass checks it as a value.
                    node.value = Value::Unresolved;
                }
            },
            Value::List(items) => items.iter_mut().for_each(|item| {
                self.other_form(item);
                self.node(item);
            }),
            Value::Map(entries) => entries.iter_mut().for_each(|entry| {
                if entry.name().contains("${") {
                    let message = "this is a name, in which no \"${...}\" is replaced";
                    self.problems.error(entry.key.span, message, "write the name itself");
                }
                if entry.name() != BODY {
                    self.other_form(&mut entry.value);
                }
                self.node(&mut entry.value);
            }),
            _ => {}
        }
    }

    /// Reports a reference in the form of another program.
    fn other_form(&self, node: &mut Node) {
        let Some(name) = other_form(node) else { return };
        let is_secret = node.secrecy == Secrecy::All;
        // The text may be a password that begins like a reference.
        let is_variable =
            (self.around.env)(&name).is_some() || contains_secret_field(&name.to_ascii_lowercase());
        let shown = if is_secret && !is_variable { "NAME" } else { &name };
        let mut advice = format!("write \"${{{shown}}}\"");
        if is_secret {
            advice += "; if this is the secret itself, read it from a file: ${file:/path}";
        }
        let message = "this is not a reference to a variable, and would be taken as it is";
        self.problems.error(node.span, message, &advice);
        node.value = Value::Unresolved;
    }

    fn text(&mut self, written: &str) -> Result<String, Mistake> {
        let mut out = String::with_capacity(written.len());
        let mut rest = written;
        while let Some(at) = rest.find("${") {
            if let Some(before) = rest[..at].strip_suffix('$') {
                out.push_str(before);
                out.push_str("${");
                rest = &rest[at + 2..];
                continue;
            }
            out.push_str(&rest[..at]);
            let (inner, after) = rest[at + 2..].split_once('}').ok_or_else(|| Mistake {
                message: "a \"${\" is never closed".to_owned(),
                advice: "write ${NAME}, or $${ for the two characters themselves",
            })?;
            let value = self.reference(inner)?;
            self.left_bytes = self.left_bytes.checked_sub(value.len()).ok_or_else(|| Mistake {
                message: "all replacements together are larger than 8 MiB".to_owned(),
                advice: "",
            })?;
            out.push_str(&value);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// The value of an environment variable. As of a file, newlines at its end are not part of
    /// it. A token or a secret with one would never equal the one that was meant. After several
    /// lines, as of a PEM text, the last newline is usual.
    fn variable(&self, name: &str) -> Option<String> {
        let value = (self.around.env)(name)?;
        let kept = without_newline(value.clone());
        if kept.len() < value.len() && !kept.contains('\n') {
            let message = format!(
                "the environment variable {name} ends with a newline, which is left out of the value"
            );
            self.problems.warning(self.span, &message, "set it with printf instead of echo");
        }
        Some(kept)
    }

    /// The value of `NAME`, `NAME:-default` or `file:PATH`.
    fn reference<'t>(&self, inner: &'t str) -> Result<Cow<'t, str>, Mistake> {
        if let Some(path) = inner.strip_prefix("file:") {
            // Editors and `echo` end a file with a newline, which is not part of the value.
            let text = self.around.read(path).map_err(|message| Mistake { message, advice: "" })?;
            return Ok(without_newline(text).into());
        }
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let valid = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(valid) {
            let inner = if self.is_shown { inner } else { MASK };
            return Err(Mistake {
                message: format!("\"${{{inner}}}\" is not the name of an environment variable"),
                advice: "write ${NAME}, ${NAME:-default} or ${file:/path}",
            });
        }
        // Its first brace ends the reference, and the rest of it would be a text that can be guessed.
        if default.is_some_and(|default| default.contains("${")) {
            return Err(Mistake {
                message: format!("the default of \"${{{name}:-...}}\" contains another reference"),
                advice: "write the default itself, or set the variable where the gateway starts",
            });
        }
        match (self.variable(name), default) {
            (Some(value), Some(default)) if value.is_empty() => Ok(default.into()),
            (Some(value), _) => Ok(value.into()),
            (None, Some(default)) => Ok(default.into()),
            (None, None) => Err(Mistake {
                message: format!("the environment variable {name} is not set"),
                advice: "set it, or give a default: ${NAME:-default}",
            }),
        }
    }
}

/// The name of the variable to which a value refers in the form of another program.
fn other_form(node: &Node) -> Option<String> {
    let text = match &node.value {
        Value::Text(text) => Cow::from(&text.value),
        // Braces without quotes: {env.NAME}.
        Value::Map(entries) => match &entries[..] {
            [only] if matches!(only.value.value, Value::Null) => {
                Cow::from(format!("{{{}}}", only.name()))
            }
            _ => return None,
        },
        _ => return None,
    };
    let name = match node.secrecy {
        // Also as a part of a header field: Bearer $TOKEN.
        Secrecy::All => text.split_whitespace().find_map(neighbours::variable),
        Secrecy::OfUrl | Secrecy::OfTarget => neighbours::variable(&text)
            .filter(|name| !name.contains(|c: char| c.is_ascii_lowercase()))
            .or_else(|| credentials(&text).split(':').find_map(neighbours::variable)),
    };
    name.map(str::to_owned)
}

/// The user and the password of a URL. Empty if it has none.
fn credentials(text: &str) -> &str {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    authority.rsplit_once('@').map_or("", |(credentials, _)| credentials)
}

/// A text without the newlines at its end.
fn without_newline(mut text: String) -> String {
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    text
}

struct Mistake {
    message: String,
    advice: &'static str,
}
