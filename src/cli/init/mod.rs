//! `tollgate init`: writes a configuration to begin with.

mod answers;
mod args;
mod problem;
mod text;

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _, stderr, stdin};
use std::path::Path;

use self::answers::{Answers, Lines, Terminal};
pub(super) use self::args::{EXAMPLES, InitArgs};
pub(super) use self::problem::Problem;
use crate::config::{Config, Report};

/// What is printed.
pub(super) enum Output {
    /// The configuration itself.
    Text(String),
    /// The file is written, and this is what to do with it.
    Written(String),
}

/// Makes the configuration, and writes it unless it is to be printed.
///
/// # Errors
/// If an argument is wrong, or the file is there already or cannot be written.
pub(super) fn run(args: &InitArgs) -> Result<Output, Problem> {
    // Before the questions: the answers would be lost.
    if !args.print && !args.force && args.file.exists() {
        return Err(Problem::Exists(args.file.clone()));
    }
    let mut lines = Lines { input: stdin().lock(), output: stderr() };
    let is_terminal = stdin().is_terminal() && stderr().is_terminal();
    let terminal = is_terminal.then_some(&mut lines as &mut dyn Terminal);
    let answers = Answers::new(args, terminal)?;
    let text = text::text(&answers);
    check(&text)?;
    if args.print {
        return Ok(Output::Text(text));
    }
    write(&args.file, &text, args.force)?;
    Ok(Output::Written(next(&args.file, &answers)))
}

/// # Errors
/// If the configuration has mistakes, or a warning.
fn check(text: &str) -> Result<(), Problem> {
    // The token is set later.
    let env = |name: &str| std::env::var(name).ok().or_else(|| Some("0".repeat(64)));
    let warnings = Config::parse(text, "gateway.yaml", &env).map_err(Problem::Mistakes)?.warnings;
    if Report::is_empty(&warnings) { Ok(()) } else { Err(Problem::Mistakes(warnings)) }
}

fn write(path: &Path, text: &str, force: bool) -> Result<(), Problem> {
    let unwritable = |error: io::Error| match error.kind() {
        ErrorKind::AlreadyExists => Problem::Exists(path.to_owned()),
        _ => Problem::Unwritable { path: path.to_owned(), error },
    };
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    if force {
        options.truncate(true)
    } else {
        options.create_new(true)
    };
    let mut file = options.open(path).map_err(unwritable)?;
    file.write_all(text.as_bytes()).map_err(unwritable)
}

/// What to do with the file.
fn next(file: &Path, answers: &Answers) -> String {
    let named = match file.to_str() {
        Some("gateway.yaml") => String::new(),
        _ => format!(" {}", file.display()),
    };
    let port = answers.listen.rsplit_once(':').map_or("8080", |(_, port)| port);
    let curl = match answers.listen.starts_with("unix:") {
        true => String::new(),
        false => format!("\n  curl -i http://127.0.0.1:{port}/"),
    };
    format!(
        "{} is written. Next:\n  tollgate check{named}\n  tollgate run{named}{curl}\n",
        file.display()
    )
}
