//! A change of the configuration that an operator asks for, on its way to the task that makes it.

use http::StatusCode;
use tokio::sync::oneshot;

use super::audit::Change;
use super::masked_config::MaskedConfig;
use super::problem::{ConfigProblem, Mistake, Problem};
use crate::patches::{IfMatch, NewPatch, Rejected};

/// A change, and where the result goes.
#[derive(Debug)]
pub struct ConfigCall {
    /// What is to be done.
    pub requested: ConfigRequest,
    /// The states in which it may be done.
    pub if_match: IfMatch,
    /// The credential that asks.
    pub actor: String,
    /// The result.
    pub reply: oneshot::Sender<Result<Replaced, Refused>>,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum ConfigRequest {
    /// Read the file again, and run it.
    Reload,
    /// Run this configuration.
    Put {
        /// Its text.
        text: String,
        /// Whether the text also replaces the file.
        write: bool,
    },
    /// Tell whether the values that a policy has with this patch can be written into the file.
    MayPersist(String, NewPatch),
    /// Write the values of the patch of this policy into the file.
    Persist(String),
}

/// A configuration that runs.
#[derive(Clone, Debug, Default)]
pub struct RunningConfig {
    /// The configuration without its secrets.
    pub masked: MaskedConfig,
    /// The digest by which nodes compare their configurations.
    pub digest: String,
}

/// The new configuration runs, or could run.
#[derive(Clone, Debug, Default)]
pub struct Replaced {
    /// The configuration that ran before.
    pub before: RunningConfig,
    /// The configuration that runs.
    pub after: RunningConfig,
    /// The names of changes that need a restart.
    pub needs_restart: Vec<&'static str>,
    /// The warnings about it.
    pub warnings: Vec<ConfigProblem>,
}

/// Why a configuration is not replaced.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    /// Another configuration runs than the one that the caller has seen.
    Stale,
    /// It has these mistakes.
    Mistakes(Vec<ConfigProblem>),
    /// The file has these mistakes.
    FileMistakes {
        /// The file.
        file: String,
        /// Its mistakes.
        problems: Vec<ConfigProblem>,
    },
    /// The change of the policy has mistakes.
    Patch(Rejected),
    /// The file or the machine does not allow it.
    Conflict {
        /// Why, and what to do.
        why: String,
        /// What an operator can write into the file instead.
        paste: Option<String>,
    },
}

impl Refused {
    /// What does not allow it.
    pub fn conflict(why: impl Into<String>) -> Self {
        Self::Conflict { why: why.into(), paste: None }
    }

    /// The answer about the policy of this name, or about the configuration.
    pub fn problem(self, policy: &str) -> Problem {
        match self {
            Self::Stale => {
                let detail = "another configuration runs than that of If-Match; look at it again";
                Problem::new(StatusCode::PRECONDITION_FAILED, detail)
            }
            Self::Mistakes(problems) => invalid(&problems),
            Self::FileMistakes { file, problems } => {
                let detail = format!("{file} has mistakes, so the running configuration stays");
                Problem { detail, ..invalid(&problems) }
            }
            Self::Patch(rejected) => super::rejected::problem(rejected, policy, |sent| {
                Change::of_policy(policy, sent.before, sent.after)
            }),
            Self::Conflict { why, paste } => {
                let problem = Problem::conflict(why);
                let errors = paste.map(|it| Mistake::new("write this by hand", it));
                Problem { errors: errors.into_iter().collect(), ..problem }
            }
        }
    }
}

/// The answer about a configuration with mistakes.
pub fn invalid(problems: &[ConfigProblem]) -> Problem {
    let errors = problems.iter().filter(|it| !it.is_warning).cloned().map(Into::into).collect();
    let detail = "the configuration has mistakes";
    Problem { errors, ..Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail) }
}
