//! `read_body` of a route: how much of the body of a request its policies read.

use std::ops::RangeInclusive;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::{BodyWords, MAX_POINTERS, Policy};

use crate::config::field::Field;
use crate::config::scalar::Size;
use crate::config::sections::context::Context;
use crate::config::sections::names::Referrer;
use crate::config::words::{Word, words};
use crate::message::{Over, ReadBodySettings, USUAL_READ_BYTES};

const MAX: RangeInclusive<u64> = 1024..=64 * 1024 * 1024;

/// How much of the body of a request is read, if a policy needs the body.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "read_body", default)]
#[schemars(deny_unknown_fields)]
pub struct RawReadBody {
    /// The largest body that is read, from 1KiB to 64MiB. It is held until it is complete, and then
    /// forwarded. A compressed body may not be larger without its compression, either.
    #[schemars(extend("default" = "1MiB"))]
    #[schemars(example = &"32MiB")]
    max: Field<Size>,
    /// What becomes of a larger body.
    #[schemars(extend("default" = "deny"))]
    over: Field<Word<Over>>,
}

words! {
    /// What becomes of a body that is larger than `max`.
    Over as "over" {
        /// The request gets 413.
        "deny" => Over::Deny,
        /// The body is forwarded as it comes, and keys of it are missing.
        "missing" => Over::Missing,
    }
}

/// What a route with these policies reads of bodies. None: no policy needs them. If
/// `needs_message`, the responses to refused requests depend on the message in the body.
pub fn of_route(
    raw: &Field<RawReadBody>,
    policies: Option<&[Arc<Policy>]>,
    needs_message: bool,
    route: &Referrer<'_>,
    cx: &Context<'_>,
) -> Option<Box<ReadBodySettings>> {
    let shown = route.shown;
    let given = raw.value();
    let max = match given.and_then(|raw| raw.max.given()) {
        Some(max) => cx.within(max.value.0, max.span, "max", MAX),
        None => Some(USUAL_READ_BYTES),
    };
    let words = BodyWords::of_policies(policies?.iter().map(|policy| &**policy));
    let Some(words) = words else {
        if let Some(span) = raw.span().filter(|_| !needs_message) {
            let message = format!("\"read_body\" has no effect: no policy of {shown} needs a body");
            cx.warning(span, &message, "leave it out, or use a key like json:/model");
        }
        return None;
    };
    if words.pointers() > MAX_POINTERS {
        let message = format!(
            "the policies of {shown} search a body for {} values, and at most {MAX_POINTERS} are \
             possible",
            words.pointers()
        );
        let span = route.policies.span().unwrap_or(route.span);
        cx.error(
            span,
            &message,
            "use fewer keys with json: and mcp:, of which mcp: counts for two",
        );
    }
    let over = given.and_then(|raw| raw.over.value()).map_or(Over::Deny, |over| over.0);
    let words = if needs_message { words.with_message() } else { words };
    Some(Box::new(ReadBodySettings { words, max: max?, over }))
}

/// What a route reads of the bodies of refused requests, if the responses depend on the message in
/// the body. Mistakes are reported by [`of_route`].
pub fn of_refusals(raw: &Field<RawReadBody>) -> ReadBodySettings {
    let given = raw.value().and_then(|raw| raw.max.value()).map(|max| max.0);
    let max = given.filter(|max| MAX.contains(max)).unwrap_or(USUAL_READ_BYTES);
    ReadBodySettings { words: BodyWords::of_message(), max, over: Over::Deny }
}
