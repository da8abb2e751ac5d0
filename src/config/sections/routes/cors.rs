//! `cors` of a route and of `defaults`: what the gateway answers to scripts of other origins.

use std::ops::RangeInclusive;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::time::Span;

use super::changes::RawFieldEdits;
use crate::config::field::{Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::{FieldName, MethodName, OriginText, Period};
use crate::config::sections::context::Context;
use crate::config::sections::none::{Chosen, OrNone};
use crate::message::{CORS_FIELDS, Cors, CorsSettings, OriginPattern};

/// A list is compared with the origin of each request, and names are sent to each browser.
const MOST_ITEMS: usize = 100;
/// No browser remembers an answer for longer.
const MAX_AGE: RangeInclusive<Span> = Span::ZERO..=Span::from_secs(86_400);

/// What the gateway answers to scripts of other origins. The gateway answers preflights, and
/// writes the fields about other origins into every response. Those of the upstream are removed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "cors", default)]
#[schemars(deny_unknown_fields, extend("required" = ["origins"]))]
pub struct RawCors {
    /// The origins whose scripts may read the responses.
    #[schemars(example = ["https://app.example.com"])]
    origins: List<OriginText>,
    /// The methods of requests, besides GET, HEAD and POST, which are always allowed.
    #[schemars(extend("x-default" = "GET, HEAD and POST"))]
    #[schemars(example = ["GET", "PUT"])]
    methods: List<MethodName>,
    /// The header fields that a script may set in its requests. Those that need no preflight may
    /// be left out; content-type needs one for JSON.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["authorization", "content-type"])]
    headers: List<FieldName>,
    /// The response fields that a script may read, besides those about limits and those that
    /// every script may read.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["etag"])]
    expose: List<FieldName>,
    /// Whether requests may have cookies and other credentials.
    #[schemars(extend("default" = false))]
    credentials: Field<bool>,
    /// For how long a browser may remember the answer to a preflight, up to 24h.
    #[schemars(extend("x-default" = "what the browser decides: 5 seconds"))]
    #[schemars(example = &"10m")]
    max_age: Field<Period>,
}

/// What applies to a route. `own` is the field of the route, and `default` that of `defaults`.
pub fn of_route(
    own: &OrNone<RawCors>,
    default: Option<&Arc<Cors>>,
    cx: &Context<'_>,
) -> Option<Arc<Cors>> {
    match own.chosen() {
        Chosen::Own(own) => Some(own.value.compile(own.span, cx)),
        Chosen::Default => default.cloned(),
        Chosen::Nothing => None,
    }
}

/// Reports fields that the route edits although they are the gateway's own, because the route
/// has `cors`. `shown` names the route in messages.
pub fn check_edits(edits: &Field<RawFieldEdits>, shown: &str, cx: &Context<'_>) {
    let edited = edits.value().into_iter().flat_map(RawFieldEdits::names);
    for (name, span) in edited.filter(|(name, _)| CORS_FIELDS.contains(name)) {
        let message = format!("the gateway writes the field \"{name}\", because {shown} has cors");
        cx.error(span, &message, "leave it out, or write cors: none");
    }
}

impl RawCors {
    /// The section is written at `span`.
    pub fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Arc<Cors> {
        let advice = "like origins: [https://app.example.com]";
        cx.required(&self.origins, span, "\"cors\" has no \"origins\"", advice);
        let message = "the list is empty, so no script of another origin may read a response";
        cx.not_empty(&self.origins, message, advice);
        cx.at_most(&self.origins, "origins", MOST_ITEMS);
        cx.at_most(&self.methods, "methods", MOST_ITEMS);
        cx.at_most(&self.headers, "headers", MOST_ITEMS);
        cx.at_most(&self.expose, "expose", MOST_ITEMS);
        let credentials = self.credentials.copied().unwrap_or(false);
        self.origins.items().for_each(|origin| check_origin(origin, credentials, cx));
        for method in self.methods.items().filter(|it| it.value.0.as_str() == "*") {
            cx.error(method.span, "\"*\" is not a method", "list the methods, like [PUT, DELETE]");
        }
        for name in self.headers.items().chain(self.expose.items()) {
            if name.value.0.as_str() == "*" {
                let message = "\"*\" is not the name of a header field";
                cx.error(name.span, message, "list the fields, like [authorization]");
            }
        }
        let max_age = cx.duration(&self.max_age, "max_age", MAX_AGE);
        Arc::new(Cors::new(CorsSettings {
            origins: self.origins.items().map(|it| it.value.0.clone()).collect(),
            methods: self.methods.items().map(|it| it.value.0.clone()).collect(),
            headers: self.headers.items().map(|it| it.value.0.clone()).collect(),
            expose: self.expose.items().map(|it| it.value.0.clone()).collect(),
            credentials,
            max_age_s: max_age.map(Span::as_secs_ceil),
        }))
    }
}

/// With credentials, a script acts as the person in front of the browser, and reads what that
/// person may read.
fn check_origin(origin: &Spanned<OriginText>, credentials: bool, cx: &Context<'_>) {
    match &origin.value.0 {
        OriginPattern::Any if credentials => {
            let message = "\"*\" and \"credentials\" would let every site act as its visitor";
            cx.error(origin.span, message, "list the origins, or leave out \"credentials\"");
        }
        OriginPattern::Null if credentials => {
            let message = "every site can make a document with the origin \"null\"";
            cx.warning(origin.span, message, "leave it out, or leave out \"credentials\"");
        }
        OriginPattern::Host(hosts) if hosts.are_of_many_owners() => {
            let message = "the hosts below this name belong to many owners";
            cx.warning(origin.span, message, "name the host, like https://*.example.com");
        }
        OriginPattern::Any | OriginPattern::Null | OriginPattern::Host(_) => {}
    }
}
