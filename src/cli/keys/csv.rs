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

/// A line of a text.
struct Row {
    /// Its number, from 1. A value in quotation marks may have further lines.
    line: usize,
    values: Vec<String>,
}

/// The names of the columns of a text, and its further lines, which have a value for each column.
pub fn table(text: &str) -> Result<(Vec<String>, Vec<Vec<String>>), String> {
    let mut rows = rows(text)?.into_iter();
    let Row { values: names, .. } = rows.next().ok_or("the input is empty")?;
    // Of two columns with one name, only the last would count. Spreadsheets add columns without a name.
    let is_repeated = |(index, name): (usize, &String)| {
        let name = name.trim();
        !name.is_empty() && names[..index].iter().any(|other| other.trim() == name)
    };
    if let Some(index) = names.iter().enumerate().position(is_repeated) {
        return Err(format!("there are two columns {:?}", names[index].trim()));
    }
    let mut values = Vec::new();
    for Row { line, values: of_row } in rows {
        if of_row.len() != names.len() {
            return Err(format!(
                "line {line} has {} values, and not {}",
                of_row.len(),
                names.len()
            ));
        }
        values.push(of_row);
    }
    Ok((names, values))
}

/// How much of a value is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Nothing.
    Begin,
    /// A part of a value without quotation marks.
    Plain,
    /// A part of a value in quotation marks.
    Quoted,
    /// All of a value in quotation marks.
    Closed,
}

/// The lines that are not empty.
fn rows(text: &str) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let mut row = Row { line: 1, values: Vec::new() };
    let mut line = 1;
    let mut value = String::new();
    let mut part = Part::Begin;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let is_end = char == '\n' || (char == '\r' && matches!(chars.peek(), Some('\n') | None));
        match (part, char) {
            (Part::Quoted, '"') if chars.peek() == Some(&'"') => {
                chars.next();
                value.push('"');
            }
            (Part::Quoted, '"') => part = Part::Closed,
            (Part::Quoted, other) => value.push(other),
            (Part::Begin, '"') => part = Part::Quoted,
            (_, ',') => {
                row.values.push(std::mem::take(&mut value));
                part = Part::Begin;
            }
            (_, '\r') if is_end => {}
            (_, '\n') => {
                row.values.push(std::mem::take(&mut value));
                rows.push(std::mem::replace(&mut row, Row { line: line + 1, values: Vec::new() }));
                part = Part::Begin;
            }
            (_, '"') => {
                let why = "a quotation mark in a value that is not in quotation marks";
                let advice = "put the value into quotation marks, and write its own twice";
                return Err(format!("line {line} has {why}: {advice}"));
            }
            (Part::Closed, _) => {
                return Err(format!("line {line} has text behind a closing quotation mark"));
            }
            (Part::Begin | Part::Plain, other) => {
                value.push(other);
                part = Part::Plain;
            }
        }
        line += usize::from(char == '\n');
    }
    if part == Part::Quoted {
        return Err(format!("a quotation mark of line {} is not closed", row.line));
    }
    row.values.push(value);
    rows.push(row);
    rows.retain(|row| row.values.iter().any(|value| !value.is_empty()));
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

    /// RFC 4180: `"` begins a value in quotation marks at its begin only.
    #[test]
    fn values_are_those_of_the_text() {
        let keys = read("key,name\r\n\"a\"\"b\",\" c,\r\nd \"\r\ne\rf,\"\"").unwrap();
        assert_eq!(keys[0].key.as_deref(), Some("a\"b"));
        assert_eq!(keys[0].fields.name.as_deref(), Some(" c,\r\nd "));
        assert_eq!((keys[1].key.as_deref(), &keys[1].fields.name), (Some("e\rf"), &None));
    }

    #[test]
    fn a_mistake_names_the_line_and_not_the_key() {
        for (text, expected) in [
            ("", "empty"),
            ("name\na", "no column key"),
            ("key,colour\na,b", "no column \"colour\""),
            ("key,name\nhunter2", "line 2"),
            ("key\n\"hunter2", "not closed"),
            ("key,name\nhunter2\"a, b\"c,one", "line 2 has a quotation mark in a value"),
            ("key,name\n,one\nhunter2\"\",one", "line 3 has a quotation mark in a value"),
            ("key\n\"hunter2\"zz", "line 2 has text behind"),
            ("key\n\"hunter2\" \"zz\"", "line 2 has text behind"),
            ("key,name,key\na,b,hunter2", "two columns \"key\""),
            ("key, key\na,hunter2", "two columns \"key\""),
            ("key,name\n\n\"a\n\n\",b\nhunter2", "line 6 has 1 values"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
    }
}
