//! Why a call to an admin listener has no answer.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http::StatusCode;
use rustls::AlertDescription;

/// The variable that contains the token.
pub const TOKEN_VARIABLE: &str = "TOLLGATE_ADMIN_TOKEN";

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The text is not the URL of an admin listener.
    #[error("write the URL as http://HOST:PORT, https://HOST:PORT or unix:/PATH")]
    Url,
    /// A file of the arguments cannot be read or used.
    #[error("cannot use {}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The variable has bytes that are no text.
    #[error("the variable {0} is not UTF-8")]
    NotText(&'static str),
    /// The token cannot be sent.
    #[error("the token contains characters that no token has")]
    Token,
    /// The gateway needs a token, and there is none.
    #[error("the gateway needs a token: set {TOKEN_VARIABLE}, or name a file with --token-file")]
    NoToken,
    /// The file for the token has none.
    #[error("{} has no token", .0.display())]
    EmptyToken(PathBuf),
    /// The listener demands a certificate of its clients, and refuses this one, or that there is none.
    #[error(
        "the listener demands the certificate of a client, and has answered {0:?}: name one that the \
         authority of admin.tls.client_ca has signed, with --cert and --key"
    )]
    Certificate(AlertDescription),
    /// The listener cannot be reached.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Broken(String),
    /// There was no answer in time.
    #[error("no answer within {} s", .0.as_secs())]
    Late(Duration),
    /// The gateway answers with an error.
    #[error("{status}: {detail}{}", lines(mistakes))]
    Answer {
        /// The status.
        status: StatusCode,
        /// What the gateway says.
        detail: String,
        /// The mistakes of a configuration or a change, each with its correction.
        mistakes: Vec<String>,
    },
}

/// Each mistake on a line of its own.
fn lines(mistakes: &[String]) -> String {
    mistakes.iter().map(|it| format!("\n  {it}")).collect()
}

impl AdminError {
    /// Whether the fault is in the arguments.
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::Url
            | Self::File { .. }
            | Self::NotText(_)
            | Self::Token
            | Self::EmptyToken(_)
            | Self::NoToken
            | Self::Certificate(_) => true,
            Self::Connect(_) | Self::Broken(_) | Self::Late(_) | Self::Answer { .. } => false,
        }
    }

    /// Whether other calls may have an answer nevertheless.
    pub fn is_of_one_call(&self) -> bool {
        matches!(self, Self::Answer { status, .. } if *status != StatusCode::UNAUTHORIZED)
    }

    /// Whether there is nothing of this name.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Answer { status, .. } if *status == StatusCode::NOT_FOUND)
    }

    /// Whether the gateway was not reached, or does not let this caller in.
    pub fn is_shut(&self) -> bool {
        let statuses = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
        match self {
            Self::Connect(_) | Self::NoToken | Self::Certificate(_) => true,
            Self::Answer { status, .. } => statuses.contains(status),
            _ => false,
        }
    }

    /// What an error of a connection means.
    pub fn of_connection(error: &(dyn Error + 'static)) -> Self {
        let mut last = error;
        let mut cause = Some(error);
        while let Some(error) = cause {
            // An error of I/O does not name what it contains as its source.
            let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            let inner = inner.and_then(|it| it.downcast_ref::<rustls::Error>());
            if let Some(rustls::Error::AlertReceived(alert)) = inner
                && is_about_the_certificate(*alert)
            {
                return Self::Certificate(*alert);
            }
            last = error;
            cause = error.source();
        }
        Self::Broken(last.to_string())
    }
}

/// Whether a server answers so if it accepts no certificate of its client (RFC 8446, section 6.2).
const fn is_about_the_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}
