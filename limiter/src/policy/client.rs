//! How clients are recognised: settings.

use std::sync::Arc;

use http::HeaderName;
use ipnet::IpNet;

use super::{GeoDatabase, JwtSettings, TokenKeys};

/// How the client of a request is recognised.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Only these peers' forwarding fields are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The field in which trusted proxies name their client.
    pub forwarded_header: ForwardedHeader,
    /// How many leading bits of an IPv4 address make one client, 1 to 32.
    pub ipv4_prefix: u8,
    /// How many leading bits of an IPv6 address make one client, 1 to 128.
    pub ipv6_prefix: u8,
    /// Where an API key is looked for.
    pub api_key: ApiKeySettings,
    /// Where the user's id comes from; none: no request has a user.
    pub user: Option<UserSource>,
    /// Where addresses are, by the first of these that knows it; none: no request
    /// has a country, a region or a network.
    pub geo: Vec<Arc<GeoDatabase>>,
}

/// Clients are told apart by address alone: no proxy is trusted, an IPv4 client is one
/// address, and an IPv6 client is a /64, which is what one customer of a provider has.
impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            trusted_proxies: Vec::new(),
            forwarded_header: ForwardedHeader::XForwardedFor,
            ipv4_prefix: 32,
            ipv6_prefix: 64,
            api_key: ApiKeySettings::default(),
            user: None,
            geo: Vec::new(),
        }
    }
}

impl ClientSettings {
    /// The keys that tokens are verified with; none: no user is named by a token.
    pub fn token_keys(&self) -> Option<&TokenKeys> {
        match &self.user {
            Some(UserSource::Jwt(settings)) => Some(settings.keys()),
            Some(UserSource::Header(_)) | None => None,
        }
    }

    /// The same, to be changed.
    pub fn token_keys_mut(&mut self) -> Option<&mut TokenKeys> {
        match &mut self.user {
            Some(UserSource::Jwt(settings)) => Some(settings.keys_mut()),
            Some(UserSource::Header(_)) | None => None,
        }
    }
}

/// A field in which a proxy names the client it speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`: a list, each proxy appending its peer.
    XForwardedFor,
    /// `Forwarded` (RFC 7239): the `for` parameters.
    Forwarded,
    /// A field with one address, such as `X-Real-IP`.
    Single(HeaderName),
}

/// Where an API key is looked for, in this order: header fields, bearer token, query.
#[derive(Clone, Debug, Default)]
pub struct ApiKeySettings {
    /// Header fields whose value is the key.
    pub headers: Vec<HeaderName>,
    /// Whether the token of `Authorization: Bearer` is the key.
    pub bearer: bool,
    /// A query parameter whose value is the key.
    pub query: Option<String>,
}

/// Where a user's id comes from.
#[derive(Clone, Debug)]
pub enum UserSource {
    /// A claim of a verified bearer token.
    Jwt(JwtSettings),
    /// A header field, believed from trusted proxies only.
    Header(HeaderName),
}
