//! What was found at one server or file, and how it is printed.

use std::fmt::Write as _;
use std::time::Duration;

use tollgate_core::text::is_printable;

/// What was found at one server or file.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The field of the configuration that names it.
    field: String,
    /// The server or the file.
    name: String,
    /// What is known of it. None: it cannot be reached.
    pub facts: Option<Vec<String>>,
    problems: Vec<Problem>,
}

#[derive(Clone, Debug)]
struct Problem {
    is_warning: bool,
    what: String,
    advice: String,
}

impl Outcome {
    pub fn new(field: impl Into<String>, name: impl Into<String>) -> Self {
        Self { field: field.into(), name: name.into(), facts: None, problems: Vec::new() }
    }

    /// It cannot be used for this reason.
    pub fn error(&mut self, what: impl Into<String>, advice: impl Into<String>) {
        let what = what.into();
        let advice = advice.into();
        self.problems.push(Problem { is_warning: false, what, advice });
    }

    /// It can be used, and most likely does something that is not intended.
    pub fn warning(&mut self, what: impl Into<String>, advice: impl Into<String>) {
        let what = what.into();
        let advice = advice.into();
        self.problems.push(Problem { is_warning: true, what, advice });
    }

    /// Whether a gateway can use it.
    pub fn is_good(&self) -> bool {
        self.problems.iter().all(|problem| problem.is_warning)
    }

    /// What is known of it, on one line. None if it cannot be reached.
    pub fn line(&self) -> Option<String> {
        let facts = self.facts.as_ref()?.join(", ");
        let word = if self.is_good() { "good" } else { "not usable" };
        let Self { field, name, .. } = self;
        let facts = if facts.is_empty() { facts } else { format!(" ({facts})") };
        Some(printable(&format!("{field}: {name}: {word}{facts}")))
    }

    /// Its problems, in the form in which mistakes in `file` are reported.
    pub fn problems(&self, file: &str) -> impl Iterator<Item = String> {
        let Self { field, name, .. } = self;
        self.problems.iter().map(move |Problem { is_warning, what, advice }| {
            let severity = if *is_warning { "warning" } else { "error" };
            let mut text = printable(&format!("{file}: {severity}: {field}: {name}: {what}"));
            if !advice.is_empty() {
                let _ = write!(text, "\n      | {}", printable(advice));
            }
            text
        })
    }
}

/// The same text with blanks instead of what would move the cursor of a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if is_printable(c) { c } else { ' ' }).collect()
}

/// A time in milliseconds, with hundredths if it is short.
pub fn ms(time: Duration) -> String {
    match time.as_micros() {
        us @ 0..10_000 => format!("{}.{:02} ms", us / 1000, us % 1000 / 10),
        us => format!("{} ms", us / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_the_form_of_a_mistake_and_no_control_characters() {
        let mut outcome = Outcome::new("store.redis.url", "h\u{1b}:1");
        assert_eq!(outcome.line(), None);
        outcome.facts = Some(vec!["Redis 7".to_owned(), "PING 0.05 ms".to_owned()]);
        outcome.warning("slow", "");
        let line = outcome.line();
        assert_eq!(line.as_deref(), Some("store.redis.url: h :1: good (Redis 7, PING 0.05 ms)"));
        outcome.error("away\n", "start it");
        assert!(!outcome.is_good());
        let line = outcome.line();
        assert!(line.is_some_and(|line| line.contains(": not usable (Redis 7")));
        let problems: Vec<String> = outcome.problems("g.yaml").collect();
        assert_eq!(
            problems,
            [
                "g.yaml: warning: store.redis.url: h :1: slow",
                "g.yaml: error: store.redis.url: h :1: away \n      | start it"
            ]
        );
    }

    #[test]
    fn a_short_time_has_hundredths() {
        let shown = [0, 49, 9_999, 10_000, 1_234_567].map(|us| ms(Duration::from_micros(us)));
        assert_eq!(shown, ["0.00 ms", "0.04 ms", "9.99 ms", "10 ms", "1234 ms"]);
    }
}
