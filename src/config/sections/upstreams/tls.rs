//! `tls` of an upstream: the certificates for connections to its endpoints.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::field::{Field, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::ServerNameText;
use crate::config::sections::context::Context;
use crate::proxy::{TlsError, TlsParts, TlsSettings};

/// The certificates for connections to endpoints. Paths name files in PEM format.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "tls", default)]
#[schemars(rename = "tls of upstreams", deny_unknown_fields)]
pub struct RawUpstreamTls {
    /// The authorities that may have signed the certificates of the endpoints.
    #[schemars(extend("x-default" = "the authorities that the system trusts"))]
    #[schemars(example = &"certs/ca.pem")]
    ca: Field<String>,
    /// The certificate of the gateway, for endpoints that ask for one.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"certs/client.pem")]
    cert: Field<String>,
    /// The private key of that certificate.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"certs/client.key")]
    key: Field<String>,
    /// The name that the certificates must be for.
    #[schemars(extend("x-default" = "the host of each endpoint"))]
    server_name: Field<ServerNameText>,
    /// Whether the certificates of the endpoints are verified. If false, any server can pose as an
    /// endpoint.
    #[schemars(extend("default" = true))]
    verify: Field<bool>,
}

impl RawUpstreamTls {
    /// The settings of the upstream that is written at `upstream`. None if no endpoint needs TLS.
    pub fn compile(
        raw: &Field<Self>,
        is_needed: bool,
        upstream: TextSpan,
        cx: &Context<'_>,
    ) -> Option<TlsSettings> {
        let given = raw.given();
        if let Some(given) = given.filter(|_| !is_needed) {
            let message = "these settings have no effect: no endpoint is reached over TLS";
            cx.error(given.span, message, "write https:// instead of http://");
        }
        let parts =
            given.map_or_else(|| Some(TlsParts::default()), |it| it.value.parts(it.span, cx));
        let made = TlsSettings::new(parts.filter(|_| is_needed)?);
        made.map_err(|error| report(error, raw.value(), upstream, cx)).ok()
    }

    fn parts(&self, span: TextSpan, cx: &Context<'_>) -> Option<TlsParts> {
        let Self { ca, cert, key, server_name, verify } = self;
        if cert.is_absent() != key.is_absent() {
            let message = "\"cert\" and \"key\" belong together";
            cx.error(span, message, "write both of them, or neither");
        }
        let not_verified = verify.given().filter(|given| !given.value);
        if let Some(given) = not_verified {
            let message = "certificates are not verified: any server can pose as the endpoint";
            cx.warning(given.span, message, "name the authority in \"ca\" instead");
        }
        // All files are read before the first return, so that all mistakes are reported.
        let ca = ca.given().map(|path| cx.authorities_file(path));
        let cert = cert.given().map(|path| cx.chain_file(path));
        let key = key.given().map(|path| cx.private_key_file(path));
        let is_whole = [&ca, &cert].iter().all(|file| !matches!(file, Some(None)));
        (is_whole && !matches!(key, Some(None))).then(|| TlsParts {
            ca: ca.flatten(),
            identity: cert.flatten().zip(key.flatten()),
            server_name: server_name.value().map(|name| name.0.clone()),
            verify: not_verified.is_none(),
        })
    }
}

fn report(error: TlsError, tls: Option<&RawUpstreamTls>, upstream: TextSpan, cx: &Context<'_>) {
    let (field, advice): (Option<&Field<String>>, _) = match error {
        TlsError::NoAuthorities => (None, "name a file, like tls: { ca: ca.pem }"),
        TlsError::Authority => (tls.map(|tls| &tls.ca), ""),
        TlsError::Certificate => (tls.map(|tls| &tls.cert), ""),
        TlsError::Key => (tls.map(|tls| &tls.key), ""),
        TlsError::Mismatch => (tls.map(|tls| &tls.key), "name the key of \"cert\""),
    };
    let file: Option<&Spanned<String>> = field.and_then(Field::given);
    match file {
        None => cx.error(upstream, &error.to_string(), advice),
        Some(file) => cx.unusable(file, &error.to_string(), advice),
    }
}
