//! `tollgate prices`: files of prices from tables of others.

mod litellm;
mod members;
mod number;
mod report;

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Subcommand};
use thiserror::Error;

use super::console::say;
use super::whole_file;
use crate::config::{self, Report};
use litellm::{Taken, Wanted};

/// Examples for the help.
pub const EXAMPLES: &str = "\
The table is model_prices_and_context_window.json of LiteLLM. The prices go to
standard output, or to the file of -o; what differs from the table goes to standard
error. A price that needs more than six decimals is rounded up.
Exit code 0: all members of the table are known. 1: some are not. 2: nothing is
written.

Examples:
  tollgate prices import model_prices.json > prices.yaml
  tollgate prices import --provider openai --provider anthropic -o prices.yaml model_prices.json
  tollgate prices import --provider gemini --replace -o prices.yaml model_prices.json";

/// The largest table, in bytes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The mode of a new file.
const MODE: u32 = 0o644;

/// Standard input.
const STDIN: &str = "-";

#[derive(Debug, ClapArgs)]
pub struct PricesArgs {
    #[command(subcommand)]
    command: PricesCommand,
}

#[derive(Debug, Subcommand)]
enum PricesCommand {
    /// Write a file of prices from the table of LiteLLM, and say what differs from it
    #[command(after_help = EXAMPLES)]
    Import(ImportArgs),
}

#[derive(Debug, ClapArgs)]
struct ImportArgs {
    /// The table; - is standard input
    #[arg(value_name = "FILE")]
    table: PathBuf,
    /// Only the models of this provider, without its name before theirs
    #[arg(long, value_name = "NAME")]
    provider: Vec<String>,
    /// Also models that cost nothing: they pass when a budget is used up
    #[arg(long)]
    free: bool,
    /// Write the prices to this file, which does not exist
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace that file as a whole, if it exists
    #[arg(long, requires = "output")]
    replace: bool,
}

/// Why nothing is written.
#[derive(Debug, Error)]
pub enum Problem {
    /// The table cannot be read.
    #[error("cannot read {path}: {error}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// It is not a table of prices.
    #[error("{path}: {why}", path = path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// No model has a price.
    #[error("nothing is written, because no model has a price here\n{0}")]
    Nothing(String),
    /// The file would have mistakes.
    #[error("nothing is written, because the file of prices would have mistakes:\n{0}")]
    Mistakes(Report),
    /// The file is there already.
    #[error("{0} exists: add --replace to write it anew")]
    Exists(PathBuf),
    /// The file cannot be written.
    #[error("cannot write {path}: {error}", path = path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

/// What is printed to standard output, and the exit code.
pub struct Output {
    /// The prices, if they go to no file.
    pub text: String,
    /// 0 or 1.
    pub code: u8,
}

/// Carries out the command. What differs from the table goes to standard error.
///
/// # Errors
/// If nothing is written.
pub fn run(args: &PricesArgs) -> Result<Output, Problem> {
    let PricesCommand::Import(args) = &args.command;
    let text = table(&args.table)
        .map_err(|error| Problem::Unreadable { path: args.table.clone(), error })?;
    let wanted = Wanted { providers: args.provider.clone(), free: args.free };
    let taken = litellm::read(&text, &wanted)
        .map_err(|why| Problem::Table { path: args.table.clone(), why })?;
    if taken.prices.is_empty() {
        return Err(Problem::Nothing(why_nothing(&taken, &wanted)));
    }
    let text = report::file(&taken);
    config::check_prices(&text).map_err(Problem::Mistakes)?;
    say(report::report(&taken).trim_end());
    let code = u8::from(!taken.unknown.is_empty());
    let Some(path) = &args.output else { return Ok(Output { text, code }) };
    write(path, &text, args.replace)?;
    Ok(Output { text: String::new(), code })
}

fn table(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = match path == Path::new(STDIN) {
        true => io::stdin().lock().take(MAX_BYTES + 1).read_to_string(&mut text),
        false => File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text),
    };
    match u64::try_from(read?) {
        Ok(..=MAX_BYTES) => Ok(text),
        _ => Err(io::Error::other(format!("it is larger than {} MiB", MAX_BYTES / 1024 / 1024))),
    }
}

fn why_nothing(taken: &Taken, wanted: &Wanted) -> String {
    if wanted.providers.is_empty() || taken.entries > 0 {
        return report::report(taken);
    }
    let known = taken.providers.keys().filter(|name| !name.is_empty()).cloned();
    format!("the table has these providers: {}", known.collect::<Vec<_>>().join(", "))
}

fn write(path: &Path, text: &str, replaces: bool) -> Result<(), Problem> {
    let written = match replaces {
        true => whole_file::write(path, text, MODE),
        false => whole_file::write_new(path, text, MODE),
    };
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Problem::Exists(path.to_owned()),
        _ => Problem::Unwritable { path: path.to_owned(), error },
    })
}
