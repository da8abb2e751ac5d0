//! `check.http`: questions over HTTP.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::time::Span;

use super::askers::Askers;
use crate::check::{CheckToken, HttpSettings, LeaseSettings, Statuses, Wildcard};
use crate::config::field::{Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::{self, Cidr, Period};
use crate::config::sections::admin::credentials::digest;
use crate::config::sections::context::Context;
use crate::config::sections::listeners::tls::RawListenerTls;
use crate::server::{ListenAddress, ListenerSettings};

/// All tokens are compared with each call.
const MAX_TOKENS: usize = 64;
const MAX_PATTERNS: usize = 64;
/// Other proxies let the request pass if they read such a status.
const ADMITTED: RangeInclusive<u64> = 200..=299;
/// A proxy that lets requests pass while this server fails would let a request pass that is
/// refused with a status from 500 on.
const REFUSED: RangeInclusive<u64> = 400..=499;
const UNAVAILABLE: RangeInclusive<u64> = 400..=599;
const TTL: RangeInclusive<Span> = Span::SECOND..=Span::DAY;
const MAX_LEASES: RangeInclusive<u64> = 1..=10_000_000;
/// Proxies pass on the fields of their clients, with further ones.
const MAX_HEAD_BYTES: usize = 256 * 1024;
const MAX_HEADERS: usize = 1000;

/// The listener for questions over HTTP.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "check http", default)]
#[schemars(deny_unknown_fields, extend("required" = ["address"]))]
pub struct RawCheckHttp {
    /// An IP address with a port, or a Unix socket.
    #[schemars(example = &"127.0.0.1:9902")]
    pub address: Field<scalar::ListenAddress>,
    /// TLS for the connections of this listener.
    #[schemars(extend("x-default" = "no TLS"))]
    tls: Field<RawListenerTls>,
    /// The addresses of the proxies and services that may ask. All others get 403.
    #[schemars(extend(
        "x-default" = "those of this machine; with `tokens` or `tls.client_ca`, all"
    ))]
    #[schemars(example = ["10.0.0.0/8"])]
    trust: List<Cidr>,
    /// Tokens for the JSON API. If there are any, each of its calls needs one of them.
    #[schemars(extend("x-default" = "none"))]
    tokens: List<RawCheckToken>,
    /// The statuses of answers about requests of other proxies.
    statuses: Field<RawStatuses>,
    /// The bounds of leases.
    leases: Field<RawLeases>,
}

/// A token for the JSON API.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "check token", default)]
#[schemars(deny_unknown_fields, extend("required" = ["token"]))]
struct RawCheckToken {
    /// The token, of at least 16 characters.
    #[schemars(example = &"${TOLLGATE_CHECK_TOKEN}")]
    token: Field<String>,
    /// The policies that its owner may charge. A `*` matches any text.
    #[schemars(extend("x-default" = "all"))]
    #[schemars(example = ["chat-*"])]
    policies: List<String>,
    /// Whether its owner may state limits in the question.
    #[schemars(extend("default" = false))]
    dynamic: Field<bool>,
}

/// The statuses of answers about requests of other proxies.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "check statuses", default)]
#[schemars(deny_unknown_fields)]
struct RawStatuses {
    /// The request may pass.
    #[schemars(extend("default" = 200))]
    #[schemars(example = 204)]
    #[schemars(range(min = *ADMITTED.start(), max = *ADMITTED.end()))]
    admitted: Field<u64>,
    /// A limit refuses the request.
    #[schemars(extend("default" = 429))]
    #[schemars(example = 403)]
    #[schemars(range(min = *REFUSED.start(), max = *REFUSED.end()))]
    refused: Field<u64>,
    /// No decision was possible, and a policy refuses such requests.
    #[schemars(extend("default" = 503))]
    #[schemars(example = 500)]
    #[schemars(range(min = *UNAVAILABLE.start(), max = *UNAVAILABLE.end()))]
    unavailable: Field<u64>,
}

/// The bounds of leases.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "leases", default)]
#[schemars(deny_unknown_fields)]
struct RawLeases {
    /// How long a lease lasts if the question does not say it.
    #[schemars(extend("default" = "60s"))]
    #[schemars(example = &"30s")]
    ttl: Field<Period>,
    /// The longest time for which a question may have a lease.
    #[schemars(extend("default" = "1h"))]
    #[schemars(example = &"10m")]
    max_ttl: Field<Period>,
    /// The most leases that a node keeps.
    #[schemars(extend("default" = 100000))]
    #[schemars(example = 10_000)]
    #[schemars(range(min = *MAX_LEASES.start(), max = *MAX_LEASES.end()))]
    max: Field<u64>,
}

impl RawCheckHttp {
    /// The settings of the listener at `address`.
    pub fn compile(
        &self,
        span: TextSpan,
        address: &Spanned<scalar::ListenAddress>,
        cx: &Context<'_>,
    ) -> Option<HttpSettings> {
        let needs_token = !self.tokens.is_absent();
        let askers = Askers { address, trust: &self.trust, tls: &self.tls, needs_token };
        let advice = "add one, like { token: \"${SECRET}\" }";
        cx.not_empty(&self.tokens, "there are no tokens", advice);
        cx.at_most(&self.tokens, "tokens", MAX_TOKENS);
        let tokens = self.tokens.items().filter_map(|it| it.value.compile(it.span, cx));
        let leases = self.leases.value().map(|it| it.compile(span, cx));
        Some(HttpSettings {
            listener: askers.listener(listener, cx),
            tokens: tokens.collect(),
            statuses: self.statuses.value().map(|it| it.compile(cx)).unwrap_or_default(),
            leases: leases.unwrap_or_default(),
        })
    }
}

/// The listener at this address. The heads that it reads are larger than those of requests that
/// are forwarded, so that it can refuse the request that a proxy describes and not the question.
fn listener(address: ListenAddress) -> ListenerSettings {
    ListenerSettings {
        max_head_bytes: MAX_HEAD_BYTES,
        max_headers: MAX_HEADERS,
        disguised_names: true,
        ..ListenerSettings::new(address)
    }
}

impl RawCheckToken {
    fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Option<CheckToken> {
        cx.required(&self.token, span, "the token has no \"token\"", "like token: \"${SECRET}\"");
        cx.not_empty(&self.policies, "the token allows no policy", "like policies: [chat-*]");
        cx.at_most(&self.policies, "policies", MAX_PATTERNS);
        let patterns = self.policies.items().map(|it| Wildcard::new(&it.value));
        Some(CheckToken {
            digest: self.token.given().and_then(|token| digest(token, cx))?,
            policies: (!self.policies.is_absent()).then(|| patterns.collect()),
            dynamic: self.dynamic.copied().unwrap_or(false),
        })
    }
}

impl RawStatuses {
    fn compile(&self, cx: &Context<'_>) -> Statuses {
        let usual = Statuses::default();
        Statuses {
            admitted: cx.status(&self.admitted, "admitted", ADMITTED, usual.admitted),
            refused: cx.status(&self.refused, "refused", REFUSED, usual.refused),
            unavailable: cx.status(
                &self.unavailable,
                "unavailable",
                UNAVAILABLE,
                usual.unavailable,
            ),
        }
    }
}

impl RawLeases {
    fn compile(&self, owner: TextSpan, cx: &Context<'_>) -> LeaseSettings {
        let usual = LeaseSettings::default();
        let duration = |field, name| cx.duration(field, name, TTL).map(Into::into);
        let max_ttl = duration(&self.max_ttl, "max_ttl").unwrap_or(usual.max_ttl);
        let ttl = duration(&self.ttl, "ttl");
        if ttl.is_some_and(|ttl| ttl > max_ttl) {
            let span = self.ttl.span().unwrap_or(owner);
            cx.error(span, "\"ttl\" is longer than \"max_ttl\"", "shorten it, or raise max_ttl");
        }
        let max = cx.number(&self.max, "max", MAX_LEASES).unwrap_or(usual.max);
        LeaseSettings { ttl: ttl.unwrap_or(usual.ttl.min(max_ttl)), max_ttl, max }
    }
}
