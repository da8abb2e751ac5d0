//! `rewrite`, `request_headers` and `response_headers` of a route: what it changes in messages.

use std::collections::HashSet;

use http::HeaderName;
use http::header::RETRY_AFTER;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::field::{Entries, Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::{FieldName, FieldValue, HostAndPort, PathText, PrefixText};
use crate::config::sections::context::Context;
use crate::message::{FieldEdits, Prefix, Rewrite, X_REQUEST_ID};

/// The target that the upstream gets instead of the client's. The query does not change.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "rewrite", default)]
#[schemars(deny_unknown_fields)]
pub struct RawRewrite {
    /// A prefix that is removed from the path. The upstream gets it in `X-Forwarded-Prefix`.
    #[schemars(extend("x-default" = "none"))]
    strip_prefix: Field<PrefixText>,
    /// A prefix that is added to the path.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"/internal")]
    add_prefix: Field<PrefixText>,
    /// The value of `Host`.
    #[schemars(extend("x-default" = "the host that the client asked for"))]
    host: Field<HostAndPort>,
}

/// Header fields that are set and removed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "header edits", default)]
#[schemars(deny_unknown_fields)]
pub struct RawFieldEdits {
    /// Fields with their values, which replace earlier values.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "x-from": "gateway" }))]
    set: Field<Entries<FieldValue>>,
    /// Fields that are removed.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["server"])]
    remove: List<FieldName>,
}

impl RawRewrite {
    /// The rewrite of a route with this path. `shown` names the route in messages.
    pub fn compile(&self, shown: &str, path: Option<&PathText>, cx: &Context<'_>) -> Rewrite {
        if let (Some(prefix), Some(path)) = (self.strip_prefix.given(), path) {
            check_prefix(prefix, shown, path, cx);
        }
        let strip = self.strip_prefix.value().and_then(|prefix| {
            let text = prefix.text().parse().ok()?;
            Some(Prefix { segments: prefix.0.segments.len(), text })
        });
        Rewrite {
            strip,
            add: self.add_prefix.value().map(|prefix| prefix.text().into()),
            host: self.host.value().map(|host| host.0.clone()),
        }
    }
}

/// Every path of the route must begin with the prefix. Then the gateway only needs to count
/// segments, however a client wrote them.
fn check_prefix(prefix: &Spanned<PrefixText>, shown: &str, path: &PathText, cx: &Context<'_>) {
    if !path.0.segments.starts_with(&prefix.value.0.segments) {
        let text = prefix.value.text();
        let message = match &prefix.written {
            Some(_) => format!("the path of {shown} does not begin with this prefix"),
            None => format!("the path of {shown} does not begin with {text}"),
        };
        let advice = "begin the route's path with it, as in path: /v1/*";
        cx.error(prefix.span, &message, advice);
    }
}

impl RawFieldEdits {
    /// The edits of requests.
    pub fn of_requests(&self, cx: &Context<'_>) -> FieldEdits {
        self.compile(cx)
    }

    /// The edits of responses. Fields that the gateway itself writes cannot be set, but fields in
    /// which a backend tells its own limits can be removed.
    pub fn of_responses(&self, cx: &Context<'_>) -> FieldEdits {
        let set = self.names_set().filter(|(name, _)| is_own(name));
        let own = set.chain(self.names_removed().filter(|(name, _)| *name == X_REQUEST_ID));
        for (name, span) in own {
            let message = format!("the field \"{name}\" is the gateway's own");
            let advice = "leave it out; what clients are told is chosen under \"headers\"";
            cx.error(span, &message, advice);
        }
        self.compile(cx)
    }

    fn compile(&self, cx: &Context<'_>) -> FieldEdits {
        let mut seen = HashSet::new();
        for (name, span) in self.names() {
            if FieldEdits::is_reserved(&name) {
                let advice = match name.as_str() {
                    "host" => "write rewrite: { host: ... }",
                    _ => "it belongs to the connection or frames the message: leave it out",
                };
                cx.error(span, &format!("the field \"{name}\" cannot be edited"), advice);
            }
            if !seen.insert(name.clone()) {
                let message = format!("the field \"{name}\" is edited twice");
                cx.error(span, &message, "set it or remove it, once");
            }
        }
        FieldEdits {
            set: cx.header_values(&self.set),
            remove: self.remove.items().map(|name| name.value.0.clone()).collect(),
        }
    }

    /// The names of all fields that are edited, as far as they are valid.
    pub fn names(&self) -> impl Iterator<Item = (HeaderName, TextSpan)> {
        self.names_set().chain(self.names_removed())
    }

    /// The fields that get a value, as far as their names are valid.
    fn names_set(&self) -> impl Iterator<Item = (HeaderName, TextSpan)> {
        self.set.entries().iter().filter_map(|(name, _)| {
            let FieldName(parsed) = name.value.parse().ok()?;
            Some((parsed, name.span))
        })
    }

    fn names_removed(&self) -> impl Iterator<Item = (HeaderName, TextSpan)> {
        self.remove.items().map(|name| (name.value.0.clone(), name.span))
    }
}

fn is_own(name: &HeaderName) -> bool {
    let text = name.as_str();
    *name == X_REQUEST_ID
        || *name == RETRY_AFTER
        || text.starts_with("x-ratelimit-")
        || text.starts_with("ratelimit")
}
