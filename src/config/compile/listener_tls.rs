//! `tls` of a listener: the files are read here, so that what cannot be used is
//! found before anything runs.

use super::Compiler;
use crate::config::field::Spanned;
use crate::config::raw::{RawCertificate, RawListenerTls, RawTlsVersion};
use crate::server::{Certificate, TlsError, TlsSettings, TlsVersion, certificates};

impl Compiler<'_> {
    pub(super) fn listener_tls(&self, raw: &Spanned<RawListenerTls>) -> Option<TlsSettings> {
        let tls = &raw.value;
        let advice = "write certificates: [{ cert: full.pem, key: key.pem }]";
        self.required(&tls.certificates, raw.span, "\"tls\" has no \"certificates\"", advice);
        self.not_empty(&tls.certificates, "there are no certificates", advice);
        let found = tls.certificates.items().filter_map(|raw| self.certificate(raw)).collect();
        let client_ca = tls.client_ca.given().and_then(|path| self.client_ca(path));
        let min_version = match tls.min_version.value() {
            Some(RawTlsVersion::Tls13) => TlsVersion::Tls13,
            Some(RawTlsVersion::Tls12) | None => TlsVersion::Tls12,
        };
        let client_ca = client_ca.unwrap_or_default();
        let settings = TlsSettings { certificates: found, client_ca, min_version };
        if let (Some(path), Err(error)) = (tls.client_ca.given(), settings.check()) {
            self.unusable(path, &error);
        }
        Some(settings)
    }

    fn certificate(&self, raw: &Spanned<RawCertificate>) -> Option<Certificate> {
        let lack = |name| format!("the certificate has no \"{name}\"");
        let RawCertificate { cert, key } = &raw.value;
        self.required(cert, raw.span, &lack("cert"), "write cert: full.pem");
        self.required(key, raw.span, &lack("key"), "write key: key.pem");
        let (cert, key) = (cert.given()?, key.given()?);
        let (chain, secret) = (self.file(cert), self.file(key));
        match Certificate::from_pem(chain?.as_bytes(), secret?.as_bytes()) {
            Ok(certificate) => Some(certificate),
            Err(error) => {
                let path = if error == TlsError::NoCertificate { cert } else { key };
                self.unusable(path, &error);
                None
            }
        }
    }

    fn client_ca(
        &self,
        path: &Spanned<String>,
    ) -> Option<Vec<rustls::pki_types::CertificateDer<'static>>> {
        let found = certificates(self.file(path)?.as_bytes());
        found.map_err(|error| self.unusable(path, &error)).ok()
    }

    fn unusable(&self, path: &Spanned<String>, error: &TlsError) {
        let message = format!("the file {:?} cannot be used: {error}", path.shown());
        self.problems.error(path.span, &message, "");
    }
}
