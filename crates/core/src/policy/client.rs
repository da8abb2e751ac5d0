//! The settings that identify clients.

use std::sync::Arc;

use http::HeaderName;
use ipnet::IpNet;

use super::{ClassTable, KeyExpr, KeySettings, PasswordSettings, Places};
#[cfg(feature = "jwt")]
use super::{JwtSettings, TokenKeys};
use crate::algorithm::Algorithm;

/// The settings that identify the client of a request.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The peers that are trusted: only their forwarding fields are used.
    pub trusted_proxies: Vec<IpNet>,
    /// The field in which trusted proxies name the client.
    pub forwarded_header: ForwardedHeader,
    /// The number of leading bits of an IPv4 address that identify one client, 1 to 32.
    pub ipv4_prefix: u8,
    /// The number of leading bits of an IPv6 address that identify one client, 1 to 128.
    pub ipv6_prefix: u8,
    /// The parts of a request that may contain an API key.
    pub api_key: ApiKeySettings,
    /// The source of the user's id. If there is none, no request has a user.
    pub user: Option<UserSource>,
    /// The databases of places. For each part of a place, the first database that contains
    /// it is used. Without databases, no request has a country, a region or a network.
    pub geo: Vec<Arc<dyn Places>>,
    /// The classes of clients. None: no client has a class.
    pub classes: Option<Arc<ClassTable>>,
    /// The agents that sign their requests. None: no client is one.
    #[cfg(feature = "agents")]
    pub agents: Option<Arc<super::Agents>>,
    /// How API keys are known. None: every text is an API key.
    pub keys: Option<Box<KeySettings>>,
    /// How many wrong credentials an address may send. None: any number.
    pub failures: Option<Box<Algorithm>>,
}

/// Clients are identified by address alone. No proxy is trusted. An IPv4 client is one
/// address, and an IPv6 client is a /64, the size that providers give to one customer.
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
            classes: None,
            #[cfg(feature = "agents")]
            agents: None,
            keys: None,
            failures: None,
        }
    }
}

impl ClientSettings {
    /// Whether bearer tokens name the users.
    pub const fn reads_tokens(&self) -> bool {
        match &self.user {
            #[cfg(feature = "jwt")]
            Some(UserSource::Jwt(_)) => true,
            Some(UserSource::Header(_) | UserSource::Basic(_)) | None => false,
        }
    }

    /// The keys that verify tokens. If there are none, no token names a user.
    #[cfg(feature = "jwt")]
    pub fn token_keys(&self) -> Option<&TokenKeys> {
        match &self.user {
            Some(UserSource::Jwt(settings)) => Some(settings.keys()),
            Some(UserSource::Header(_) | UserSource::Basic(_)) | None => None,
        }
    }

    /// The same settings, for changes.
    #[cfg(feature = "jwt")]
    pub fn token_keys_mut(&mut self) -> Option<&mut TokenKeys> {
        match &mut self.user {
            Some(UserSource::Jwt(settings)) => Some(settings.keys_mut()),
            Some(UserSource::Header(_) | UserSource::Basic(_)) | None => None,
        }
    }

    /// Whether the server may ask a client without `key` for a bearer token: whether only a
    /// token can be missing.
    pub fn takes_token_for(&self, key: &KeyExpr) -> bool {
        match key {
            KeyExpr::ApiKey | KeyExpr::ApiKeyPart(_) => self.api_key.bearer,
            KeyExpr::User => {
                !matches!(self.user, Some(UserSource::Header(_) | UserSource::Basic(_)))
            }
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

/// A field in which a proxy names its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`: a list to which each proxy appends the address of its peer.
    XForwardedFor,
    /// `Forwarded` (RFC 7239): the `for` parameters.
    Forwarded,
    /// A field with one address, such as `X-Real-IP`.
    Single(HeaderName),
}

/// The parts of a request that may contain an API key, in this order: header fields, bearer
/// token, query, cookie.
#[derive(Clone, Debug, Default)]
pub struct ApiKeySettings {
    /// Header fields whose value is the key.
    pub headers: Vec<HeaderName>,
    /// Whether the token of `Authorization: Bearer` is the key.
    pub bearer: bool,
    /// A query parameter whose value is the key.
    pub query: Option<String>,
    /// A cookie whose value is the key.
    pub cookie: Option<String>,
}

/// The source of a user's id.
#[derive(Clone, Debug)]
pub enum UserSource {
    /// A claim of a verified bearer token.
    #[cfg(feature = "jwt")]
    Jwt(JwtSettings),
    /// A header field, which is used only if the peer is trusted.
    Header(HeaderName),
    /// The name in the credentials of HTTP Basic authentication, if the password is right.
    Basic(Box<PasswordSettings>),
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
