//! `client`: who is asking.

use super::Compiler;
use crate::config::defaults;
use crate::config::field::{Field, Spanned};
use crate::config::raw::{RawApiKey, RawClient, RawUser};
use crate::config::scalar::FieldName;
use crate::policy::{ApiKeySettings, ClientSettings, ForwardedHeader, UserSource};

impl Compiler<'_> {
    pub(super) fn client(&self, raw: Option<&RawClient>) -> ClientSettings {
        let mut client = defaults::client();
        let Some(raw) = raw else { return client };
        for block in raw.trusted_proxies.items() {
            let block_is_all = block.value.0.prefix_len() == 0;
            if block_is_all {
                let message = "forwarded headers would be believed from everywhere";
                let advice = "name the addresses of your own proxies only";
                self.problems.error(block.span, message, advice);
            }
            client.trusted_proxies.push(block.value.0);
        }
        if let Some(FieldName(name)) = raw.forwarded_header.value() {
            client.forwarded_header = forwarded_header(name);
        }
        client.ipv4_prefix = self.prefix(&raw.ipv4_prefix, "ipv4_prefix", 32, client.ipv4_prefix);
        client.ipv6_prefix = self.prefix(&raw.ipv6_prefix, "ipv6_prefix", 128, client.ipv6_prefix);
        if let Some(api_key) = raw.api_key.value() {
            client.api_key = self.api_key(api_key, client.api_key);
        }
        if let Some(user) = raw.user.given() {
            client.user = self.user(user, raw);
        }
        // A bearer token that names the user is no API key as well, unless that is said.
        let is_said = raw.api_key.value().is_some_and(|api_key| !api_key.bearer.is_absent());
        if !is_said && matches!(client.user, Some(UserSource::Jwt(_))) {
            client.api_key.bearer = false;
        }
        client
    }

    fn prefix(&self, field: &Field<u64>, name: &str, most: u8, default: u8) -> u8 {
        let bits = self.number(field, name, 1..=most.into());
        bits.and_then(|bits| u8::try_from(bits).ok()).unwrap_or(default)
    }

    fn api_key(&self, raw: &RawApiKey, usual: ApiKeySettings) -> ApiKeySettings {
        let headers = match raw.headers.value() {
            Some(_) => raw.headers.items().map(|name| name.value.0.clone()).collect(),
            None => usual.headers,
        };
        if let Some(query) = raw.query.given().filter(|query| query.value.is_empty()) {
            let advice = "name the parameter, or leave the field out";
            self.problems.error(query.span, "the query parameter has no name", advice);
        }
        ApiKeySettings {
            headers,
            bearer: raw.bearer.value().copied().unwrap_or(usual.bearer),
            query: raw.query.value().cloned(),
        }
    }

    fn user(&self, raw: &Spanned<RawUser>, client: &RawClient) -> Option<UserSource> {
        let user = &raw.value;
        match (&user.jwt, &user.header) {
            (jwt, header) if jwt.is_absent() == header.is_absent() => {
                let message = "a user comes from one source";
                self.problems.error(raw.span, message, "write either jwt or header");
                None
            }
            (jwt, _) if !jwt.is_absent() => self.jwt(jwt.given()?).map(UserSource::Jwt),
            (_, header) => {
                let header = header.given()?;
                if client.trusts_nobody() {
                    let message = "the user's header is believed from trusted proxies only, \
                                   and there are none";
                    let advice = "name your proxies in trusted_proxies";
                    self.problems.error(header.span, message, advice);
                }
                Some(UserSource::Header(header.value.0.clone()))
            }
        }
    }
}

impl RawClient {
    /// Whether there is nobody whose word about a request is believed.
    pub(super) fn trusts_nobody(&self) -> bool {
        let proxies = &self.trusted_proxies;
        proxies.is_absent() || proxies.value().is_some_and(Vec::is_empty)
    }
}

/// The three well-known names are written with `_`, like all words of the
/// configuration, or as they stand in a request.
fn forwarded_header(name: &http::HeaderName) -> ForwardedHeader {
    match name.as_str() {
        "x_forwarded_for" | "x-forwarded-for" => ForwardedHeader::XForwardedFor,
        "forwarded" => ForwardedHeader::Forwarded,
        "x_real_ip" => ForwardedHeader::Single(http::HeaderName::from_static("x-real-ip")),
        _ => ForwardedHeader::Single(name.clone()),
    }
}
