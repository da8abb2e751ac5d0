//! What can go wrong with `tollgate explain`.

use std::io;
use std::path::PathBuf;

use crate::cli::which;
use crate::config::LoadError;
use crate::engine::DescriptionError;

/// Why a request could not be explained.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] LoadError),
    /// The arguments describe no request.
    #[error(transparent)]
    Request(#[from] DescriptionError),
    /// A header field has no colon.
    #[error("{0:?} is not a header field: write -H 'Name: value'")]
    Header(String),
    /// Neither the URL nor a header field names the host.
    #[error(
        "{0:?} names no host, which routes and keys may need: write http://HOST{0}, or add \
         -H 'Host: HOST'"
    )]
    NoHost(String),
    /// `--used` names a policy that does not exist.
    #[error("there is no policy {name:?}; policies are {}", known.join(", "))]
    NoPolicy {
        /// The name.
        name: String,
        /// All names.
        known: Vec<String>,
    },
    /// The file of a body cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// An admin listener does not answer as asked.
    #[error(transparent)]
    Gateway(#[from] which::Problem),
    /// There is a credential, and nothing to use it for.
    #[error(
        "--token-file, --cacert, --cert and --key are for a running gateway: name it with --admin URL"
    )]
    NoGateway,
    /// The answer of an admin listener has another form.
    #[error("{0} explains in a form that this version does not read")]
    Form(String),
    /// The system refuses a runtime.
    #[error("cannot start: {0}")]
    Start(io::Error),
}

impl Problem {
    /// Whether the fault is in the arguments or the configuration.
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::Gateway(problem) => problem.is_usage(),
            Self::Unreadable { .. } | Self::Form(_) | Self::Start(_) => false,
            Self::Config(_)
            | Self::Request(_)
            | Self::Header(_)
            | Self::NoHost(_)
            | Self::NoGateway
            | Self::NoPolicy { .. } => true,
        }
    }
}
