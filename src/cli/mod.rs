//! The command line: arguments, output and exit codes.
//!
//! Exit codes: 0 success, 1 failure while running, 2 wrong usage or configuration, 3 the request
//! that was explained is refused.

mod admin_client;
mod args;
mod check;
mod clean;
mod connect;
mod explain;
mod health;
mod init;
mod overrides;
mod paint;
mod policy;
mod rate;
mod reload;
mod replay;
mod routes;
mod run;
mod status;
mod tips;
mod top;
mod which;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{CommandFactory as _, Parser as _};
use signal_hook::consts::SIGUSR1;

use crate::app::RunError;
use crate::config::{self, Compiled, LoadError, Mistakes, Report};
use crate::proxy::TlsError;
use args::{Args, Command, DEFAULT_CONFIG, OverrideArgs, ReplayArgs};
use explain::ExplainArgs;
use health::HealthArgs;
use init::InitArgs;
use policy::{PolicyArgs, ResetArgs};
use reload::ReloadArgs;
use status::StatusArgs;
use top::TopArgs;

/// The exit code if the request that was explained is refused.
const REFUSED: u8 = 3;

/// What is said where the configuration is missing that is read if none is named.
const NO_FILE: &str = "\
error: there is no gateway.yaml in this directory; write one of these:
  tollgate init                                                asks, and writes one
  tollgate run --to http://127.0.0.1:9000 --limit 100/minute   needs none
  tollgate run FILE                                            has another one
  tollgate --help                                              shows all commands";

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] LoadError),
    /// The configuration cannot be used, and this is what is said about it.
    #[error("{0}")]
    Shown(String),
    /// It cannot be used, and that is said already.
    #[error("see the output")]
    Told,
    /// TLS to the backend on the command line cannot be set up.
    #[error("cannot use TLS with the backend: {0}; write a configuration that names some")]
    Tls(#[from] TlsError),
    /// The gateway could not start.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An override could not be read or changed.
    #[error(transparent)]
    Override(#[from] overrides::Problem),
    /// A log cannot be replayed.
    #[error(transparent)]
    Replay(#[from] replay::Problem),
    /// A request cannot be explained.
    #[error(transparent)]
    Explain(#[from] explain::Problem),
    /// The figures of gateways cannot be shown.
    #[error(transparent)]
    Top(#[from] top::Problem),
    /// A gateway has not read its file again.
    #[error(transparent)]
    Reload(#[from] reload::Problem),
    /// No configuration is written.
    #[error(transparent)]
    Init(#[from] init::Problem),
    /// A policy is not shown or changed.
    #[error(transparent)]
    Policy(#[from] policy::Problem),
    /// A gateway does not answer as asked.
    #[error(transparent)]
    Gateway(#[from] which::Problem),
    /// A gateway has not told its figures.
    #[error("{0}")]
    Untold(String),
    /// Servers that the configuration names cannot be used as they are.
    #[error("{unusable} of {all} servers and files cannot be used as they are")]
    Unusable {
        /// How many of them.
        unusable: usize,
        /// How many were asked.
        all: usize,
    },
    /// The system refuses a runtime.
    #[error("cannot start: {0}")]
    Start(io::Error),
    /// The manual could not be written.
    #[error("cannot write the manual to {}: {error}", directory.display())]
    Manual {
        /// Where to.
        directory: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(_) | Self::Shown(_) | Self::Told | Self::Tls(_) | Self::Init(_) => {
                ExitCode::from(2)
            }
            Self::Override(problem) if problem.is_usage() => ExitCode::from(2),
            Self::Replay(problem) if problem.is_usage() => ExitCode::from(2),
            Self::Explain(problem) if problem.is_usage() => ExitCode::from(2),
            Self::Top(problem) if problem.is_usage() => ExitCode::from(2),
            Self::Gateway(problem) if problem.is_usage() => ExitCode::from(2),
            Self::Policy(problem) if problem.is_usage() => ExitCode::from(2),
            Self::Run(_)
            | Self::Top(_)
            | Self::Reload(_)
            | Self::Gateway(_)
            | Self::Policy(_)
            | Self::Untold(_)
            | Self::Unusable { .. }
            | Self::Start(_)
            | Self::Override(_)
            | Self::Replay(_)
            | Self::Explain(_)
            | Self::Manual { .. }
            | Self::Output(_) => ExitCode::from(1),
        }
    }
}

/// Runs the command of the process arguments.
pub fn main() -> ExitCode {
    ignore_log_rotation();
    let Args { command, color } = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => match tips::of(&error) {
            Some(tip) => {
                say(&paint::report(&tip));
                return ExitCode::from(2);
            }
            None => error.exit(),
        },
    };
    color.apply();
    let done = match command {
        Command::Health(args) => match health(&args) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::from(1),
            Err(failure) => Err(failure),
        },
        Command::Status(args) => match status(&args) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::from(1),
            Err(failure) => Err(failure),
        },
        Command::Reload(args) => reload(&args),
        Command::Policy(args) => policy(&args),
        Command::Reset(args) => reset(&args),
        Command::Run(args) => run::run(&args),
        Command::Init(args) => init(&args),
        Command::Check(args) => check::run(&args),
        Command::Override(args) => override_limit(&args),
        Command::Explain(args) => match explain(&args) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::from(REFUSED),
            Err(failure) => Err(failure),
        },
        Command::Top(args) => top(&args),
        Command::Replay(args) => replay(args),
        Command::Schema => schema(),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Args::command(), "tollgate", &mut io::stdout());
            Ok(())
        }
        Command::Man { directory } => clap_mangen::generate_to(Args::command(), &directory)
            .map_err(|error| Failure::Manual { directory, error }),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // The reader needs no more output, as in `tollgate schema | head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            if !matches!(failure, Failure::Told) {
                say(&paint::report(&prefixed(&failure)));
            }
            failure.exit_code()
        }
    }
}

/// What is wrong with these arguments, of which the first is the name of the program; None if [`main`]
/// accepts them. It runs nothing, so that a test can check the commands of documents.
pub fn usage_error(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Option<String> {
    Args::try_parse_from(arguments).err().map(|error| error.to_string())
}

/// Gives SIGUSR1 no effect; a gateway that has started listens to it besides. It would end the
/// process: `pkill -USR1 tollgate`, in a script that rotates logs, also reaches the other commands,
/// and `tollgate top` would leave its terminal as it is, without an echo of what the user types.
fn ignore_log_rotation() {
    // The flag is not read. A handler that does nothing would need unsafe code.
    if let Err(error) = signal_hook::flag::register(SIGUSR1, Arc::new(AtomicBool::new(false))) {
        say(&format!(
            "warning: SIGUSR1 will end this process, because it cannot be handled: {error}"
        ));
    }
}

/// The text of a failure. In a report each line has its own prefix.
fn prefixed(failure: &Failure) -> String {
    match failure {
        Failure::Shown(report) => report.clone(),
        Failure::Config(LoadError::Unreadable { path, error })
            if path == Path::new(DEFAULT_CONFIG) && error.kind() == ErrorKind::NotFound =>
        {
            NO_FILE.to_owned()
        }
        Failure::Config(LoadError::Mistakes(Mistakes { report, .. }))
        | Failure::Explain(explain::Problem::Config(LoadError::Mistakes(Mistakes {
            report,
            ..
        }))) => report.to_string(),
        other => format!("error: {other}"),
    }
}

fn override_limit(args: &OverrideArgs) -> Result<(), Failure> {
    let config = load(&args.config)?.config;
    let output = overrides::run(&args.command, &config)?;
    writeln!(io::stdout().lock(), "{output}")?;
    Ok(())
}

/// Returns whether the request is admitted.
fn explain(args: &ExplainArgs) -> Result<bool, Failure> {
    let explained = explain::run(args, load)?;
    match args.json {
        true => write!(io::stdout().lock(), "{}", explained.text)?,
        false => write!(anstream::stdout().lock(), "{}", paint::decisions(&explained.text))?,
    }
    Ok(explained.is_admitted)
}

/// Returns whether the gateway serves.
fn health(args: &HealthArgs) -> Result<bool, Failure> {
    let health = health::run(args)?;
    writeln!(io::stdout().lock(), "{}", health.word)?;
    if let Some(why) = health.why {
        say(&paint::report(&format!("error: {why}")));
    }
    Ok(health.is_good)
}

/// Returns whether the gateway is well.
fn status(args: &StatusArgs) -> Result<bool, Failure> {
    let status = status::run(args)?;
    write!(anstream::stdout().lock(), "{}", status.text)?;
    Ok(status.is_good)
}

fn reload(args: &ReloadArgs) -> Result<(), Failure> {
    let text = reload::run(args)?;
    write!(io::stdout().lock(), "{text}")?;
    Ok(())
}

fn init(args: &InitArgs) -> Result<(), Failure> {
    match init::run(args)? {
        init::Output::Text(text) => write!(io::stdout().lock(), "{text}")?,
        init::Output::Written(next) => say(&next),
    }
    Ok(())
}

fn policy(args: &PolicyArgs) -> Result<(), Failure> {
    let output = policy::run(args)?;
    match output.is_json {
        true => write!(io::stdout().lock(), "{}", output.text)?,
        false => write!(anstream::stdout().lock(), "{}", output.text)?,
    }
    Ok(())
}

fn reset(args: &ResetArgs) -> Result<(), Failure> {
    let text = policy::reset(args)?;
    write!(anstream::stdout().lock(), "{text}")?;
    Ok(())
}

fn top(args: &TopArgs) -> Result<(), Failure> {
    let shown = top::run(args)?;
    write!(io::stdout().lock(), "{}", shown.text)?;
    match &shown.failures[..] {
        [] => Ok(()),
        failures => Err(Failure::Untold(failures.join("; "))),
    }
}

fn replay(args: ReplayArgs) -> Result<(), Failure> {
    let config = load(&args.config)?.config;
    let against = args.against.as_deref().map(load).transpose()?;
    let report = replay::run(&args, config, against.map(|compiled| compiled.config))?;
    writeln!(io::stdout().lock(), "{}", report.text.trim_end())?;
    Ok(report.says_enough()?)
}

/// Loads a file, and prints the warnings about it.
fn load(path: &Path) -> Result<Compiled, LoadError> {
    let compiled = config::load(path)?;
    if !Report::is_empty(&compiled.warnings) {
        say(&paint::report(&compiled.warnings.to_string()));
    }
    Ok(compiled)
}

fn schema() -> Result<(), Failure> {
    writeln!(io::stdout().lock(), "{:#}", config::schema())?;
    Ok(())
}

/// Prints to standard error. If that is closed, the text is lost.
fn say(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", text.trim_end());
}
