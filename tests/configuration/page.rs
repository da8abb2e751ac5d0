//! The page docs/configuration.md.

use std::fmt::Write as _;

use serde_json::Value;

use crate::schema::{Field, Kind, Schema, Section, flow, text};

const OPENING: &str = "\
# Configuration

Every field of `gateway.yaml`. This page is made from the JSON Schema that `tollgate schema` prints, and a test compares
the two. Each mistake in a file is reported with its place and with advice: `tollgate check`.

- In the title of a section, `[]` means an item of a list, and `NAME` a name of your choice.
- Every text may contain `${VARIABLE}`, `${VARIABLE:-default}` or `${file:/path}`; a name before a colon may not. A
  missing variable without a default is a mistake, and so is a default with another `${`. Newlines at the end of a
  variable or a file are not part of the value. Messages and logs never show the values. `$${` is a plain `${`. Forms of
  other programs, such as `$VARIABLE` and `{env.VARIABLE}`, are mistakes, except in the `body` of a response.
- A text instead of an upstream is the address of its only endpoint (`app: http://10.0.0.1:9000`), and a text instead of
  `store.redis` its URL.
- A policy may be written in the list of a route (`policies: [{ key: ip, limit: 100/minute }]`). Its name is `route-` and
  the name of the route, and counters belong to the name: name the route, because the number of a route without a name
  changes when another route is inserted before it.
- Relative paths begin at the directory of the file.
- An unknown field is a mistake.

## Forms of values

| Form | Meaning | Examples |
|---|---|---|
";

/// The whole page.
pub(crate) fn write(schema: &Schema<'_>) -> String {
    let mut page = OPENING.to_owned();
    for (name, form) in schema.forms() {
        let examples = form["examples"].as_array().into_iter().flatten();
        let examples: Vec<String> = examples.map(|it| code(&flow(it))).collect();
        let meaning = cell(&text(form));
        let _ = writeln!(page, "| {} | {meaning} | {} |", form_name(name), examples.join(", "));
    }
    let sections = schema.sections();
    for section in &sections {
        let _ = write!(page, "\n## {}\n\n{}\n\n", title(section), section.meaning());
        page.push_str("| Field | Type | Default | Meaning | Example |\n|---|---|---|---|---|\n");
        for field in section.fields() {
            page.push_str(&row(schema, &sections, &field));
        }
    }
    page
}

fn row(schema: &Schema<'_>, sections: &[Section<'_>], field: &Field<'_>) -> String {
    let default = field.default().map_or_else(|| "see its fields".to_owned(), |it| quoted(&it));
    let mut meaning = cell(&field.meaning());
    let words = words(schema, field.value());
    for word in words.into_iter().flatten() {
        let name = flow(&word["const"]);
        let _ = write!(meaning, "<br>{}: {}", code(&name), cell(&text(word)));
    }
    let example = field.example().map(|it| code(&cell(&format!("{}: {}", field.name, flow(&it)))));
    let kind = kind(schema, sections, field.value());
    let example = example.unwrap_or_default();
    format!("| `{}` | {kind} | {} | {meaning} | {example} |\n", field.name, cell(&default))
}

/// The words that a field allows, if it allows words.
fn words<'s>(schema: &Schema<'s>, value: &'s Value) -> Option<&'s [Value]> {
    match schema.kind(value) {
        Kind::Words(words) => Some(words),
        Kind::List(items) => words(schema, items),
        Kind::Either(kinds) => kinds.iter().find_map(|kind| words(schema, kind)),
        _ => None,
    }
}

/// What may be written, with links to sections.
fn kind(schema: &Schema<'_>, sections: &[Section<'_>], value: &Value) -> String {
    match schema.kind(value) {
        Kind::Section(value) => {
            let section = sections.iter().find(|section| section.is(value));
            let section = section.expect("every section is listed");
            format!("[section](#{})", anchor(&title(section)))
        }
        Kind::Words(_) => "word".to_owned(),
        Kind::Form(name, _) => format!("[{}](#forms-of-values)", form_name(name)),
        Kind::Plain(name) => name.to_owned(),
        Kind::List(items) => match schema.kind(items) {
            Kind::Plain(name) => format!("list of {name}s"),
            _ => format!("list: {}", kind(schema, sections, items)),
        },
        Kind::Map(values) => format!("map of names: {}", kind(schema, sections, values)),
        Kind::Either(kinds) => {
            let kinds: Vec<String> = kinds.iter().map(|it| kind(schema, sections, it)).collect();
            kinds.join(", or ")
        }
    }
}

fn title(section: &Section<'_>) -> String {
    match section.path.as_str() {
        "" => "The file".to_owned(),
        path => code(path),
    }
}

/// The anchor that GitHub gives a title.
fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// `FieldName` as `field name`.
fn form_name(name: &str) -> String {
    let mut words = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// A default that is a value as code, and one that is a sentence as it is.
fn quoted(default: &str) -> String {
    match default.contains(' ')
        || ["none", "required", "any", "all", "empty", "never"].contains(&default)
    {
        true => default.to_owned(),
        false => code(default),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
