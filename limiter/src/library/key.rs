//! What a policy counts by.

use std::str::FromStr;

use tollgate_core::policy::{KeyExpr, KeyExprError};

/// What a policy counts by. Requests with the same value have one counter.
///
/// The words of a `gateway.yaml` are parsed: `ip`, `header:x-tenant`, `cookie:session`.
///
/// ```
/// use tollgate_limiter::Key;
///
/// assert_eq!("header:x-tenant".parse::<Key>()?, Key::Header("x-tenant".into()));
/// # Ok::<_, tollgate_limiter::ParseKeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Key {
    /// The client's address, see [`Client`](crate::Client). An IPv6 client is a /64.
    Ip,
    /// The API key, from the parts of a request that [`Client`](crate::Client) names.
    ApiKey,
    /// The team or the plan of a known API key, or the label with this name: `team`, `plan` or
    /// another one. It needs known keys.
    ApiKeyPart(String),
    /// A value of your own, which you pass to [`Limiter::check`](crate::Limiter::check). A request
    /// does not have it, and it is not a part of other keys.
    Custom,
    /// The user, from the source that [`Client`](crate::Client) names.
    User,
    /// The value of the cookie with this name.
    Cookie(String),
    /// The value of the header field with this name.
    Header(String),
    /// The value of the query parameter with this name.
    Query(String),
    /// A claim of the verified bearer token, with dots between nested names.
    Jwt(String),
    /// The host that the request names.
    Host,
    /// The path.
    Path,
    /// The method.
    Method,
    /// One counter for all requests.
    Global,
    /// The first of these that the request has.
    First(Vec<Key>),
    /// All of these together.
    All(Vec<Key>),
}

/// A text that is not a [`Key`].
///
/// ```
/// let error = "ipp".parse::<tollgate_limiter::Key>().unwrap_err();
/// assert!(error.to_string().starts_with("\"ipp\" is not a key"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a key{why}")]
pub struct ParseKeyError {
    text: String,
    why: String,
}

impl ParseKeyError {
    fn new(text: &str, why: Option<&KeyExprError>) -> Self {
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        Self { text: text.to_owned(), why }
    }
}

impl FromStr for Key {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        let key: KeyExpr = text.parse().map_err(|why| ParseKeyError::new(text, Some(&why)))?;
        Ok(match key {
            KeyExpr::Ip => Self::Ip,
            KeyExpr::ApiKey => Self::ApiKey,
            KeyExpr::ApiKeyPart(name) => Self::ApiKeyPart(name.into()),
            KeyExpr::User => Self::User,
            KeyExpr::Cookie(name) => Self::Cookie(name.into()),
            KeyExpr::Header(name) => Self::Header(name.as_str().to_owned()),
            KeyExpr::Query(name) => Self::Query(name.into()),
            KeyExpr::Jwt(claim) => Self::Jwt(claim.into()),
            KeyExpr::Host => Self::Host,
            KeyExpr::Path => Self::Path,
            KeyExpr::Method => Self::Method,
            KeyExpr::Global => Self::Global,
            KeyExpr::TlsSubject
            | KeyExpr::Authorizer(_)
            | KeyExpr::Body(_)
            | KeyExpr::Fold(_)
            | KeyExpr::Param(_)
            | KeyExpr::Route
            | KeyExpr::Country
            | KeyExpr::Region
            | KeyExpr::Asn
            | KeyExpr::Class
            | KeyExpr::Agent
            | KeyExpr::Custom
            | KeyExpr::First(_)
            | KeyExpr::All(_) => return Err(ParseKeyError::new(text, None)),
        })
    }
}

impl Key {
    /// The key as policies evaluate it.
    pub(super) fn compile(&self) -> Result<KeyExpr, KeyExprError> {
        let all = |keys: &[Self]| keys.iter().map(Self::compile).collect::<Result<Vec<_>, _>>();
        match self {
            Self::Ip => Ok(KeyExpr::Ip),
            Self::ApiKey => Ok(KeyExpr::ApiKey),
            Self::ApiKeyPart(name) => format!("api_key:{name}").parse(),
            Self::Custom => Ok(KeyExpr::Custom),
            Self::User => Ok(KeyExpr::User),
            Self::Cookie(name) => format!("cookie:{name}").parse(),
            Self::Header(name) => format!("header:{name}").parse(),
            Self::Query(name) => format!("query:{name}").parse(),
            Self::Jwt(claim) => format!("jwt:{claim}").parse(),
            Self::Host => Ok(KeyExpr::Host),
            Self::Path => Ok(KeyExpr::Path),
            Self::Method => Ok(KeyExpr::Method),
            Self::Global => Ok(KeyExpr::Global),
            Self::First(keys) => all(keys).map(KeyExpr::First),
            Self::All(keys) => all(keys).map(KeyExpr::All),
        }
    }
}
