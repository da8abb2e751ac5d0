//! The command line: what a user types, and what the program answers.
//!
//! Exit codes: 0 done, 1 failed while running, 2 wrong usage or configuration.

mod args;
mod overrides;
mod routes;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::algorithm::Algorithm;
use crate::app::{self, RunError, Source};
use crate::config::{self, Compiled, Config, LoadError, Report};
use crate::proxy::TlsError;
use crate::time::Span;
use args::{Args, Command, RunArgs};

/// Why a command did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] LoadError),
    /// The backend on the command line cannot be reached by TLS.
    #[error("cannot speak TLS with the backend: {0}; write a configuration that names some")]
    Tls(#[from] TlsError),
    /// The gateway could not start.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An override was neither seen nor changed.
    #[error(transparent)]
    Override(#[from] overrides::Problem),
    /// The answer could not be written.
    #[error("cannot write the answer: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(_) | Self::Tls(_) => ExitCode::from(2),
            Self::Override(problem) if problem.is_usage() => ExitCode::from(2),
            Self::Run(_) | Self::Override(_) | Self::Output(_) => ExitCode::from(1),
        }
    }
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Run(args) => run(args),
        Command::Check { config, routes } => check(&config, routes),
        Command::Override(args) => overrides::run(&args),
        Command::Schema => schema(),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Args::command(), "tollgate", &mut io::stdout());
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has seen enough, as in `tollgate schema | head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            say(&prefixed(&failure));
            failure.exit_code()
        }
    }
}

/// A report says of each line what it is; everything else is an error.
fn prefixed(failure: &Failure) -> String {
    match failure {
        Failure::Config(LoadError::Mistakes { report, .. }) => report.to_string(),
        other => format!("error: {other}"),
    }
}

fn run(args: RunArgs) -> Result<(), Failure> {
    match args.without_file()? {
        Some(config) => app::run(config, None)?,
        None => {
            let Compiled { config, files, .. } = load(&args.config)?;
            app::run(config, Some(Source { file: args.config, others: files }))?;
        }
    }
    Ok(())
}

fn check(path: &Path, shows_routes: bool) -> Result<(), Failure> {
    let Compiled { config, .. } = load(path)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}: {}", path.display(), summary(&config))?;
    if shows_routes {
        write!(out, "\n{}", routes::table(&config))?;
    }
    Ok(())
}

/// Loads a file, and says what in it is most likely not meant.
fn load(path: &Path) -> Result<Compiled, LoadError> {
    let compiled = config::load(path)?;
    if !Report::is_empty(&compiled.warnings) {
        say(&compiled.warnings.to_string());
    }
    Ok(compiled)
}

/// How much, as the configuration writes it: `100/1m`, or `20` where time does not
/// matter.
fn rate(algorithm: &Algorithm) -> String {
    match algorithm.window() {
        Span::ZERO => algorithm.limit().to_string(),
        window => format!("{}/{window}", algorithm.limit()),
    }
}

fn summary(config: &Config) -> String {
    let count = |number: usize, one: &str, many: &str| {
        format!("{number} {}", if number == 1 { one } else { many })
    };
    format!(
        "good ({}, {}, {}, {})",
        count(config.listeners.len(), "listener", "listeners"),
        count(config.routes.len(), "route", "routes"),
        count(config.policies.len(), "policy", "policies"),
        count(config.upstreams.len(), "upstream", "upstreams"),
    )
}

fn schema() -> Result<(), Failure> {
    writeln!(io::stdout().lock(), "{:#}", config::schema())?;
    Ok(())
}

/// To standard error; if that is closed there is nobody left to tell.
fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", text.trim_end());
}
