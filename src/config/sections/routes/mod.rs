//! `routes`: which requests are handled how, and which policies apply to them.

pub mod auth;
pub mod changes;
pub mod cors;
pub mod fallback;
mod matches;
pub mod mirror;
mod overflow;
pub mod path_match;
pub mod read_body;
mod refusals;
pub mod retries;
pub mod split;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::Policy;
use tollgate_core::routes;

use crate::config::field::{Either, Field, List, OneOrMore, Spanned};
use crate::config::model::{Route, Written};
use crate::config::node::TextSpan;
use crate::config::scalar::{HostText, ListName, MethodName, PathText, Period, Size};
use crate::config::sections::answers::{RawRedirect, RawRespond};
use crate::config::sections::client::RawClient;
use crate::config::sections::compress::{self, RouteCompress};
use crate::config::sections::context::{Context, TIMEOUT};
use crate::config::sections::names::Referrer;
use crate::config::sections::none::{Nothing, OrNone};
use crate::config::sections::policies::{Named, RawPolicy};
use crate::config::sections::references::{References, check_params};
use crate::config::words::Word;
use crate::message::Cors;
use crate::proxy::RouteTimeouts;
use crate::snapshot::{Action, Changes, Handling};
use auth::RawAuth;
use changes::{RawFieldEdits, RawRewrite};
use cors::RawCors;
use fallback::RawFallback;
use matches::Matches;
use mirror::RawMirror;
use overflow::RawOverflow;
use path_match::RawPathMatch;
use read_body::RawReadBody;
use refusals::RefusalsForm;
use retries::RawRetries;
use split::RawSplit;

/// Which requests the route matches, which policies apply to them, and how they are handled.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "route", default)]
#[schemars(deny_unknown_fields, extend("required" = ["path"]))]
pub struct RawRoute {
    /// The name of the route in logs and keys.
    #[schemars(extend("x-default" = "its number"))]
    #[schemars(example = &"orders")]
    name: Field<String>,
    /// The hosts. A request needs one of them.
    #[schemars(extend("x-default" = "every host"))]
    hosts: List<HostText>,
    /// The path.
    path: Field<PathText>,
    /// How the path of a request is compared with `path`.
    path_match: Field<RawPathMatch>,
    /// The methods. A request needs one of them.
    #[schemars(extend("x-default" = "every method"))]
    #[schemars(example = ["GET", "POST"])]
    methods: List<MethodName>,
    /// Header fields with what their values must be. A request needs all of them.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "x-version": "2" }))]
    headers: Matches,
    /// Parameters of the query with what their values must be. A request needs all of them.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "mode": { "any": ["a", "b"] } }))]
    query: Matches,
    /// Cookies with what their values must be. A request needs all of them.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "beta": { "present": true } }))]
    cookies: Matches,
    /// The policies: their names, or whole policies. All must admit a request. A refused request
    /// uses none of their limits. A policy that is written here has the name `route-NAME`, with the
    /// name of the route or its number; the second one in a route has `route-NAME-2`.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(with = "List<Either<String, RawPolicy>>", example = ["per-client"])]
    policies: List<String>,
    /// The access lists. All must allow a request. They replace those of `defaults`; `none` removes
    /// these.
    #[schemars(extend("x-default" = "those of `defaults`"))]
    #[schemars(example = ["office"])]
    access: OneOrMore<ListName>,
    /// The credentials of which a client needs one: `api_key`, `user`, `tls`; or `none`.
    #[schemars(extend("x-default" = "those of the section `defaults`"))]
    #[schemars(example = ["api_key", "user"])]
    auth: Field<RawAuth>,
    /// The upstream that gets the admitted requests. A route needs exactly one of `upstream`,
    /// `split`, `respond` and `redirect`.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"app")]
    upstream: Field<String>,
    /// Several upstreams that share the admitted requests.
    #[schemars(extend("x-default" = "none"))]
    split: Field<RawSplit>,
    /// A response without an upstream.
    #[schemars(extend("x-default" = "none"))]
    respond: Field<RawRespond>,
    /// A redirect to another address.
    #[schemars(extend("x-default" = "none"))]
    redirect: Field<RawRedirect>,
    /// The target that the upstream gets instead of the client's.
    #[schemars(extend("x-default" = "no change"))]
    rewrite: Field<RawRewrite>,
    /// Changes of the request fields that the upstream gets.
    #[schemars(extend("x-default" = "no change"))]
    request_headers: Field<RawFieldEdits>,
    /// Changes of the response fields. Responses of the gateway itself only get fields that they do
    /// not have.
    #[schemars(extend("x-default" = "no change"))]
    response_headers: Field<RawFieldEdits>,
    /// How long a request may take.
    timeouts: Field<RawRouteTimeouts>,
    /// When a request is sent again because there was no response.
    #[schemars(extend("x-default" = "never"))]
    retries: Field<RawRetries>,
    /// A second upstream for requests whose first one fails.
    #[schemars(extend("x-default" = "none"))]
    fallback: Field<RawFallback>,
    /// Copies of some requests, which go to another upstream. Its answers are thrown away.
    #[schemars(extend("x-default" = "none"))]
    mirror: Field<RawMirror>,
    /// A later route for requests that only some of the policies refuse.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "policies": ["team"], "route": "cheap" }))]
    overflow: Field<RawOverflow>,
    /// Which responses are compressed, for clients that accept it; `none` removes the section of
    /// `defaults`.
    #[schemars(extend("x-default" = "that of `defaults`"))]
    #[schemars(example = serde_json::json!({ "min_size": "4KiB" }))]
    compress: RouteCompress,
    /// The largest size of a request body.
    #[schemars(extend("x-default" = "no limit"))]
    #[schemars(example = &"10MB")]
    max_body: Field<Size>,
    /// How much of the body of a request is read, if a policy needs the body.
    read_body: Field<RawReadBody>,
    /// The largest size of a response body of the upstream. A response that announces a larger one
    /// becomes 502; one that grows larger breaks off.
    #[schemars(extend("x-default" = "no limit"))]
    #[schemars(example = &"10MB")]
    max_response: Field<Size>,
    /// The form of the responses that the gateway itself makes on this route, such as 429. A
    /// `response` of a policy takes precedence.
    #[schemars(extend("default" = "problem"))]
    refusals: Field<RefusalsForm>,
    /// What the gateway answers to scripts of other origins, instead of what `defaults` has.
    #[schemars(extend("x-default" = "what defaults has"))]
    #[schemars(with = "Field<Either<Word<Nothing>, RawCors>>")]
    #[schemars(example = serde_json::json!({ "origins": ["https://app.example.com"] }))]
    cors: OrNone<RawCors>,
    /// The authorizer that is asked about the requests, instead of that of `defaults`; or `none`.
    #[schemars(extend("x-default" = "that of defaults"))]
    #[schemars(example = &"app")]
    authorizer: Field<String>,
    /// Whether the policies of the section `defaults` apply too. Its other fields always do, unless
    /// the route has such a field itself.
    #[schemars(extend("default" = true))]
    defaults: Field<bool>,
}

/// How long a request may take.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "route timeouts", default)]
#[schemars(deny_unknown_fields)]
struct RawRouteTimeouts {
    /// The longest time until the head of the response.
    #[schemars(extend("default" = "30s"))]
    #[schemars(example = &"5s")]
    response: Field<Period>,
    /// The longest time between two parts of the response.
    #[schemars(extend("default" = "60s"))]
    #[schemars(example = &"10s")]
    idle: Field<Period>,
    /// The longest time from the request to the end of the response.
    #[schemars(extend("x-default" = "no limit"))]
    #[schemars(example = &"2m")]
    request: Field<Period>,
}

/// One item for each route. None for one that is broken.
pub fn compile(
    raw: &List<RawRoute>,
    client: &RawClient,
    known: &References<'_>,
    cx: &Context<'_>,
) -> Vec<Option<Route>> {
    cx.not_empty(raw, "there are no routes", "write - { path: /*, upstream: app }");
    let mut taken: HashMap<String, usize> = HashMap::new();
    let mut names = Vec::new();
    let mut routes = Vec::new();
    for (index, route) in raw.value().into_iter().flatten().enumerate() {
        let name = route_name(route.given(), index + 1, &mut taken, cx);
        let compile = |it: &Spanned<RawRoute>| it.value.compile(it.span, &name, client, known, cx);
        routes.push(route.given().and_then(compile));
        names.push(name);
    }
    let overflows = raw.value().into_iter().flatten();
    let overflows: Vec<_> = overflows.map(|it| Some(&it.value()?.overflow)).collect();
    overflow::connect(&overflows, &names, &mut routes, cx);
    routes
}

/// The given name, or the number of the route. Each name may occur once.
fn route_name(
    route: Option<&Spanned<RawRoute>>,
    number: usize,
    taken: &mut HashMap<String, usize>,
    cx: &Context<'_>,
) -> String {
    let given = route.and_then(|route| route.value.name.given());
    if let Some(name) = given {
        cx.check_name(name, "route");
    }
    let name = given.map_or_else(|| number.to_string(), |name| name.value.clone());
    if let Some(other) = taken.insert(name.clone(), number) {
        let shown = given.map_or(name.as_str(), |name| name.shown());
        let message = format!("two routes are named \"{shown}\": number {other} and {number}");
        let span = given.map(|name| name.span).or(route.map(|route| route.span));
        cx.error(span.unwrap_or(TextSpan::FILE), &message, "rename one of them");
    }
    name
}

impl RawRoute {
    fn compile(
        &self,
        span: TextSpan,
        name: &str,
        client: &RawClient,
        known: &References<'_>,
        cx: &Context<'_>,
    ) -> Option<Route> {
        let shown = match self.name.given() {
            Some(name) => format!("route \"{}\"", name.shown()),
            None => format!("route {name}"),
        };
        let message = format!("{shown} has no \"path\"");
        let path = cx.required(&self.path, span, &message, "like path: /*");
        let advice = "name at least one, or leave the field out";
        cx.not_empty(&self.hosts, "\"hosts\" is empty", advice);
        cx.not_empty(&self.methods, "\"methods\" is empty", advice);
        let route =
            Referrer { shown: &shown, span, path_span: self.path.span(), policies: &self.policies };
        let policies = known.policies(&route, self.defaults.copied().unwrap_or(true), cx);
        let authorizers = &known.authorizers;
        let authorizer = authorizers.of_route(&self.authorizer, &shown, cx);
        let span_of = |policy: &Named| route.span_of(&policy.name);
        authorizers.check_policies(authorizer, &policies, &shown, span_of, cx);
        if let Some(path) = path {
            check_params(&route, &path.0, &policies, cx);
        }
        path_match::warn_colons(self.path.given(), cx);
        let path_match = RawPathMatch::compile(&self.path_match, self.path.given(), cx);
        let split = self.split.given();
        let split =
            split.and_then(|raw| RawSplit::compile(raw, self.path.value(), &shown, known, cx));
        let action = self.action(&route, split.as_ref(), known, cx);
        if let Some(action) = &action {
            known.check_elastic(&route, action.upstreams(), &policies, cx);
        }
        let upstream = action.as_ref().and_then(single_upstream);
        let applying = policies.iter().filter(|policy| !policy.is_off);
        let policies: Option<Vec<Arc<Policy>>> =
            applying.map(|policy| policy.compiled.clone()).collect();
        let handling = self.handling(&route, action, policies.as_deref(), authorizer, known, cx);
        let access = known.access.of_route(&self.access, &route, path.map(|path| &path.0), cx);
        let parts = [
            matches::of_headers(&self.headers, cx),
            matches::of_query(&self.query, cx),
            matches::of_cookies(&self.cookies, cx),
        ];
        let auth = match self.auth.is_absent() {
            true => known.auth.clone(),
            false => RawAuth::compile(&self.auth, &shown, client, cx),
        };
        let handling = handling?;
        let fallback = handling.fallback.as_ref().map(|fallback| fallback.upstream);
        let upstreams = handling.action.upstreams().iter().copied().chain(fallback);
        let has_bounded_upstream = known.has_bounded(upstreams);
        Some(Route {
            rule: routes::Route {
                name: name.into(),
                hosts: self.hosts.items().map(|host| host.value.0.clone()).collect(),
                path: path?.0.clone(),
                path_match,
                methods: self.methods.items().map(|method| method.value.0.clone()).collect(),
                parts: parts.concat(),
                auth,
                affinity: known.affinity(upstream, &path?.0, &shown, cx),
                access: access?,
                split: split.map(|compiled| compiled.split),
                policies: policies?,
                answers_preflights: handling.cors.is_some(),
                has_authorizer: authorizer.is_some(),
                has_bounded_upstream,
                reads_body: handling.read_body.is_some(),
                overflow: None,
            },
            handling,
            written: self.written(),
        })
    }

    /// What is done with the requests of this route, which has this action, these policies and this
    /// authorizer. None if it has no action.
    fn handling(
        &self,
        route: &Referrer<'_>,
        action: Option<Action>,
        policies: Option<&[Arc<Policy>]>,
        authorizer: Option<usize>,
        known: &References<'_>,
        cx: &Context<'_>,
    ) -> Option<Handling> {
        let shown = route.shown;
        let fallback = self.fallback.given();
        let mirror = self.mirror.given();
        let refusals = refusals::of_route(&self.refusals, &self.read_body, cx);
        let refuses_bodies = refusals.as_ref().is_some_and(|refusals| refusals.read_body.is_some());
        let handling = Handling {
            timeouts: self.timeouts(cx),
            retries: self.retries.value().map(|retries| retries.compile(cx)),
            compress: compress::of_route(&self.compress, known.compress.as_ref(), cx),
            fallback: fallback
                .and_then(|raw| RawFallback::compile(raw, action.as_ref(), shown, known, cx)),
            mirror: mirror
                .and_then(|raw| RawMirror::compile(raw, action.as_ref(), shown, known, cx)),
            max_body_bytes: self.max_body.value().map(|size| size.0),
            max_response_bytes: self.max_response.value().map(|size| size.0),
            refusals,
            read_body: read_body::of_route(&self.read_body, policies, refuses_bodies, route, cx),
            changes: self.changes(shown, action.as_ref(), cx),
            cors: self.cors(shown, known, cx),
            authorizer,
            action: action?,
        };
        Some(handling)
    }

    fn action(
        &self,
        route: &Referrer<'_>,
        split: Option<&split::Compiled>,
        known: &References<'_>,
        cx: &Context<'_>,
    ) -> Option<Action> {
        let shown = route.shown;
        let kinds = [
            ("upstream", self.upstream.is_absent()),
            ("split", self.split.is_absent()),
            ("respond", self.respond.is_absent()),
            ("redirect", self.redirect.is_absent()),
        ];
        let mut given = kinds.iter().filter(|(_, is_absent)| !is_absent).map(|(name, _)| *name);
        match (given.next(), given.next()) {
            (None, _) => {
                let advice = "write upstream: NAME, split: { ... }, respond: { ... } or \
                              redirect: { ... }";
                let message =
                    format!("{shown} has no \"upstream\", \"split\", \"respond\" or \"redirect\"");
                cx.error(route.span, &message, advice);
                None
            }
            (Some(one), Some(other)) => {
                let message = format!("{shown} has both \"{one}\" and \"{other}\"");
                let span = self.upstream.span().unwrap_or(route.span);
                cx.error(span, &message, "remove one of them");
                None
            }
            (Some("split"), None) => Some(Action::Split(split?.upstreams.clone())),
            (Some("respond"), None) => {
                self.respond.value().map(|raw| Action::Respond(raw.compile(cx)))
            }
            (Some("redirect"), None) => {
                let redirect = self.redirect.given()?;
                let made = redirect.value.compile(redirect.span, self.path.value(), cx);
                made.map(Action::Redirect)
            }
            (Some(_), None) => {
                known.upstream(self.upstream.given()?, shown, cx).map(Action::Forward)
            }
        }
    }

    /// What the route changes in messages. None if it changes nothing.
    fn changes(
        &self,
        shown: &str,
        action: Option<&Action>,
        cx: &Context<'_>,
    ) -> Option<Box<Changes>> {
        if action.is_some_and(|action| action.upstreams().is_empty()) {
            warn_no_upstream(&self.rewrite, "rewrite", shown, cx);
            warn_no_upstream(&self.request_headers, "request_headers", shown, cx);
            warn_no_upstream(&self.fallback, "fallback", shown, cx);
            warn_no_upstream(&self.mirror, "mirror", shown, cx);
            warn_no_upstream(&self.retries, "retries", shown, cx);
            warn_no_upstream(&self.max_response, "max_response", shown, cx);
        }
        let rewrite = self.rewrite.value().map(|it| it.compile(shown, self.path.value(), cx));
        let request = self.request_headers.value().map(|edits| edits.of_requests(cx));
        let response = self.response_headers.value().map(|edits| edits.of_responses(cx));
        let changes = Changes {
            rewrite: rewrite.unwrap_or_default(),
            request: request.unwrap_or_default(),
            response: response.unwrap_or_default(),
        };
        let is_empty =
            changes.rewrite.is_empty() && changes.request.is_empty() && changes.response.is_empty();
        (!is_empty).then(|| Box::new(changes))
    }

    /// What the gateway answers to scripts of other origins.
    fn cors(&self, shown: &str, known: &References<'_>, cx: &Context<'_>) -> Option<Arc<Cors>> {
        let cors = cors::of_route(&self.cors, known.default_cors.as_ref(), cx);
        if cors.is_some() {
            cors::check_edits(&self.response_headers, shown, cx);
        }
        cors
    }

    fn timeouts(&self, cx: &Context<'_>) -> RouteTimeouts {
        let usual = RouteTimeouts::default();
        let Some(timeouts) = self.timeouts.value() else { return usual };
        RouteTimeouts {
            response: cx.timeout(&timeouts.response, "response", usual.response),
            idle: cx.timeout(&timeouts.idle, "idle", usual.idle),
            request: cx.duration(&timeouts.request, "request", TIMEOUT).map(Duration::from),
        }
    }

    fn written(&self) -> Written {
        let path = self.path.given().map(|path| path.shown_as(&path.value.0));
        Written {
            hosts: self.hosts.items().map(|host| host.shown_as(&host.value.0)).collect(),
            path: path.unwrap_or_default(),
        }
    }

    /// The name of the route with this index, as messages show it.
    pub fn shown_name(&self, index: usize) -> String {
        match self.name.given() {
            Some(name) => format!("\"{}\"", name.shown()),
            None => (index + 1).to_string(),
        }
    }

    /// Where `auth` is written, if the route has its own.
    pub fn auth_span(&self) -> Option<TextSpan> {
        self.auth.span()
    }

    /// Where `read_body` is written, or else the path.
    pub fn read_body_span(&self) -> TextSpan {
        self.read_body.span().unwrap_or_else(|| self.path_span())
    }

    /// Where the path is written.
    pub fn path_span(&self) -> TextSpan {
        self.path.span().unwrap_or(TextSpan::FILE)
    }
}

/// The index of the upstream that gets all requests, if one does.
const fn single_upstream(action: &Action) -> Option<usize> {
    match action {
        Action::Forward(upstream) => Some(*upstream),
        Action::Split(_) | Action::Respond(_) | Action::Redirect(_) => None,
    }
}

fn warn_no_upstream<T>(field: &Field<T>, name: &str, shown: &str, cx: &Context<'_>) {
    if let Some(span) = field.span() {
        let message = format!("\"{name}\" has no effect: {shown} uses no upstream");
        cx.warning(span, &message, "leave it out");
    }
}
