//! The defaults that the schema tells are the defaults of the compiler.

use serde_json::Value;
use tollgate::config::{self, Config};

use crate::sample::file;
use crate::schema::{Schema, flow};

#[test]
fn a_field_with_its_default_changes_nothing() {
    let schema = config::schema();
    let sections = Schema::new(&schema).sections();
    let mut checked = 0;
    for section in &sections {
        for field in section.fields() {
            let Some(default) = field.default_value() else { continue };
            let Some(without) = compiled(&file(&sections, section, None)) else { continue };
            let value = Some((field.name, default.clone()));
            let with = compiled(&file(&sections, section, value));
            let name = format!("{}.{}", section.path, field.name);
            assert_eq!(with.as_ref(), Some(&without), "{default} is not the default of {name}");
            checked += 1;
        }
    }
    assert!(checked > 55, "only {checked} defaults are checked");
}

/// What a file compiles to, as text. None if it has mistakes.
fn compiled(file: &Value) -> Option<String> {
    let compiled = Config::parse(&flow(file), "gateway.yaml", &|_| None).ok()?;
    Some(format!("{:?}", compiled.config))
}
