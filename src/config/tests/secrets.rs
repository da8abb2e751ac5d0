//! What `GET /v1/config` masks is masked in every report, whatever is wrong with the file.

use super::*;
use crate::config::kind::{self, Kind, SCHEMA, Schema};
use serde_json::Value;

/// A secret. No report contains it.
const SECRET: &str = "Hunter2";
/// Stands for the value in the middle of a file.
const HERE: &str = "<here>";

/// A way from the root of the file to a value: fields, and `-` for an item of a list.
type Way = Vec<String>;

/// The ways to all scalars of the schema, with the forms of their values.
fn scalars(schema: &'static Value, way: &Way, found: &mut Vec<(Way, Option<&'static str>)>) {
    let inner = |name: &str| way.iter().cloned().chain([name.to_owned()]).collect::<Way>();
    if way.len() > 12 {
        return;
    }
    match Schema::new(&SCHEMA).kind(schema) {
        Kind::Section(section) => {
            kind::fields(section).for_each(|(name, field)| scalars(field, &inner(name), found));
        }
        Kind::List(item) => scalars(item, &inner("-"), found),
        Kind::Map(value) => scalars(value, &inner("x-name"), found),
        Kind::Either(kinds) => kinds.iter().for_each(|kind| scalars(kind, way, found)),
        _ => found.push((way.clone(), kind::form(schema))),
    }
}

/// A file with [`HERE`] in this place, in one line or in several.
fn file(way: &Way, is_flow: bool) -> String {
    if is_flow {
        let mut text = format!(" {HERE}");
        for name in way.iter().skip(1).rev() {
            text =
                if name == "-" { format!(" [{text} ]") } else { format!(" {{ {name}:{text} }}") };
        }
        return format!("{}:{text}\n", way[0]);
    }
    let mut text = String::new();
    let mut is_item = false;
    for (depth, name) in way.iter().enumerate() {
        let start = if is_item { " ".to_owned() } else { format!("\n{}", " ".repeat(2 * depth)) };
        is_item = name == "-";
        text += &if is_item { format!("{start}-") } else { format!("{start}{name}:") };
    }
    format!("{} {HERE}\n", text.trim_start())
}

/// A value with the secret where this form has one.
fn value(form: Option<&str>, way: &Way) -> String {
    let is_url = way.iter().any(|it| ["url", "shards", "jwks", "endpoints"].contains(&&**it));
    match form {
        Some("TargetText") => format!("/health?key={SECRET}"),
        Some("LocationText") => format!("https://{SECRET}@other.example/"),
        _ if is_url => format!("https://u:{SECRET}@a.example/keys?key={SECRET}"),
        _ => format!("x{SECRET}x{SECRET}"),
    }
}

/// What is wrong with a file: the value with the name before it is replaced.
fn broken(file: &str, name: &str, value: &str) -> Vec<String> {
    let named = format!("{name}: {HERE}");
    let with = |instead: &str| file.replace(&named, &instead.replace("VALUE", value));
    let value_with = |instead: &str| file.replace(HERE, &instead.replace("VALUE", value));
    let misspelt: String = name.chars().rev().collect();
    let mut files: Vec<String> = [
        "VALUE",
        "\"VALUE",
        "VALUE\"",
        "'VALUE",
        "\"VALUE\"x",
        "{VALUE",
        "{ VALUE }",
        "VALUE}",
        "[VALUE",
        "[ VALUE ]",
        "VALUE]",
        "*VALUE",
        "&VALUE",
        "&VALUE x",
        "!VALUE",
        "!VALUE x",
        "@VALUE",
        "%VALUE",
        "`VALUE`",
        "- VALUE",
        "|VALUE",
        "| VALUE",
        "VALUE,VALUE",
        "a,VALUE",
        "VALUE, VALUE",
        "VALUE: x",
        "{ VALUE: x }",
        "{ VALUE: x, VALUE: y }",
        "VALUE #x",
        "# VALUE",
        "? VALUE",
        "${VALUE",
        "${VALUE-}",
        "x${VALUE-}y",
        "${VALUE:-VALUE}",
        "VALUE\n\tx: y",
        "VALUE\n x: y",
        "\n VALUE",
        "VALUE\n---\nx: y",
        "\"VALUE\n  VALUE",
        "\"\\x VALUE\"",
        "!!int VALUE",
        "VALUE\u{7}",
        "VALUE: VALUE: VALUE",
        "<<: VALUE",
    ]
    .map(value_with)
    .to_vec();
    files.extend(
        [
            &*format!("{misspelt}: VALUE"),
            &format!("{name}x: VALUE"),
            &format!("{name}x: {{ y: [VALUE] }}"),
            &format!("{name}:VALUE"),
            &format!("{name} VALUE"),
            &format!("{name}VALUE"),
            &format!("{name}=VALUE"),
            &format!("{name}: VALUE, {name}: VALUE"),
            &format!("\"{name}: VALUE"),
            &format!("{name}\": VALUE"),
            &format!("VALUE: {name}"),
            &format!("x: y, VALUE, {name}: VALUE"),
            &format!("x: [{name}: VALUE"),
        ]
        .map(with),
    );
    let whole = value_with("VALUE");
    files.push(format!("{whole}\nx: [\n"));
    files.push(format!("{whole}{whole}"));
    files.push(format!("- {whole}"));
    files.push(whole.trim_end().trim_end_matches(['}', ']', ' ']).to_owned());
    files
}

/// Everything that a compilation says.
fn said(text: &str) -> String {
    let (report, shown) = match parse(text) {
        Ok(Compiled { warnings, document, .. }) => (warnings, document.written.to_string()),
        Err(report) => (report, String::new()),
    };
    let parts = report.problems().map(|it| format!("{}\n{}", it.message, it.advice));
    let parts: Vec<String> = parts.collect();
    format!("{report}\n{report:?}\n{}\n{shown}", parts.join("\n"))
}

/// Whether `GET /v1/config` masks the value.
fn is_masked(text: &str) -> bool {
    let mut tree = yaml::parse(text, &problem::Problems::default()).expect("it is YAML");
    secret_places::mark(&mut tree);
    !shown::shown(&tree).to_string().contains(SECRET)
}

#[test]
fn no_report_shows_what_is_masked_when_the_configuration_is_shown() {
    let mut places = Vec::new();
    scalars(&SCHEMA, &Way::new(), &mut places);
    let mut masked = 0;
    let mut leaks = Vec::new();
    for (way, form) in &places {
        let value = value(*form, way);
        let name = way.iter().rfind(|it| *it != "-").expect("the file is a map");
        for is_flow in [true, false] {
            let file = file(way, is_flow);
            if !is_masked(&file.replace(HERE, &format!("\"{value}\""))) {
                continue;
            }
            masked += 1;
            // The names of header fields are shown.
            let is_named =
                |text: &&String| name != "x-name" || !text.contains(&format!("{value}: x-name"));
            for text in broken(&file, name, &value).iter().filter(is_named) {
                let said = said(text);
                if said.contains(SECRET) {
                    leaks.push(format!("{text}\n{said}"));
                }
            }
        }
    }
    assert!(places.len() > 200 && masked >= 30, "{} places, {masked} masked", places.len());
    assert!(
        leaks.is_empty(),
        "{} leaks:\n{}",
        leaks.len(),
        leaks[..leaks.len().min(12)].join("\n\n")
    );
}
