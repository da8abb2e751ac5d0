//! Requests for tests of policies.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::*;
use crate::algorithm::{Algorithm, Quota, SlidingWindow};
use crate::digest::{Secret, SharedSecret};
use crate::meter::{MeterSpec, Tariff, UsageApi};
use crate::price::{PriceTable, Prices};
use crate::request::{Content, PathMatch, PathPattern, RequestView};
use crate::time::{Span, Timestamp};

/// The owned parts of a request, and the settings that apply to it.
pub(super) struct Case {
    pub(super) peer: IpAddr,
    pub(super) method: Method,
    pub(super) host: &'static str,
    pub(super) path: &'static str,
    pub(super) query: Option<&'static str>,
    pub(super) headers: HeaderMap,
    pub(super) has_content: bool,
    pub(super) client: ClientSettings,
}

/// A request from 192.0.2.1 with these header fields.
pub(super) fn with(headers: &[(&'static str, &str)]) -> Case {
    let value = |text: &str| HeaderValue::from_str(text).unwrap();
    Case {
        peer: [192, 0, 2, 1].into(),
        method: Method::GET,
        host: "a.test",
        path: "/t/acme",
        query: None,
        headers: headers
            .iter()
            .map(|(name, text)| (HeaderName::from_static(name), value(text)))
            .collect(),
        has_content: false,
        client: ClientSettings {
            trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()],
            api_key: ApiKeySettings {
                headers: vec![HeaderName::from_static("x-api-key")],
                bearer: true,
                query: Some("api_key".into()),
                cookie: None,
            },
            user: Some(UserSource::Header(HeaderName::from_static("x-user"))),
            ..ClientSettings::default()
        },
    }
}

pub(super) fn from(peer: &str) -> Case {
    Case { peer: peer.parse().unwrap(), ..with(&[]) }
}

pub(super) fn policy(key: &str) -> Policy {
    policy_of(key.parse().unwrap())
}

pub(super) fn policy_of(key: KeyExpr) -> Policy {
    let quota = Quota::new(100, Span::from_secs(60)).unwrap();
    let algorithm = Algorithm::SlidingWindow(SlidingWindow::new(quota));
    Policy { missing_key: MissingKey::Deny, ..Policy::new("p", key, algorithm) }
}

/// A policy that counts money in this denomination, without a price of any model.
pub(super) fn in_money(denomination: &str) -> Policy {
    let table = Arc::new(PriceTable::new([]));
    let denomination = denomination.parse().unwrap();
    let prices = Arc::new(Prices { denomination, table, unknown: None });
    let meter = MeterSpec::Usage { api: UsageApi::OpenAi, tariff: Tariff::Prices(prices) };
    Policy { cost: Cost::Metered { reserve: 1, estimate: None, meter }, ..policy("ip") }
}

impl Case {
    /// Calls `question` with the client of this request, on a route with this policy.
    pub(super) fn ask<T>(&self, policy: &Policy, question: impl Fn(&Subject<'_, '_>) -> T) -> T {
        self.ask_with(policy, Content::Unknown, question)
    }

    /// The same, if this is known of the content.
    pub(super) fn ask_with<T>(
        &self,
        policy: &Policy,
        content: Content<'_>,
        question: impl Fn(&Subject<'_, '_>) -> T,
    ) -> T {
        let secret = Arc::new(SharedSecret::new(Secret::from_bytes([3; 16])));
        let clients = Clients::new(self.client.clone(), policy.keys(), secret);
        let pattern: PathPattern = "/t/{tenant}".parse().unwrap();
        let route = RouteView { name: "r", path: &pattern, path_match: PathMatch::default() };
        let request = RequestView::sample(self.host, self.path, &self.headers)
            .with_method(&self.method)
            .with_query(self.query)
            .with_peer(self.peer)
            .with_content(self.has_content)
            .with_values(content);
        question(&clients.subject(&request, Some(route), Timestamp::default()))
    }

    pub(super) fn shown(&self, policy: &Policy) -> String {
        self.ask(policy, |subject| subject.shown_key(policy))
    }

    pub(super) fn whole(&self, policy: &Policy) -> String {
        self.ask(policy, |subject| subject.whole_key(policy))
    }

    pub(super) fn key(&self, policy: &Policy) -> KeyFor {
        self.ask(policy, |subject| subject.key(policy))
    }
}

/// An `Authorization` field with a token of these claims, signed with this secret.
pub(super) fn bearer(secret: &[u8], claims: &serde_json::Value) -> String {
    let key = jsonwebtoken::EncodingKey::from_secret(secret);
    format!("Bearer {}", jsonwebtoken::encode(&Default::default(), claims, &key).unwrap())
}

/// Users by the claim `sub` of tokens that are signed with this secret.
pub(super) fn users_by_token(secret: &[u8]) -> UserSource {
    let algorithms = vec![jsonwebtoken::Algorithm::HS256];
    let key = VerifyingKey::from_secret(secret, &algorithms).unwrap();
    UserSource::Jwt(JwtSettings::new(TokenKeys::Known(vec![key]), algorithms))
}
