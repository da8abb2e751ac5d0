//! `tollgate check`: whether a configuration can be used, as text or as JSON.

use std::io::{self, IsTerminal as _, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::args::CheckArgs;
use super::console::{load, out, say, styled_out};
use super::failure::Failure;
use super::paint::{self, GOOD};
use super::{connect, routes};
use crate::config::{self, Compiled, Config, LoadError, Mistakes, Report, Reported};

/// Checks the configuration, and prints what was found.
///
/// # Errors
/// If it cannot be used, or a server that it names cannot.
pub fn run(args: &CheckArgs) -> Result<(), Failure> {
    let path = args.config.path();
    if args.json {
        return as_json(path);
    }
    // The operator at the terminal can read the file.
    let loaded = load(path).map_err(|error| match error {
        LoadError::Mistakes(Mistakes { report, .. }) if io::stderr().is_terminal() => {
            Failure::Shown(report.with_whole_lines().to_string())
        }
        other => other.into(),
    });
    let Compiled { config, .. } = loaded?;
    let mut out = styled_out();
    let good = paint::paint(GOOD, "good");
    writeln!(out, "{}: {good} ({})", path.display(), summary(&config))?;
    if args.routes {
        write!(out, "\n{}", routes::table(&config))?;
    }
    if !args.connect {
        return Ok(());
    }
    let outcomes = connect::run(&config).map_err(Failure::Start)?;
    let file = path.display().to_string();
    for outcome in &outcomes {
        if let Some(line) = outcome.line() {
            writeln!(out, "{line}")?;
        }
        outcome.problems(&file).for_each(|problem| say(&paint::report(&problem)));
    }
    match outcomes.iter().filter(|outcome| !outcome.is_good()).count() {
        0 => Ok(()),
        unusable => Err(Failure::Unusable { unusable, all: outcomes.len() }),
    }
}

/// The document has the mistakes, so standard error stays empty.
fn as_json(path: &Path) -> Result<(), Failure> {
    let (document, is_valid) = match config::load(path) {
        Ok(Compiled { config, warnings, document: text, .. }) => {
            let counts = counts(&config).map(|(number, _, many)| (many.to_owned(), json!(number)));
            let counts: serde_json::Map<String, Value> = counts.into_iter().collect();
            let mut document = document(path, &[], &problems(&warnings, true), &counts.into());
            document["needs_restart"] = config::needs_restart(&text);
            (document, true)
        }
        Err(LoadError::Mistakes(Mistakes { report, .. })) => {
            let errors = problems(&report, false);
            let warnings = problems(&report, true);
            (document(path, &errors, &warnings, &Value::Null), false)
        }
        Err(error @ LoadError::Unreadable { .. }) => {
            let error = json!({ "line": 0, "column": 0, "message": error.to_string(), "help": "" });
            (document(path, &[error], &[], &Value::Null), false)
        }
    };
    writeln!(out(), "{document:#}")?;
    if is_valid { Ok(()) } else { Err(Failure::Told) }
}

fn document(path: &Path, errors: &[Value], warnings: &[Value], counts: &Value) -> Value {
    let valid = errors.is_empty();
    let file = path.to_string_lossy();
    json!({
        "file": file, "valid": valid, "errors": errors, "warnings": warnings, "counts": counts,
    })
}

fn problems(report: &Report, are_warnings: bool) -> Vec<Value> {
    let shown = |it: Reported<'_>| json!({ "line": it.line, "column": it.column, "message": it.message, "help": it.advice });
    report.problems().filter(|it| it.is_warning == are_warnings).map(shown).collect()
}

/// How many of each kind there are, with the names of the kind.
fn counts(config: &Config) -> [(usize, &'static str, &'static str); 4] {
    [
        (config.listeners.len(), "listener", "listeners"),
        (config.routes.len(), "route", "routes"),
        (config.policies.len(), "policy", "policies"),
        (config.upstreams.len() - config.authorizers.len(), "upstream", "upstreams"),
    ]
}

fn summary(config: &Config) -> String {
    let count = |(number, one, many)| format!("{number} {}", if number == 1 { one } else { many });
    counts(config).map(count).join(", ")
}
