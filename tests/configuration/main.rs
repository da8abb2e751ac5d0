//! `docs/configuration.md` is made from the JSON Schema of the configuration.
//!
//! With `UPDATE_GOLDEN=1` in the environment the page is written anew. Read the difference before
//! you commit it.

mod defaults;
mod page;
mod ranges;
mod sample;
mod schema;

use std::fs;
use std::path::Path;

use schema::{Kind, Schema};
use serde_json::Value;
use tollgate::config::{self, Config};

/// The value of every variable in the examples: long enough for HS256 and of hexadecimal digits.
const SECRET: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn the_page_says_what_the_schema_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let schema = config::schema();
    let made = page::write(&Schema::new(&schema));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &made).expect("the directory docs is writable");
    }
    let page = fs::read_to_string(&path).expect("docs/configuration.md is part of the project");
    let differing = made.lines().zip(page.lines()).find(|(made, page)| made != page);
    assert!(
        made == page,
        "docs/configuration.md differs from the schema: UPDATE_GOLDEN=1 writes it anew\n{differing:#?}"
    );
}

#[test]
fn every_field_has_a_meaning_a_default_and_an_example() {
    let schema = config::schema();
    let sections = Schema::new(&schema).sections();
    assert!(sections.len() > 40, "only {} sections", sections.len());
    for section in sections {
        for field in section.fields() {
            let name = format!("{}: {}", section.path, field.name);
            assert!(field.meaning().len() > 5, "{name} has no meaning");
            let has_fields = matches!(field.kind(), Kind::Section(_));
            assert!(has_fields || field.default().is_some(), "{name} has no default");
            assert!(field.example().is_some(), "{name} has no example");
        }
    }
}

/// Editors refuse a whole schema in which a keyword has no value.
#[test]
fn no_keyword_of_the_schema_is_null() {
    fn nulls(value: &Value, at: &str, found: &mut Vec<String>) {
        match value {
            Value::Null => found.push(at.to_owned()),
            Value::Array(items) => items.iter().for_each(|it| nulls(it, at, found)),
            Value::Object(entries) => {
                entries.iter().for_each(|(name, it)| nulls(it, &format!("{at}/{name}"), found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    nulls(&config::schema(), "", &mut found);
    assert_eq!(found, Vec::<String>::new());
}

/// Mistakes that examples have only because all fields of all sections are written together.
const TOGETHER: [&str; 22] = [
    "a cost is one of",
    "a cost is settled by one of",
    "a key is one of",
    "a match is a text, or has one of",
    "a rule has one of",
    "a key set is in a file, or is fetched from a URL",
    "a user comes from one source",
    "the prices are either in",
    "an authorizer has one of",
    "Redis needs one of",
    "belongs to the algorithm",
    "belongs to the styles",
    "cannot be combined with",
    "cannot be read",
    "has no effect",
    "have no effect",
    "are not known",
    "has both \"upstream\" and \"split\"",
    "of route \"orders\" names the upstream",
    "route \"orders\" names the upstream \"v",
    "cannot be used: it cannot be read",
    "is the same as another one",
];

#[test]
fn examples_are_valid() {
    let schema = config::schema();
    for prefers_sections in [false, true] {
        let text = Schema::new(&schema).example(prefers_sections);
        let report = match Config::parse(&text, "gateway.yaml", &|_| Some(SECRET.to_owned())) {
            Ok(_) => continue,
            Err(report) => report.to_string(),
        };
        let errors = report.lines().filter(|line| line.contains(": error: "));
        let wrong: Vec<&str> =
            errors.filter(|line| !TOGETHER.iter().any(|known| line.contains(known))).collect();
        assert!(wrong.is_empty(), "{}\nin:\n{text}", wrong.join("\n"));
    }
}

/// The pages about coming from other programs, about other proxies, and about traffic.
#[test]
fn the_files_of_the_pages_have_no_mistakes() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let mut checked = 0;
    for page in fs::read_dir(docs).expect("it is there") {
        let path = page.expect("it can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // All files of this page are whole.
        let is_whole = name == "traffic.md";
        if !is_whole && !name.starts_with("from-") && !name.starts_with("behind-") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("it is text");
        for (index, block) in text.split("```yaml\n").skip(1).enumerate() {
            let file = block.split("```").next().unwrap_or_default();
            let is_ours = is_whole
                || file.contains("policies:")
                    && (file.contains("listeners:") || file.contains("check:"));
            if !is_ours {
                continue;
            }
            checked += 1;
            let compiled = Config::parse(file, "gateway.yaml", &|_| Some(SECRET.to_owned()));
            let report = match compiled {
                Ok(compiled) => compiled.warnings.to_string(),
                Err(report) => report.to_string(),
            };
            assert!(report.is_empty(), "{name}, file {index}:\n{report}");
        }
    }
    assert!(checked > 1, "{checked} files");
}
