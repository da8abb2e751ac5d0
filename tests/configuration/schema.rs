//! What the JSON Schema of the configuration says of each section and field.

use serde_json::{Map, Value};

/// The schema of the whole file.
#[derive(Clone, Copy)]
pub(crate) struct Schema<'s> {
    root: &'s Value,
}

/// A map with fixed fields.
#[derive(Clone)]
pub(crate) struct Section<'s> {
    /// Where it is in the file, such as `listeners[].tls`. Empty for the file itself.
    pub(crate) path: String,
    schema: Schema<'s>,
    value: &'s Value,
}

/// A field of a section.
#[derive(Clone, Copy)]
pub(crate) struct Field<'s> {
    /// Its name.
    pub(crate) name: &'s str,
    schema: Schema<'s>,
    value: &'s Value,
    is_required: bool,
}

/// What may be written in a place of the file.
pub(crate) enum Kind<'s> {
    /// A map with fixed fields.
    Section(&'s Value),
    /// One of a few words.
    Words(&'s [Value]),
    /// A text with a form of its own; this is its definition.
    Form(&'s str, &'s Value),
    /// Any text, true or false, or a number.
    Plain(&'static str),
    /// A list.
    List(&'s Value),
    /// A map with any names.
    Map(&'s Value),
    /// One of these.
    Either(&'s [Value]),
}

impl<'s> Schema<'s> {
    pub(crate) fn new(root: &'s Value) -> Self {
        Self { root }
    }

    /// The definitions of forms, with their names.
    pub(crate) fn forms(self) -> impl Iterator<Item = (&'s str, &'s Value)> {
        let definitions = self.root["$defs"].as_object().expect("the schema has definitions");
        let is_form = |value: &Value| value["examples"].is_array();
        definitions
            .iter()
            .filter(move |(_, value)| is_form(value))
            .map(|(name, value)| (name.as_str(), value))
    }

    /// All sections, each before its own fields and once.
    pub(crate) fn sections(self) -> Vec<Section<'s>> {
        let mut found = vec![Section { path: String::new(), schema: self, value: self.root }];
        let mut next = 0;
        while let Some(section) = found.get(next).cloned() {
            let mut inner = Vec::new();
            for field in section.fields() {
                let dot = if section.path.is_empty() { "" } else { "." };
                let path = format!("{}{dot}{}", section.path, field.name);
                self.collect(field.value, path, &mut inner);
            }
            next += 1;
            for section in inner {
                if found.iter().all(|known| !std::ptr::eq(known.value, section.value)) {
                    found.push(section);
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found
    }

    fn collect(self, value: &'s Value, path: String, found: &mut Vec<Section<'s>>) {
        match self.kind(value) {
            Kind::Section(value) => found.push(Section { path, schema: self, value }),
            Kind::List(items) => self.collect(items, format!("{path}[]"), found),
            Kind::Map(values) => self.collect(values, format!("{path}.NAME"), found),
            Kind::Either(kinds) => {
                kinds.iter().for_each(|kind| self.collect(kind, path.clone(), found));
            }
            Kind::Words(_) | Kind::Form(..) | Kind::Plain(_) => {}
        }
    }

    /// What `value`, or the definition that it refers to, allows.
    pub(crate) fn kind(self, value: &'s Value) -> Kind<'s> {
        if let Some(name) = value["$ref"].as_str() {
            let name = name.trim_start_matches("#/$defs/");
            let definitions = self.root["$defs"].as_object().expect("the schema has definitions");
            let same = |known: &&String| known.replace(' ', "%20") == name;
            let name = definitions.keys().find(same).expect("a reference has a definition");
            let definition = &definitions[name];
            return match self.kind(definition) {
                Kind::Plain(_) if definition["examples"].is_array() => Kind::Form(name, definition),
                other => other,
            };
        }
        if value["const"].is_boolean() {
            return Kind::Plain("false");
        }
        if let Some(kinds) = value["anyOf"].as_array() {
            return Kind::Either(kinds);
        }
        if let Some(words) = value["oneOf"].as_array() {
            return Kind::Words(words);
        }
        match value["type"].as_str() {
            Some("object") if value["properties"].is_object() => Kind::Section(value),
            Some("object") => Kind::Map(&value["additionalProperties"]),
            Some("array") => Kind::List(&value["items"]),
            Some("boolean") => Kind::Plain("true or false"),
            Some("integer") => Kind::Plain("number"),
            _ => Kind::Plain("text"),
        }
    }

    /// The file with the examples of all fields. A field that has a short form and a section is
    /// written as a section if `prefers_sections`.
    pub(crate) fn example(self, prefers_sections: bool) -> String {
        let root = Section { path: String::new(), schema: self, value: self.root };
        flow(&root.example(prefers_sections, 0))
    }

    fn example_of(self, value: &'s Value, prefers_sections: bool, depth: usize) -> Value {
        match self.kind(value) {
            Kind::Section(value) => Section { path: String::new(), schema: self, value }
                .example(prefers_sections, depth + 1),
            Kind::Words(words) => words.last().expect("there are words")["const"].clone(),
            Kind::Form(_, definition) => definition["examples"][0].clone(),
            Kind::Plain(_) => Value::Bool(false),
            Kind::List(items) => {
                Value::Array(vec![self.example_of(items, prefers_sections, depth)])
            }
            Kind::Map(values) => {
                let value = self.example_of(values, prefers_sections, depth);
                // The names that other examples use.
                let names =
                    ["app", "per-client", "office"].map(|name| (name.to_owned(), value.clone()));
                Value::Object(Map::from_iter(names))
            }
            Kind::Either(kinds) => {
                let is_section = |kind: &&Value| matches!(self.kind(kind), Kind::Section(_));
                let section = kinds.iter().find(is_section).filter(|_| prefers_sections);
                // Keys may contain keys, without end.
                let kind = section.filter(|_| depth < 8).unwrap_or(&kinds[0]);
                self.example_of(kind, prefers_sections, depth)
            }
        }
    }
}

impl<'s> Section<'s> {
    /// What the section is for.
    pub(crate) fn meaning(&self) -> String {
        text(self.value)
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = Field<'s>> + use<'s> {
        let properties = self.value["properties"].as_object().expect("a section has fields");
        let required = self.value["required"].as_array();
        let schema = self.schema;
        properties.iter().map(move |(name, value)| {
            let is_required =
                required.is_some_and(|names| names.iter().any(|it| it.as_str() == Some(name)));
            Field { name, schema, value, is_required }
        })
    }

    /// Whether it is the section that `value` defines.
    pub(crate) fn is(&self, value: &Value) -> bool {
        std::ptr::eq(self.value, value)
    }

    /// The required fields.
    pub(crate) fn required_example(&self) -> Map<String, Value> {
        self.fields().filter(|field| field.is_required).filter_map(Field::named_example).collect()
    }

    /// The required fields, or else one field.
    fn shortest_example(&self) -> Value {
        let required = self.required_example();
        let one = || self.fields().find_map(Field::named_example).into_iter().collect();
        Value::Object(if required.is_empty() { one() } else { required })
    }

    fn example(&self, prefers_sections: bool, depth: usize) -> Value {
        let fields = self.fields().map(|field| {
            let inner = || field.schema.example_of(field.value, prefers_sections, depth);
            let given = match field.kind() {
                Kind::Section(_) => None,
                Kind::Either(_) if prefers_sections => None,
                // The names are those that other examples use.
                Kind::Map(values) if matches!(self.schema.kind(values), Kind::Either(_)) => None,
                _ => field.example(),
            };
            (field.name.to_owned(), given.unwrap_or_else(inner))
        });
        Value::Object(fields.collect())
    }
}

impl<'s> Field<'s> {
    /// What the field means, without its default.
    pub(crate) fn meaning(&self) -> String {
        let text = text(self.value);
        let (meaning, _) = text.split_once(" Default: ").unwrap_or((&text, ""));
        meaning.to_owned()
    }

    /// What holds without the field, in words.
    pub(crate) fn default(&self) -> Option<String> {
        if self.is_required {
            return Some("required".to_owned());
        }
        let text = text(self.value);
        let (_, default) = text.split_once(" Default: ")?;
        Some(default.trim_end_matches('.').to_owned())
    }

    /// The value without the field, if it could be written.
    pub(crate) fn default_value(&self) -> Option<&'s Value> {
        self.value.get("default")
    }

    fn named_example(self) -> Option<(String, Value)> {
        Some((self.name.to_owned(), self.example()?))
    }

    /// A value that may be written.
    pub(crate) fn example(&self) -> Option<Value> {
        let given = self.value["examples"].get(0).cloned();
        given.or_else(|| self.example_of(self.value))
    }

    fn example_of(&self, value: &'s Value) -> Option<Value> {
        Some(match self.schema.kind(value) {
            Kind::Words(words) => {
                let default = self.default().unwrap_or_default();
                let default = default.trim_matches('"');
                let other = |word: &&Value| word["const"].as_str() != Some(default);
                words.iter().find(other)?["const"].clone()
            }
            Kind::Form(_, definition) => definition["examples"].get(0)?.clone(),
            Kind::Plain("true or false") => {
                Value::Bool(!self.default().is_some_and(|it| it.starts_with("true")))
            }
            Kind::Plain("false") => Value::Bool(false),
            Kind::List(items) => Value::Array(vec![self.example_of(items)?]),
            Kind::Map(values) => {
                let entry = ("NAME".to_owned(), self.example_of(values)?);
                Value::Object(Map::from_iter([entry]))
            }
            Kind::Section(value) => {
                let section = Section { path: String::new(), schema: self.schema, value };
                section.shortest_example()
            }
            Kind::Plain(_) => return None,
            Kind::Either(kinds) => self.example_of(&kinds[0])?,
        })
    }

    /// What may be written.
    pub(crate) fn kind(&self) -> Kind<'s> {
        let is_section = |value| matches!(self.schema.kind(value), Kind::Section(_));
        match self.schema.kind(self.value) {
            Kind::List(value) | Kind::Map(value) if is_section(value) => self.schema.kind(value),
            kind => kind,
        }
    }

    /// The part of the schema that describes it.
    pub(crate) fn value(&self) -> &'s Value {
        self.value
    }
}

/// The description, as one line.
pub(crate) fn text(value: &Value) -> String {
    value["description"].as_str().unwrap_or_default().replace('\n', " ")
}

/// A value on one line of YAML.
pub(crate) fn flow(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(name, value)| format!("{name}: {}", flow(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// Whether a text needs no quotes.
fn is_plain(text: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "_-./%".contains(c);
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_rate = text.contains(['/', '%']) || text.ends_with(|c: char| c.is_ascii_alphabetic());
    let is_address =
        text.split_once("://").is_some_and(|(_, rest)| rest.chars().all(|c| good(c) || c == ':'));
    text.chars().all(good) && (is_word || is_rate) || is_address
}
