//! `authorizers`: servers that are asked whether requests may pass, by name.

mod cache;
pub mod routes;

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use http::uri::PathAndQuery;
use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::time::Span;

use crate::config::field::{Entries, Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::{DocumentUrl, FieldName, GrpcUrl, Period, QuestionUrl, Size};
use crate::config::sections::context::Context;
use crate::config::sections::upstreams::OF_AUTHORIZER;
use crate::config::sections::upstreams::tls::RawUpstreamTls;
use crate::config::words::{Word, words};
use crate::message::{
    AuthorizerSettings, CHECK_PATH, FieldEdits, Forwarding, ORIGINAL_FIELDS, X_REQUEST_ID,
};
use crate::proxy::{EndpointSettings, Target, UpstreamSettings};
use cache::RawAnswerCache;

/// A question delays its request.
const TIMEOUT: RangeInclusive<Span> = Span::MILLISECOND..=Span::from_secs(60);
const MAX_RESPONSE: RangeInclusive<u64> = 1..=1024 * 1024;
const MAX_IN_FLIGHT: RangeInclusive<u64> = 1..=100_000;
/// The word for no authorizer.
const NONE: &str = "none";
const MOST_AUTHORIZERS: usize = 64;
const MOST_FIELDS: usize = 64;

const USUAL_TIMEOUT: Duration = Duration::from_secs(1);
const USUAL_RESPONSE: usize = 64 * 1024;
const USUAL_IN_FLIGHT: usize = 256;

/// A server that is asked whether a request may pass: either over `http` or over `grpc`. Over HTTP,
/// its answers 2xx let the request pass, and its answers 3xx and 4xx go to the client. Everything
/// else is a failure.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "authorizer", default)]
#[schemars(deny_unknown_fields)]
pub struct RawAuthorizer {
    /// Where a question is sent over HTTP. It is a GET without content.
    #[schemars(extend("x-default" = "none"))]
    http: Field<QuestionUrl>,
    /// Where a question is sent over gRPC, with the method Check of Envoy's service for external
    /// authorization.
    #[schemars(extend("x-default" = "none"))]
    grpc: Field<GrpcUrl>,
    /// The header fields of the request that the question contains.
    #[schemars(extend("x-default" = "all end-to-end fields"))]
    #[schemars(example = ["authorization", "cookie"])]
    send: List<FieldName>,
    /// The header fields of an answer 2xx that the request gets. Those of the client are removed.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["remote-user", "remote-groups"])]
    take: List<FieldName>,
    /// The longest time until the whole answer, up to 60s.
    #[schemars(extend("default" = "1s"))]
    #[schemars(example = &"500ms")]
    timeout: Field<Period>,
    /// What happens to requests while there is no answer.
    #[schemars(extend("default" = "deny"))]
    #[schemars(example = &"allow")]
    on_failure: Field<Word<OnNoAnswer>>,
    /// The largest body of an answer, up to 1MiB.
    #[schemars(extend("default" = "64KiB"))]
    #[schemars(example = &"16KiB")]
    max_response: Field<Size>,
    /// The most questions that are asked at once. Without a free place there is no answer.
    #[schemars(extend("default" = 256))]
    #[schemars(example = 64)]
    #[schemars(range(min = *MAX_IN_FLIGHT.start(), max = *MAX_IN_FLIGHT.end()))]
    max_in_flight: Field<u64>,
    /// Answers that are used for equal questions. It needs a list in `send`.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "for": "10s" }))]
    cache: Field<RawAnswerCache>,
    /// TLS for a URL with `https`.
    #[schemars(extend(
        "x-default" = "the authorities that the system trusts, and no certificate for the gateway"
    ))]
    tls: Field<RawUpstreamTls>,
}

/// What happens to requests while there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnNoAnswer {
    Deny,
    Allow,
}

words! {
    /// What happens to requests while an authorizer gives no answer.
    OnNoAnswer as "on_failure" {
        /// They get 503.
        "deny" => OnNoAnswer::Deny,
        /// They pass, without the fields of an answer.
        "allow" => OnNoAnswer::Allow,
    }
}

/// Where an authorizer is asked.
struct Server {
    target: Target,
    path: PathAndQuery,
    is_grpc: bool,
}

/// An authorizer, and the upstream that it is.
pub struct Authorizer {
    pub settings: Arc<AuthorizerSettings>,
    pub upstream: UpstreamSettings,
}

/// All authorizers that are not broken, in the order of the file. The first one's upstream has the
/// index `first`.
pub fn compile(
    raw: &Field<Entries<RawAuthorizer>>,
    first: usize,
    cx: &Context<'_>,
) -> Vec<Authorizer> {
    if raw.entries().len() > MOST_AUTHORIZERS {
        let message = format!("there are more than {MOST_AUTHORIZERS} \"authorizers\"");
        cx.error(raw.span().unwrap_or(TextSpan::FILE), &message, "remove some");
    }
    let mut authorizers = Vec::new();
    for (name, raw) in raw.entries() {
        cx.check_name(name, "authorizer");
        if name.value == NONE {
            let message = "an authorizer cannot be named \"none\", which stands for no authorizer";
            cx.error(name.span, message, "choose another name");
        }
        let upstream = first + authorizers.len();
        authorizers.extend(raw.value().and_then(|raw| raw.compile(name, upstream, cx)));
    }
    authorizers
}

impl RawAuthorizer {
    fn compile(
        &self,
        name: &Spanned<String>,
        upstream: usize,
        cx: &Context<'_>,
    ) -> Option<Authorizer> {
        let server = self.server(name, cx);
        self.check_sent(cx);
        self.check_taken(cx);
        let timeout = cx.duration(&self.timeout, "timeout", TIMEOUT);
        let timeout = timeout.map_or(USUAL_TIMEOUT, Duration::from);
        let in_flight = cx.number(&self.max_in_flight, "max_in_flight", MAX_IN_FLIGHT);
        let cache = self.cache.given().map(|cache| {
            if self.send.is_absent() {
                let message = "answers are kept for equal questions, and \"send\" lists no fields";
                cx.error(cache.span, message, "like send: [authorization, cookie]");
            }
            cache.value.compile(cx)
        });
        let fields = |list: &List<FieldName>| -> Vec<HeaderName> {
            list.items().map(|name| name.value.0.clone()).collect()
        };
        let max_response_bytes = self.max_response(cx);
        let is_tls = server.as_ref().is_some_and(|it| matches!(it.target, Target::Https(..)));
        let tls = RawUpstreamTls::compile(&self.tls, is_tls, name.span, cx);
        let Server { target, path, is_grpc } = server?;
        let settings = AuthorizerSettings {
            name: name.value.as_str().into(),
            upstream,
            target: path,
            is_grpc,
            send: (!self.send.is_absent()).then(|| fields(&self.send)),
            take: fields(&self.take),
            timeout,
            allows_on_failure: self.on_failure.word() == Some(OnNoAnswer::Allow),
            max_response_bytes,
            cache,
        };
        let endpoint = EndpointSettings { target, weight: 1 };
        let mut upstream =
            UpstreamSettings::new(&format!("{OF_AUTHORIZER}{}", name.value), vec![endpoint]);
        upstream.max_in_flight = Some(in_flight.unwrap_or(USUAL_IN_FLIGHT));
        upstream.connect_timeout = upstream.connect_timeout.min(timeout);
        upstream.tls = tls;
        Some(Authorizer { settings: Arc::new(settings), upstream })
    }

    /// Where it is asked. None: that is not written, or has a mistake.
    fn server(&self, name: &Spanned<String>, cx: &Context<'_>) -> Option<Server> {
        match (&self.http, &self.grpc) {
            (Field::Absent, Field::Absent) => {
                let message = format!(
                    "the authorizer \"{}\" has neither \"http\" nor \"grpc\"",
                    name.shown()
                );
                let advice =
                    "like http: http://127.0.0.1:9091/verify, or grpc: h2c://127.0.0.1:9000";
                cx.error(name.span, &message, advice);
                None
            }
            (Field::Given(http), Field::Absent) => {
                let DocumentUrl { target, path } = http.value.0.clone();
                Some(Server { target, path, is_grpc: false })
            }
            (Field::Absent, Field::Given(grpc)) => {
                let path = PathAndQuery::from_static(CHECK_PATH);
                Some(Server { target: grpc.value.0.clone(), path, is_grpc: true })
            }
            (Field::Given(_), Field::Given(grpc)) => {
                let message = "an authorizer has one of \"http\" and \"grpc\"";
                cx.error(grpc.span, message, "remove one");
                None
            }
            _ => None,
        }
    }

    fn max_response(&self, cx: &Context<'_>) -> usize {
        let given = self.max_response.given();
        let bytes = given.and_then(|given| {
            let Size(bytes) = given.value;
            if MAX_RESPONSE.contains(&bytes) {
                return usize::try_from(bytes).ok();
            }
            let message = "\"max_response\" is out of range";
            cx.error(given.span, message, "write a size from 1 to 1MiB");
            None
        });
        bytes.unwrap_or(USUAL_RESPONSE)
    }

    fn check_sent(&self, cx: &Context<'_>) {
        cx.at_most(&self.send, "send", MOST_FIELDS);
        for name in self.send.items().filter(|it| FieldEdits::is_reserved(&it.value.0)) {
            let message = format!("the field \"{}\" is never sent to an authorizer", name.value.0);
            cx.error(name.span, &message, "it belongs to the connection or frames the message");
        }
    }

    fn check_taken(&self, cx: &Context<'_>) {
        cx.at_most(&self.take, "take", MOST_FIELDS);
        let mut seen = HashSet::new();
        for name in self.take.items() {
            let field = &name.value.0;
            if FieldEdits::is_reserved(field) {
                let message = format!("the field \"{field}\" cannot be taken");
                cx.error(name.span, &message, "it belongs to the connection or frames the message");
            } else if is_own(field) {
                let message = format!("the field \"{field}\" is the gateway's own");
                cx.error(name.span, &message, "take a field with another name");
            }
            if !seen.insert(field) {
                cx.error(name.span, &format!("the field \"{field}\" is taken twice"), "remove one");
            }
        }
    }
}

/// Whether the gateway itself writes the field into requests.
fn is_own(name: &HeaderName) -> bool {
    Forwarding::is_claim(name) || ORIGINAL_FIELDS.contains(name) || *name == X_REQUEST_ID
}
