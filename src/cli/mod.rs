//! The command line: arguments, output and exit codes.
//!
//! Exit codes: 0 success, 1 failure while running, 2 wrong usage or configuration, 3 the request
//! that was explained is refused. `import` and `prices import` have exit codes of their own.

mod admin_client;
mod admin_error;
mod args;
mod bounded_file;
mod check;
mod connect;
mod console;
mod credentials;
mod explain;
mod failure;
mod health;
mod import;
mod init;
mod key;
mod keys;
mod overrides;
mod paint;
mod policy;
mod prices;
mod ratelimit;
mod reload;
mod replay;
mod routes;
mod run;
mod status;
mod tips;
mod top;
mod which;
mod whole_file;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{CommandFactory as _, Parser as _};
use clap_complete::Shell;
use signal_hook::consts::SIGUSR1;

use crate::config;
use args::{Args, Command, OverrideArgs, ReplayArgs};
use console::{load, out, say, styled_out};
use explain::ExplainArgs;
use failure::{Failure, prefixed};
use health::HealthArgs;
use import::ImportArgs;
use init::InitArgs;
use key::{KeyArgs, KeyCommand};
use keys::TeamArgs;
use policy::{PolicyArgs, ResetArgs};
use prices::PricesArgs;
use reload::ReloadArgs;
use status::StatusArgs;
use top::TopArgs;

/// The exit code if the request that was explained is refused.
const REFUSED: u8 = 3;

/// Runs the command of the process arguments.
pub fn main() -> ExitCode {
    ignore_log_rotation();
    let arguments = ratelimit::arguments(std::env::args_os());
    let Args { command, color } = match Args::try_parse_from(arguments) {
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
        Command::Ratelimit(args) => ratelimit::run(&args).map_err(Failure::from),
        Command::Init(args) => init(&args),
        Command::Import(args) => match import(&args) {
            Ok(code) => return ExitCode::from(code),
            Err(failure) => Err(failure),
        },
        Command::Prices(args) => match prices(&args) {
            Ok(code) => return ExitCode::from(code),
            Err(failure) => Err(failure),
        },
        Command::Check(args) => check::run(&args),
        Command::Override(args) => override_limit(&args),
        Command::Key(args) => key(&args),
        Command::Team(args) => team(&args),
        Command::Explain(args) => match explain(&args) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::from(REFUSED),
            Err(failure) => Err(failure),
        },
        Command::Top(args) => top(&args),
        Command::Replay(args) => replay(args),
        Command::Schema => schema(),
        Command::Completions { shell } => completions(shell),
        Command::Man { directory } => clap_mangen::generate_to(Args::command(), &directory)
            .map_err(|error| Failure::Manual { directory, error }),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_output() => ExitCode::SUCCESS,
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

fn override_limit(args: &OverrideArgs) -> Result<(), Failure> {
    let config = load(&args.config)?.config;
    let output = overrides::run(&args.command, &config)?;
    writeln!(out(), "{output}")?;
    Ok(())
}

fn key(args: &KeyArgs) -> Result<(), Failure> {
    let config = || load(&args.config).map(|compiled| compiled.config);
    match &args.command {
        KeyCommand::Stored(command) => Ok(keys::run(command, &config()?)?),
        KeyCommand::Create(new) if new.store => {
            Ok(keys::create(new.id.as_deref(), new.stored(), &config()?)?)
        }
        KeyCommand::Create(_) | KeyCommand::Hash => Ok(key::run(args)?),
    }
}

fn team(args: &TeamArgs) -> Result<(), Failure> {
    Ok(keys::run_team(args, &load(&args.config)?.config)?)
}

/// Returns whether the request is admitted.
fn explain(args: &ExplainArgs) -> Result<bool, Failure> {
    let explained = explain::run(args, load)?;
    match args.json {
        true => write!(out(), "{}", explained.text)?,
        false => write!(styled_out(), "{}", paint::decisions(&explained.text))?,
    }
    Ok(explained.is_admitted)
}

/// Returns whether the gateway serves.
fn health(args: &HealthArgs) -> Result<bool, Failure> {
    let health = health::run(args)?;
    writeln!(out(), "{}", health.word)?;
    if let Some(why) = health.why {
        say(&paint::report(&format!("error: {why}")));
    }
    Ok(health.is_good)
}

/// Returns whether the gateway is well.
fn status(args: &StatusArgs) -> Result<bool, Failure> {
    let status = status::run(args)?;
    write!(styled_out(), "{}", status.text)?;
    Ok(status.is_good)
}

fn reload(args: &ReloadArgs) -> Result<(), Failure> {
    let text = reload::run(args)?;
    write!(out(), "{text}")?;
    Ok(())
}

fn init(args: &InitArgs) -> Result<(), Failure> {
    match init::run(args)? {
        init::Output::Text(text) => write!(out(), "{text}")?,
        init::Output::Written(next) => say(&next),
    }
    Ok(())
}

/// Returns the exit code.
fn import(args: &ImportArgs) -> Result<u8, Failure> {
    let import::Output { text, code } = import::run(args)?;
    write!(out(), "{text}")?;
    Ok(code?)
}

/// Returns the exit code.
fn prices(args: &PricesArgs) -> Result<u8, Failure> {
    let prices::Output { text, code } = prices::run(args)?;
    write!(out(), "{text}")?;
    Ok(code)
}

fn policy(args: &PolicyArgs) -> Result<(), Failure> {
    let output = policy::run(args)?;
    match output.is_json {
        true => write!(out(), "{}", output.text)?,
        false => write!(styled_out(), "{}", output.text)?,
    }
    Ok(output.failure.map_or(Ok(()), Err)?)
}

fn reset(args: &ResetArgs) -> Result<(), Failure> {
    let text = policy::reset(args)?;
    write!(styled_out(), "{text}")?;
    Ok(())
}

fn top(args: &TopArgs) -> Result<(), Failure> {
    let shown = top::run(args)?;
    write!(out(), "{}", shown.text)?;
    match &shown.failures[..] {
        [] => Ok(()),
        failures => Err(Failure::Untold(failures.join("; "))),
    }
}

fn replay(args: ReplayArgs) -> Result<(), Failure> {
    let config = load(&args.config)?.config;
    let against = args.against.as_deref().map(load).transpose()?;
    let report = replay::run(&args, config, against.map(|compiled| compiled.config))?;
    writeln!(out(), "{}", report.text.trim_end())?;
    Ok(report.says_enough()?)
}

fn completions(shell: Shell) -> Result<(), Failure> {
    // It panics if it cannot write.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "tollgate", &mut text);
    out().write_all(&text)?;
    Ok(())
}

fn schema() -> Result<(), Failure> {
    writeln!(out(), "{:#}", config::schema())?;
    Ok(())
}
