//! Keys in lines with commas (RFC 4180), of which the first names the columns.

use crate::api_keys::ImportedKey;

/// The keys of a text. The error names the line, and never what is in it.
pub fn read(text: &str) -> Result<Vec<ImportedKey>, String> {
    let (names, rows) = table(text)?;
    let known = ["key", "sha256", "id", "name", "team", "plan", "expires"];
    if let Some(other) = names.iter().find(|name| !known.contains(&name.trim())) {
        return Err(format!("there is no column {other:?}; the columns are {}", known.join(", ")));
    }
    if !names.iter().any(|name| ["key", "sha256"].contains(&name.trim())) {
        return Err("there is no column key or sha256".to_owned());
    }
    let mut keys = Vec::new();
    for row in rows {
        let mut key = ImportedKey::default();
        for (name, value) in names.iter().zip(row).filter(|(_, value)| !value.is_empty()) {
            match name.trim() {
                "key" => key.key = Some(value),
                "sha256" => key.sha256.push(value),
                "id" => key.id = Some(value),
                "name" => key.fields.name = Some(value),
                "team" => key.fields.team = Some(value),
                "plan" => key.fields.plan = Some(value),
                _ => key.fields.expires = Some(value),
            }
        }
        keys.push(key);
    }
    Ok(keys)
}

/// The names of the columns of a text, and its further lines, which have a value for each column.
pub fn table(text: &str) -> Result<(Vec<String>, Vec<Vec<String>>), String> {
    let mut rows = rows(text)?.into_iter();
    let names = rows.next().ok_or("the input is empty")?;
    let rows: Vec<Vec<String>> = rows.collect();
    let other = rows.iter().enumerate().find(|(_, row)| row.len() != names.len());
    if let Some((index, row)) = other {
        let line = index + 2;
        return Err(format!("line {line} has {} values, and not {}", row.len(), names.len()));
    }
    Ok((names, rows))
}

/// The values of each line that is not empty.
fn rows(text: &str) -> Result<Vec<Vec<String>>, String> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut value = String::new();
    let mut is_quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                chars.next();
                value.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut value)),
            '\r' if !is_quoted => {}
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut value));
                rows.push(std::mem::take(&mut row));
            }
            other => value.push(other),
        }
    }
    if is_quoted {
        return Err("a quotation mark is not closed".to_owned());
    }
    row.push(value);
    rows.push(row);
    rows.retain(|row| row.iter().any(|value| !value.is_empty()));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_their_names() {
        let keys =
            read("name,key,team\r\n\"a, \"\"b\"\"\",secret-1,acme\n\nc,secret-2,\n").unwrap();
        assert_eq!(keys.len(), 2);
        assert_eq!(keys[0].fields.name.as_deref(), Some("a, \"b\""));
        assert_eq!(
            (keys[0].key.as_deref(), keys[0].fields.team.as_deref()),
            (Some("secret-1"), Some("acme"))
        );
        assert_eq!((keys[1].key.as_deref(), &keys[1].fields.team), (Some("secret-2"), &None));
    }

    #[test]
    fn a_mistake_names_the_line_and_not_the_key() {
        for (text, expected) in [
            ("", "empty"),
            ("name\na", "no column key"),
            ("key,colour\na,b", "no column \"colour\""),
            ("key,name\nhunter2", "line 2"),
            ("key\n\"hunter2", "not closed"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
    }
}
