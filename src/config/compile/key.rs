//! Keys: from nested lists of words to one expression.

use super::Compiler;
use crate::config::field::{Either, Spanned};
use crate::config::raw::{RawClient, RawKey, RawKeyList};
use crate::config::scalar::KeyWord;
use crate::policy::KeyExpr;

/// How deep `first` and `all` may stand in each other.
const MAX_DEPTH: usize = 8;
/// How many keys one list may have: each is looked for in every request.
const MAX_KEYS: usize = 16;

impl Compiler<'_> {
    /// The expression, with all of it checked against what `client` offers.
    pub(super) fn key(
        &self,
        raw: &Spanned<RawKey>,
        client: Option<&RawClient>,
        depth: usize,
    ) -> Option<KeyExpr> {
        match &raw.value.0 {
            Either::Short(KeyWord(key)) => {
                self.check_user(raw, key, client);
                if key.is_place() {
                    self.check_place(raw.span, place_name(key), client);
                }
                Some(key.clone())
            }
            Either::Long(_) if depth == MAX_DEPTH => {
                let message = "keys stand in each other more than 8 deep";
                self.problems.error(raw.span, message, "a list in a list of the same kind is one");
                None
            }
            Either::Long(list) => self.key_list(raw, list, client, depth),
        }
    }

    fn key_list(
        &self,
        raw: &Spanned<RawKey>,
        list: &RawKeyList,
        client: Option<&RawClient>,
        depth: usize,
    ) -> Option<KeyExpr> {
        let (kind, keys): (fn(Vec<KeyExpr>) -> KeyExpr, _) =
            match (list.first.is_absent(), list.all.is_absent()) {
                (false, true) => (KeyExpr::First, &list.first),
                (true, false) => (KeyExpr::All, &list.all),
                _ => {
                    let advice = "write { first: [...] } or { all: [...] }";
                    self.problems.error(raw.span, "a key is one of \"first\" and \"all\"", advice);
                    return None;
                }
            };
        let given = keys.given()?;
        if !(1..=MAX_KEYS).contains(&given.value.len()) {
            let message = format!("a list of keys has from 1 to {MAX_KEYS} of them");
            self.problems.error(given.span, &message, "");
        }
        // Not short-circuited: every key of the list is checked.
        let keys: Vec<Option<KeyExpr>> =
            keys.items().map(|key| self.key(key, client, depth + 1)).collect();
        keys.into_iter().collect::<Option<_>>().map(kind)
    }

    fn check_user(&self, raw: &Spanned<RawKey>, key: &KeyExpr, client: Option<&RawClient>) {
        let user = client.map(|client| &client.user);
        let missing = user.is_none_or(|user| user.is_absent());
        let header = user.and_then(|user| user.value()).is_some_and(|user| user.jwt.is_absent());
        match key {
            KeyExpr::User if missing => {
                let message = "no request has a user, since there is no \"client.user\"";
                let advice = "add client: { user: { jwt: ... } } or another key";
                self.problems.error(raw.span, message, advice);
            }
            KeyExpr::Jwt(_) if missing || header => {
                let message = "no token is verified, since there is no \"client.user.jwt\"";
                let advice = "add client: { user: { jwt: ... } } or another key";
                self.problems.error(raw.span, message, advice);
            }
            _ => {}
        }
    }
}

/// What a key of where the client is gives.
fn place_name(key: &KeyExpr) -> &'static str {
    match key {
        KeyExpr::Country => "country",
        KeyExpr::Region => "region",
        _ => "network",
    }
}

/// A path parameter that a key needs.
pub(super) struct NeededParam {
    pub(super) name: Box<str>,
    /// The key as it was written, for messages.
    pub(super) shown: String,
}

/// The path parameters without which a request has no such key. Those in a
/// `first` are not among them: another of its keys may stand in.
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
