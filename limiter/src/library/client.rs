//! How the client of a request is recognised.

use tollgate_core::policy::{
    ApiKeySettings, ClientSettings, ForwardedHeader, UserSource, are_everywhere,
};

#[cfg(feature = "jwt")]
use super::jwt::Jwt;
use super::key_source::KeySource;
#[cfg(feature = "keys")]
use super::keys::Keys;
use super::values::{field_name, network};

/// How the client of a request is recognised.
///
/// Without settings, the client is the peer of the connection, and no field of a request is
/// believed. An API key is in `X-Api-Key` or a bearer token.
///
/// ```
/// use tollgate_limiter::{Client, Key, Limiter, Policy};
///
/// let client = Client::new().trusted_proxy("10.0.0.0/8").user_header("x-user-id");
/// let limiter = Limiter::builder()
///     .client(client)
///     .policy(Policy::new("per-user", Key::User, "100/minute".parse()?))
///     .build()?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Client {
    trusted: Vec<String>,
    forwarded: Option<String>,
    ipv6_prefix: Option<u8>,
    api_keys: Option<Vec<String>>,
    user_header: Option<String>,
    #[cfg(feature = "keys")]
    keys: Option<Keys>,
    #[cfg(feature = "jwt")]
    jwt: Option<Jwt>,
}

impl Client {
    /// The client is the peer of the connection.
    ///
    /// ```
    /// let client = tollgate_limiter::Client::new();
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Believes the fields that proxies in this network set: the client is then the rightmost
    /// address of `X-Forwarded-For` that is no trusted proxy.
    ///
    /// ```
    /// let client = tollgate_limiter::Client::new().trusted_proxy("10.0.0.0/8");
    /// ```
    #[must_use]
    pub fn trusted_proxy(mut self, network: impl Into<String>) -> Self {
        self.trusted.push(network.into());
        self
    }

    /// The field in which trusted proxies name their client, instead of `X-Forwarded-For`:
    /// `Forwarded` (RFC 7239), or a field with one address.
    ///
    /// ```
    /// let client = tollgate_limiter::Client::new()
    ///     .trusted_proxy("10.0.0.0/8")
    ///     .forwarded_header("x-real-ip");
    /// ```
    #[must_use]
    pub fn forwarded_header(mut self, name: impl Into<String>) -> Self {
        self.forwarded = Some(name.into());
        self
    }

    /// The number of leading bits of an IPv6 address that are one client. Without it, 64.
    ///
    /// ```
    /// let client = tollgate_limiter::Client::new().ipv6_prefix(56);
    /// ```
    #[must_use]
    pub const fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.ipv6_prefix = Some(bits);
        self
    }

    /// Adds a header field that contains an API key, instead of `X-Api-Key`.
    ///
    /// ```
    /// let client = tollgate_limiter::Client::new().api_key_header("x-token");
    /// ```
    #[must_use]
    pub fn api_key_header(mut self, name: impl Into<String>) -> Self {
        self.api_keys.get_or_insert_default().push(name.into());
        self
    }

    /// Only these API keys are accepted, in the fields for keys and as bearer tokens. Other bearer
    /// tokens are no keys.
    ///
    /// ```
    /// use tollgate_limiter::{Client, Keys};
    ///
    /// let client = Client::new().keys(Keys::new([]));
    /// ```
    #[cfg(feature = "keys")]
    #[must_use]
    pub fn keys(mut self, keys: Keys) -> Self {
        self.keys = Some(keys);
        self
    }

    /// The user is in this header field, which only trusted proxies can set.
    ///
    /// ```
    /// let client = tollgate_limiter::Client::new()
    ///     .trusted_proxy("10.0.0.0/8")
    ///     .user_header("x-user-id");
    /// ```
    #[must_use]
    pub fn user_header(mut self, name: impl Into<String>) -> Self {
        self.user_header = Some(name.into());
        self
    }

    /// The user is in a bearer token.
    ///
    /// ```
    /// use tollgate_limiter::{Client, Jwt};
    ///
    /// let client = Client::new().jwt(Jwt::hs256(b"a secret of at least thirty-two bytes")?);
    /// # Ok::<_, tollgate_limiter::JwtError>(())
    /// ```
    #[cfg(feature = "jwt")]
    #[must_use]
    pub fn jwt(mut self, jwt: Jwt) -> Self {
        self.jwt = Some(jwt);
        self
    }

    /// The settings, or what is wrong with them.
    pub(super) fn compile(&self) -> Result<ClientSettings, String> {
        let mut settings = ClientSettings::default();
        for block in &self.trusted {
            settings.trusted_proxies.push(network(block)?);
            if are_everywhere(&settings.trusted_proxies) {
                return Err(format!("{block} would trust every address: name your own proxies"));
            }
        }
        if let Some(name) = &self.forwarded {
            settings.forwarded_header = match field_name(name)? {
                name if name == "x-forwarded-for" => ForwardedHeader::XForwardedFor,
                name if name == "forwarded" => ForwardedHeader::Forwarded,
                name => ForwardedHeader::Single(name),
            };
        }
        if let Some(bits) = self.ipv6_prefix {
            if !(1..=128).contains(&bits) {
                return Err("ipv6_prefix is from 1 to 128".into());
            }
            settings.ipv6_prefix = bits;
        }
        settings.user = self.user()?;
        #[cfg(feature = "keys")]
        if let Some(keys) = &self.keys {
            settings.keys = Some(Box::new(keys.settings()?));
        }
        // A bearer token that names the user is not an API key too, unless it begins like one.
        let bearer = !settings.reads_tokens() || settings.keys.is_some();
        let headers = match &self.api_keys {
            Some(names) => names.iter().map(|name| field_name(name)).collect::<Result<_, _>>()?,
            None => vec![http::HeaderName::from_static("x-api-key")],
        };
        settings.api_key = ApiKeySettings { headers, bearer, query: None, cookie: None };
        Ok(settings)
    }

    /// Where API keys are looked up that the settings do not contain.
    #[cfg(feature = "keys")]
    pub(super) fn key_source(&self) -> KeySource {
        let Some(keys) = &self.keys else { return KeySource::Settings };
        keys.source()
    }

    /// Without known keys, nothing is looked up.
    #[cfg(not(feature = "keys"))]
    pub(super) const fn key_source(&self) -> KeySource {
        KeySource::Settings
    }

    fn user(&self) -> Result<Option<UserSource>, String> {
        let header = self.user_header.as_deref().map(field_name).transpose()?;
        if header.is_some() && self.trusted.is_empty() {
            return Err("only trusted proxies can set the user's header: name them".into());
        }
        #[cfg(feature = "jwt")]
        if let Some(jwt) = &self.jwt {
            return match header {
                None => Ok(Some(UserSource::Jwt(jwt.settings()?))),
                Some(_) => Err("a user comes from one source: a header or a token".into()),
            };
        }
        Ok(header.map(UserSource::Header))
    }
}
