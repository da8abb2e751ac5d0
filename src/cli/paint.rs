//! Colours of text for people. Text has them always; the stream that it is written to removes them
//! where they are not wanted: see [`Colour`].

use std::fmt::{Display, Write as _};

use anstream::ColorChoice;
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;

/// What is as it should be.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// What needs a look.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// What is wrong, or refused.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Names and titles.
pub const STRONG: Style = Style::new().bold();
/// What helps to read the rest.
pub const FAINT: Style = Style::new().dimmed();

/// When text has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// At a terminal, unless NO_COLOR forbids them, or if CLICOLOR_FORCE demands them
    #[default]
    Auto,
    /// Also in files and pipes
    Always,
    /// Not at all
    Never,
}

impl Colour {
    /// Makes this the choice for all streams of the process.
    pub fn apply(self) {
        let choice = match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        };
        choice.write_global();
    }
}

/// The text in this style.
pub fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// A report of mistakes and warnings: what they are, and the carets under their places.
pub fn report(text: &str) -> String {
    let mut painted = String::with_capacity(text.len() * 2);
    let mut style = BAD;
    for (index, line) in text.lines().enumerate() {
        if index > 0 {
            painted.push('\n');
        }
        let _ = match (place(line), line.split_once(" | ")) {
            // The line of the file, or what is below it.
            (_, Some((gutter, rest))) if is_gutter(gutter) => {
                let carets = rest.trim_start().starts_with('^') && gutter.trim().is_empty();
                let rest = if carets { paint_carets(style, rest) } else { rest.to_owned() };
                write!(painted, "{}{rest}", paint(FAINT, format!("{gutter} | ")))
            }
            (Some((at, word)), _) => {
                style = if word == "warning" { WARNING } else { BAD };
                let before = &line[..at];
                let after = &line[at + word.len()..];
                write!(painted, "{}{}{after}", paint(STRONG, before), paint(style, word))
            }
            (None, _) => write!(painted, "{line}"),
        };
    }
    painted
}

/// Where a line of a report says whether it is a mistake or a warning.
fn place(line: &str) -> Option<(usize, &'static str)> {
    let at = |word: &'static str| Some((line.find(&format!(": {word}: "))? + 2, word));
    let first = ["error", "warning"].into_iter().filter_map(at).min_by_key(|(at, _)| *at);
    let alone = |word: &'static str| line.starts_with(&format!("{word}: ")).then_some((0, word));
    alone("error").or_else(|| alone("warning")).or(first)
}

fn is_gutter(text: &str) -> bool {
    text.len() >= 5 && text.chars().all(|c| c == ' ' || c.is_ascii_digit())
}

fn paint_carets(style: Style, text: &str) -> String {
    let (indent, rest) = text.split_at(text.len() - text.trim_start().len());
    let end = rest.find(|c| c != '^').unwrap_or(rest.len());
    format!("{indent}{}{}", paint(style, &rest[..end]), &rest[end..])
}

/// A text whose lines begin with what has been decided, as that of `explain` does.
pub fn decisions(text: &str) -> String {
    let line = |line: &str| {
        for (word, style) in [("Admitted", GOOD), ("Refused", BAD)] {
            if let Some(rest) = line.strip_prefix(word) {
                return format!("{}{rest}\n", paint(style, word));
            }
        }
        match line.split_at_checked(10) {
            Some((title, rest)) if title.starts_with(|c: char| c.is_ascii_uppercase()) => {
                format!("{}{rest}\n", paint(FAINT, title))
            }
            _ => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_report_keeps_its_text_and_its_words_stand_out() {
        let text = "a.yaml:3:5: error: \"lots\" is wrong: error: no\n    3 | limit: lots\n      \
                    |        ^^^^ write 3\na.yaml: warning: unused\n      | remove it";
        let painted = report(text);
        assert_eq!(plain(&painted), text);
        assert!(
            painted.contains(&format!("{} \"lots\"", paint(BAD, "error") + ":")),
            "{painted:?}"
        );
        assert!(
            painted.contains(&paint(BAD, "^^^^")) && painted.contains(&paint(WARNING, "warning"))
        );
        let text = "error: nothing\nmore";
        assert_eq!(
            report(text),
            format!("{}{}: nothing\nmore", paint(STRONG, ""), paint(BAD, "error"))
        );
    }

    #[test]
    fn decisions_keep_their_text() {
        let text = "Refused by a (429): 3 of 3 used\nRoute     all\n          more\n\nAdmitted\n";
        assert_eq!(plain(&decisions(text)), text);
        assert!(decisions(text).starts_with(&paint(BAD, "Refused")));
    }
}
