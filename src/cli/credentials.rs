//! The credentials of commands for admin listeners, and the authorities that they trust.

use std::env::{self, VarError};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use http::HeaderValue;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsConnector;
use tollgate_core::pem;
use tollgate_core::tls::{self, ClientIdentity, ClientTlsError, Trust};

use super::admin_error::{AdminError, TOKEN_VARIABLE};
use super::bounded_file::read_at_most;
use crate::config;

/// The largest file of a token or of certificates.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What commands need besides a URL to call admin listeners.
#[derive(Clone, Debug, Default, Args)]
pub struct CredentialArgs {
    /// The file with the token for the admin listener [default: TOLLGATE_ADMIN_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The certificates of the authorities of the admin listener, in PEM
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// The certificate for an admin listener that demands one of its clients, in PEM
    #[arg(long = "cert", value_name = "FILE", requires = "client_key")]
    pub client_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long = "key", value_name = "FILE", requires = "client_cert")]
    pub client_key: Option<PathBuf>,
}

impl CredentialArgs {
    /// The arguments that are given, each with its file.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let Self { token_file, cacert, client_cert, client_key } = self;
        let all = [
            ("--token-file", token_file),
            ("--cacert", cacert),
            ("--cert", client_cert),
            ("--key", client_key),
        ];
        all.into_iter().filter_map(|(name, file)| Some((name, file.as_deref()?)))
    }

    /// The token of the file, or of the variable `TOLLGATE_ADMIN_TOKEN`, or the one that is `known`.
    ///
    /// # Errors
    /// If the file or the variable cannot be used.
    pub fn token(&self, known: Option<String>) -> Result<Option<HeaderValue>, AdminError> {
        let is_token = |it: &String| !it.trim().is_empty();
        let token = match &self.token_file {
            Some(path) => {
                let token = String::from_utf8_lossy(&read(path)?).into_owned();
                if !is_token(&token) {
                    return Err(AdminError::EmptyToken(path.clone()));
                }
                Some(token)
            }
            None => variable(TOKEN_VARIABLE)?.or(known).filter(is_token),
        };
        let field = |it: String| HeaderValue::try_from(format!("Bearer {}", it.trim()));
        token.map(field).transpose().map_err(|_| AdminError::Token)
    }

    /// What connects by TLS. Without authorities in the arguments those of the system are trusted.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub fn connector(&self) -> Result<TlsConnector, AdminError> {
        let authorities = self.cacert.as_deref().map(certificates).transpose()?;
        let identity = match (&self.client_cert, &self.client_key) {
            (Some(cert), Some(key)) => Some((certificates(cert)?, private_key(key)?)),
            _ => None,
        };
        let identity = identity.as_ref().map(|(chain, key)| ClientIdentity { chain, key });
        let made = tls::client_config(Trust::authorities(authorities.as_deref()), identity);
        let made = made.map_err(|error| match (error, &self.cacert, &self.client_cert) {
            (ClientTlsError::Authority(why), Some(path), _)
            | (ClientTlsError::Identity(why), _, Some(path)) => unusable(path, &why),
            (error, ..) => AdminError::Connect(io::Error::other(error)),
        })?;
        Ok(TlsConnector::from(Arc::new(made)))
    }
}

/// The text of a variable of the environment that is not empty.
///
/// # Errors
/// If it is not UTF-8.
pub fn variable(name: &'static str) -> Result<Option<String>, AdminError> {
    match env::var(name) {
        Ok(text) => Ok(Some(text).filter(|it| !it.trim().is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(AdminError::NotText(name)),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, AdminError> {
    let found = pem::certificates(&read(path)?).map_err(|why| unusable(path, &why))?;
    Ok(found.into_iter().map(Into::into).collect())
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, AdminError> {
    config::private_key(&read(path)?).map_err(|why| unusable(path, &why))
}

fn read(path: &Path) -> Result<Vec<u8>, AdminError> {
    read_at_most(path, MAX_FILE_BYTES).map_err(|why| unusable(path, &why))
}

fn unusable(path: &Path, why: &impl fmt::Display) -> AdminError {
    AdminError::File { path: path.into(), why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let [file, empty, large] = ["file", "empty", "large"].map(|it| directory.path().join(it));
        std::fs::write(&file, "a\u{1}b").expect("it is written");
        std::fs::write(&empty, " \n").expect("it is written");
        std::fs::write(&large, "a".repeat((1 << 20) + 1)).expect("it is written");
        let token = |path: &Path| {
            CredentialArgs { token_file: Some(path.to_owned()), ..CredentialArgs::default() }
                .token(Some("known".to_owned()))
        };
        assert!(matches!(token(&file), Err(AdminError::Token)));
        assert!(matches!(token(&empty), Err(AdminError::EmptyToken(path)) if path == empty));
        for path in [Path::new("/does/not/exist"), Path::new("/dev/zero"), &large] {
            let error = token(path).expect_err("it cannot be used");
            assert!(matches!(&error, AdminError::File { path: named, .. } if named == path));
            assert!(error.is_usage());
        }
        let none = CredentialArgs::default();
        for credentials in [
            CredentialArgs { cacert: Some(file.clone()), ..none.clone() },
            CredentialArgs {
                client_cert: Some(file.clone()),
                client_key: Some(file.clone()),
                ..none
            },
        ] {
            let error = credentials.connector().err().expect("it has no certificate");
            assert!(matches!(error, AdminError::File { path, .. } if path == file));
        }
    }
}
