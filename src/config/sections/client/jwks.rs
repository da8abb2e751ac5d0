//! `client.user.jwt.jwks`: a set of public keys, in a file or fetched from an issuer.

use std::time::Duration;

use http::HeaderValue;
use rustls::pki_types::CertificateDer;
use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::time::Span;

use crate::config::field::{Either, Field, Spanned};
use crate::config::scalar::{DocumentUrl, Period};
use crate::config::sections::context::Context;
use crate::proxy::{DocumentSource, Target, TlsError, TlsParts, TlsSettings};

/// The default of `refresh`.
const REFRESH: Duration = Duration::from_secs(600);
const MEDIA_TYPES: HeaderValue =
    HeaderValue::from_static("application/jwk-set+json, application/json, */*;q=0.1");

/// A URL or a path alone, or the section with more fields.
pub type JwksForm = Either<String, RawJwks>;

/// A set of public keys (RFC 7517): exactly one of `url` and `file`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "jwks", default)]
#[schemars(deny_unknown_fields)]
pub struct RawJwks {
    /// The path of a file with a JWK set. While the file does not exist, no token is valid.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"jwks.json")]
    file: Field<String>,
    /// The URL at which the issuer publishes the set.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"https://issuer.example/.well-known/jwks.json")]
    url: Field<String>,
    /// The file of the authorities that may have signed the certificate of the issuer.
    #[schemars(extend("x-default" = "the authorities that the system trusts"))]
    #[schemars(example = &"certs/ca.pem")]
    ca: Field<String>,
    /// How often the set is fetched again, from 1s to 1d. The gateway fetches it earlier if the
    /// issuer says that the set is valid for a shorter time, or if a token names a key that is not
    /// in the set.
    #[schemars(extend("default" = "10m"))]
    #[schemars(example = &"1h")]
    refresh: Field<Period>,
}

impl RawJwks {
    /// The path of the file, if the set is in one.
    pub fn file_of(form: &Spanned<JwksForm>) -> Option<Spanned<String>> {
        match &form.value {
            Either::Short(text) if DocumentUrl::is_url(text) => None,
            Either::Short(path) => Some(form.with(path.clone())),
            Either::Long(raw) => raw.file.given().cloned(),
        }
    }

    /// The URL with the other fields, if the set is fetched. Checks that there is one source.
    pub fn url_of(form: &Spanned<JwksForm>, cx: &Context<'_>) -> Option<(Spanned<String>, Self)> {
        let raw = match &form.value {
            Either::Short(text) if DocumentUrl::is_url(text) => {
                return Some((form.with(text.clone()), Self::default()));
            }
            Either::Short(_) => return None,
            Either::Long(raw) => raw,
        };
        if raw.file.is_absent() == raw.url.is_absent() {
            let message = "a key set is in a file, or is fetched from a URL";
            cx.error(form.span, message, "write either \"url\" or \"file\"");
            return None;
        }
        if !raw.file.is_absent() {
            only_for_urls(&raw.ca, "ca", cx);
            only_for_urls(&raw.refresh, "refresh", cx);
            return None;
        }
        Some((raw.url.given()?.clone(), raw.clone()))
    }

    /// A set behind a URL that is fetched again after this time.
    pub fn fetched_each(refresh: &Field<Period>) -> Self {
        Self { refresh: refresh.clone(), ..Self::default() }
    }

    /// The document behind `url`, and how often it is fetched again.
    pub fn document(
        &self,
        url: &Spanned<String>,
        cx: &Context<'_>,
    ) -> Option<(DocumentSource, Duration)> {
        // All fields are compiled before the first `?`, so that all mistakes are reported.
        let parsed = document_url(url, cx);
        let ca = self.authorities(cx);
        let refresh = cx.duration(&self.refresh, "refresh", Span::SECOND..=Span::DAY);
        let parsed = parsed?;
        let tls = self.tls(&parsed, url, ca?, cx);
        let DocumentUrl { target, path } = parsed;
        let document = DocumentSource { target, tls, path, accept: MEDIA_TYPES };
        Some((document, refresh.map_or(REFRESH, Duration::from)))
    }

    /// The authorities, if some are named. The outer option is none if they cannot be used.
    fn authorities(&self, cx: &Context<'_>) -> Option<Option<Vec<CertificateDer<'static>>>> {
        match self.ca.given() {
            Some(path) => cx.authorities_file(path).map(Some),
            None => Some(None),
        }
    }

    fn tls(
        &self,
        parsed: &DocumentUrl,
        url: &Spanned<String>,
        authorities: Option<Vec<CertificateDer<'static>>>,
        cx: &Context<'_>,
    ) -> Option<TlsSettings> {
        let ca = self.ca.given();
        if !matches!(parsed.target, Target::Https(..)) {
            if let Some(ca) = ca {
                let message = "\"ca\" has no effect: the key set is not fetched over TLS";
                cx.error(ca.span, message, "write https:// instead of http://");
            }
            return None;
        }
        let made = TlsSettings::new(TlsParts { ca: authorities, ..TlsParts::default() });
        made.map_err(|error| {
            let advice = match error {
                TlsError::NoAuthorities => "name a file, like ca: ca.pem",
                _ => "",
            };
            cx.error(ca.map_or(url.span, |ca| ca.span), &error.to_string(), advice);
        })
        .ok()
    }
}

fn only_for_urls<T>(field: &Field<T>, name: &str, cx: &Context<'_>) {
    if let Some(given) = field.given() {
        let message = format!("\"{name}\" has no effect: the key set is in a file");
        cx.error(given.span, &message, "leave it out; a changed file is read again");
    }
}

fn document_url(url: &Spanned<String>, cx: &Context<'_>) -> Option<DocumentUrl> {
    match url.value.parse::<DocumentUrl>() {
        Ok(parsed) => {
            if parsed.is_exposed() {
                let message =
                    "over http, a machine between the gateway and the issuer can replace the keys";
                cx.warning(url.span, message, "write https://");
            }
            Some(parsed)
        }
        Err(error) => {
            let message = match &url.written {
                Some(written) => format!("the value of {written:?} is not a valid URL"),
                None => error.to_string(),
            };
            cx.error(url.span, &message, "");
            None
        }
    }
}
