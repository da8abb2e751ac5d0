//! How clients are recognised: settings.

use std::sync::Arc;

use http::HeaderName;
use ipnet::IpNet;

use super::{GeoDatabase, JwtSettings, KeyExpr, TokenKeys};

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

    /// Whether a client whose request lacks `key` can be asked for a bearer token:
    /// whether a token is all that can be missing.
    pub fn takes_token_for(&self, key: &KeyExpr) -> bool {
        match key {
            KeyExpr::ApiKey => self.api_key.bearer,
            KeyExpr::User => !matches!(self.user, Some(UserSource::Header(_))),
            KeyExpr::Jwt(_) => true,
            KeyExpr::First(keys) => keys.iter().any(|key| self.takes_token_for(key)),
            KeyExpr::All(keys) => {
                let mut others = keys.iter().filter(|key| !self.takes_token_for(key));
                keys.len() > others.clone().count() && others.all(KeyExpr::is_never_missing)
            }
            _ => false,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_gives_a_key_if_it_is_all_that_can_be_missing() {
        let mut client = crate::policy::tests::with(&[]).client;
        client.user = None;
        let key = |text: &str| text.parse::<KeyExpr>().unwrap();
        let first = |keys: &[&str]| KeyExpr::First(keys.iter().map(|text| key(text)).collect());
        let all = |keys: &[&str]| KeyExpr::All(keys.iter().map(|text| key(text)).collect());
        let cases = [
            (key("user"), true),
            (key("jwt:org"), true),
            (key("api_key"), true),
            (first(&["cookie:a", "user"]), true),
            (all(&["user", "path", "param:id"]), true),
            (all(&["user", "jwt:org"]), true),
            (all(&["user", "cookie:a"]), false),
            (all(&["path", "ip"]), false),
            (first(&["cookie:a", "header:authorization"]), false),
            (key("ip"), false),
            (key("country"), false),
            (all(&["user", "country"]), false),
        ];
        for (key, expected) in cases {
            assert_eq!(client.takes_token_for(&key), expected, "{key:?}");
        }
        client.api_key.bearer = false;
        client.user = Some(UserSource::Header(HeaderName::from_static("x-user")));
        assert!(!client.takes_token_for(&key("api_key")) && !client.takes_token_for(&key("user")));
    }
}
