//! Keys: the expressions in `key`, `from` and `hash` that say what a counter belongs to.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::KeyExpr;
use tollgate_core::policy::spec::KeyPlace;
use tollgate_core::request::PathPattern;

use super::client::RawClient;
use super::context::Context;
use crate::config::field::{Either, Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::KeyWord;

/// What one counter belongs to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "key")]
pub struct RawKey(Either<KeyWord, RawKeyList>);

/// Several keys: either `first` or `all`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "key", default)]
#[schemars(rename = "keys", deny_unknown_fields)]
pub struct RawKeyList {
    /// The first of these keys that the request has.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["api_key", "ip"])]
    pub first: List<RawKey>,
    /// All of these keys together.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["user", "path"])]
    pub all: List<RawKey>,
    /// One key, whose value counts in one form for all spellings of a name: in Unicode's form NFKC,
    /// in lower case, and without blanks around it.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"form:username")]
    pub fold: Field<Box<RawKey>>,
}

impl RawKey {
    /// The expression. There are errors for lists that have no form of a key.
    pub fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Option<KeyExpr> {
        match &self.0 {
            Either::Short(KeyWord(key)) => Some(key.clone()),
            Either::Long(list) => list.compile(span, cx),
        }
    }
}

impl RawKeyList {
    fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Option<KeyExpr> {
        let absent = [self.first.is_absent(), self.all.is_absent(), self.fold.is_absent()];
        let (kind, keys): (fn(Vec<KeyExpr>) -> KeyExpr, _) = match absent {
            [false, true, true] => (KeyExpr::First, &self.first),
            [true, false, true] => (KeyExpr::All, &self.all),
            [true, true, false] => {
                let word = self.fold.given()?;
                let word = word.value.compile(word.span, cx)?;
                return Some(KeyExpr::Fold(Box::new(word)));
            }
            _ => {
                let advice = "write { first: [...] }, { all: [...] } or { fold: ... }";
                cx.error(span, "a key is one of \"first\", \"all\" and \"fold\"", advice);
                return None;
            }
        };
        // The others are checked although one is broken: its place is taken by a key that every
        // request has.
        let key = |key: &Field<RawKey>| {
            let key = key.given().and_then(|key| key.value.compile(key.span, cx));
            key.unwrap_or(KeyExpr::Global)
        };
        Some(kind(keys.value()?.iter().map(key).collect()))
    }
}

impl Spanned<RawKey> {
    /// Where this part of the key is written.
    pub fn span_at(&self, place: &KeyPlace) -> TextSpan {
        let mut at = self;
        for index in &place.path {
            let Some(keys) = at.list().and_then(Field::value) else { return at.span };
            let Some(key) = keys.get(*index).and_then(Field::given) else { return at.span };
            at = key;
        }
        match at.list().and_then(Field::span) {
            Some(list) if place.is_list => list,
            _ => at.span,
        }
    }

    /// The list of a key that has one.
    const fn list(&self) -> Option<&List<RawKey>> {
        match &self.value.0 {
            Either::Short(_) => None,
            Either::Long(RawKeyList { first, all, .. }) if first.is_absent() => Some(all),
            Either::Long(RawKeyList { first, .. }) => Some(first),
        }
    }

    /// Reports parts that requests of these clients cannot have.
    pub fn check(&self, key: &KeyExpr, client: &RawClient, cx: &Context<'_>) {
        for (place, remark) in key.faults(client.facts()) {
            cx.error(self.span_at(&place), &remark.message, &remark.advice);
        }
    }
}

/// Reports a key that needs a body, where only the head of a request is known.
pub fn refuse_body(key: &KeyExpr, span: TextSpan, cx: &Context<'_>) {
    if let Some(word) = key.body_words().first() {
        let message = format!("\"{word}\" is a value in the body, which only policies read");
        cx.error(span, &message, "use another key");
    }
}

/// A path parameter that a key needs.
pub struct NeededParam {
    name: Box<str>,
    /// The key as it was written, for messages.
    pub shown: String,
}

impl NeededParam {
    /// The parameter that a word names, which messages show as `shown`. None for other words.
    pub fn of(word: &str, shown: &str) -> Option<Self> {
        let name = word.strip_prefix("param:")?.into();
        Some(Self { name, shown: shown.to_owned() })
    }

    /// Whether requests with this path have the parameter.
    pub fn is_in(&self, path: &PathPattern) -> bool {
        path.param_names().any(|name| *name == *self.name)
    }
}

/// The path parameters without which a request does not have the key. Parameters in a `first`
/// are not included, because another key of that list can be used instead.
pub fn needed_params(raw: &Spanned<RawKey>) -> Vec<NeededParam> {
    params_of(&raw.value, raw.written.as_deref())
}

/// `written`: the key as it was written, if that is not its text.
fn params_of(raw: &RawKey, written: Option<&str>) -> Vec<NeededParam> {
    match &raw.0 {
        Either::Short(KeyWord(KeyExpr::Param(name))) => {
            let shown = written.map_or_else(|| format!("param:{name}"), str::to_owned);
            vec![NeededParam { name: name.clone(), shown }]
        }
        Either::Short(_) => Vec::new(),
        Either::Long(list) => {
            let folded = list.fold.given();
            let folded = folded.map(|word| params_of(&word.value, word.written.as_deref()));
            let all = list.all.items().flat_map(needed_params);
            all.chain(folded.into_iter().flatten()).collect()
        }
    }
}
