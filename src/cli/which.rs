//! Which running gateway a command asks, and with which token.
//!
//! The first of these names the admin listener: `--admin`, the variable `TOLLGATE_ADMIN`, the section
//! `admin` of the configuration, and the Unix socket of the packages. If that socket is not there,
//! the address of the examples is tried.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;

use super::admin_client::{AdminClient, AdminError, CredentialArgs};
use super::console::quoted;
use super::credentials::variable;
use crate::config::{self, AdminAccess, LoadError};
use crate::server::ListenAddress;

/// The variable that names the admin listener.
const VARIABLE: &str = "TOLLGATE_ADMIN";
/// The socket that the packages configure.
const SOCKET: &str = "/run/tollgate/admin.sock";
/// The address of the examples.
const USUAL: &str = "http://127.0.0.1:9901";
/// The configuration that commands read if none is named.
pub const DEFAULT_CONFIG: &str = "gateway.yaml";

/// Why no gateway can be asked.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The configuration cannot be read.
    #[error(transparent)]
    Config(#[from] LoadError),
    /// An argument cannot be used, or the gateway does not answer as asked.
    #[error("{url}{}: {error}", named_by(by))]
    Call {
        /// The URL of the admin listener.
        url: String,
        /// What names it.
        by: By,
        /// The reason.
        error: AdminError,
    },
}

impl Problem {
    /// Whether the fault is in the arguments or the configuration.
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::Config(_) => true,
            Self::Call { error, .. } => error.is_usage(),
        }
    }
}

/// What names an admin listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    Argument,
    Variable,
    File(PathBuf),
    /// Nothing: it is the socket of the packages, or the address of the examples.
    Nothing,
}

/// What names the listener, unless the caller has just written it.
fn named_by(by: &By) -> impl fmt::Display {
    match by {
        By::Argument => String::new(),
        By::Variable => format!(" (named by {VARIABLE})"),
        By::File(file) => format!(" (admin of {})", file.display()),
        By::Nothing => format!(
            " (no gateway is named: use --admin URL, {VARIABLE}, or -c FILE with the section admin)"
        ),
    }
}

/// One running gateway.
#[derive(Clone, Debug, Args)]
pub struct GatewayArgs {
    /// The admin listener of the gateway [default: TOLLGATE_ADMIN, admin of the configuration, or
    /// unix:/run/tollgate/admin.sock]
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    #[command(flatten)]
    credentials: CredentialArgs,
    /// The configuration whose section admin names the listener [default: gateway.yaml, if it is
    /// there]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Some running gateways.
#[derive(Clone, Debug, Args)]
pub struct GatewaysArgs {
    /// The admin listener of a running gateway; of several gateways, all are asked [default:
    /// TOLLGATE_ADMIN, admin of gateway.yaml, or unix:/run/tollgate/admin.sock; of `explain URL`:
    /// none]
    #[arg(long, value_name = "URL")]
    admin: Vec<String>,
    #[command(flatten)]
    credentials: CredentialArgs,
}

/// A running gateway that was found.
#[derive(Debug)]
pub struct Gateway {
    pub url: String,
    pub by: By,
    pub client: AdminClient,
    /// The listener for health checks, if the file names one.
    pub probe: Option<String>,
}

impl GatewayArgs {
    /// The gateway that is to be asked.
    ///
    /// # Errors
    /// If an argument or the configuration cannot be used.
    pub fn find(&self) -> Result<Gateway, Problem> {
        find(self.admin.as_deref(), self.config.as_deref(), &self.credentials)
    }

    /// The arguments by which a command in the same place finds the same gateway and has the same
    /// credentials: those that are given, each after a space, as a shell reads them.
    pub fn arguments(&self) -> String {
        let config = self.config.iter().map(|file| ("-c", file.as_path()));
        let admin = self.admin.iter().map(|url| ("--admin", url.clone()));
        let files = config.chain(self.credentials.files());
        let files = files.map(|(name, file)| (name, file.to_string_lossy().into_owned()));
        admin.chain(files).map(|(name, value)| format!(" {name} {}", quoted(&value))).collect()
    }
}

impl GatewaysArgs {
    /// The gateways that are to be asked.
    ///
    /// # Errors
    /// If an argument or the configuration cannot be used.
    pub fn find(&self) -> Result<Vec<Gateway>, Problem> {
        match &self.admin[..] {
            [] => Ok(vec![find(None, None, &self.credentials)?]),
            named => named.iter().map(|url| find(Some(url), None, &self.credentials)).collect(),
        }
    }

    /// Whether a gateway is named.
    pub fn is_given(&self) -> bool {
        !self.admin.is_empty()
    }

    /// Whether several are named.
    pub fn has_several(&self) -> bool {
        self.admin.len() > 1
    }

    /// Whether there is a credential, or what it needs.
    pub fn has_credentials(&self) -> bool {
        self.credentials.files().next().is_some()
    }
}

impl Gateway {
    /// What has gone wrong with a call.
    pub fn problem(&self, error: AdminError) -> Problem {
        Problem::Call { url: self.url.clone(), by: self.by.clone(), error }
    }

    /// Another listener of the same gateway, which needs no credential.
    ///
    /// # Errors
    /// If the URL cannot be used.
    pub fn at(self, url: &str) -> Result<Self, Problem> {
        let client = AdminClient::new(url, &CredentialArgs::default(), None);
        let client = client.map_err(|error| self.problem(error))?.waiting(self.client.patience());
        Ok(Self { url: url.to_owned(), client, ..self })
    }

    /// The same gateway, for calls that take another time.
    pub fn waiting(self, patience: std::time::Duration) -> Self {
        Self { client: self.client.waiting(patience), ..self }
    }
}

fn find(
    admin: Option<&str>,
    config: Option<&Path>,
    credentials: &CredentialArgs,
) -> Result<Gateway, Problem> {
    let named = match admin {
        Some(url) => Some((url.to_owned(), By::Argument)),
        None => {
            let problem =
                |error| Problem::Call { url: VARIABLE.to_owned(), by: By::Variable, error };
            let url = variable(VARIABLE).map_err(problem)?;
            url.map(|url| (url.trim().to_owned(), By::Variable))
        }
    };
    // A token of the default file is not sent to a listener that an argument or the variable names.
    let file = match (config, &named) {
        (Some(file), _) => Some(file),
        (None, Some(_)) => None,
        (None, None) => Some(Path::new(DEFAULT_CONFIG)).filter(|it| it.exists()),
    };
    let access = file.map(config::admin_access).transpose()?.flatten();
    let (url, by) = match (named, file, &access) {
        (Some(named), ..) => named,
        (None, Some(file), Some(access)) => (url(access), By::File(file.to_owned())),
        (None, ..) if Path::new(SOCKET).exists() => (format!("unix:{SOCKET}"), By::Nothing),
        (None, ..) => (USUAL.to_owned(), By::Nothing),
    };
    let probe = access.as_ref().filter(|_| matches!(by, By::File(_))).and_then(probe);
    let problem = |error| Problem::Call { url: url.clone(), by: by.clone(), error };
    let client = AdminClient::new(&url, credentials, access.and_then(|it| it.token));
    Ok(Gateway { client: client.map_err(problem)?, url, by, probe })
}

fn url(access: &AdminAccess) -> String {
    listener(&access.address, if access.is_encrypted { "https" } else { "http" })
}

fn probe(access: &AdminAccess) -> Option<String> {
    access.probe.as_ref().map(|address| listener(address, "http"))
}

fn listener(address: &ListenAddress, scheme: &str) -> String {
    match address.reachable() {
        ListenAddress::Tcp(address) => format!("{scheme}://{address}"),
        unix @ ListenAddress::Unix(_) => unix.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_that_are_given_are_repeated_for_a_shell() {
        let file = |name: &str| Some(PathBuf::from(name));
        let mut args = GatewayArgs {
            admin: None,
            credentials: CredentialArgs::default(),
            config: file("my gateway.yaml"),
        };
        assert_eq!(args.arguments(), " -c 'my gateway.yaml'");
        args.admin = Some("https://127.0.0.1:9901".to_owned());
        args.credentials = CredentialArgs {
            token_file: file("a token"),
            cacert: file("ca.pem"),
            client_cert: file("me.pem"),
            client_key: file("me.key"),
        };
        let all = " --admin https://127.0.0.1:9901 -c 'my gateway.yaml' --token-file 'a token' \
                   --cacert ca.pem --cert me.pem --key me.key";
        assert_eq!(args.arguments(), all);
        let none =
            GatewayArgs { admin: None, credentials: CredentialArgs::default(), config: None };
        assert_eq!(none.arguments(), "");
    }
}
