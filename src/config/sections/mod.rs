//! The sections of the file: what may be written in each of them, and how it is compiled.
//!
//! A `Raw` type mirrors its section, field by field. The comments on its fields are for users:
//! editors show them by way of the JSON Schema, and docs/configuration.md is made from them. Names
//! in `rename` are those of sections in messages. The functions beside a type compile it into the
//! settings of the module that uses them.
//!
//! Every section is compiled, whether the others have mistakes or not, so that all mistakes are
//! found. A broken part compiles to nothing or to its default. That has no consequences, because a
//! configuration with any mistake is refused.

mod access;
mod admin;
mod answers;
mod authorizers;
mod check;
mod classes;
mod client;
mod compress;
mod context;
mod credentials;
mod cross_origin;
mod headers;
mod key;
mod listeners;
mod names;
mod none;
mod pem_files;
mod policies;
mod prices;
mod references;
mod routes;
mod runtime;
mod store;
mod telemetry;
mod unused;
mod upstreams;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::spec::{Facts, Written};
use tollgate_core::policy::{ClientSettings, Policy};
use tollgate_core::price::Prices;

use super::de;
use super::field::{Either, Entries, Field, List, OneOrMore, Spanned};
use super::held_files::HeldFiles;
use super::model::{AdminAccess, Client, Config, StoreSettings};
use super::node::{Node, TextSpan};
use super::problem::Problems;
use super::scalar::{Endpoint, ListName};
use super::surroundings::Surroundings;
use access::{ListReferences, RawAccessList};
use admin::RawAdmin;
pub use admin::temporary as temporary_admin;
use authorizers::RawAuthorizer;
use authorizers::routes::Authorizers;
use check::RawCheck;
use client::RawClient;
use compress::RawCompress;
use context::Context;
use headers::RawHeaders;
use listeners::RawListener;
pub use pem_files::private_key;
use policies::RawPolicy;
use prices::{CompiledPrices, RawPrices};
use references::References;
use routes::RawRoute;
use routes::auth::RawAuth;
use routes::cors::RawCors;
use runtime::RawRuntime;
use store::RawStore;
use telemetry::RawTelemetry;
use upstreams::RawUpstream;

/// The configuration of the gateway.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "configuration", default)]
#[schemars(
    deny_unknown_fields,
    extend("if" = { "not": { "required": ["check"] } }),
    extend("then" = { "required": ["listeners", "routes"] })
)]
pub struct RawConfig {
    /// The addresses that the gateway listens on. At least one is needed, unless there is a
    /// listener in `check`.
    #[schemars(extend("x-default" = "none"))]
    listeners: List<RawListener>,
    /// How the gateway identifies the client of a request.
    client: Field<RawClient>,
    /// Where the counters are kept.
    store: Field<RawStore>,
    /// What the tokens of language models cost. Limits in money need it.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "currency": "usd", "file": "prices.yaml" }))]
    prices: Field<RawPrices>,
    /// Limits by name.
    #[schemars(extend("x-default" = "none"))]
    policies: Field<Entries<RawPolicy>>,
    /// Lists by name that say which requests may use a route. At most 64, with 10,000 blocks of
    /// addresses in all.
    #[schemars(extend("x-default" = "none"))]
    access: Field<Entries<RawAccessList>>,
    /// Policies and settings for all routes.
    defaults: Field<RawDefaults>,
    /// Which requests are handled how. The first route that matches a request applies. At least one
    /// is needed, unless there is a listener in `check`.
    #[schemars(extend("x-default" = "none"))]
    routes: List<RawRoute>,
    /// Groups of endpoints by name, each with its settings, or with the address of its only
    /// endpoint.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(with = "Field<Entries<Either<Endpoint, RawUpstream>>>")]
    upstreams: Field<Entries<RawUpstream>>,
    /// Servers that are asked whether requests may pass, by name.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "sso": { "http": "http://127.0.0.1:9091/verify" } }))]
    authorizers: Field<Entries<RawAuthorizer>>,
    /// The header fields that tell clients about their limits.
    headers: Field<RawHeaders>,
    /// Whether error responses of the gateway are problem+json (RFC 9457) or plain text.
    #[schemars(extend("default" = true))]
    problem_json: Field<bool>,
    /// The logs of the gateway.
    telemetry: Field<RawTelemetry>,
    /// The process.
    runtime: Field<RawRuntime>,
    /// Listeners that tell other proxies and services whether a request may pass. With one of them,
    /// `listeners` and `routes` may be left out.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "http": "127.0.0.1:9902" }))]
    check: Field<RawCheck>,
    /// The listener through which operators see and change a running gateway.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "address": "unix:/run/tollgate-admin.sock" }))]
    admin: Field<RawAdmin>,
}

/// Policies for all routes that do not have `defaults: false`, and settings for all routes without
/// such settings of their own.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "defaults", default)]
#[schemars(deny_unknown_fields)]
struct RawDefaults {
    /// The policies that apply to every request, besides those of its route: names, or whole
    /// policies, which then have the names `defaults`, `defaults-2` and so on.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(with = "List<Either<String, RawPolicy>>", example = ["per-client"])]
    policies: List<String>,
    /// The credentials of which a client needs one, for routes without `auth` of their own.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["api_key"])]
    auth: Field<RawAuth>,
    /// The access lists of every route that does not write `access` itself. `defaults: false` of a
    /// route does not remove them.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["office"])]
    access: OneOrMore<ListName>,
    /// What the gateway answers to scripts of other origins.
    #[schemars(extend("x-default" = "nothing: preflights go to the upstreams"))]
    #[schemars(example = serde_json::json!({ "origins": ["https://app.example.com"] }))]
    cors: Field<RawCors>,
    /// Which responses are compressed, for clients that accept it. A route can have its own section,
    /// or none.
    #[schemars(extend("x-default" = "no compression"))]
    compress: Field<RawCompress>,
    /// The authorizer that is asked about every request.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"app")]
    authorizer: Field<String>,
}

impl RawDefaults {
    /// Routes that do not write one of these settings get that of `known`.
    fn compile(&self, client: &RawClient, known: &mut References<'_>, cx: &Context<'_>) {
        known.set_defaults(&self.policies, cx);
        known.access.set_defaults(&self.access, cx);
        known.authorizers.set_default(&self.authorizer, cx);
        let cors = self.cors.given();
        known.default_cors = cors.map(|cors| cors.value.compile(cors.span, cx));
        known.compress = self.compress.value().map(|compress| compress.compile(cx));
        known.auth = RawAuth::compile(&self.auth, "\"defaults\"", client, cx);
    }
}

/// What policies depend on in the configuration in use.
pub struct Live<'a> {
    pub client: &'a ClientSettings,
    pub store: &'a StoreSettings,
    pub prices: Option<&'a Arc<Prices>>,
}

impl RawConfig {
    /// How a command reaches the admin listener, if there is one.
    pub fn admin_access(&self) -> Option<AdminAccess> {
        self.admin.value().and_then(RawAdmin::access)
    }

    /// The configuration, unless there are errors. Errors and warnings go to `problems`.
    pub fn compile(&self, around: &Surroundings<'_>, problems: &Problems) -> Option<Config> {
        let cx = Context { problems, around };
        let absent = RawClient::default();
        let raw_client = self.client.value().unwrap_or(&absent);
        let Client { settings: mut client, files, key_source, agent_sources } =
            raw_client.compile(&cx);
        let CompiledPrices { prices, file } = prices::compile(&self.prices, &cx);
        let files = HeldFiles { prices: file, ..files };
        client.geo = files.databases.iter().map(|file| file.database.clone()).collect();
        let store = self.store.value().map(|store| store.compile(&cx)).unwrap_or_default();
        let keeps_keys = self.store.is_broken() || store.keeps_keys();
        let keys_on_failure = raw_client.keys_on_failure(keeps_keys, &cx);
        let dependencies = self.dependencies(raw_client, &client, &store, prices.as_ref());
        let policies = policies::compile(&self.policies, &dependencies, &cx);
        let lists = access::compile(&self.access, raw_client, &cx);
        let upstreams = upstreams::compile(&self.upstreams, raw_client, &cx);
        let authorizers = authorizers::compile(&self.authorizers, upstreams.len(), &cx);
        let mut known = References::new(
            &self.policies,
            &policies,
            &self.upstreams,
            &upstreams,
            raw_client,
            ListReferences::new(&self.access, &lists),
            Authorizers::new(&self.authorizers, &authorizers),
        );
        if let Some(defaults) = self.defaults.value() {
            defaults.compile(raw_client, &mut known, &cx);
        }
        if self.check.is_absent() {
            self.check_forwards(&cx);
        }
        let routes = routes::compile(&self.routes, raw_client, &known, &cx);
        let listeners = listeners::compile(&self.listeners, &client.trusted_proxies, &cx);
        let check = check::compile(&self.check, &listeners, &known, &cx);
        let taken: Vec<_> = listeners.iter().chain(check.listeners()).collect();
        let config = Config {
            admin: admin::compile(&self.admin, &taken, &cx),
            check,
            listeners,
            client,
            files,
            key_source,
            agent_sources,
            store,
            keys_on_failure,
            prices: prices.given().cloned(),
            headers: self.headers.value().map(|it| it.compile(&cx)).unwrap_or_default(),
            problem_json: self.problem_json.copied().unwrap_or(true),
            telemetry: self.telemetry.value().map(|it| it.compile(&cx)).unwrap_or_default(),
            runtime: self.runtime.value().map(|it| it.compile(&cx)).unwrap_or_default(),
            policies: policies
                .into_iter()
                .filter(|policy| !policy.is_off)
                .filter_map(|policy| policy.compiled)
                .collect(),
            access: lists.into_iter().filter_map(|list| list.compiled).collect(),
            definitions: Arc::default(),
            routes: routes.into_iter().flatten().collect(),
            authorizers: authorizers.iter().map(|it| Arc::clone(&it.settings)).collect(),
            upstreams: upstreams
                .into_iter()
                .map(|upstream| upstream.settings)
                .chain(authorizers.into_iter().map(|it| it.upstream))
                .collect(),
            // All files have been read.
            certificates: around.certificates.take().into(),
            key_file: around.key_file.take(),
        };
        policies::counters::check(&self.policies, &config, &cx);
        credentials::check(self.client.value(), &config, &cx);
        if problems.any_errors() {
            return None;
        }
        self.warn_unused(&config, &cx);
        Some(config)
    }

    /// A gateway that answers no questions of others needs listeners and routes.
    fn check_forwards(&self, cx: &Context<'_>) {
        let advice = "write: listeners: [{ address: 0.0.0.0:8080 }]";
        cx.required(&self.listeners, TextSpan::FILE, "there are no \"listeners\"", advice);
        let advice = "write: routes: [{ path: /*, upstream: app }]";
        cx.required(&self.routes, TextSpan::FILE, "there are no \"routes\"", advice);
    }

    /// One policy with this name, as `node` defines it, in a configuration with these settings.
    /// None, with errors in `problems`, if it has mistakes.
    pub fn compile_policy(
        &self,
        name: &str,
        node: &Node,
        live: &Live<'_>,
        around: &Surroundings<'_>,
        problems: &Problems,
    ) -> Option<Policy> {
        let cx = Context { problems, around };
        let absent = RawClient::default();
        let client = self.client.value().unwrap_or(&absent);
        let Live { client: settings, store, prices } = *live;
        let prices = prices.map_or(Written::Absent, Written::Given);
        let dependencies = self.dependencies(client, settings, store, prices);
        let raw: RawPolicy = de::read(node, problems)?;
        let name = Spanned { value: name.to_owned(), span: node.span, written: None };
        let policy = raw.compile(&name, &dependencies, &cx);
        policy.filter(|_| !problems.any_errors())
    }

    fn dependencies<'a>(
        &self,
        client: &'a RawClient,
        settings: &'a ClientSettings,
        store: &StoreSettings,
        prices: Written<&'a Arc<Prices>>,
    ) -> policies::Dependencies<'a> {
        let raw = self.store.value();
        let is_broken = self.store.is_broken();
        let facts = Facts {
            client: settings,
            has: client.facts(),
            shares_store: is_broken || raw.is_some_and(RawStore::is_shared),
            keeps_overrides: is_broken || raw.is_some_and(RawStore::keeps_overrides),
            usual_mode: store.redis.as_ref().map(|redis| redis.mode).unwrap_or_default(),
            prices,
        };
        policies::Dependencies { client, facts }
    }

    /// There must be no errors, so that `config` contains all that was written.
    fn warn_unused(&self, config: &Config, cx: &Context<'_>) {
        unused::warn_covered(&self.routes, config, cx);
        unused::warn_lone_paths(&self.routes, config, cx);
        let overrides = self.store.value().and_then(RawStore::overrides_span);
        unused::warn_overrides(overrides, &self.policies, cx);
        let raw = self.client.value();
        let geo = raw.and_then(|client| client.geo().span());
        unused::warn_locations(geo, &self.policies, config, cx);
        unused::warn_certificates(&self.policies, config, cx);
        credentials::warn(&self.routes, raw, config, cx);
        cross_origin::warn(&self.routes, config, cx);
        // Questions over HTTP may name any policy.
        if config.check.http.is_none() {
            unused::warn_policies(&self.policies, config, cx);
        }
        unused::warn_lists(&self.access, config, cx);
        classes::warn(&self.access, &self.policies, config.client.classes.as_deref(), cx);
        access::warn_locations(&self.access, &config.access, &config.client, cx);
        unused::warn_upstreams(&self.upstreams, config, cx);
        unused::warn_authorizers(&self.authorizers, config, cx);
        check::asked::warn_unsettled(&self.policies, config, cx);
        unused::warn_large_bodies(&self.routes, config, cx);
    }
}
