//! `tls` of an upstream: whom to believe, and who we are.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::Compiler;
use crate::config::field::{Field, Spanned};
use crate::config::node::Span;
use crate::config::raw::RawUpstreamTls;
use crate::proxy::{TlsError, TlsParts, TlsSettings};

impl Compiler<'_> {
    /// How the endpoints of an upstream that stands at `place` are reached;
    /// nothing if none `is_needed`.
    pub(super) fn upstream_tls(
        &self,
        raw: &Field<RawUpstreamTls>,
        is_needed: bool,
        place: Span,
    ) -> Option<TlsSettings> {
        let given = raw.given();
        if let Some(given) = given.filter(|_| !is_needed) {
            let message = "these settings have no effect: no endpoint is reached over TLS";
            self.problems.error(given.span, message, "write https:// in place of http://");
        }
        let parts = given.map_or_else(|| Some(TlsParts::default()), |given| self.tls_parts(given));
        let made = TlsSettings::new(parts.filter(|_| is_needed)?);
        let report = |error: TlsError| {
            let (field, advice) = match error {
                TlsError::NoAuthorities => (None, "name a file, like tls: { ca: ca.pem }"),
                TlsError::Authority => (given.and_then(|tls| tls.value.ca.given()), ""),
                TlsError::Certificate => (given.and_then(|tls| tls.value.cert.given()), ""),
                TlsError::Key => (given.and_then(|tls| tls.value.key.given()), ""),
                TlsError::Mismatch => {
                    (given.and_then(|tls| tls.value.key.given()), "name the key of \"cert\"")
                }
            };
            let message = match field {
                None => error.to_string(),
                Some(file) => format!("the file {:?} cannot be used: {error}", file.shown()),
            };
            self.problems.error(field.map_or(place, |file| file.span), &message, advice);
        };
        made.map_err(report).ok()
    }

    fn tls_parts(&self, raw: &Spanned<RawUpstreamTls>) -> Option<TlsParts> {
        let RawUpstreamTls { ca, cert, key, server_name, verify } = &raw.value;
        if cert.is_absent() != key.is_absent() {
            let message = "\"cert\" and \"key\" belong together";
            self.problems.error(raw.span, message, "write both of them, or neither");
        }
        let verify = verify.given().filter(|given| !given.value);
        if let Some(off) = verify {
            let message = "certificates are not looked at: anybody can be the endpoint";
            self.problems.warning(off.span, message, "name the authority by \"ca\" instead");
        }
        let certificates = |pem: &[u8]| {
            let mut found = CertificateDer::pem_slice_iter(pem).peekable();
            found.peek().is_some() && found.all(|certificate| certificate.is_ok())
        };
        // Not short-circuited: every file is looked at.
        let of = |field: &Field<String>, lack, is_good: &dyn Fn(&[u8]) -> bool| {
            field.given().map(|path| self.pem_file(path, lack, is_good))
        };
        let ca = of(ca, "no certificate", &certificates);
        let cert = of(cert, "no certificate", &certificates);
        let key =
            of(key, "no private key", &|pem: &[u8]| PrivateKeyDer::from_pem_slice(pem).is_ok());
        let is_whole = [&ca, &cert, &key].iter().all(|file| !matches!(file, Some(None)));
        is_whole.then(|| TlsParts {
            ca: ca.flatten(),
            identity: cert.flatten().zip(key.flatten()),
            server_name: server_name.value().map(|name| name.0.clone()),
            verify: verify.is_none(),
        })
    }
}
