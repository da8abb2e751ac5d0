//! `fallback` of a route: a second upstream for requests whose first one fails.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::field::{Field, List, Spanned};
use crate::config::scalar::FallbackOn;
use crate::config::sections::context::Context;
use crate::config::sections::references::References;
use crate::proxy::FallbackSettings;
use crate::snapshot::Action;

/// A second upstream for requests whose first one fails.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "fallback", default)]
#[schemars(deny_unknown_fields, extend("required" = ["upstream", "on"]))]
pub struct RawFallback {
    /// The second upstream. A request goes to it once.
    #[schemars(example = &"static")]
    upstream: Field<String>,
    /// The failures after which a request goes to it: no connection (`connect`), a connection that
    /// ends without a response (`reset`), and statuses from 500 to 599. A request that was sent goes
    /// to it only if it may be sent again.
    #[schemars(example = ["connect", "503"])]
    on: List<FallbackOn>,
}

impl RawFallback {
    /// The fallback of a route with this action, which messages call `shown`.
    pub fn compile(
        raw: &Spanned<Self>,
        action: Option<&Action>,
        shown: &str,
        known: &References<'_>,
        cx: &Context<'_>,
    ) -> Option<Box<FallbackSettings>> {
        let Self { upstream, on } = &raw.value;
        let message = format!("the fallback of {shown} has no \"upstream\"");
        cx.required(upstream, raw.span, &message, "like upstream: static");
        let message = format!("the fallback of {shown} has no \"on\"");
        let advice = "like on: [connect, \"503\"]";
        cx.required(on, raw.span, &message, advice);
        cx.not_empty(on, "the list is empty, so no request goes to the fallback", advice);
        let given = upstream.given()?;
        let index = known.upstream(given, &format!("the fallback of {shown}"), cx)?;
        if action.is_some_and(|action| action.upstreams().contains(&index)) {
            let message = format!("the fallback of {shown} is an upstream of the route itself");
            cx.error(given.span, &message, "name another upstream");
        }
        let on = on.items().map(|on| on.value.0).collect();
        Some(Box::new(FallbackSettings { upstream: index, on }))
    }
}
