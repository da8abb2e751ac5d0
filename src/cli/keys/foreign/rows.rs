//! Rows of a table, in JSON or in lines with commas.

use serde_json::{Map, Value};

use crate::cli::keys::csv;

/// A row by the names of its columns.
pub type Row = Map<String, Value>;

/// Where a JSON object has the rows.
const LISTS: [&str; 3] = ["keys", "data", "items"];

/// The rows of a text: a list in JSON, an object with such a list, or lines with commas of which the
/// first names the columns. An error names the line, and never what is in it.
pub fn read(text: &str) -> Result<Vec<Row>, String> {
    if text.trim_start().starts_with(['[', '{']) { of_json(text) } else { of_csv(text) }
}

fn of_json(text: &str) -> Result<Vec<Row>, String> {
    let document: Value = serde_json::from_str(text)
        .map_err(|error| format!("line {}: the input is not JSON", error.line()))?;
    let list = match document {
        Value::Object(mut fields) => {
            let name =
                LISTS.into_iter().find(|name| fields.get(*name).is_some_and(Value::is_array));
            name.and_then(|name| fields.remove(name))
        }
        list => Some(list),
    };
    let Some(Value::Array(items)) = list else {
        return Err(format!("the input has no list of keys: write it, or one of {LISTS:?}"));
    };
    let row = |(index, item)| match item {
        Value::Object(row) => Ok(row),
        // LiteLLM lists only the hashes if it is not asked for whole objects.
        _ => Err(format!("key {} is not an object with fields", index + 1)),
    };
    items.into_iter().enumerate().map(row).collect()
}

fn of_csv(text: &str) -> Result<Vec<Row>, String> {
    let (names, rows) = csv::table(text)?;
    let row = |values: Vec<String>| {
        let values = values.into_iter().map(Value::from);
        names.iter().map(|name| name.trim().to_owned()).zip(values).collect()
    };
    Ok(rows.into_iter().map(row).collect())
}
