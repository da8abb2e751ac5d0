//! `client`: how the gateway identifies the client of a request.

pub mod agents;
pub mod basic;
pub mod classes;
pub mod geo;
pub mod jwks;
pub mod jwt;
pub mod keys;

use std::sync::Arc;

use http::HeaderName;
use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::spec::ClientFacts;
use tollgate_core::policy::{
    ApiKeySettings, ClientSettings, ForwardedHeader, KeyExpr, UserSource, are_everywhere,
};
use tollgate_core::store::keys::OnFailure;

use crate::config::HeldFiles;
use crate::config::field::{Field, List};
use crate::config::model::{self, Client};
use crate::config::node::TextSpan;
use crate::config::password_file::PasswordFile;
use crate::config::scalar::{Cidr, FieldName, Rate};
use crate::config::sections::context::Context;
use agents::RawAgents;
use basic::{Basic, RawBasic};
use classes::RawClasses;
use geo::RawGeo;
use jwt::RawJwt;
use keys::RawKeys;

/// How the gateway identifies the client of a request.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "client", default)]
#[schemars(deny_unknown_fields)]
pub struct RawClient {
    /// The addresses of your own proxies. The gateway believes forwarded headers only if they come
    /// from these addresses.
    #[schemars(extend("x-default" = "none"))]
    trusted_proxies: List<Cidr>,
    /// The header in which trusted proxies name their client: `x_forwarded_for`, `forwarded`,
    /// `x_real_ip`, or any header name. With `forwarded`, the gateway also writes `Forwarded` for
    /// upstreams.
    #[schemars(extend("default" = "x_forwarded_for"))]
    #[schemars(example = &"x_real_ip")]
    forwarded_header: Field<FieldName>,
    /// How many bits of an IPv4 address identify one client.
    #[schemars(extend("default" = 32))]
    #[schemars(example = 24)]
    #[schemars(range(min = 1, max = 32))]
    ipv4_prefix: Field<u64>,
    /// How many bits of an IPv6 address identify one client.
    #[schemars(extend("default" = 64))]
    #[schemars(example = 48)]
    #[schemars(range(min = 1, max = 128))]
    ipv6_prefix: Field<u64>,
    /// Where a request has its API key.
    api_key: Field<RawApiKey>,
    /// The API keys that are known. Without this section, every text is an API key.
    #[schemars(extend("x-default" = "every text is an API key"))]
    #[schemars(example = serde_json::json!({ "prefix": "acme", "file": "keys.yaml" }))]
    keys: Field<RawKeys>,
    /// How many wrong credentials an address may send to routes with `auth`, and how many wrong
    /// passwords to all routes that check them, on each node. Beyond it, requests get 429, except
    /// those of clients that are known.
    #[schemars(extend("default" = "30/minute"))]
    #[schemars(example = &"10/minute")]
    failures: Field<Rate>,
    /// Where a request has the ID of its user.
    #[schemars(extend("x-default" = "requests have no user"))]
    user: Field<RawUser>,
    /// The databases that tell where an address is. They give the keys `country`, `region` and
    /// `asn`.
    #[schemars(extend("x-default" = "requests have none of these keys"))]
    geo: Field<RawGeo>,
    /// Names for clients that have something in common. They give the key `class`.
    #[schemars(extend("x-default" = "clients have no class"))]
    #[schemars(example = serde_json::json!({ "file": "classes.yaml" }))]
    classes: Field<RawClasses>,
    /// The agents that are known by their signatures. They give the key `agent`.
    #[schemars(extend("x-default" = "no client is an agent"))]
    #[schemars(example = serde_json::json!({ "allow": ["https://bot.example"] }))]
    agents: Field<RawAgents>,
}

/// Where a request has its API key. A request with two different keys is refused with 400.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "api_key", default)]
#[schemars(deny_unknown_fields)]
struct RawApiKey {
    /// Header fields that contain the key.
    #[schemars(extend("default" = ["x-api-key"]))]
    headers: List<FieldName>,
    /// Whether a bearer token is an API key.
    #[schemars(extend("x-default" = "true, but false if `user.jwt` is given without `keys`"))]
    bearer: Field<bool>,
    /// A query parameter that contains the key.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"api_key")]
    query: Field<String>,
    /// A cookie that contains the key.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"api_key")]
    cookie: Field<String>,
}

/// Where a request has the ID of its user: exactly one of `jwt`, `header` and `basic`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "user", default)]
#[schemars(deny_unknown_fields)]
struct RawUser {
    /// In a claim of a bearer token. The gateway verifies the token.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "jwks": "jwks.json", "algorithms": ["RS256"] }))]
    jwt: Field<RawJwt>,
    /// In a header field. The gateway believes it only from trusted proxies.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"x-user-id")]
    header: Field<FieldName>,
    /// In the name of HTTP Basic authentication. The gateway checks the password.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "file": "htpasswd", "realm": "staff" }))]
    basic: Field<RawBasic>,
}

/// What is compiled of `user`.
#[derive(Default)]
struct User {
    source: Option<UserSource>,
    password_file: Option<PasswordFile>,
}

impl From<UserSource> for User {
    fn from(source: UserSource) -> Self {
        Self { source: Some(source), password_file: None }
    }
}

impl RawClient {
    /// Reports each block with which every address would be a trusted proxy, alone or together with
    /// the blocks before it.
    fn refuse_everywhere(&self, cx: &Context<'_>) {
        let mut trusted = Vec::new();
        for block in self.trusted_proxies.items() {
            trusted.push(block.value.0);
            if are_everywhere(&trusted) {
                trusted.pop();
                let message = "forwarded headers from every address would be trusted";
                cx.error(block.span, message, "name the addresses of your own proxies only");
            }
        }
    }

    /// The settings of the section, and the sources that they depend on.
    pub fn compile(&self, cx: &Context<'_>) -> Client {
        let mut settings = model::default_client();
        settings.trusted_proxies =
            self.trusted_proxies.items().map(|block| block.value.0).collect();
        if are_everywhere(&settings.trusted_proxies) {
            self.refuse_everywhere(cx);
        }
        if let Some(FieldName(name)) = self.forwarded_header.value() {
            settings.forwarded_header = forwarded_header(name);
        }
        let ipv4_prefix = cx.number(&self.ipv4_prefix, "ipv4_prefix", 1..=32);
        let ipv6_prefix = cx.number(&self.ipv6_prefix, "ipv6_prefix", 1..=128);
        settings.ipv4_prefix = ipv4_prefix.unwrap_or(settings.ipv4_prefix);
        settings.ipv6_prefix = ipv6_prefix.unwrap_or(settings.ipv6_prefix);
        let user = self.user.given().and_then(|user| self.user(&user.value, user.span, cx));
        let User { source, password_file } = user.unwrap_or_default();
        settings.user = source;
        self.set_api_key(&mut settings, cx);
        let keys = self.keys.given().map(|keys| keys.value.compile(cx));
        let (keys, api_key_file) = keys.map_or((None, None), |it| (Some(it.settings), it.file));
        settings.keys = keys.map(Box::new);
        if let Some(failures) = self.failures.given().filter(|it| it.value.0.is_monthly()) {
            let advice = "write a time of a fixed length, like 30/minute";
            cx.error(failures.span, "wrong credentials are not counted by the month", advice);
        }
        settings.failures = Some(model::failures(self.failures.value()));
        self.warn_of_sources(&settings, cx);
        let geo = self.geo.given().map(|geo| geo.value.compile(geo.span, cx));
        let knows_places = !self.geo.is_absent();
        let agents = self.agents.given().map(|it| it.value.compile(it.span, cx));
        let (agents, agent_sources) =
            agents.map_or((None, Vec::new()), |it| (Some(it.agents), it.sources));
        settings.agents = agents.map(Arc::new);
        let classes = self.classes.given();
        let class_file = classes
            .and_then(|it| it.value.compile(it.span, knows_places, settings.agents.as_deref(), cx));
        settings.classes = class_file.as_ref().map(|file| file.table.clone());
        let jwt = self.user.value().and_then(|user| user.jwt.value());
        let key_source = jwt.and_then(|jwt| jwt.key_source(cx));
        let files = HeldFiles {
            databases: geo.unwrap_or_default(),
            api_keys: api_key_file,
            classes: class_file,
            passwords: password_file,
            prices: None,
        };
        Client { settings, files, key_source, agent_sources }
    }

    /// What is done with known API keys while their store cannot be read. The keys must be in a
    /// file, unless a store keeps them.
    pub fn keys_on_failure(&self, store_keeps_keys: bool, cx: &Context<'_>) -> OnFailure {
        let Some(keys) = self.keys.given() else { return model::KEYS_ON_FAILURE };
        keys.value.check_place(keys.span, store_keeps_keys, cx);
        keys.value.on_failure(cx)
    }

    /// Expects the user of `settings`.
    fn set_api_key(&self, settings: &mut ClientSettings, cx: &Context<'_>) {
        // A bearer token that names the user is not an API key too, unless the file says so.
        let names_user = matches!(settings.user, Some(UserSource::Jwt(_)));
        settings.api_key.bearer = !names_user || !self.keys.is_absent();
        if let Some(raw) = self.api_key.value() {
            settings.api_key = raw.compile(settings.api_key.clone(), cx);
        }
    }

    /// Warns of places in which a known key is not safe.
    fn warn_of_sources(&self, settings: &ClientSettings, cx: &Context<'_>) {
        let Some(keys) = self.keys.value() else { return };
        let raw = self.api_key.value();
        if let Some(query) = raw.and_then(|raw| raw.query.given()) {
            let message = "a key in a query is in the logs and histories of all that see the URL";
            cx.warning(query.span, message, "use a header field");
        }
        if let Some(cookie) = raw.and_then(|raw| raw.cookie.given()) {
            let message = "browsers add a cookie to requests that other sites cause";
            cx.warning(cookie.span, message, "use a header field, or SameSite=Strict");
        }
        if let Some(span) = keys.foreign_span()
            && settings.reads_tokens()
            && settings.api_key.bearer
        {
            let message = "a bearer token without the prefix of keys is the token of a user, so \
                           foreign keys are not found in bearer tokens";
            cx.warning(span, message, "give keys a prefix, or use header fields for foreign keys");
        }
    }

    fn user(&self, user: &RawUser, span: TextSpan, cx: &Context<'_>) -> Option<User> {
        let RawUser { jwt, header, basic } = user;
        let are_written = [!jwt.is_absent(), !header.is_absent(), !basic.is_absent()];
        if are_written.into_iter().filter(|is_written| *is_written).count() != 1 {
            let advice = "write one of jwt, header and basic";
            cx.error(span, "a user comes from one source", advice);
            return None;
        }
        if !jwt.is_absent() {
            let jwt = jwt.given()?;
            return jwt.value.compile(jwt.span, cx).map(UserSource::Jwt).map(User::from);
        }
        if !basic.is_absent() {
            let basic = basic.given()?;
            let Basic { settings, file } = basic.value.compile(basic.span, cx);
            let source = UserSource::Basic(Box::new(settings));
            return Some(User { source: Some(source), password_file: file });
        }
        let header = header.given()?;
        cx.check_identifying_field(header);
        if !self.has_trusted_proxies() {
            let message = "the user's header is accepted from trusted proxies only, and there are \
                           none";
            cx.error(header.span, message, "name your proxies in trusted_proxies");
        }
        Some(UserSource::Header(header.value.0.clone()).into())
    }

    /// Whether there are proxies whose headers are believed, or were meant to be.
    fn has_trusted_proxies(&self) -> bool {
        let proxies = &self.trusted_proxies;
        !proxies.is_absent() && proxies.value().is_none_or(|proxies| !proxies.is_empty())
    }

    /// What requests can have, or were meant to have.
    pub fn facts(&self) -> ClientFacts {
        let user = !self.user.is_absent();
        let token = user && self.user.value().is_none_or(|user| !user.jwt.is_absent());
        let trusted_proxy = self.has_trusted_proxies();
        ClientFacts {
            user,
            token,
            place: !self.geo.is_absent(),
            keys: !self.keys.is_absent(),
            classes: !self.classes.is_absent(),
            agents: !self.agents.is_absent(),
            trusted_proxy,
        }
    }

    /// Where `keys` is written.
    pub fn keys_span(&self) -> Option<TextSpan> {
        self.keys.span()
    }

    /// Where the file of the keys is written.
    pub fn key_file_span(&self) -> Option<TextSpan> {
        self.keys.value()?.file_span()
    }

    /// The section `geo`, if it is written.
    pub fn geo(&self) -> &Field<RawGeo> {
        &self.geo
    }
}

impl RawApiKey {
    fn compile(&self, usual: ApiKeySettings, cx: &Context<'_>) -> ApiKeySettings {
        let headers = match self.headers.value() {
            Some(_) => {
                self.headers.items().for_each(|name| cx.check_identifying_field(name));
                self.headers.items().map(|name| name.value.0.clone()).collect()
            }
            None => usual.headers,
        };
        if let Some(query) = self.query.given().filter(|query| query.value.is_empty()) {
            let advice = "name the parameter, or leave the field out";
            cx.error(query.span, "the query parameter has no name", advice);
        }
        ApiKeySettings {
            headers,
            bearer: self.bearer.copied().unwrap_or(usual.bearer),
            query: self.query.value().cloned(),
            cookie: self.cookie(cx),
        }
    }
}

impl RawApiKey {
    fn cookie(&self, cx: &Context<'_>) -> Option<String> {
        let cookie = self.cookie.given()?;
        if format!("cookie:{}", cookie.value).parse::<KeyExpr>().is_err() {
            let message = format!("\"{}\" is not the name of a cookie", cookie.shown());
            cx.error(cookie.span, &message, "like cookie: api_key");
        }
        Some(cookie.value.clone())
    }
}

/// The three well-known names may be written with `_`, like all words of the configuration,
/// or as they appear in a request.
fn forwarded_header(name: &HeaderName) -> ForwardedHeader {
    match name.as_str() {
        "x_forwarded_for" | "x-forwarded-for" => ForwardedHeader::XForwardedFor,
        "forwarded" => ForwardedHeader::Forwarded,
        "x_real_ip" => ForwardedHeader::Single(HeaderName::from_static("x-real-ip")),
        _ => ForwardedHeader::Single(name.clone()),
    }
}
