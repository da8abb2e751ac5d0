//! `access`: lists of rules that say which requests may use a route.

mod conditions;
mod references;
mod rule;

use std::num::NonZeroU32;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::{
    AccessEffect, AccessList, AccessMode, ClientSettings, DenialAnswer, KeyExpr,
};
use tollgate_core::time::Span;

use super::client::RawClient;
use super::context::Context;
use super::key::NeededParam;
use crate::config::field::{Entries, Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::Period;
use crate::config::words::{Word, words};
use conditions::RawConditions;
pub use references::{ListReferences, NONE};
use rule::RawRule;

/// The most lists of a file.
const MAX_LISTS: usize = 64;
/// The most blocks of addresses in all lists.
const MAX_BLOCKS: usize = 10_000;
/// The most rules of a list. They are tried one after the other.
const MAX_RULES: usize = 256;
/// The shortest and the longest time of `retry_after`.
const RETRY_AFTER: [Span; 2] = [Span::SECOND, Span::from_secs(30 * 86_400)];

/// A list of rules that say which requests may use a route.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "access list", default)]
#[schemars(deny_unknown_fields, extend("required" = ["else"]))]
pub struct RawAccessList {
    /// The rules in their order. The first one that matches a request decides.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!([{ "allow": { "ips": ["10.0.0.0/8"] } }]))]
    rules: List<RawRule>,
    /// What happens to a request that no rule matches.
    #[serde(rename = "else")]
    #[schemars(example = &"deny")]
    otherwise: Field<Word<AccessEffect>>,
    /// The status of the response to a denied request: 403, 404 or 503. A response with 404 is the
    /// same as for a request that no route matches.
    #[schemars(extend("default" = 403))]
    #[schemars(extend("enum" = [403, 404, 503]))]
    #[schemars(example = 503)]
    status: Field<u64>,
    /// With the status 503: when a client may try again. The response has it in `Retry-After`.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"10m")]
    retry_after: Field<Period>,
    /// Whether the list has an effect. A call of the admin API can change it.
    #[schemars(extend("default" = "enforce"))]
    mode: Field<Word<AccessMode>>,
}

words! {
    /// What happens to a request that no rule matches.
    AccessEffect as "access_effect" {
        /// The list allows it.
        "allow" => AccessEffect::Allow,
        /// The list denies it.
        "deny" => AccessEffect::Deny,
    }
}

words! {
    /// Whether an access list has an effect.
    AccessMode as "access_mode" {
        /// Requests that it denies are refused.
        "enforce" => AccessMode::Enforce,
        /// Requests that it would deny are counted and logged, and pass.
        "shadow" => AccessMode::Shadow,
        /// It is not evaluated.
        "off" => AccessMode::Off,
    }
}

/// A list with its name.
pub struct NamedList {
    pub name: String,
    /// None if it is broken.
    pub compiled: Option<Arc<AccessList>>,
    /// The path parameters that its rules compare.
    pub params: Vec<NeededParam>,
}

/// Compiles all lists, in the order of the file.
pub fn compile(
    section: &Field<Entries<RawAccessList>>,
    client: &RawClient,
    cx: &Context<'_>,
) -> Vec<NamedList> {
    let entries = section.entries();
    if let Some((name, _)) = entries.get(MAX_LISTS) {
        let message = format!("there are more than {MAX_LISTS} access lists");
        cx.error(name.span, &message, "remove some, or join lists");
    }
    check_blocks(entries, cx);
    let list = |(name, list): &(Spanned<String>, Field<RawAccessList>)| {
        cx.check_name(name, "access list");
        if name.value == NONE {
            let message = "an access list cannot be named \"none\"";
            cx.error(name.span, message, "a route writes it to have no list: rename the list");
        }
        let given = list.given();
        NamedList {
            name: name.value.clone(),
            compiled: given.and_then(|it| it.value.compile(name, client, cx)),
            params: given.map(|it| it.value.params()).unwrap_or_default(),
        }
    };
    entries.iter().map(list).collect()
}

/// Reports the list with which there are too many blocks.
fn check_blocks(entries: &[(Spanned<String>, Field<RawAccessList>)], cx: &Context<'_>) {
    let mut blocks = 0_usize;
    for (name, list) in entries {
        blocks += list.value().map_or(0, RawAccessList::blocks);
        if blocks > MAX_BLOCKS {
            let message =
                format!("the access lists have more than {MAX_BLOCKS} blocks of addresses");
            return cx.error(name.span, &message, "remove some, or write larger blocks");
        }
    }
}

impl RawAccessList {
    /// The conditions of all rules.
    pub fn conditions(&self) -> impl Iterator<Item = &RawConditions> {
        self.rules.items().flat_map(|rule| rule.value.conditions())
    }

    /// The conditions of the rules that allow.
    pub fn allowed(&self) -> impl Iterator<Item = &RawConditions> {
        self.rules.items().filter_map(|rule| rule.value.allowed())
    }

    fn compile(
        &self,
        name: &Spanned<String>,
        client: &RawClient,
        cx: &Context<'_>,
    ) -> Option<Arc<AccessList>> {
        cx.at_most(&self.rules, "rules", MAX_RULES);
        let message = format!("the access list \"{}\" has no \"else\"", name.shown());
        let advice = "write what happens to a request that no rule matches: else: deny";
        let otherwise = cx.required(&self.otherwise, name.span, &message, advice);
        let answer = self.answer(name.span, cx);
        let rules = self.rules.items().map(|it| it.value.compile(it.span, client, cx));
        let rules: Vec<_> = rules.collect();
        let rules: Option<Vec<_>> = rules.into_iter().collect();
        let Word(otherwise) = *otherwise?;
        let mode = self.mode.word().unwrap_or_default();
        Some(Arc::new(AccessList::new(
            name.value.as_str().into(),
            rules?,
            otherwise,
            mode,
            answer?,
        )))
    }

    fn answer(&self, owner: TextSpan, cx: &Context<'_>) -> Option<DenialAnswer> {
        let status = self.status.copied().unwrap_or(403);
        if status != 503
            && let Some(span) = self.retry_after.span()
        {
            let message = "\"retry_after\" belongs to the status 503";
            cx.error(span, message, "write status: 503, or leave it out");
        }
        match status {
            403 => Some(DenialAnswer::Forbidden),
            404 => Some(DenialAnswer::NotFound),
            503 => Some(DenialAnswer::Unavailable(self.retry_after_s(cx))),
            _ => {
                let span = self.status.span().unwrap_or(owner);
                let advice = "write 403, 404 or 503";
                cx.error(span, "this status is not one of a denied request", advice);
                None
            }
        }
    }

    /// The seconds of `retry_after`, rounded up.
    fn retry_after_s(&self, cx: &Context<'_>) -> Option<NonZeroU32> {
        let [shortest, longest] = RETRY_AFTER;
        let wait = cx.duration(&self.retry_after, "retry_after", shortest..=longest)?;
        NonZeroU32::new(u32::try_from(wait.as_secs_ceil()).ok()?)
    }

    fn blocks(&self) -> usize {
        self.rules.items().map(|rule| rule.value.blocks()).sum()
    }

    fn params(&self) -> Vec<NeededParam> {
        let of_rule = |rule: &Spanned<RawRule>| rule.value.params();
        self.rules.items().flat_map(of_rule).collect()
    }
}

/// Warns of lists that compare places which no database contains.
pub fn warn_locations(
    section: &Field<Entries<RawAccessList>>,
    lists: &[Arc<AccessList>],
    settings: &ClientSettings,
    cx: &Context<'_>,
) {
    for list in lists {
        let missing =
            places(list).find(|key| !settings.geo.iter().any(|database| database.may_have(key)));
        let Some(key) = missing.filter(|_| !settings.geo.is_empty()) else { continue };
        let message = format!(
            "the access list \"{}\" compares the {}, which is in no database",
            list.name,
            key.place_noun()
        );
        let span = section.entries().iter().find(|(name, _)| *name.value == *list.name);
        let span = span.map_or(TextSpan::FILE, |(name, _)| name.span);
        cx.warning(span, &message, "add one to client.geo: database: [city.mmdb, asn.mmdb]");
    }
}

/// The kinds of places that a list compares.
pub fn places(list: &AccessList) -> impl Iterator<Item = &KeyExpr> {
    list.places().chain(list.keys().filter(|key| key.is_place()))
}
