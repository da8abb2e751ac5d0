//! Mistakes, and the report that shows them.
//!
//! A report shows all mistakes of a file at once, in the order of the file, each with its line. Its
//! size has a bound: it shows the first [`MAX_PROBLEMS`] and counts the others, and it shows only a
//! part of a long line.

use std::cell::{Cell, RefCell};
use std::fmt;

use super::byte_order_mark;
use super::excerpt::{Excerpt, Excerpts, printable};
use super::node::TextSpan;

/// The most problems that are kept. A file with more of them has some general mistake.
const MAX_PROBLEMS: usize = 1000;
/// The most characters of a message, which may quote a value of the file.
const MAX_MESSAGE_CHARS: usize = 400;

/// Whether a problem is a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    Error,
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    span: TextSpan,
    severity: Severity,
    message: String,
    advice: String,
}

/// The problems found so far. Shared by all passes over one file.
#[derive(Debug, Default)]
pub struct Problems {
    kept: RefCell<Vec<Problem>>,
    /// How many of `kept` are warnings.
    warnings: Cell<usize>,
    left_out: Cell<usize>,
    errors: Cell<usize>,
}

impl Problems {
    /// Records a mistake, and the advice that is shown after the carets.
    pub fn error(&self, span: TextSpan, message: &str, advice: &str) {
        self.errors.set(self.errors.get() + 1);
        self.record(Severity::Error, span, message, advice);
    }

    /// Records something that is most likely not intended.
    pub fn warning(&self, span: TextSpan, message: &str, advice: &str) {
        self.record(Severity::Warning, span, message, advice);
    }

    /// Whether there was any error.
    pub fn any_errors(&self) -> bool {
        self.errors.get() > 0
    }

    /// Whether more errors are only counted, so that they need no advice.
    pub fn is_full(&self) -> bool {
        self.kept.borrow().len() - self.warnings.get() >= MAX_PROBLEMS
    }

    /// Keeps a problem, if there is room. An error takes the place of a warning.
    fn record(&self, severity: Severity, span: TextSpan, message: &str, advice: &str) {
        let kept = &mut *self.kept.borrow_mut();
        if kept.len() >= MAX_PROBLEMS {
            self.left_out.set(self.left_out.get() + 1);
            let is_warning = |it: &Problem| it.severity == Severity::Warning;
            let last = match severity {
                Severity::Error if self.warnings.get() > 0 => kept.iter().rposition(is_warning),
                _ => None,
            };
            let Some(last) = last else { return };
            kept.swap_remove(last);
            self.warnings.set(self.warnings.get() - 1);
        }
        let message = shortened(message);
        let advice = shortened(advice);
        kept.push(Problem { span, severity, message, advice });
        self.warnings.set(self.warnings.get() + usize::from(severity == Severity::Warning));
    }

    /// The report on the file `name` with this `text`.
    pub fn report(self, name: &str, text: &str, excerpts: &Excerpts) -> Report {
        let mut problems = self.kept.into_inner();
        // A mistake in an alias is recorded once for each use.
        problems.sort();
        problems.dedup();
        // The parser does not count the byte order mark as a column.
        let mut lines = (1..).zip(byte_order_mark::behind(text).lines());
        let mut line = excerpts.line("", 0);
        let shown = problems.into_iter().map(|problem| {
            let number = problem.span.line;
            // A line may be long, and have many problems.
            if line.number() != number {
                let found = lines.find(|(it, _)| *it == number);
                line = excerpts.line(found.map_or("", |(_, text)| text), number);
            }
            let excerpt = line.masked(problem.span);
            let whole = line.whole(problem.span);
            Shown { problem, excerpt, whole }
        });
        let shown: Vec<Shown> = shown.collect();
        let lacks_values = excerpts.is_empty() && shown.iter().any(|it| it.excerpt != it.whole);
        let left_out = self.left_out.get();
        Report { name: name.to_owned(), shown, left_out, lacks_values }
    }
}

/// A value in a message may be long, and may contain characters that control a terminal.
fn shortened(message: &str) -> String {
    let mut kept: String = message.chars().take(MAX_MESSAGE_CHARS).map(printable).collect();
    if kept.len() < message.len() {
        kept.push_str("...");
    }
    kept
}

/// The problems of one file, in the form that users see.
///
/// [`fmt::Display`] writes for each problem its position, the message, the line, and the advice
/// after the carets. Neither messages nor lines contain secrets of the file.
#[derive(Clone, PartialEq, Eq)]
pub struct Report {
    name: String,
    shown: Vec<Shown>,
    left_out: usize,
    /// Whether the values in the lines are not shown because the file is not YAML.
    lacks_values: bool,
}

impl Report {
    /// Whether there are no problems.
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// The problems that are shown, in the order of the file.
    pub fn problems(&self) -> impl Iterator<Item = Reported<'_>> {
        self.shown.iter().map(|Shown { problem, .. }| Reported {
            is_warning: problem.severity == Severity::Warning,
            line: problem.span.line,
            column: problem.span.column,
            message: &problem.message,
            advice: &problem.advice,
        })
    }

    /// How many problems there are.
    pub fn len(&self) -> usize {
        self.shown.len() + self.left_out
    }
}

/// A problem of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported<'r> {
    /// Whether it is only a warning.
    pub is_warning: bool,
    /// Its line, counted from 1. 0 means the whole file.
    pub line: u64,
    /// Its first character in the line, counted from 1. 0 means the whole file.
    pub column: u64,
    /// What is wrong.
    pub message: &'r str,
    /// What would be right. It may be empty.
    pub advice: &'r str,
}

impl Report {
    /// The same, but if the file is not YAML, with the lines as they are, secrets included: only for
    /// the terminal of an operator who can read the file.
    pub fn with_whole_lines(&self) -> impl fmt::Display {
        struct Whole<'r>(&'r Report);
        impl fmt::Display for Whole<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let lacks_values = self.0.lacks_values;
                self.0.write(f, |it| if lacks_values { &it.whole } else { &it.excerpt })
            }
        }
        Whole(self)
    }

    fn write(
        &self,
        f: &mut fmt::Formatter<'_>,
        excerpt: impl Fn(&Shown) -> &Excerpt,
    ) -> fmt::Result {
        for (index, shown) in self.shown.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            shown.problem.write(&self.name, excerpt(shown), f)?;
        }
        if self.left_out > 0 {
            write!(f, "\n{}: and {} more problems", self.name, self.left_out)?;
        }
        Ok(())
    }
}

impl std::error::Error for Report {}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, |shown| &shown.excerpt)?;
        if self.lacks_values {
            let name = &self.name;
            write!(
                f,
                "\n{name}: values are not shown, because they may be secret: at a terminal, \
                 \"tollgate check -c {name}\" shows them"
            )?;
        }
        Ok(())
    }
}

/// Without the lines, which may have secrets.
impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Report").field(&self.to_string()).finish()
    }
}

#[derive(Clone, PartialEq, Eq)]
struct Shown {
    problem: Problem,
    /// The line without secrets.
    excerpt: Excerpt,
    /// The line as it is.
    whole: Excerpt,
}

impl Problem {
    fn write(&self, name: &str, excerpt: &Excerpt, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { span, severity, message, advice } = self;
        if span.line == 0 {
            write!(f, "{name}: {severity}: {message}")?;
            if !advice.is_empty() {
                write!(f, "\n      | {advice}")?;
            }
            return Ok(());
        }
        let Excerpt { text, indent, carets } = excerpt;
        writeln!(f, "{name}:{}:{}: {severity}: {message}", span.line, span.column)?;
        writeln!(f, "{:>5} | {text}", span.line)?;
        let gutter = span.line.to_string().len().max(5);
        let marked = format!("{:gutter$} | {:indent$}{:^<carets$} {advice}", "", "", "");
        f.write_str(marked.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str, spans: &[TextSpan]) -> String {
        let problems = Problems::default();
        for span in spans {
            problems.error(*span, "wrong", "right");
        }
        let report = problems.report("a.yaml", text, &Excerpts::default());
        report.with_whole_lines().to_string()
    }

    #[test]
    fn problems_appear_once_and_in_the_order_of_the_file() {
        let first = TextSpan { line: 1, column: 1, length: 3 };
        let second = TextSpan { line: 2, column: 2, length: 1 };
        let expected = "a.yaml:1:1: error: wrong\n    1 | one\n      | ^^^ right\n\
                        a.yaml:2:2: error: wrong\n    2 | two\n      |  ^ right";
        assert_eq!(report("one\ntwo\n", &[second, first, second]), expected);
    }

    #[test]
    fn carets_end_with_the_line_and_at_least_one_is_shown() {
        let long = TextSpan { line: 1, column: 3, length: 99 };
        assert!(report("ab cd  \nef", &[long]).ends_with("    1 | ab cd\n      |   ^^^ right"));
        let behind = TextSpan { line: 1, column: 4, length: 0 };
        assert!(report("ab", &[behind]).ends_with("    1 | ab\n      |    ^ right"));
        let no_line = TextSpan { line: 9, column: 1, length: 1 };
        assert!(report("ab", &[no_line]).ends_with("    9 | \n      | ^ right"));
    }

    #[test]
    fn a_part_of_a_long_line_is_shown() {
        let line = format!("{}bad{}", "x".repeat(5000), "y".repeat(5000));
        let report = report(&line, &[TextSpan { line: 1, column: 5001, length: 3 }]);
        let lines: Vec<&str> = report.lines().collect();
        assert_eq!(lines[1].chars().count(), "    1 | ".len() + 160);
        assert_eq!(lines[1].find("bad"), lines[2].find("^^^"));
    }

    #[test]
    fn columns_count_characters_and_control_characters_are_removed() {
        let report = report("ä\u{1b}\tü: bad", &[TextSpan { line: 1, column: 7, length: 3 }]);
        assert!(report.ends_with("    1 | ä  ü: bad\n      |       ^^^ right"), "{report}");
    }

    #[test]
    fn a_message_has_a_bound_and_no_control_characters() {
        let problems = Problems::default();
        problems.error(TextSpan::FILE, &format!("\u{1b}[2J{}", "x".repeat(10_000)), "a\nb");
        let expected = format!("a.yaml: error:  [2J{}...\n      | a b", "x".repeat(396));
        let report = problems.report("a.yaml", "", &Excerpts::default());
        assert_eq!(report.to_string(), expected);
    }
}
