//! `client`, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{List, OneOrMore};
use crate::config::field::{Either, Field};
use crate::config::scalar::{Cidr, FieldName, Period};

/// Who is asking.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "client")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawClient {
    /// Only from these are forwarded headers believed. Default: none.
    #[serde(default)]
    pub(in crate::config) trusted_proxies: List<Cidr>,
    /// Where trusted proxies name their client: `x_forwarded_for` (the default), `forwarded`,
    /// `x_real_ip`, or any header name. With `forwarded` upstreams are told in it, too.
    #[serde(default)]
    pub(in crate::config) forwarded_header: Field<FieldName>,
    /// How many bits of an IPv4 address are one client. Default: 32.
    #[serde(default)]
    pub(in crate::config) ipv4_prefix: Field<u64>,
    /// How many bits of an IPv6 address are one client. Default: 64.
    #[serde(default)]
    pub(in crate::config) ipv6_prefix: Field<u64>,
    /// Where an API key is looked for.
    #[serde(default)]
    pub(in crate::config) api_key: Field<RawApiKey>,
    /// Where the user's id comes from. Default: no request has a user.
    #[serde(default)]
    pub(in crate::config) user: Field<RawUser>,
    /// Where addresses are: gives the keys `country`, `region` and `asn`. Default: no request
    /// has these.
    #[serde(default)]
    pub(in crate::config) geo: Field<RawGeo>,
}

/// Where addresses are.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "geo")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawGeo {
    /// A MaxMind DB file (.mmdb), or a list of them: of countries or cities, and of networks
    /// (ASN). The first that knows an address counts.
    pub(in crate::config) database: OneOrMore<String>,
}

/// Where an API key is looked for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "api_key")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawApiKey {
    /// Header fields whose value is the key. Default: x-api-key.
    #[serde(default)]
    pub(in crate::config) headers: List<FieldName>,
    /// Whether a bearer token is the key. Default: true, unless `user.jwt` reads the token. A
    /// request whose sources name different keys is refused (400).
    #[serde(default)]
    pub(in crate::config) bearer: Field<bool>,
    /// A query parameter whose value is the key. Default: none.
    #[serde(default)]
    pub(in crate::config) query: Field<String>,
}

/// Where the user's id comes from: one of these.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "user")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawUser {
    /// A claim of a verified bearer token.
    #[serde(default)]
    pub(in crate::config) jwt: Field<RawJwt>,
    /// A header field, believed only from trusted proxies.
    #[serde(default)]
    pub(in crate::config) header: Field<FieldName>,
}

/// How bearer tokens are verified: by one of `secret`, `public_key` and `jwks`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "jwt")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawJwt {
    /// The shared secret of HS256.
    #[serde(default)]
    pub(in crate::config) secret: Field<String>,
    /// A public key, as PEM text or the path of a PEM file.
    #[serde(default)]
    pub(in crate::config) public_key: Field<String>,
    /// A set of public keys: the URL that it is fetched from, or the path of its file.
    #[serde(default)]
    pub(in crate::config) jwks: Field<RawJwksForm>,
    /// The algorithms that tokens may be signed with. There is no default: a
    /// token must not choose.
    pub(in crate::config) algorithms: List<RawJwtAlgorithm>,
    /// What `iss` must be: one of these. Default: anything.
    #[serde(default)]
    pub(in crate::config) issuer: OneOrMore<String>,
    /// What `aud` must contain: one of these. Default: anything.
    #[serde(default)]
    pub(in crate::config) audience: OneOrMore<String>,
    /// The claim that is the user's id. Default: sub.
    #[serde(default)]
    pub(in crate::config) claim: Field<String>,
}

/// A URL or a path, or what more there is to say of it.
pub(in crate::config) type RawJwksForm = Either<String, RawJwks>;

/// A set of public keys (RFC 7517): one of `url` and `file`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "jwks")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawJwks {
    /// The path of a file with a JWK set. While it is not there, no token holds.
    #[serde(default)]
    pub(in crate::config) file: Field<String>,
    /// Where the issuer publishes the set, such as https://issuer.example/.well-known/jwks.json.
    #[serde(default)]
    pub(in crate::config) url: Field<String>,
    /// The authorities that may have signed the issuer's certificate. Default: the system's.
    #[serde(default)]
    pub(in crate::config) ca: Field<String>,
    /// How often the set is fetched again, 1s to 1d, unless the issuer says that it holds for a
    /// shorter time, or a token names a key that is not in it. Default: 10m.
    #[serde(default)]
    pub(in crate::config) refresh: Field<Period>,
}

/// An algorithm of signed tokens (RFC 7518, RFC 8037).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "algorithm of tokens")]
pub(in crate::config) enum RawJwtAlgorithm {
    /// HMAC with SHA-256.
    #[serde(rename = "HS256")]
    Hs256,
    /// RSA PKCS #1 v1.5 with SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}
