//! `client.user.jwt`: the keys that tokens are verified with.

use jsonwebtoken::Algorithm;

use super::Compiler;
use crate::config::field::{Either, Spanned};
use crate::config::node::Span;
use crate::config::raw::{OneOrMore, RawJwt, RawJwtAlgorithm};
use crate::policy::{JwtSettings, KeyError, TokenKeys, VerifyingKey};

impl Compiler<'_> {
    pub(super) fn jwt(&self, raw: &Spanned<RawJwt>) -> Option<JwtSettings> {
        let advice = "like algorithms: [RS256]; a token must not choose its own";
        let message = "tokens need \"algorithms\"";
        self.required(&raw.value.algorithms, raw.span, message, advice);
        self.not_empty(&raw.value.algorithms, message, advice);
        let algorithms = algorithms_of(&raw.value);
        if let Some(claim) = raw.value.claim.given()
            && claim.value.split('.').any(str::is_empty)
        {
            let advice = "write a name like sub, or org.id for nested ones";
            self.problems.error(claim.span, "this is no name of a claim", advice);
        }
        Some(JwtSettings {
            keys: self.verifying_keys(raw, &algorithms)?,
            algorithms,
            issuers: self.accepted(&raw.value.issuer, "issuer"),
            audiences: self.accepted(&raw.value.audience, "audience"),
            claim: raw.value.claim.value().map_or_else(|| "sub".to_owned(), Clone::clone),
        })
    }

    /// What a claim must be; an empty list would allow anything.
    fn accepted(&self, raw: &OneOrMore<String>, name: &str) -> Vec<String> {
        if let Some(Spanned { value: Either::Long(list), span, .. }) = raw.given()
            && list.is_empty()
        {
            let message = format!("there is no {name} in this list");
            self.problems.error(*span, &message, "write one, or leave the field out");
        }
        raw.one_or_more().cloned().collect()
    }

    /// From the one source that is given.
    fn verifying_keys(&self, raw: &Spanned<RawJwt>, algorithms: &[Algorithm]) -> Option<TokenKeys> {
        let RawJwt { secret, public_key, jwks, .. } = &raw.value;
        let sources = [secret.is_absent(), public_key.is_absent(), jwks.is_absent()];
        if sources.iter().filter(|absent| !**absent).count() != 1 {
            let message = "tokens are verified with one of \"secret\", \"public_key\" and \"jwks\"";
            self.problems.error(raw.span, message, "write exactly one of them");
            return None;
        }
        if algorithms.is_empty() {
            return None;
        }
        if let Some(secret) = secret.given() {
            let key = VerifyingKey::from_secret(secret.value.as_bytes(), algorithms);
            return self.key_or_problem(secret.span, key).map(|key| TokenKeys::Known(vec![key]));
        }
        if let Some(key) = public_key.given() {
            let pem = self.pem(key)?;
            let parsed = VerifyingKey::from_pem(&pem, algorithms);
            return self.key_or_problem(key.span, parsed).map(|key| TokenKeys::Known(vec![key]));
        }
        self.jwks(jwks.given()?, algorithms)
    }

    /// The text itself if it is PEM, otherwise that of the file it names.
    fn pem(&self, key: &Spanned<String>) -> Option<String> {
        if key.value.contains("-----BEGIN") {
            return Some(key.value.clone());
        }
        self.file(key)
    }

    pub(super) fn key_or_problem<T>(&self, span: Span, keys: Result<T, KeyError>) -> Option<T> {
        keys.map_err(|error| {
            let message = match error {
                // The parser's own words could quote a secret key.
                KeyError::Jwks(json) => format!(
                    "this is no JSON Web Key Set: there is a mistake in its line {}, column {}",
                    json.line(),
                    json.column()
                ),
                other => other.to_string().replace('`', "\""),
            };
            self.problems.error(span, &message, "");
        })
        .ok()
    }
}

/// The algorithms that tokens may be signed with.
pub(super) fn algorithms_of(jwt: &RawJwt) -> Vec<Algorithm> {
    jwt.algorithms.items().map(|algorithm| algorithm_of(algorithm.value)).collect()
}

fn algorithm_of(raw: RawJwtAlgorithm) -> Algorithm {
    match raw {
        RawJwtAlgorithm::Hs256 => Algorithm::HS256,
        RawJwtAlgorithm::Rs256 => Algorithm::RS256,
        RawJwtAlgorithm::Es256 => Algorithm::ES256,
        RawJwtAlgorithm::EdDsa => Algorithm::EdDSA,
    }
}
