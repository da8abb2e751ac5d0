//! The conditions of one rule.

use std::collections::HashSet;

use http::HeaderName;
use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::{AccessEffect, AccessRule, KeyExpr, exact_value};

use crate::config::field::{Entries, Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::{Cidr, FieldValue, KeyWord, MethodName, PlaceCode, ScalarError};
use crate::config::sections::client::RawClient;
use crate::config::sections::context::Context;
use crate::config::sections::key::{NeededParam, refuse_body};
use crate::config::sections::policies::exempt::{class_names, place_codes};

/// The most places of one field, and the most values of one key.
const MAX_VALUES: usize = 10_000;

/// The conditions of a rule. A request must meet all of them. In each list, one value suffices.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "conditions", default)]
#[schemars(deny_unknown_fields)]
pub struct RawConditions {
    /// Clients with these addresses.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["10.0.0.0/8"])]
    ips: List<Cidr>,
    /// Clients in these countries, such as DE (ISO 3166-1).
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["DE"])]
    countries: List<PlaceCode>,
    /// Clients in these regions, such as DE-BE (ISO 3166-2).
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["DE-BE"])]
    regions: List<PlaceCode>,
    /// Clients in these networks (autonomous systems), such as AS64500.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["AS64500"])]
    asns: List<PlaceCode>,
    /// Clients of these classes, see `client.classes`.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["partner"])]
    classes: List<String>,
    /// Requests with these methods.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["GET", "HEAD"])]
    methods: List<MethodName>,
    /// Requests with all of these header fields and exactly their values.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "x-internal": "1" }))]
    headers: Field<Entries<FieldValue>>,
    /// Requests with all of these keys, each with one of its values.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "jwt:org": ["acme"] }))]
    values: Field<Entries<Vec<Field<String>>>>,
}

impl RawConditions {
    /// The rule with this effect. There are errors for what requests cannot have.
    pub fn compile(
        &self,
        effect: AccessEffect,
        client: &RawClient,
        cx: &Context<'_>,
    ) -> AccessRule {
        let mut rule = AccessRule::new(effect);
        self.check_empty(cx);
        if self.ips.given().is_some() {
            let blocks: Vec<_> = self.ips.items().map(|block| block.value.0).collect();
            rule = rule.from_networks(&blocks);
        }
        let lists = [
            (&self.countries, KeyExpr::Country),
            (&self.regions, KeyExpr::Region),
            (&self.asns, KeyExpr::Asn),
        ];
        for (list, key) in lists.iter().filter(|(list, _)| !list.is_absent()) {
            cx.at_most(list, key.place_noun(), MAX_VALUES);
            rule = rule.in_places(place_codes(list, key, client, cx));
        }
        if self.classes.given().is_some() {
            let names = class_names(&self.classes, client, cx).into_iter();
            rule = rule.with_values(KeyExpr::Class, names.map(Box::<[u8]>::from).collect());
        }
        if self.methods.given().is_some() {
            rule = rule.with_methods(self.methods.items().map(|it| it.value.0.clone()).collect());
        }
        for (name, value) in cx.header_values(&self.headers) {
            rule = rule.with_header(name, value);
        }
        for (word, values) in self.values.entries() {
            if let Some(key) = key_of(word, client, cx) {
                cx.at_most(values, "values", MAX_VALUES);
                rule = rule.with_values(key.clone(), exact_values(&key, word, values, cx));
            }
        }
        rule
    }

    /// A list without values would match no request.
    fn check_empty(&self, cx: &Context<'_>) {
        const ADVICE: &str = "name at least one value, or leave the field out";
        cx.not_empty(&self.ips, "\"ips\" is empty", ADVICE);
        cx.not_empty(&self.countries, "\"countries\" is empty", ADVICE);
        cx.not_empty(&self.regions, "\"regions\" is empty", ADVICE);
        cx.not_empty(&self.asns, "\"asns\" is empty", ADVICE);
        cx.not_empty(&self.classes, "\"classes\" is empty", ADVICE);
        cx.not_empty(&self.methods, "\"methods\" is empty", ADVICE);
        for (word, values) in self.values.entries() {
            cx.not_empty(values, &format!("\"{}\" has no values", word.shown()), ADVICE);
        }
    }

    pub fn blocks(&self) -> usize {
        self.ips.items().count()
    }

    /// The path parameters that it compares.
    pub fn params(&self) -> Vec<NeededParam> {
        let words = self.values.entries().iter().map(|(word, _)| word);
        words.filter_map(|word| NeededParam::of(&word.value, word.shown())).collect()
    }
}

impl RawConditions {
    /// The classes that it names.
    pub fn named_classes(&self) -> Vec<&Spanned<String>> {
        let values = self.values.entries().iter().filter(|(word, _)| word.value == "class");
        self.classes.items().chain(values.flat_map(|(_, names)| names.items())).collect()
    }

    /// Whether a client must have more than what it can write into a request: an address, a place, or
    /// a credential.
    pub fn has_proof(&self) -> bool {
        !self.ips.is_absent()
            || !self.countries.is_absent()
            || !self.regions.is_absent()
            || !self.asns.is_absent()
            || self.values.entries().iter().any(|(word, _)| proves(&word.value))
    }

    /// Where it compares this header field.
    pub fn spans_of_field(&self, field: &HeaderName) -> Vec<TextSpan> {
        let is_field = |name: &str| name.eq_ignore_ascii_case(field.as_str());
        let names = self.headers.entries().iter().map(|(name, _)| name);
        let fields = names.filter(|name| is_field(&name.value));
        let words = self.values.entries().iter().map(|(word, _)| word);
        let words = words.filter(|word| word.value.strip_prefix("header:").is_some_and(is_field));
        fields.chain(words).map(|name| name.span).collect()
    }
}

/// Whether a client cannot choose the value of a word.
fn proves(word: &str) -> bool {
    let parsed: Result<KeyExpr, _> = word.parse();
    parsed.is_ok_and(|key| {
        key.is_identity()
            || key.is_place()
            || matches!(key, KeyExpr::Ip | KeyExpr::TlsSubject | KeyExpr::Authorizer(_))
    })
}

/// The key that a word names, if requests can have it.
fn key_of(word: &Spanned<String>, client: &RawClient, cx: &Context<'_>) -> Option<KeyExpr> {
    let parsed: Result<KeyWord, ScalarError> = word.value.parse();
    let key = match parsed {
        Ok(KeyWord(key)) => key,
        Err(ScalarError { message, advice }) => {
            // The message quotes the word, which may have come from a variable.
            let message = match &word.written {
                Some(written) => format!("the value of {written:?} is not a key"),
                None => message,
            };
            cx.error(word.span, &message, advice);
            return None;
        }
    };
    for (_, remark) in key.faults(client.facts()) {
        cx.error(word.span, &remark.message, &remark.advice);
    }
    refuse_body(&key, word.span, cx);
    Some(key)
}

/// The values in the form that requests have them in.
fn exact_values(
    key: &KeyExpr,
    word: &Spanned<String>,
    values: &List<String>,
    cx: &Context<'_>,
) -> HashSet<Box<[u8]>> {
    let exact = |value: &Spanned<String>| match exact_value(key, &value.value) {
        Ok(exact) => Some(exact),
        Err(why) => {
            let message =
                format!("no request has the value \"{}\" of {}", value.shown(), word.shown());
            cx.error(value.span, &message, why);
            None
        }
    };
    values.items().filter_map(exact).collect()
}
