//! Why a TLS handshake with an endpoint fails, and what an operator can do. Clients must not learn it,
//! so a [`Fault`](crate::proxy::fault::Fault) does not have it.

use std::fmt;
use std::io;

use rustls::{CertificateError, Error};

/// Why a TLS handshake has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeFailure {
    error: String,
    /// What an operator can do.
    pub remedy: &'static str,
}

impl HandshakeFailure {
    /// The failure with this error of the TLS library.
    pub fn of(error: &io::Error) -> Self {
        let why = error.get_ref().and_then(|why| why.downcast_ref());
        Self { error: error.to_string(), remedy: remedy(why) }
    }
}

/// Without the remedy.
impl fmt::Display for HandshakeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the TLS handshake fails: {}", self.error)
    }
}

fn remedy(why: Option<&Error>) -> &'static str {
    match why {
        Some(Error::InvalidCertificate(why)) => match why {
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "write the name of the certificate in tls.server_name of the upstream"
            }
            // Another authority of the same name has signed it.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "name the authority of its certificate in tls.ca of the upstream"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "renew its certificate, or compare the clocks of both machines"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "compare the clocks of both machines"
            }
            _ => "give it another certificate",
        },
        Some(Error::InvalidMessage(_)) => "write http:// if it has no TLS on this port",
        Some(Error::AlertReceived(_)) => {
            "see its log; if it asks for a certificate, write tls.cert and tls.key"
        }
        _ => "see whether it has TLS on this port",
    }
}
