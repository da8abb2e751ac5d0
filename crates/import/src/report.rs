//! What became of each construct, as text and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::files::Place;
use crate::kind::Kind;

/// What became of a construct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// It means the same here.
    Taken,
    /// It is here with a difference, which the report states.
    Different,
    /// It is not here.
    NotTaken,
    /// It is not needed here.
    Needless,
}

impl Class {
    const ALL: [Self; 4] = [Self::Taken, Self::Different, Self::NotTaken, Self::Needless];

    /// The words of the report.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Different => "different",
            Self::NotTaken => "not taken",
            Self::Needless => "needless",
        }
    }
}

/// What is lost with a construct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// Nothing.
    None,
    /// Something that protects nothing, and leads no request.
    Harmless,
    /// A limit, an access rule or a route.
    Severe,
}

impl Loss {
    const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Harmless => "harmless",
            Self::Severe => "severe",
        }
    }
}

/// A construct of the old configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Construct {
    /// Its name, which `--accept` takes.
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// What became of it.
    pub class: Class,
    /// What is lost.
    pub loss: Loss,
    /// What it is here, how it differs, or what to do instead.
    pub what: String,
    /// Whether its loss is accepted.
    pub is_accepted: bool,
}

/// What became of all constructs, in the order of the files.
#[derive(Clone, Debug)]
pub struct Report {
    pub(crate) kind: Kind,
    pub(crate) names: Vec<String>,
    pub(crate) constructs: Vec<Construct>,
    /// The variables that stand for secrets, with what they hold.
    pub(crate) variables: Vec<(String, String)>,
    /// Names that are accepted, and that no lost construct has.
    pub(crate) unused: Vec<String>,
}

impl Report {
    /// The constructs.
    pub fn constructs(&self) -> &[Construct] {
        &self.constructs
    }

    /// The names of the variables that stand for secrets.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|(name, _)| &**name)
    }

    /// 0: nothing is lost. 1: something harmless differs or is lost. 2: a limit, an access rule or a
    /// route is lost.
    pub fn exit_code(&self) -> u8 {
        let loss = self.constructs.iter().map(|it| match it.is_accepted {
            true => Loss::Harmless,
            false => it.loss,
        });
        match loss.max().unwrap_or(Loss::None) {
            Loss::None => 0,
            Loss::Harmless => 1,
            Loss::Severe => 2,
        }
    }

    fn count(&self, class: Class) -> usize {
        self.constructs.iter().filter(|it| it.class == class).count()
    }

    /// How many constructs are lost that matter.
    fn severe(&self) -> usize {
        self.constructs.iter().filter(|it| it.loss == Loss::Severe && !it.is_accepted).count()
    }

    fn at(&self, place: Place) -> (&str, u32) {
        let name = usize::try_from(place.file).ok().and_then(|at| self.names.get(at));
        (name.map_or("", String::as_str), place.line)
    }

    /// The report as text: a line for each construct, and a summary.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for it in &self.constructs {
            let (file, line) = self.at(it.place);
            let note = match (it.loss, it.is_accepted) {
                (Loss::Severe, true) => " (accepted)",
                (Loss::Severe, false) => " (a loss)",
                _ => "",
            };
            let _ = writeln!(
                text,
                "{file}:{line}: {}{note}: {}: {}",
                it.class.words(),
                in_one_line(&it.name),
                in_one_line(&it.what)
            );
        }
        for (name, what) in &self.variables {
            let _ = writeln!(text, "set the variable {name}: {}", in_one_line(what));
        }
        for name in &self.unused {
            let _ = writeln!(text, "--accept {name}: no construct with this name is lost");
        }
        let counts = Class::ALL.map(|class| format!("{} {}", self.count(class), class.words()));
        let _ = writeln!(text, "{}", counts.join(", "));
        let end = match self.severe() {
            0 => String::new(),
            1 => "1 loss of a limit, an access rule or a route; ".to_owned(),
            some => format!("{some} losses of limits, access rules or routes; "),
        };
        if !end.is_empty() {
            let _ = writeln!(text, "{end}--accept NAME accepts the losses of a construct");
        }
        text
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let constructs: Vec<Value> = self
            .constructs
            .iter()
            .map(|it| {
                let (file, line) = self.at(it.place);
                json!({
                    "name": it.name, "file": file, "line": line, "class": it.class.words(),
                    "loss": it.loss.word(), "accepted": it.is_accepted, "what": it.what,
                })
            })
            .collect();
        let counts: serde_json::Map<String, Value> = Class::ALL
            .iter()
            .map(|class| (class.words().to_owned(), json!(self.count(*class))))
            .collect();
        let variables: Vec<Value> = self
            .variables
            .iter()
            .map(|(name, what)| json!({ "name": name, "what": what }))
            .collect();
        json!({
            "kind": self.kind.name(), "exit_code": self.exit_code(), "counts": counts,
            "losses": self.severe(), "variables": variables, "unused_accept": self.unused,
            "constructs": constructs,
        })
    }
}

/// A text of a file, which could have ends of lines: what follows one would look like a line of the report.
fn in_one_line(text: &str) -> String {
    text.replace('\n', "\\u{a}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_does_not_make_a_line_of_the_report() {
        let construct = Construct {
            name: "auth\na.conf:1: taken: all".to_owned(),
            place: Place { file: 0, line: 1 },
            class: Class::NotTaken,
            loss: Loss::Severe,
            what: "it is not\nknown".to_owned(),
            is_accepted: false,
        };
        let report = Report {
            kind: Kind::Nginx,
            names: vec!["a.conf".to_owned()],
            constructs: vec![construct],
            variables: vec![("A".to_owned(), "one\ntwo".to_owned())],
            unused: Vec::new(),
        };
        let text = report.text();
        let first =
            "a.conf:1: not taken (a loss): auth\\u{a}a.conf:1: taken: all: it is not\\u{a}known";
        assert_eq!(text.lines().next(), Some(first));
        assert_eq!(text.lines().count(), 4, "{text}");
    }
}
