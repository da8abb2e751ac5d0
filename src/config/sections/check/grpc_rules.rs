//! `check.grpc.domains`: the rules by which policies judge descriptors.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::digest::Secret;
use tollgate_core::policy::{ClientSettings, Count, KeyExpr, KeyTexts, Policy};

use crate::check::rls::{EntryMatch, NativeRule};
use crate::config::field::{Entries, Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::sections::context::Context;
use crate::config::sections::references::References;
use crate::config::words::{Word, words};

/// Which policy judges the descriptors that match.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "rule of a domain", default)]
#[schemars(deny_unknown_fields, extend("required" = ["match", "policy"]))]
pub struct RawNativeRule {
    /// The entries of the descriptor, in their order: a key alone, or a key and its value.
    #[serde(rename = "match")]
    #[schemars(example = ["generic_key=login", "remote_address"])]
    entries: List<String>,
    /// The policy.
    #[schemars(example = &"per-client")]
    policy: Field<String>,
    /// The words of the policy's key, and the entry that has the value of each.
    #[schemars(extend("x-default" = "the values that `match` leaves free name the counter"))]
    #[schemars(example = serde_json::json!({ "ip": "remote_address" }))]
    key: Field<Entries<String>>,
    /// Whether hits are counted even if they are over the limit.
    #[schemars(extend("default" = "admitted"))]
    #[schemars(example = &"always")]
    count: Field<Word<Counts>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    Admitted,
    Always,
}

words! {
    /// Which hits are counted.
    Counts as "count of a rule" {
        /// Those of requests that are within all of their limits.
        "admitted" => Counts::Admitted,
        /// All.
        "always" => Counts::Always,
    }
}

impl RawNativeRule {
    pub fn compile(
        &self,
        span: TextSpan,
        known: &References<'_>,
        cx: &Context<'_>,
    ) -> Option<NativeRule> {
        cx.required(
            &self.entries,
            span,
            "the rule has no \"match\"",
            "like match: [remote_address]",
        );
        cx.not_empty(&self.entries, "a descriptor has entries", "like match: [remote_address]");
        let advice = "name one of the policies";
        cx.required(&self.policy, span, "the rule has no \"policy\"", advice);
        let entries: Vec<EntryMatch> = self.entries.items().map(|it| entry(it, cx)).collect();
        let name = self.policy.given()?;
        let policy = known.judge(name, "the rule", cx)?.compiled.as_deref();
        if let Some(policy) = policy {
            check_policy(policy, name.span, cx);
        }
        Some(NativeRule {
            key: self.key.span().map(|span| words_of(&self.key, span, &entries, policy, cx)),
            entries,
            policy: name.value.as_str().into(),
            counts_always: self.count.word() == Some(Counts::Always),
        })
    }
}

/// The words of the policy's key with the entries that have their values. `policy` is none if it
/// is broken.
fn words_of(
    key: &Field<Entries<String>>,
    span: TextSpan,
    entries: &[EntryMatch],
    policy: Option<&Policy>,
    cx: &Context<'_>,
) -> Vec<(KeyExpr, Box<str>)> {
    let mut words = Vec::new();
    let mut is_broken = false;
    for (word, entry) in key.entries() {
        let Some(entry) = entry.given() else {
            is_broken = true;
            continue;
        };
        check_entry(entry, entries, cx);
        let parsed = word.value.parse::<KeyExpr>().ok();
        let Some(part) = parsed.filter(|it| policy.is_none_or(|policy| policy.key.has(it))) else {
            is_broken = true;
            if let Some(policy) = policy {
                let name = &policy.name;
                let shown = word.shown();
                let message = format!("the key of the policy \"{name}\" has no part \"{shown}\"");
                cx.error(word.span, &message, "name the words of its key");
            }
            continue;
        };
        if words.iter().any(|(known, _)| *known == part) {
            let message = format!("the part \"{}\" of the key is named twice", word.shown());
            cx.error(word.span, &message, "remove one of them");
        }
        check_value(&part, entry, entries, cx);
        words.push((part, entry.value.as_str().into()));
    }
    if let (Some(policy), false) = (policy, is_broken) {
        check_words(key, span, &words, policy, cx);
    }
    words
}

/// Reports an entry whose value is not certain.
fn check_entry(name: &Spanned<String>, entries: &[EntryMatch], cx: &Context<'_>) {
    match entries.iter().filter(|it| *it.key == *name.value).count() {
        0 => {
            let message = format!("\"match\" has no entry \"{}\"", name.shown());
            cx.error(name.span, &message, "name one of its keys");
        }
        1 => {}
        _ => {
            let message = format!("\"match\" has more than one entry \"{}\"", name.shown());
            cx.error(name.span, &message, "name an entry that it has once");
        }
    }
}

/// Reports a value in the rule itself that is no value of this part of the key.
fn check_value(part: &KeyExpr, name: &Spanned<String>, entries: &[EntryMatch], cx: &Context<'_>) {
    let client = ClientSettings::default();
    let secret = Secret::from_bytes([0; 16]);
    // Routes are compiled elsewhere.
    let texts = KeyTexts { client: &client, secret, is_route: &|_| true };
    let entry = entries.iter().find(|it| *it.key == *name.value);
    let value = entry.and_then(|it| it.value.as_deref());
    if let Some(Err(error)) = value.map(|value| texts.check(part, value)) {
        cx.error(name.span, &error.to_string(), "name an entry whose value is a part of the key");
    }
}

/// Reports words by which no request would have the key, and words that never count. Such rules
/// would have counters of their own.
fn check_words(
    key: &Field<Entries<String>>,
    span: TextSpan,
    words: &[(KeyExpr, Box<str>)],
    policy: &Policy,
    cx: &Context<'_>,
) {
    let known: Vec<KeyExpr> = words.iter().map(|(word, _)| word.clone()).collect();
    let name = &policy.name;
    let form = policy.key.form();
    if !policy.key.can_consist_of(&known) {
        let message = format!("the policy \"{name}\" has a key of more parts: {form}");
        cx.error(span, &message, "name an entry for each of its parts");
        return;
    }
    for ((word, _), part) in key.entries().iter().zip(&known) {
        if !policy.key.can_use(part, &known) {
            let message = format!("\"{}\" counts only together with other words", word.shown());
            let advice = format!("the key of the policy \"{name}\" is {form}");
            cx.error(word.span, &message, &advice);
        }
    }
}

/// An entry: `key`, or `key=value`.
fn entry(text: &Spanned<String>, cx: &Context<'_>) -> EntryMatch {
    let (key, value) = match text.value.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (text.value.as_str(), None),
    };
    if key.is_empty() {
        cx.error(text.span, "the entry has no key", "like remote_address, or generic_key=login");
    }
    EntryMatch { key: key.into(), value: value.map(Box::from) }
}

/// Reports policies that need more of a request than its descriptors.
fn check_policy(policy: &Policy, span: TextSpan, cx: &Context<'_>) {
    let what = match policy.algorithm {
        Algorithm::Concurrency(_) => "learn when a request ends",
        Algorithm::LeakyBucket(_) => "hold requests",
        _ if !matches!(policy.count, Count::All) => "learn the status of a response",
        _ => return,
    };
    let message =
        format!("the policy \"{}\" would have to {what}, which no service can", policy.name);
    cx.error(span, &message, "use another policy");
}
