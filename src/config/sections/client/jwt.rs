//! `client.user.jwt`: the keys that bearer tokens are verified with.

use std::sync::Arc;

use jsonwebtoken::{Algorithm, AlgorithmFamily};
use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::{JwtSettings, KeyError, KeySet, TokenKeys, UsableKeys, VerifyingKey};
use tollgate_core::time::Span;

use super::jwks::{JwksForm, RawJwks};
use crate::config::field::{Either, Field, List, OneOrMore, Spanned};
use crate::config::model::{KeyFile, KeySource, Signed};
use crate::config::node::TextSpan;
use crate::config::scalar::Period;
use crate::config::sections::context::Context;
use crate::config::words::{Word, words};

/// How bearer tokens are verified: with exactly one of `secret`, `public_key` and `jwks`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "jwt", default)]
#[schemars(deny_unknown_fields, extend("required" = ["algorithms"]))]
pub struct RawJwt {
    /// The shared secret, at least as long as the hash: 32 bytes for HS256, 48 for HS384, 64 for
    /// HS512.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"${JWT_SECRET}")]
    secret: Field<String>,
    /// A public key, as PEM text or as the path of a PEM file.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"certs/issuer.pem")]
    public_key: Field<String>,
    /// A set of public keys: the URL that the gateway fetches it from, or the path of a file.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"https://issuer.example/.well-known/jwks.json")]
    jwks: Field<JwksForm>,
    /// The algorithms that tokens may be signed with. There is no default, because the sender of
    /// a token must not choose.
    #[schemars(example = ["RS256"])]
    algorithms: List<Word<Algorithm>>,
    /// The accepted values of the claim `iss`: one, or a list.
    #[schemars(extend("x-default" = "any"))]
    #[schemars(example = &"https://issuer.example")]
    issuer: OneOrMore<String>,
    /// The accepted values of the claim `aud`: one, or a list. A token needs one of them.
    #[schemars(extend("x-default" = "any"))]
    #[schemars(example = &"api.example.com")]
    audience: OneOrMore<String>,
    /// The claim that contains the ID of the user.
    #[schemars(extend("default" = "sub"))]
    #[schemars(example = &"org.id")]
    claim: Field<String>,
    /// How much the clocks of the issuer and of the gateway may differ, from 0s to 5m: a token is
    /// valid from `nbf` minus this time until `exp` plus this time.
    #[schemars(extend("default" = "30s"))]
    #[schemars(example = &"5s")]
    leeway: Field<Period>,
}

words! {
    /// An algorithm for signed tokens (RFC 7518, RFC 8037, RFC 9864).
    Algorithm as "algorithm of tokens" {
        /// HMAC with SHA-256.
        "HS256" => Algorithm::HS256,
        /// HMAC with SHA-384.
        "HS384" => Algorithm::HS384,
        /// HMAC with SHA-512.
        "HS512" => Algorithm::HS512,
        /// RSA PKCS #1 v1.5 with SHA-256.
        "RS256" => Algorithm::RS256,
        /// RSA PKCS #1 v1.5 with SHA-384.
        "RS384" => Algorithm::RS384,
        /// RSA PKCS #1 v1.5 with SHA-512.
        "RS512" => Algorithm::RS512,
        /// RSA PSS with SHA-256.
        "PS256" => Algorithm::PS256,
        /// RSA PSS with SHA-384.
        "PS384" => Algorithm::PS384,
        /// RSA PSS with SHA-512.
        "PS512" => Algorithm::PS512,
        /// ECDSA on P-256 with SHA-256.
        "ES256" => Algorithm::ES256,
        /// ECDSA on P-384 with SHA-384.
        "ES384" => Algorithm::ES384,
        /// Ed25519. Tokens may also call it `Ed25519`.
        "EdDSA" => Algorithm::EdDSA,
        /// The same as `EdDSA`, by its newer name.
        "Ed25519" => Algorithm::EdDSA,
    }
}

impl RawJwt {
    /// The settings of the section, which is written at `span`.
    pub fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Option<JwtSettings> {
        let advice = "like algorithms: [RS256]; a token must not choose its own";
        let message = "tokens need \"algorithms\"";
        cx.required(&self.algorithms, span, message, advice);
        cx.not_empty(&self.algorithms, message, advice);
        if let Some(claim) = self.claim.given()
            && claim.value.split('.').any(str::is_empty)
        {
            let advice = "write a name like sub, or org.id for nested ones";
            cx.error(claim.span, "this is not the name of a claim", advice);
        }
        let leeway = cx.duration(&self.leeway, "leeway", Span::ZERO..=JwtSettings::MAX_LEEWAY);
        let defaults = JwtSettings::new(self.verifying_keys(span, cx)?, self.algorithms());
        Some(JwtSettings {
            issuers: accepted(&self.issuer, "issuer", cx),
            audiences: accepted(&self.audience, "audience", cx),
            claim: self.claim.value().cloned().unwrap_or(defaults.claim),
            leeway: leeway.unwrap_or(defaults.leeway),
            ..defaults
        })
    }

    fn algorithms(&self) -> Vec<Algorithm> {
        self.algorithms.items().map(|algorithm| algorithm.value.0).collect()
    }

    /// The keys of the one source that is given.
    fn verifying_keys(&self, span: TextSpan, cx: &Context<'_>) -> Option<TokenKeys> {
        let Self { secret, public_key, jwks, .. } = self;
        let sources = [secret.is_absent(), public_key.is_absent(), jwks.is_absent()];
        if sources.iter().filter(|absent| !**absent).count() != 1 {
            let message = "tokens are verified with one of \"secret\", \"public_key\" and \"jwks\"";
            cx.error(span, message, "write exactly one of them");
            return None;
        }
        let algorithms = self.algorithms();
        if algorithms.is_empty() {
            return None;
        }
        if let Some(secret) = secret.given() {
            let key = VerifyingKey::from_secret(secret.value.as_bytes(), &algorithms);
            return checked(secret.span, key, cx).map(|key| TokenKeys::Known(vec![key]));
        }
        if let Some(key) = public_key.given() {
            let pem = pem(key, cx)?;
            let parsed = VerifyingKey::from_pem(&pem, &algorithms);
            return checked(key.span, parsed, cx).map(|key| TokenKeys::Known(vec![key]));
        }
        match RawJwks::file_of(jwks.given()?) {
            Some(file) => jwks_file(&file, &algorithms, cx),
            None => Some(TokenKeys::Fetched(Arc::new(KeySet::new()))),
        }
    }

    /// The URL that the set of keys is fetched from, if there is one.
    pub fn key_source(&self, cx: &Context<'_>) -> Option<KeySource> {
        let jwks = self.jwks.given()?;
        let (url, raw) = RawJwks::url_of(jwks, cx)?;
        // An issuer publishes no secrets.
        let needs_secret = |algorithm: Algorithm| algorithm.family() == AlgorithmFamily::Hmac;
        for hmac in self.algorithms.items().filter(|it| needs_secret(it.value.0)) {
            let message = format!(
                "{:?} needs a secret, but a set that is fetched contains only public keys",
                hmac.value.0
            );
            let advice = "name the algorithms of the issuer's public keys, like RS256";
            cx.error(hmac.span, &message, advice);
        }
        let (document, refresh) = raw.document(&url, cx)?;
        // The query of a URL may contain a secret too.
        let shown = url.shown().split('?').next().unwrap_or_default().to_owned();
        Some(KeySource {
            document,
            algorithms: self.algorithms(),
            refresh,
            shown,
            signed: Signed::Tokens,
        })
    }
}

/// The accepted values of a claim. An empty list is a mistake, because it would allow any value.
fn accepted(raw: &OneOrMore<String>, name: &str, cx: &Context<'_>) -> Vec<String> {
    if let Some(Spanned { value: Either::Long(list), span, .. }) = raw.given()
        && list.is_empty()
    {
        let message = format!("this list of {name}s is empty");
        cx.error(*span, &message, "write one, or leave the field out");
    }
    raw.one_or_more().cloned().collect()
}

/// The text itself if it is PEM, or else the contents of the file with this path.
fn pem(key: &Spanned<String>, cx: &Context<'_>) -> Option<Vec<u8>> {
    if key.value.contains("-----BEGIN") {
        return Some(key.value.clone().into_bytes());
    }
    cx.file_bytes(key)
}

fn jwks_file(
    file: &Spanned<String>,
    algorithms: &[Algorithm],
    cx: &Context<'_>,
) -> Option<TokenKeys> {
    if !cx.around.has(&file.value) {
        let message = "this file does not exist: no token is valid until it does";
        cx.warning(file.span, message, "");
        return Some(TokenKeys::Known(Vec::new()));
    }
    let read = UsableKeys::read(cx.file(file)?.as_bytes(), algorithms);
    let UsableKeys { keys, left_out, .. } = checked(file.span, read, cx)?;
    let name = file.value.clone();
    let count = left_out.len();
    cx.around.key_file.replace(Some(KeyFile { name, left_out: count }));
    for key in left_out {
        cx.warning(file.span, &key.to_string(), "no token that it has signed is valid");
    }
    Some(TokenKeys::Known(keys))
}

fn checked<T>(span: TextSpan, keys: Result<T, KeyError>, cx: &Context<'_>) -> Option<T> {
    keys.map_err(|error| {
        let message = match error {
            // The message of the parser could quote a secret key.
            KeyError::Jwks(json) => format!(
                "this is not a JSON Web Key Set: there is a mistake in its line {}, column {}",
                json.line(),
                json.column()
            ),
            other => other.to_string().replace('`', "\""),
        };
        cx.error(span, &message, "");
    })
    .ok()
}
