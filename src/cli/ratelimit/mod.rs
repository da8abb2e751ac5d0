//! `tollgate ratelimit`: the gateway as a rate limit service whose settings are the environment of
//! envoyproxy/ratelimit. The same program under the name `ratelimit` does this without arguments, so
//! that its image takes the place of that of envoyproxy/ratelimit.
//!
//! The environment becomes the text of a configuration, which is compiled and runs like a file.

mod environment;
mod forms;
mod redis;
mod service;
#[cfg(test)]
mod tests;
mod yaml;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tracing::warn;

use super::console::say;
use super::paint;
use crate::app::{self, ConfigFiles, RunError};
use crate::config::{self, Compiled, NO_FILES, NamedFile, Progress, Report, Variables};
use environment::Environment;

pub const EXAMPLES: &str = "\
Examples:
  tollgate ratelimit                    with the environment of envoyproxy/ratelimit
  tollgate ratelimit --print-config     the same settings as a gateway.yaml
A program of the name ratelimit, such as /bin/ratelimit of the image, does the same.";

/// What messages call the configuration.
const NAME: &str = "environment";
/// The name under which the program needs no arguments.
const PROGRAM: &str = "ratelimit";

#[derive(Clone, Debug, Args)]
pub struct RatelimitArgs {
    /// Print the settings as a gateway.yaml, with secrets as ${NAME}
    #[arg(long)]
    print_config: bool,
}

/// Why the service does not run.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The environment has mistakes. This is a report of all of them.
    #[error("{0}")]
    Mistakes(String),
    /// The gateway cannot start.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The configuration cannot be printed.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// The settings of a service, and what is to be said about them.
#[derive(Debug, Default)]
struct Translated {
    /// The configuration.
    yaml: String,
    /// The parts of variables that are secret. The configuration names them.
    secrets: Variables,
    /// Variables without an effect, and other things to know.
    notes: Vec<String>,
    /// What cannot be done. Then there is no configuration.
    mistakes: Vec<String>,
}

/// The arguments of the process. A program of the name `ratelimit` has the command of this name.
pub fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut given: Vec<OsString> = given.into_iter().collect();
    let name = given.first().and_then(|program| Path::new(program).file_name());
    if name == Some(OsStr::new(PROGRAM)) {
        given.insert(1, PROGRAM.into());
    }
    given
}

/// Runs the service until it is stopped, or prints its configuration.
///
/// # Errors
/// If the environment has mistakes, or the gateway cannot start.
pub fn run(args: &RatelimitArgs) -> Result<(), Problem> {
    let environment =
        Environment::new(std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        }));
    let Translated { yaml, secrets, notes, mistakes } = translate(environment);
    if !mistakes.is_empty() {
        let lines: Vec<String> = mistakes.iter().map(|it| format!("error: {it}")).collect();
        return Err(Problem::Mistakes(lines.join("\n")));
    }
    if args.print_config {
        let mut output = io::stdout().lock();
        notes.iter().try_for_each(|note| writeln!(output, "# {note}"))?;
        write!(output, "{yaml}")?;
        return Ok(());
    }
    let compiled = config::load_given(&yaml, NAME, &secrets, &NO_FILES, &Progress::default());
    let compiled = compiled.map_err(|mistakes| Problem::Mistakes(mistakes.to_string()))?;
    let Compiled { config, warnings, files, document, .. } = compiled;
    if !Report::is_empty(&warnings) {
        say(&paint::report(&warnings.to_string()));
    }
    let files = ConfigFiles {
        file: NamedFile { path: PathBuf::from(NAME), stamp: None },
        others: files,
        document,
        given: Some(Arc::new(secrets)),
    };
    let tell = |_: &_| notes.iter().for_each(|note| warn!("{note}"));
    Ok(app::run(config, Some(files), tell)?)
}

/// The configuration that has the same effect as an environment.
fn translate(mut environment: Environment) -> Translated {
    let mut yaml = yaml::Text::default();
    service::write(&mut environment, &mut yaml);
    redis::write(&mut environment, &mut yaml);
    service::write_process(&mut environment, &mut yaml);
    environment.note_unused();
    let Environment { notes, mistakes, secrets, .. } = environment;
    Translated { yaml: yaml.finish(), secrets, notes, mistakes }
}
