//! `mirror` of a route: copies of some of its requests go to another upstream.

use std::ops::RangeInclusive;
use std::sync::Arc;

use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::field::{Field, List, Spanned};
use crate::config::scalar::{MethodName, Percent, Size};
use crate::config::sections::context::Context;
use crate::config::sections::references::References;
use crate::proxy::MirrorSettings;
use crate::snapshot::Action;

const IN_FLIGHT: RangeInclusive<u64> = 1..=10_000;
/// A copy is in memory as a whole.
const MAX_BODY: RangeInclusive<u64> = 0..=16 * 1024 * 1024;

/// Copies of some requests, which go to another upstream. Its answers are thrown away.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "mirror", default)]
#[schemars(deny_unknown_fields, extend("required" = ["upstream"]))]
pub struct RawMirror {
    /// The upstream that gets the copies, over connections of its own.
    #[schemars(example = &"shadow")]
    upstream: Field<String>,
    /// The share of the requests that are copied.
    #[schemars(extend("default" = "100%"))]
    #[schemars(example = &"10%")]
    share: Field<Percent>,
    /// The methods of requests that are copied. A request with another method may change something,
    /// and would do so twice.
    #[schemars(extend("x-default" = "GET and HEAD"))]
    #[schemars(example = ["GET", "HEAD"])]
    methods: List<MethodName>,
    /// The largest body of a request that is copied, up to 16MiB.
    #[schemars(extend("default" = "64KiB"))]
    #[schemars(example = &"16KiB")]
    max_body: Field<Size>,
    /// The most copies that exist at once. A request above it is not copied.
    #[schemars(extend("default" = 50))]
    #[schemars(example = 100)]
    #[schemars(range(min = *IN_FLIGHT.start(), max = *IN_FLIGHT.end()))]
    max_in_flight: Field<u64>,
}

impl RawMirror {
    /// The mirror of a route with this action, which messages call `shown`.
    pub fn compile(
        raw: &Spanned<Self>,
        action: Option<&Action>,
        shown: &str,
        known: &References<'_>,
        cx: &Context<'_>,
    ) -> Option<Box<MirrorSettings>> {
        let Self { upstream, share, methods, max_body, max_in_flight } = &raw.value;
        let message = format!("the mirror of {shown} has no \"upstream\"");
        cx.required(upstream, raw.span, &message, "like upstream: shadow");
        let advice = "leave \"mirror\" out";
        cx.not_empty(methods, "the list is empty, so no request is copied", advice);
        let mut copied = vec![Method::GET, Method::HEAD];
        if !methods.is_absent() {
            copied = methods.items().map(|method| method.value.0.clone()).collect();
        }
        let max_body = match max_body.given() {
            Some(given) => cx.within(given.value.0, given.span, "max_body", MAX_BODY),
            None => Some(64 * 1024),
        };
        let max_in_flight = match max_in_flight.is_absent() {
            true => Some(50),
            false => cx.number(max_in_flight, "max_in_flight", IN_FLIGHT),
        };
        let given = upstream.given()?;
        let index = known.upstream(given, &format!("the mirror of {shown}"), cx)?;
        if action.is_some_and(|action| action.upstreams().contains(&index)) {
            let message = format!("the mirror of {shown} is an upstream of the route itself");
            cx.error(given.span, &message, "name another upstream");
        }
        Some(Box::new(MirrorSettings {
            upstream: index,
            percent: share.value().map_or(100, |share| share.0),
            methods: copied,
            max_body: usize::try_from(max_body?).ok()?,
            max_in_flight: max_in_flight?,
            in_flight: Arc::default(),
        }))
    }
}
