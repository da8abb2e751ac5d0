//! `tls` of a listener. Its files are read here, so that a file that cannot be used is found
//! before the gateway starts.

use rustls::pki_types::CertificateDer;
use schemars::JsonSchema;
use serde::Deserialize;

use super::context::Context;
use crate::config::field::{Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::words::{Word, words};
use crate::server::{Certificate, TlsError, TlsSettings, TlsVersion, certificates};

/// The certificates of a listener, and whether clients need one. Paths name files in PEM format.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "listener tls", default)]
#[schemars(deny_unknown_fields, extend("required" = ["certificates"]))]
pub(super) struct RawListenerTls {
    /// The certificates. A client gets the one for the name that it asks for, or else the first.
    certificates: List<RawCertificate>,
    /// The authorities that sign the certificates of clients. If given, every client must show
    /// such a certificate. Default: clients need no certificate.
    #[schemars(example = &"certs/ca.pem")]
    client_ca: Field<String>,
    /// The oldest version of TLS that clients may use. Default: "1.2".
    min_version: Field<Word<TlsVersion>>,
}

/// A certificate and its key.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "certificate", default)]
#[schemars(deny_unknown_fields, extend("required" = ["cert", "key"]))]
struct RawCertificate {
    /// The file of the certificate and of those that lead from it to the authority.
    #[schemars(example = &"certs/full.pem")]
    cert: Field<String>,
    /// The file of the private key.
    #[schemars(example = &"certs/key.pem")]
    key: Field<String>,
}

words! {
    /// A version of TLS.
    TlsVersion as "min_version" {
        /// TLS 1.2 (RFC 5246).
        "1.2" => TlsVersion::Tls12,
        /// TLS 1.3 (RFC 8446).
        "1.3" => TlsVersion::Tls13,
    }
}

impl RawListenerTls {
    /// Whether clients must show certificates, or were meant to.
    pub(super) fn verifies_clients(&self) -> bool {
        !self.client_ca.is_absent()
    }

    /// The settings of the section, which is written at `span`.
    pub(super) fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Option<TlsSettings> {
        let advice = "write certificates: [{ cert: full.pem, key: key.pem }]";
        cx.required(&self.certificates, span, "\"tls\" has no \"certificates\"", advice);
        cx.not_empty(&self.certificates, "there are no certificates", advice);
        let found = self.certificates.items().filter_map(|raw| raw.value.compile(raw.span, cx));
        let settings = TlsSettings {
            certificates: found.collect(),
            client_ca: self.client_ca.given().and_then(|it| client_ca(it, cx)).unwrap_or_default(),
            min_version: self.min_version.word().unwrap_or_default(),
        };
        if let (Some(path), Err(error)) = (self.client_ca.given(), settings.check()) {
            unusable(path, &error, cx);
        }
        Some(settings)
    }
}

impl RawCertificate {
    fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Option<Certificate> {
        let lack = |name| format!("the certificate has no \"{name}\"");
        cx.required(&self.cert, span, &lack("cert"), "write cert: full.pem");
        cx.required(&self.key, span, &lack("key"), "write key: key.pem");
        let (cert, key) = (self.cert.given()?, self.key.given()?);
        let (chain, secret) = (cx.file(cert), cx.file(key));
        match Certificate::from_pem(chain?.as_bytes(), secret?.as_bytes()) {
            Ok(certificate) => Some(certificate),
            Err(error) => {
                let path = if error == TlsError::NoCertificate { cert } else { key };
                unusable(path, &error, cx);
                None
            }
        }
    }
}

fn client_ca(path: &Spanned<String>, cx: &Context<'_>) -> Option<Vec<CertificateDer<'static>>> {
    let found = certificates(cx.file(path)?.as_bytes());
    found.map_err(|error| unusable(path, &error, cx)).ok()
}

fn unusable(path: &Spanned<String>, error: &TlsError, cx: &Context<'_>) {
    let message = format!("the file {:?} cannot be used: {error}", path.shown());
    cx.error(path.span, &message, "");
}
