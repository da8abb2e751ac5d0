//! The ranges of numbers that the schema tells are those of the compiler.

use serde_json::{Value, json};
use tollgate::config::{self, Config};

use crate::sample::file;
use crate::schema::{Schema, flow};

#[test]
fn a_number_outside_of_its_range_is_a_mistake_and_its_ends_are_none() {
    let schema = config::schema();
    let sections = Schema::new(&schema).sections();
    let mut checked = 0;
    for section in &sections {
        for field in section.fields() {
            let bound = |name: &str| field.value()[name].as_u64();
            let (Some(min), Some(max)) = (bound("minimum"), bound("maximum")) else { continue };
            let report = |number: Option<u64>| {
                let value = number.map(|number| (field.name, json!(number)));
                report(&file(&sections, section, value))
            };
            // With mistakes of other fields, this one may not be compiled.
            if !report(None).is_empty() {
                continue;
            }
            let message = format!("\"{}\" is out of range", field.name);
            let is_mistake = |number: u64| report(Some(number)).contains(&message);
            let name = format!("{}.{}", section.path, field.name);
            assert!(!is_mistake(min) && !is_mistake(max), "an end of {name} is a mistake");
            assert!(min == 0 || is_mistake(min - 1), "{} is good as {name}", min - 1);
            assert!(is_mistake(max + 1), "{} is good as {name}", max + 1);
            checked += 1;
        }
    }
    assert!(checked > 18, "only {checked} ranges are checked");
}

/// The mistakes of a file.
fn report(file: &Value) -> String {
    let compiled = Config::parse(&flow(file), "gateway.yaml", &|_| None);
    compiled.err().map(|report| report.to_string()).unwrap_or_default()
}
