//! Keys: the expressions in `key`, `from` and `hash` that say what a counter belongs to.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::KeyExpr;
use tollgate_core::request::PathPattern;

use super::client::RawClient;
use super::context::Context;
use super::geo::check_location;
use crate::config::field::{Either, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::KeyWord;

/// How deep `first` and `all` may be nested.
const MAX_DEPTH: usize = 8;
/// The most keys of one list. A request is searched for each of them.
const MAX_KEYS: usize = 16;

/// What one counter belongs to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "key")]
pub(super) struct RawKey(Either<KeyWord, RawKeyList>);

/// Several keys: either `first` or `all`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "key", default)]
#[schemars(rename = "keys", deny_unknown_fields)]
pub(super) struct RawKeyList {
    /// The first of these keys that the request has.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["api_key", "ip"])]
    pub(super) first: List<RawKey>,
    /// All of these keys together.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["user", "path"])]
    pub(super) all: List<RawKey>,
}

impl RawKey {
    /// One word, or a list.
    pub(super) fn form(&self) -> &Either<KeyWord, RawKeyList> {
        &self.0
    }

    /// The expression, if all parts of it can be had from requests of these clients.
    pub(super) fn compile(
        &self,
        span: TextSpan,
        client: &RawClient,
        cx: &Context<'_>,
    ) -> Option<KeyExpr> {
        self.compile_at(0, span, client, cx)
    }

    fn compile_at(
        &self,
        depth: usize,
        span: TextSpan,
        client: &RawClient,
        cx: &Context<'_>,
    ) -> Option<KeyExpr> {
        match &self.0 {
            Either::Short(KeyWord(key)) => {
                check_user(span, key, client, cx);
                if key.is_place() {
                    check_location(span, key, client.geo(), cx);
                }
                Some(key.clone())
            }
            Either::Long(_) if depth == MAX_DEPTH => {
                let message = "keys are nested more than 8 deep";
                cx.error(span, message, "write nested lists of the same kind as one list");
                None
            }
            Either::Long(list) => list.compile(depth, span, client, cx),
        }
    }
}

impl RawKeyList {
    fn compile(
        &self,
        depth: usize,
        span: TextSpan,
        client: &RawClient,
        cx: &Context<'_>,
    ) -> Option<KeyExpr> {
        let (kind, keys): (fn(Vec<KeyExpr>) -> KeyExpr, _) =
            match (self.first.is_absent(), self.all.is_absent()) {
                (false, true) => (KeyExpr::First, &self.first),
                (true, false) => (KeyExpr::All, &self.all),
                _ => {
                    let advice = "write { first: [...] } or { all: [...] }";
                    cx.error(span, "a key is one of \"first\" and \"all\"", advice);
                    return None;
                }
            };
        let given = keys.given()?;
        if !(1..=MAX_KEYS).contains(&given.value.len()) {
            let message = format!("a list of keys must have from 1 to {MAX_KEYS} of them");
            cx.error(given.span, &message, "");
        }
        // This does not stop at the first broken key, so that all are reported.
        let keys: Vec<Option<KeyExpr>> =
            keys.items().map(|key| key.value.compile_at(depth + 1, key.span, client, cx)).collect();
        keys.into_iter().collect::<Option<_>>().map(kind)
    }
}

fn check_user(span: TextSpan, key: &KeyExpr, client: &RawClient, cx: &Context<'_>) {
    let message = match key {
        KeyExpr::User if !client.has_user() => {
            "no request has a user, since there is no \"client.user\""
        }
        KeyExpr::Jwt(_) if !client.has_jwt() => {
            "no token is verified, since there is no \"client.user.jwt\""
        }
        _ => return,
    };
    cx.error(span, message, "add client: { user: { jwt: ... } } or another key");
}

/// A path parameter that a key needs.
pub(super) struct NeededParam {
    name: Box<str>,
    /// The key as it was written, for messages.
    pub(super) shown: String,
}

impl NeededParam {
    /// Whether requests with this path have the parameter.
    pub(super) fn is_in(&self, path: &PathPattern) -> bool {
        path.param_names().any(|name| *name == *self.name)
    }
}

/// The path parameters without which a request does not have the key. Parameters in a `first`
/// are not included, because another key of that list can be used instead.
pub(super) fn needed_params(raw: &Spanned<RawKey>) -> Vec<NeededParam> {
    match &raw.value.0 {
        Either::Short(KeyWord(KeyExpr::Param(name))) => {
            let shown = raw.written.clone().unwrap_or_else(|| format!("param:{name}"));
            vec![NeededParam { name: name.clone(), shown }]
        }
        Either::Short(_) => Vec::new(),
        Either::Long(list) => list.all.items().flat_map(needed_params).collect(),
    }
}
