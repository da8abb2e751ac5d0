//! `split` of a route: several upstreams share its requests.

use std::ops::RangeInclusive;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::KeyExpr;
use tollgate_core::routes::{Branch, Split};

use crate::config::field::{Entries, Field, Spanned};
use crate::config::scalar::PathText;
use crate::config::sections::context::Context;
use crate::config::sections::key::{RawKey, needed_params, refuse_body};
use crate::config::sections::references::References;

const SHARE: RangeInclusive<u64> = 0..=100;
/// The upstream of each request is searched among them.
const MAX_UPSTREAMS: usize = 16;

/// The upstreams that share the requests of a route.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "split", default)]
#[schemars(deny_unknown_fields, extend("required" = ["to"]))]
pub struct RawSplit {
    /// The upstreams with their shares in percent, which sum to 100. Their order has no meaning.
    #[schemars(example = serde_json::json!({ "v1": 95, "v2": 5 }))]
    to: Field<Entries<u64>>,
    /// The key of a client. Its requests go to the same upstream on all nodes, as long as the shares
    /// are the same. A request without the key goes to any of them.
    #[schemars(extend("x-default" = "every request goes to any of them"))]
    #[schemars(example = serde_json::json!({ "first": ["api_key", "cookie:sid", "ip"] }))]
    by: Field<RawKey>,
}

/// A split, and the indices of its upstreams.
pub struct Compiled {
    pub split: Arc<Split>,
    pub upstreams: Box<[usize]>,
}

impl RawSplit {
    /// The split of a route with this path, which messages call `shown`.
    pub fn compile(
        raw: &Spanned<Self>,
        path: Option<&PathText>,
        shown: &str,
        known: &References<'_>,
        cx: &Context<'_>,
    ) -> Option<Compiled> {
        let Self { to, by } = &raw.value;
        let key = by.given().and_then(|by| compile_key(by, path, shown, known, cx));
        let message = format!("the split of {shown} has no \"to\"");
        cx.required(to, raw.span, &message, "like to: { v1: 95, v2: 5 }");
        let given = to.given()?;
        let entries = to.entries();
        if entries.len() > MAX_UPSTREAMS {
            let message = format!("the split of {shown} has more than {MAX_UPSTREAMS} upstreams");
            cx.error(given.span, &message, "remove some");
            return None;
        }
        let found = entries.iter().map(|(name, share)| {
            let upstream = known.upstream(name, shown, cx);
            let share = share.given();
            let percent =
                share.and_then(|share| cx.within(share.value, share.span, &name.value, SHARE));
            Some((upstream?, name, u8::try_from(percent?).ok()?))
        });
        let found: Vec<_> = found.collect();
        let found = found.into_iter().collect::<Option<Vec<_>>>()?;
        let sum: u64 = found.iter().map(|(_, _, percent)| u64::from(*percent)).sum();
        if sum != 100 {
            let message = format!("the shares of the split of {shown} sum to {sum}");
            cx.error(given.span, &message, "they are percentages: let them sum to 100");
            return None;
        }
        let branch = |(upstream, name, percent): &(usize, &Spanned<String>, u8)| Branch {
            name: name.value.as_str().into(),
            percent: *percent,
            affinity: path.and_then(|path| known.affinity(Some(*upstream), &path.0, shown, cx)),
        };
        let branches = found.iter().map(branch).collect();
        Some(Compiled {
            split: Arc::new(Split::new(key, branches)),
            upstreams: found.iter().map(|(upstream, ..)| *upstream).collect(),
        })
    }
}

/// The key of clients. There are errors for parts that requests of the route cannot have.
fn compile_key(
    by: &Spanned<RawKey>,
    path: Option<&PathText>,
    shown: &str,
    known: &References<'_>,
    cx: &Context<'_>,
) -> Option<KeyExpr> {
    let key = by.value.compile(by.span, cx)?;
    by.check(&key, known.client, cx);
    refuse_body(&key, by.span, cx);
    for param in needed_params(by) {
        if path.is_some_and(|path| !param.is_in(&path.0)) {
            let message = format!(
                "the split of {shown} needs \"{}\", which the path of the route does not have",
                param.shown
            );
            cx.error(by.span, &message, "put the parameter into the path, or use another key");
        }
    }
    Some(key)
}
