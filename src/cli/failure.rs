//! Why a command failed, and what is said about it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tollgate_top::clean;

use super::which::DEFAULT_CONFIG;
use super::{
    explain, import, init, key, keys, overrides, policy, prices, ratelimit, reload, replay, top,
    which,
};
use crate::app::RunError;
use crate::config::{LoadError, Mistakes};
use crate::proxy::TlsError;

/// What is said where the configuration is missing that is read if none is named.
const NO_FILE: &str = "\
error: there is no gateway.yaml in this directory; write one of these:
  tollgate init                                                asks, and writes one
  tollgate run --to http://127.0.0.1:9000 --limit 100/minute   needs none
  tollgate run FILE                                            has another one
  tollgate --help                                              shows all commands";

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
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
    /// The rate limit service does not run.
    #[error(transparent)]
    Ratelimit(#[from] ratelimit::Problem),
    /// An override could not be read or changed.
    #[error(transparent)]
    Override(#[from] overrides::Problem),
    /// API keys are not shown or changed.
    #[error(transparent)]
    StoredKeys(#[from] keys::Problem),
    /// No API key is made.
    #[error(transparent)]
    Key(#[from] key::Problem),
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
    /// Nothing is imported.
    #[error(transparent)]
    Import(#[from] import::Problem),
    /// No prices are written.
    #[error(transparent)]
    Prices(#[from] prices::Problem),
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
    /// Whether the reader of a long output needs no more, as in `tollgate key list | head`.
    pub fn is_closed_output(&self) -> bool {
        match self {
            Self::StoredKeys(keys::Problem::System(error))
            | Self::Ratelimit(ratelimit::Problem::Output(error)) => {
                error.kind() == ErrorKind::BrokenPipe
            }
            _ => false,
        }
    }

    /// The exit code of the process.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(_)
            | Self::Shown(_)
            | Self::Told
            | Self::Tls(_)
            | Self::Ratelimit(ratelimit::Problem::Mistakes(_))
            | Self::Init(_)
            | Self::Import(_)
            | Self::Prices(_) => ExitCode::from(2),
            Self::Key(problem) if problem.is_usage() => ExitCode::from(2),
            Self::Override(problem) if problem.is_usage() => ExitCode::from(2),
            Self::StoredKeys(problem) if problem.is_usage() => ExitCode::from(2),
            Self::Replay(problem) if problem.is_usage() => ExitCode::from(2),
            Self::Explain(problem) if problem.is_usage() => ExitCode::from(2),
            Self::Top(problem) if problem.is_usage() => ExitCode::from(2),
            Self::Gateway(problem) if problem.is_usage() => ExitCode::from(2),
            Self::Policy(problem) if problem.is_usage() => ExitCode::from(2),
            Self::Reload(problem) if problem.is_usage() => ExitCode::from(2),
            Self::Run(_)
            | Self::Ratelimit(_)
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
            | Self::Key(_)
            | Self::StoredKeys(_)
            | Self::Output(_) => ExitCode::from(1),
        }
    }
}

/// The text of a failure, which may have parts of files of others. In a report each line has its own
/// prefix.
pub fn prefixed(failure: &Failure) -> String {
    match failure {
        Failure::Shown(report) | Failure::Ratelimit(ratelimit::Problem::Mistakes(report)) => {
            report.clone()
        }
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
        other => clean::lines(&format!("error: {other}")),
    }
}
