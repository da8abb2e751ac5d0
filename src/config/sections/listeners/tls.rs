//! `tls` of a listener. Its files are read here, so that a file that cannot be used is found
//! before the gateway starts.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::field::{Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::sections::context::Context;
use crate::config::words::{Word, words};
use crate::server::{Certificate, TlsError, TlsSettings, TlsVersion};

/// The certificates of a listener, and whether clients need one. Paths name files in PEM format.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "listener tls", default)]
#[schemars(deny_unknown_fields, extend("required" = ["certificates"]))]
pub struct RawListenerTls {
    /// The certificates. A client gets the one for the name that it asks for, or else the first. Of
    /// several for one name, such as one with an ECDSA key and one with an RSA key, it gets the
    /// first that it can verify.
    certificates: List<RawCertificate>,
    /// The authorities that sign the certificates of clients. If given, every client must show such
    /// a certificate.
    #[schemars(extend("x-default" = "clients need no certificate"))]
    #[schemars(example = &"certs/ca.pem")]
    client_ca: Field<String>,
    /// The oldest version of TLS that clients may use.
    #[schemars(extend("default" = "1.2"))]
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
    pub fn verifies_clients(&self) -> bool {
        !self.client_ca.is_absent()
    }

    /// The settings of the section, which is written at `span`.
    pub fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Option<TlsSettings> {
        let advice = "write certificates: [{ cert: full.pem, key: key.pem }]";
        cx.required(&self.certificates, span, "\"tls\" has no \"certificates\"", advice);
        cx.not_empty(&self.certificates, "there are no certificates", advice);
        let found = self.certificates.items().filter_map(|raw| {
            raw.value.compile(raw.span, cx).map(|certificate| (raw.span, certificate))
        });
        let found: Vec<(TextSpan, Certificate)> = found.collect();
        warn_unused(&found, cx);
        let client_ca = self.client_ca.given().and_then(|it| cx.authorities_file(it));
        let settings = TlsSettings {
            certificates: found.into_iter().map(|(_, certificate)| certificate).collect(),
            client_ca: client_ca.unwrap_or_default(),
            min_version: self.min_version.word().unwrap_or_default(),
        };
        if let (Some(path), Err(error)) = (self.client_ca.given(), settings.check()) {
            cx.unusable(path, &error.to_string(), "");
        }
        Some(settings)
    }
}

impl RawCertificate {
    fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Option<Certificate> {
        let lack = |name| format!("the certificate has no \"{name}\"");
        cx.required(&self.cert, span, &lack("cert"), "write cert: full.pem");
        cx.required(&self.key, span, &lack("key"), "write key: key.pem");
        let cert = self.cert.given()?;
        let key = self.key.given()?;
        // Both files are read before the first return, so that all mistakes are reported.
        let chain = cx.chain_file(cert);
        let secret = cx.private_key_file(key);
        match Certificate::new(chain?, secret?) {
            Ok(certificate) => {
                warn_of_order(cert, &certificate, cx);
                Some(certificate)
            }
            Err(error) => {
                let (path, advice) = match error {
                    TlsError::NoCertificate | TlsError::Certificate(_) => (cert, ""),
                    TlsError::Order { .. } => {
                        (cert, "the server's certificate first, then the one that signed it")
                    }
                    TlsError::ShortKey(_) => {
                        (key, "make a new key, and let the authority sign a certificate for it")
                    }
                    _ => (key, "name the key of \"cert\""),
                };
                cx.unusable(path, &error.to_string(), advice);
                None
            }
        }
    }
}

/// Warns of a chain that clients of TLS 1.2 may refuse.
fn warn_of_order(path: &Spanned<String>, certificate: &Certificate, cx: &Context<'_>) {
    if let Some(number) = certificate.out_of_order() {
        let message = format!(
            "in the file {:?}, the certificate {number} has not signed the one before it: clients \
             may refuse the chain",
            path.shown()
        );
        let advice = "write each certificate before the one that has signed it";
        cx.warning(path.span, &message, advice);
    }
}

/// Warns of certificates that no client ever gets.
fn warn_unused(certificates: &[(TextSpan, Certificate)], cx: &Context<'_>) {
    for (index, (span, certificate)) in certificates.iter().enumerate().skip(1) {
        let earlier = || certificates[..index].iter().map(|(_, earlier)| earlier);
        let is_taken = |name: &String| {
            earlier()
                .any(|it| it.algorithm() == certificate.algorithm() && it.names().contains(name))
        };
        if certificate.names().iter().all(is_taken) {
            let (message, advice) = match certificate.names() {
                [] => (
                    "no client gets this certificate: it has no DNS name",
                    "make it the first, or one with alternative names",
                ),
                _ => (
                    "no client gets this certificate: earlier ones have its names, and keys of \
                     the same kind",
                    "leave it out",
                ),
            };
            cx.warning(*span, message, advice);
        }
    }
}
