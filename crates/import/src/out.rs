//! Writes YAML: values in one line each, in sections of items.

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number or a word that needs no quotes.
    Word(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// Fields in their order.
    Map(Map),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Word(number.to_string())
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Word(number.to_string())
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Self {
        Self::Word(is.to_string())
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

/// Fields in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map(pub Vec<(String, Value)>);

impl Map {
    /// With one more field.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.put(name, value);
        self
    }

    /// Adds a field.
    pub fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.push((name.to_owned(), value.into()));
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// Whether it has no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The longest line of an item. A longer item has a line for each of its fields.
const WIDTH: usize = 118;

/// An item of a section behind `lead`, which is `- ` or `name: `, at this depth of two blanks.
pub fn item(lead: &str, value: &Value, text: &mut String) {
    let line = format!("  {lead}{}", flow(value));
    let fields = match value {
        Value::Map(map) if line.len() > WIDTH => map,
        _ => {
            text.push_str(&line);
            text.push('\n');
            return;
        }
    };
    // A list begins in the line of its dash, and a name has a line of its own.
    let mut lead = match lead {
        "- " => "  - ".to_owned(),
        name => {
            text.push_str(&format!("  {}\n", name.trim_end()));
            "    ".to_owned()
        }
    };
    for (name, value) in &fields.0 {
        text.push_str(&format!("{lead}{}: {}\n", scalar(name), flow(value)));
        "    ".clone_into(&mut lead);
    }
}

/// A value in one line.
pub fn flow(value: &Value) -> String {
    match value {
        Value::Word(word) => word.clone(),
        Value::Text(text) => scalar(text),
        Value::List(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Value::Map(map) if map.is_empty() => "{}".to_owned(),
        Value::Map(map) => {
            let fields =
                map.0.iter().map(|(name, value)| format!("{}: {}", scalar(name), flow(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Words that YAML readers take for something else than a text.
const WORDS: [&str; 11] =
    ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"];

/// A text, in quotes if it needs them.
pub fn scalar(text: &str) -> String {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_')
        || is_quantity(text);
    let is_plain = begins
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_./-*".contains(c))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if is_plain || is_url(text) {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether it is a rate, a duration, a size or a network, such as 10/s, 5s, 1MiB and 10.0.0.0/8.
fn is_quantity(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_digit());
    let has_unit = text.contains(['s', 'm', 'h', 'd', 'B', '/']);
    let after = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    begins && has_unit && !after.starts_with(['e', 'E', 'x', 'o'])
}

/// Whether it is a URL that needs no quotes, also between braces.
fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "._:/-".contains(c);
    rest.is_some_and(|rest| rest.chars().all(is_safe) && !rest.ends_with(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_yaml_reads_differently_are_in_quotes() {
        for plain in ["a", "/v1/*", "10/s", "5s", "1MiB", "10.0.0.0/8", "http://a:80", "a-b_c.d"] {
            assert_eq!(scalar(plain), plain);
        }
        for quoted in ["", "80", "1.5", "yes", "off", "a: b", "a b", "${X}", "0x1s", "1e5/s", "*a"]
        {
            assert_eq!(scalar(quoted), format!("\"{quoted}\""));
        }
        assert_eq!(scalar("a\"\\\n\u{1}"), "\"a\\\"\\\\\\n\\u0001\"");
    }

    #[test]
    fn a_long_item_has_a_line_for_each_field() {
        let map = Map::default().with("path", "/".repeat(80)).with("name", "x".repeat(60));
        let mut text = String::new();
        item("- ", &map.clone().into(), &mut text);
        item("name: ", &map.into(), &mut text);
        let heads: Vec<&str> =
            text.lines().map(|line| line.trim_end_matches(['/', 'x', '"'])).collect();
        assert_eq!(heads, ["  - path: ", "    name: ", "  name:", "    path: ", "    name: "]);
    }
}
