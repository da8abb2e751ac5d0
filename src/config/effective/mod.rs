//! The configuration as it is true now: the file with the defaults of absent fields, with the
//! values of references that are no secrets, and with the patches that are in force.
//!
//! It is made of the file as it may be shown, so it has no secrets. With these put back it is a
//! configuration that compiles to the same settings. Fields whose default is no value that could
//! be written ("none", "as many as the policy admits") are left out.

mod months;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use super::kind::{self, Kind, SCHEMA, Schema};
use super::secrecy::is_masked;
use crate::patches::{Resolved, Values};

/// Sections within sections. Keys may contain keys, and nothing else goes deeper.
const MAX_DEPTH: usize = 32;

/// The settings, and where those that are not written in the file come from, as JSON Pointers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effective {
    /// The settings in the form of the file.
    pub settings: Value,
    /// Fields that the file leaves out.
    pub by_default: Vec<String>,
    /// Fields that patches have changed.
    pub patched: Vec<String>,
    /// Fields whose value comes from `${...}`, and is shown.
    pub referred: Vec<String>,
    /// Fields whose value, or a part of it, is not shown.
    pub masked: Vec<String>,
}

impl Effective {
    /// Of the file that `written` shows with `${...}`, and `expanded` with the values, both
    /// without secrets.
    pub fn new(written: &Value, expanded: &Value, patches: &Resolved) -> Self {
        let mut effective = Self { settings: written.clone(), ..Self::default() };
        let mut settings = effective.settings.take();
        let at = Place { path: String::new(), depth: 0 };
        effective.complete(&SCHEMA, &mut settings, expanded, &at);
        for (name, changed) in &patches.changed {
            let Some((change, _)) = &changed.patch else { continue };
            effective.patch(&mut settings["policies"][name], name, &change.values);
        }
        for (name, (_, mode)) in &patches.lists {
            let at = Place::default().inner("access").inner(name).inner("mode");
            effective.set(&mut settings["access"][name]["mode"], json!(mode.as_str()), at.path);
        }
        Self { settings, ..effective }
    }

    /// Completes a value of this kind.
    fn complete(&mut self, kind: &Value, value: &mut Value, expanded: &Value, at: &Place) {
        if at.depth > MAX_DEPTH {
            return;
        }
        let schema = Schema::new(&SCHEMA);
        match (schema.kind(kind), &mut *value) {
            (Kind::Section(section), Value::Object(fields)) => {
                self.section(section, fields, expanded, at);
            }
            (Kind::List(kind), Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.complete(kind, item, &expanded[index], &at.inner(&index.to_string()));
                }
            }
            (Kind::Map(kind), Value::Object(entries)) => {
                for (name, entry) in entries {
                    self.complete(kind, entry, &expanded[name.as_str()], &at.inner(name));
                }
            }
            (Kind::Either(kinds), value) => {
                let is_it = |kind: &&Value| fits(&schema.kind(kind), value);
                if let Some(kind) = kinds.iter().find(is_it) {
                    self.complete(kind, value, expanded, at);
                }
            }
            (kind, Value::String(text)) if text.contains("${") => {
                if let Some(known) = plain(&kind, expanded) {
                    *value = known;
                    self.referred.push(at.path.clone());
                }
            }
            (_, Value::String(text)) if is_masked(text) => self.masked.push(at.path.clone()),
            _ => {}
        }
    }

    /// Adds the fields that a section leaves out.
    fn section(
        &mut self,
        section: &Value,
        fields: &mut Map<String, Value>,
        expanded: &Value,
        at: &Place,
    ) {
        let schema = Schema::new(&SCHEMA);
        let implied = months::implied(fields, expanded);
        for (name, value) in &implied {
            self.by_default.push(at.inner(name).path);
            fields.insert((*name).to_owned(), json!(value));
        }
        let algorithm = fields.get("algorithm").and_then(Value::as_str);
        let algorithm = expanded["algorithm"].as_str().or(algorithm).unwrap_or("sliding_window");
        let algorithm = algorithm.to_owned();
        for (name, field) in
            kind::fields(section).filter(|(name, _)| !implied.iter().any(|it| it.0 == *name))
        {
            let at = at.inner(name);
            if let Some(value) = fields.get_mut(name) {
                self.complete(field, value, &expanded[name], &at);
                continue;
            }
            if !kind::belongs_to(field, &algorithm) || kind::is_excluded(name, fields) {
                continue;
            }
            if let Some(value) = kind::default(field) {
                self.by_default.push(at.path.clone());
                fields.insert(name.to_owned(), value.clone());
            } else if let Kind::Section(inner) = schema.kind(field)
                && !kind::is_absent_by_default(field)
                && !kind::has_required(inner)
            {
                let mut added = Map::new();
                self.section(inner, &mut added, &Value::Null, &at);
                if !added.is_empty() {
                    fields.insert(name.to_owned(), Value::Object(added));
                }
            }
        }
    }

    /// The policy of this name with the values of a patch.
    fn patch(&mut self, policy: &mut Value, name: &str, values: &Values) {
        let at = Place::default().inner("policies").inner(name);
        let Values { limit, burst, soft, mode, algorithm: _, plans } = values;
        let texts = [("limit", limit), ("soft", soft), ("mode", mode)];
        let texts =
            texts.into_iter().filter_map(|(name, text)| Some((name, json!(text.as_ref()?))));
        for (field, value) in texts.chain(burst.map(|burst| ("burst", json!(burst)))) {
            self.set(&mut policy[field], value, at.inner(field).path);
        }
        for (plan, limit) in plans {
            let at = at.inner("plans").inner("limits").inner(plan);
            self.set(&mut policy["plans"]["limits"][plan], json!(limit), at.path);
        }
    }

    fn set(&mut self, place: &mut Value, value: Value, path: String) {
        *place = value;
        self.by_default.retain(|it| *it != path);
        self.referred.retain(|it| *it != path);
        self.patched.push(path);
    }
}

/// Where a value is.
#[derive(Default)]
struct Place {
    /// A JSON Pointer (RFC 6901).
    path: String,
    depth: usize,
}

impl Place {
    fn inner(&self, name: &str) -> Self {
        let name = name.replace('~', "~0").replace('/', "~1");
        Self { path: format!("{}/{name}", self.path), depth: self.depth + 1 }
    }
}

fn fits(kind: &Kind<'_>, value: &Value) -> bool {
    match value {
        Value::Object(_) => matches!(kind, Kind::Section(_) | Kind::Map(_)),
        Value::Array(_) => matches!(kind, Kind::List(_)),
        Value::Bool(_) => matches!(kind, Kind::Bool),
        Value::Number(_) => matches!(kind, Kind::Number | Kind::Plain | Kind::Text),
        // A reference may stand for any of them. A text is the most careful one.
        _ => matches!(kind, Kind::Number | Kind::Bool | Kind::Plain | Kind::Text),
    }
}

/// The value of a reference, if its kind has no secrets.
fn plain(kind: &Kind<'_>, expanded: &Value) -> Option<Value> {
    let text = expanded.as_str().filter(|text| !is_masked(text))?;
    match kind {
        Kind::Bool => text.parse().ok().map(Value::Bool),
        Kind::Number => Some(text.parse::<u64>().map_or_else(|_| json!(text), Value::from)),
        Kind::Plain => Some(json!(text)),
        _ => None,
    }
}
