//! The text of a configuration under construction.

/// Lines of YAML, section by section.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// Begins a map of this name. `depth` is the number of maps around it.
    pub fn map(&mut self, depth: usize, name: &str) {
        self.line(depth, &format!("{name}:"));
    }

    /// A field with a value that is written as it is: a number, a word, a list or a map.
    pub fn field(&mut self, depth: usize, name: &str, value: &str) {
        self.line(depth, &format!("{name}: {value}"));
    }

    /// A field with a text.
    pub fn text(&mut self, depth: usize, name: &str, value: &str) {
        self.field(depth, name, &quoted(value));
    }

    /// A field with a reference to a secret.
    pub fn secret(&mut self, depth: usize, name: &str, reference: &str) {
        self.field(depth, name, &format!("\"{reference}\""));
    }

    fn line(&mut self, depth: usize, line: &str) {
        self.0.extend(std::iter::repeat_n("  ", depth));
        self.0.push_str(line);
        self.0.push('\n');
    }

    pub fn finish(self) -> String {
        self.0
    }
}

/// A text in quotes, in which nothing is a reference.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text.replace("${", "$${")).to_string()
}

/// A map of texts on one line.
pub fn flow<'p>(pairs: impl IntoIterator<Item = (&'p str, &'p str)>) -> String {
    let fields = pairs.into_iter().map(|(name, value)| format!("{name}: {}", quoted(value)));
    format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
}
