//! `client.user.jwt.jwks`: a set of keys in a file, or fetched from an issuer.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use jsonwebtoken::Algorithm;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::Compiler;
use super::jwt::algorithms_of;
use crate::config::field::{Either, Field, Spanned};
use crate::config::model::KeySource;
use crate::config::raw::{RawClient, RawJwks, RawJwksForm, RawJwt, RawJwtAlgorithm};
use crate::config::scalar::DocumentUrl;
use crate::policy::{KeySet, TokenKeys, VerifyingKey};
use crate::proxy::{DocumentSource, Target, TlsError, TlsParts, TlsSettings};
use crate::time::Span;

/// How often a set is fetched again where nothing is said of it.
const REFRESH: Duration = Duration::from_secs(600);
const MEDIA_TYPES: HeaderValue =
    HeaderValue::from_static("application/jwk-set+json, application/json, */*;q=0.1");

impl Compiler<'_> {
    /// The keys of a set; where it is fetched, the place that they will have.
    pub(super) fn jwks(
        &self,
        jwks: &Spanned<RawJwksForm>,
        algorithms: &[Algorithm],
    ) -> Option<TokenKeys> {
        let fetched = || Some(TokenKeys::Fetched(Arc::new(KeySet::new())));
        match &jwks.value {
            Either::Short(text) if DocumentUrl::is_url(text) => fetched(),
            Either::Short(path) => self.jwks_file(&spanned(jwks, path), algorithms),
            Either::Long(raw) => match raw.file.given() {
                Some(file) => self.jwks_file(file, algorithms),
                None => fetched(),
            },
        }
    }

    fn jwks_file(&self, file: &Spanned<String>, algorithms: &[Algorithm]) -> Option<TokenKeys> {
        if !self.around.has(&file.value) {
            let message = "this file is not there: until it is, no token is valid";
            self.problems.warning(file.span, message, "");
            return Some(TokenKeys::Known(Vec::new()));
        }
        let text = self.file(file)?;
        let keys = VerifyingKey::from_jwks(&text, algorithms);
        self.key_or_problem(file.span, keys).map(TokenKeys::Known)
    }

    /// Where the set of keys is fetched from, if it is.
    pub(super) fn key_source(&self, client: Option<&RawClient>) -> Option<KeySource> {
        let user = client?.user.value()?;
        let jwt = user.jwt.value()?;
        let jwks = jwt.jwks.given()?;
        let fetched = match &jwks.value {
            Either::Short(text) if DocumentUrl::is_url(text) => {
                (spanned(jwks, text), &RawJwks::default())
            }
            Either::Short(_) => return None,
            Either::Long(raw) => {
                if raw.file.is_absent() == raw.url.is_absent() {
                    let message = "a key set is in a file, or is fetched from a URL";
                    self.problems.error(jwks.span, message, "write either \"url\" or \"file\"");
                    return None;
                }
                if !raw.file.is_absent() {
                    self.only_for_urls(&raw.ca, "ca");
                    self.only_for_urls(&raw.refresh, "refresh");
                    return None;
                }
                (raw.url.given()?.clone(), raw)
            }
        };
        self.check_public(jwt);
        let (url, raw) = fetched;
        // Not short-circuited: every field is looked at.
        let (parsed, ca) = (self.document_url(&url), self.authorities(raw));
        let refresh = self.span(&raw.refresh, "refresh", Span::SECOND..=Span::DAY);
        let parsed = parsed?;
        let tls = self.key_source_tls(&parsed, &url, raw, ca?);
        Some(KeySource {
            document: DocumentSource {
                target: parsed.target,
                tls,
                path: parsed.path,
                accept: MEDIA_TYPES,
            },
            algorithms: algorithms_of(jwt),
            refresh: refresh.map_or(REFRESH, Duration::from),
            // What a query says may be a secret, too.
            shown: url.shown().split('?').next().unwrap_or_default().to_owned(),
        })
    }

    fn only_for_urls<T>(&self, field: &Field<T>, name: &str) {
        if let Some(given) = field.given() {
            let message = format!("\"{name}\" has no effect: the key set is in a file");
            self.problems.error(given.span, &message, "leave it out; a changed file is read again");
        }
    }

    /// What an issuer publishes is no secret.
    fn check_public(&self, jwt: &RawJwt) {
        let secret = jwt.algorithms.items().find(|it| it.value == RawJwtAlgorithm::Hs256);
        if let Some(hs256) = secret {
            let message = "HS256 needs a secret, and a set that is fetched has none";
            let advice = "name the algorithms of the issuer's public keys, like RS256";
            self.problems.error(hs256.span, message, advice);
        }
    }

    fn document_url(&self, url: &Spanned<String>) -> Option<DocumentUrl> {
        match url.value.parse::<DocumentUrl>() {
            Ok(parsed) => {
                if parsed.is_exposed() {
                    let message = "over http, a machine on the way can put other keys in the set";
                    self.problems.warning(url.span, message, "write https://");
                }
                Some(parsed)
            }
            Err(error) => {
                let message = match &url.written {
                    Some(written) => format!("what {written:?} stands for is no such URL"),
                    None => error.to_string(),
                };
                self.problems.error(url.span, &message, "");
                None
            }
        }
    }

    /// The authorities that are named, if any are; none if they cannot be used.
    fn authorities(&self, raw: &RawJwks) -> Option<Option<Vec<u8>>> {
        let Some(path) = raw.ca.given() else { return Some(None) };
        let is_good = |pem: &[u8]| {
            let mut found = CertificateDer::pem_slice_iter(pem).peekable();
            found.peek().is_some() && found.all(|certificate| certificate.is_ok())
        };
        self.pem_file(path, "no certificate", is_good).map(Some)
    }

    fn key_source_tls(
        &self,
        parsed: &DocumentUrl,
        url: &Spanned<String>,
        raw: &RawJwks,
        authorities: Option<Vec<u8>>,
    ) -> Option<TlsSettings> {
        let ca = raw.ca.given();
        if !matches!(parsed.target, Target::Https(..)) {
            if let Some(ca) = ca {
                let message = "\"ca\" has no effect: the key set is not fetched over TLS";
                self.problems.error(ca.span, message, "write https:// in place of http://");
            }
            return None;
        }
        let made = TlsSettings::new(TlsParts { ca: authorities, ..TlsParts::default() });
        made.map_err(|error| {
            let place = ca.map_or(url.span, |ca| ca.span);
            let advice = match error {
                TlsError::NoAuthorities => "name a file, like ca: ca.pem",
                _ => "",
            };
            self.problems.error(place, &error.to_string(), advice);
        })
        .ok()
    }
}

/// A text with the place of the field that it is all of.
fn spanned(field: &Spanned<RawJwksForm>, text: &str) -> Spanned<String> {
    Spanned { value: text.to_owned(), span: field.span, written: field.written.clone() }
}
