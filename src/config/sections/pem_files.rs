//! Files with certificates and keys, and the warnings about what is in them.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tollgate_core::pem::{self, KeyForm, PemError};
use tollgate_core::time::{Span, Timestamp};

use super::context::Context;
use crate::config::field::Spanned;
use crate::server::{CertificateDates, Validity};

/// The first private key in a text in PEM.
///
/// # Errors
/// As [`pem::private_key`].
pub fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, PemError> {
    let (form, der) = pem::private_key(text)?;
    Ok(match form {
        KeyForm::Pkcs8 => PrivateKeyDer::Pkcs8(der.into()),
        KeyForm::Pkcs1 => PrivateKeyDer::Pkcs1(der.into()),
        KeyForm::Sec1 => PrivateKeyDer::Sec1(der.into()),
    })
}

impl Context<'_> {
    /// A file of authorities. There is an error if it has none, or one that cannot be used.
    pub fn authorities_file(&self, path: &Spanned<String>) -> Option<Vec<CertificateDer<'static>>> {
        let found = self.certificates(path)?;
        let mut store = RootCertStore::empty();
        for (index, certificate) in found.iter().enumerate() {
            if let Err(error) = store.add(certificate.clone()) {
                let why = format!("its certificate {} is not one of an authority", index + 1);
                self.unusable(path, &format!("{why}: {error}"), "");
                return None;
            }
        }
        self.warn_of_dates(path, &found);
        Some(found)
    }

    /// A file with the certificate that the gateway shows, and those that lead from it to the
    /// authority. There is an error if there is none, or one that cannot be read.
    pub fn chain_file(&self, path: &Spanned<String>) -> Option<Vec<CertificateDer<'static>>> {
        let found = self.certificates(path)?;
        self.warn_of_dates(path, &found);
        if let Some(dates) = found.first().and_then(CertificateDates::of) {
            let mut known = self.around.certificates.borrow_mut();
            if !known.contains(&dates) {
                known.push(dates);
            }
        }
        Some(found)
    }

    /// A file with a private key. There is an error if it has none that can be read.
    pub fn private_key_file(&self, path: &Spanned<String>) -> Option<Arc<PrivateKeyDer<'static>>> {
        let read = private_key(&self.file_bytes(path)?);
        self.understood(path, read).map(Arc::new)
    }

    fn certificates(&self, path: &Spanned<String>) -> Option<Vec<CertificateDer<'static>>> {
        let read = pem::certificates(&self.file_bytes(path)?);
        let found = self.understood(path, read)?;
        Some(found.into_iter().map(CertificateDer::from).collect())
    }

    fn understood<T>(&self, path: &Spanned<String>, read: Result<T, PemError>) -> Option<T> {
        read.map_err(|error| self.unusable(path, &error.to_string(), error.advice())).ok()
    }

    /// Reports a file that cannot be used.
    pub fn unusable(&self, path: &Spanned<String>, why: &str, advice: &str) {
        let message = format!("the file {:?} cannot be used: {why}", path.shown());
        self.error(path.span, &message, advice);
    }

    /// Warns of certificates that are not valid now. They are used: a restart at the wrong time
    /// must not take the gateway out of service.
    fn warn_of_dates(&self, path: &Spanned<String>, found: &[CertificateDer<'static>]) {
        for CertificateDates { name, from_s, until_s } in
            found.iter().filter_map(CertificateDates::of)
        {
            let dates = CertificateDates { name, from_s, until_s };
            let at = |s| Timestamp::default().plus(Span::from_secs(s));
            let (what, advice) = match dates.at(self.around.now) {
                Validity::Valid => continue,
                Validity::Expired => (format!("has expired at {}", at(until_s)), "renew it"),
                Validity::NotYet => (
                    format!("is not valid before {}", at(from_s)),
                    "compare the clocks of this machine and of the authority",
                ),
            };
            let message =
                format!("the certificate {:?} in the file {:?} {what}", dates.name, path.shown());
            self.warning(path.span, &message, advice);
        }
    }
}
