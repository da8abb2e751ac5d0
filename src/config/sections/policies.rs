//! `policies`: limits by name.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::consistency::{Consistency, OnFailure, StoreMode};
use tollgate_core::policy::{
    ClientSettings, Cost, KeyExpr, MissingKey, Mode, Overridable, Policy, Preflights,
};

use super::algorithm::{Counting, RawAlgorithm, soft};
use super::answers::RawResponse;
use super::client::RawClient;
use super::combinations::{Combination, without_effect};
use super::context::Context;
use super::cost::{self, CostForm, CountForm};
use super::elastic::RawElastic;
use super::exempt::RawExempt;
use super::key::{NeededParam, RawKey, needed_params};
use super::penalty::RawPenalty;
use super::plans::{self, RawPlans, limit_of};
use crate::config::field::{Entries, Field, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::{Allowance, Limit, Percent, Period};
use crate::config::words::{Word, words};
use crate::patches::CANDIDATE;

/// One limit: what it counts, how much it admits, and what it does beyond that.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "policy", default)]
#[schemars(deny_unknown_fields, extend("required" = ["key", "limit"]))]
pub(super) struct RawPolicy {
    /// What one counter belongs to, such as an address or an API key.
    key: Field<RawKey>,
    /// How much, or `unlimited`.
    #[schemars(example = &"100/minute")]
    limit: Field<Allowance>,
    /// How requests are counted.
    #[schemars(extend("default" = "sliding_window"))]
    #[schemars(example = &"token_bucket")]
    algorithm: Field<RawAlgorithm>,
    /// With sliding_window: the number of sub-windows, from 1 to 100. More are more exact.
    #[schemars(extend("default" = 1, "x-algorithms" = ["sliding_window"]))]
    #[schemars(example = 10)]
    buckets: Field<u64>,
    /// With token_bucket: the most units that are admitted at once. With leaky_bucket: the most
    /// requests that are held.
    #[schemars(extend(
        "x-default" = "the count of the limit for token_bucket, and as many as `max_delay` allows \
                       for leaky_bucket",
        "x-algorithms" = ["token_bucket", "leaky_bucket"]
    ))]
    #[schemars(example = 20)]
    burst: Field<u64>,
    /// With leaky_bucket, which needs it: the longest time that a request is held. A request that
    /// would wait longer is refused.
    #[schemars(extend("x-default" = "none", "x-algorithms" = ["leaky_bucket"]))]
    #[schemars(example = &"2s")]
    max_delay: Field<Period>,
    /// With fixed_window: the time zone in which hours, days and weeks begin.
    #[schemars(extend(
        "x-default" = "windows are not aligned to a calendar",
        "x-algorithms" = ["fixed_window"]
    ))]
    #[schemars(example = &"Europe/Berlin")]
    calendar: Field<String>,
    /// How many units of the limit a request costs.
    #[schemars(extend("default" = 1))]
    #[schemars(example = 4)]
    cost: Field<CostForm>,
    /// Which outcomes are counted.
    #[schemars(extend("x-default" = "all"))]
    #[schemars(example = serde_json::json!({ "status": [401, 403] }))]
    count: Field<CountForm>,
    /// Whether the policy refuses requests.
    #[schemars(extend("default" = "enforce"))]
    mode: Field<Word<Option<Mode>>>,
    /// How exact the counters are on several nodes.
    #[schemars(extend("x-default" = "the `mode` of the store"))]
    #[schemars(example = &"leased")]
    store_mode: Field<Word<StoreMode>>,
    /// What happens to requests while the store is not available.
    #[schemars(extend("default" = "local"))]
    on_store_failure: Field<Word<OnFailure>>,
    /// How much is admitted beyond the limit. Such requests are marked with a header.
    #[schemars(extend("default" = "0%"))]
    soft: Field<Percent>,
    /// What happens to a request without the key.
    #[schemars(extend("default" = "ip"))]
    #[schemars(example = &"deny")]
    missing_key: Field<Word<MissingKey>>,
    /// Requests that the policy does not count.
    #[schemars(extend("x-default" = "none"))]
    exempt: Field<RawExempt>,
    /// Whether the policy leaves out CORS preflights. They are then counted by address, under ten
    /// times the limit.
    #[schemars(extend("default" = true))]
    exempt_preflights: Field<bool>,
    /// Other limits for some clients.
    #[schemars(extend("x-default" = "none"))]
    plans: Field<RawPlans>,
    /// Bans for clients that are refused too often.
    #[schemars(extend("x-default" = "none"))]
    penalty: Field<RawPenalty>,
    /// A higher limit, which applies while the upstream has capacity.
    #[schemars(extend("x-default" = "none"))]
    elastic: Field<RawElastic>,
    /// Whether single keys may have a limit of their own, set by `tollgate override`.
    #[schemars(extend("default" = false))]
    overrides: Field<bool>,
    /// The response to a refused request, instead of the one that the gateway makes.
    #[schemars(extend("x-default" = "none"))]
    response: Field<RawResponse>,
}

words! {
    /// Whether a policy refuses requests.
    Option<Mode> as "mode" {
        /// It refuses requests beyond the limit.
        "enforce" => Some(Mode::Enforce),
        /// It counts and reports, and refuses nothing.
        "shadow" => Some(Mode::Shadow),
        /// It has no effect. The gateway only checks its fields.
        "off" => None,
    }
}

words! {
    /// What happens to a request that does not have the key.
    MissingKey as "missing_key" {
        /// The address of the client is used instead.
        "ip" => MissingKey::Ip,
        /// The policy does not apply to the request.
        "skip" => MissingKey::Skip,
        /// The request is refused with 403.
        "deny" => MissingKey::Deny,
        /// The request is refused with 401, which asks the client for a bearer token.
        "unauthorized" => MissingKey::Unauthorized,
    }
}

words! {
    /// What happens to requests while the store is not available.
    OnFailure as "on_store_failure" {
        /// This node decides by the counts that it knows, and by its share of the limit.
        "local" => OnFailure::Local,
        /// They are admitted, and not counted.
        "allow" => OnFailure::Allow,
        /// They are refused with 503.
        "deny" => OnFailure::Deny,
    }
}

/// The other sections that policies depend on.
pub(super) struct Dependencies<'a> {
    pub(super) client: &'a RawClient,
    pub(super) settings: &'a ClientSettings,
    /// Whether nodes share the store, or were meant to.
    pub(super) shares_store: bool,
    /// Whether the limits of single keys can be kept anywhere.
    pub(super) keeps_overrides: bool,
    /// The mode of policies that do not have their own.
    pub(super) usual_mode: StoreMode,
}

/// A policy by its name.
pub(super) struct Named {
    pub(super) name: String,
    /// The path parameters that it needs.
    pub(super) params: Vec<NeededParam>,
    /// Whether it is checked like the others, but applies to no request.
    pub(super) is_off: bool,
    /// None if it is broken.
    pub(super) compiled: Option<Arc<Policy>>,
}

/// All policies, in the order of the file.
pub(super) fn compile(
    raw: &Field<Entries<RawPolicy>>,
    around: &Dependencies<'_>,
    cx: &Context<'_>,
) -> Vec<Named> {
    let named = raw.entries().iter().map(|(name, policy)| {
        cx.check_name(name, "policy");
        if name.value.ends_with(CANDIDATE) {
            let message = format!("names that end with \"{CANDIDATE}\" are those of candidates");
            cx.error(name.span, &message, "give the policy another name");
        }
        let raw = policy.value();
        Named {
            name: name.value.clone(),
            params: raw.map(RawPolicy::needed_params).unwrap_or_default(),
            is_off: raw.is_some_and(RawPolicy::is_off),
            compiled: raw.and_then(|raw| raw.compile(name, around, cx)).map(Arc::new),
        }
    });
    named.collect()
}

impl RawPolicy {
    pub(super) fn compile(
        &self,
        name: &Spanned<String>,
        around: &Dependencies<'_>,
        cx: &Context<'_>,
    ) -> Option<Policy> {
        let consistency = self.consistency(around, cx);
        let overrides = self.overridable(name, around, cx);
        let policy = self.limiting(name, around.client, cx)?;
        self.check_challenge(&policy.key, around.settings, cx);
        let policy = Policy { consistency, overrides, ..policy };
        Some(match self.exempt_preflights.copied() {
            Some(false) => Policy { preflights: Preflights::Counted, ..policy },
            _ => policy.sparing_preflights(),
        })
    }

    /// The policy without the fields that depend on the store.
    fn limiting(
        &self,
        name: &Spanned<String>,
        client: &RawClient,
        cx: &Context<'_>,
    ) -> Option<Policy> {
        let lacks = |field: &str| format!("the policy \"{}\" has no \"{field}\"", name.value);
        cx.required(&self.limit, name.span, &lacks("limit"), "like limit: 100/minute");
        cx.required(&self.key, name.span, &lacks("key"), "like key: ip");
        self.combination().check(cx);
        self.check_unlimited(cx);
        let key = self.key.given().and_then(|key| key.value.compile(key.span, client, cx));
        let algorithm = self.counting().compile(cx);
        let own = algorithm.as_ref();
        let limiting = own.filter(|_| !self.is_unlimited());
        let soft = limiting.and_then(|own| soft(&self.soft, own, cx));
        if let Some(admitting) = soft.as_ref().or(limiting) {
            cost::warn_never_passes(&self.cost, admitting, "the limit", cx);
        }
        let shared = plans::Shared {
            own,
            is_unlimited: self.is_unlimited(),
            soft: &self.soft,
            cost: &self.cost,
        };
        let plans = self.plans.given().map(|it| it.value.compile(it.span, &shared, client, cx));
        let elastic = self.elastic.given().map(|it| it.value.compile(it.span, own, cx));
        let penalty = self.penalty.given().map(|it| it.value.compile(it.span, cx));
        let exempt = self.exempt.value().map(|exempt| exempt.compile(client, cx));
        let response = self.response.value().map(|response| response.compile(cx));
        let cost = cost::compile(&self.cost, own, client, cx);
        let count = cost::compile_count(&self.count, cx);
        let base = if self.is_unlimited() && self.counted_limit().is_none() {
            Policy::unlimited(&name.value, key?)
        } else {
            let is_unlimited = self.is_unlimited();
            Policy { is_unlimited, ..Policy::new(&name.value, key?, algorithm?) }
        };
        Some(Policy {
            missing_key: self.missing_key.word().unwrap_or_default(),
            exempt: exempt.unwrap_or_default(),
            response,
            cost: cost.unwrap_or(Cost::Fixed(1)),
            count,
            mode: self.mode.word().flatten().unwrap_or_default(),
            soft,
            plans: plans.flatten(),
            penalty: penalty.flatten(),
            elastic: elastic.flatten(),
            ..base
        })
    }

    fn counting(&self) -> Counting<'_> {
        Counting {
            algorithm: &self.algorithm,
            limit: self.counted_limit(),
            buckets: &self.buckets,
            burst: &self.burst,
            max_delay: &self.max_delay,
            calendar: &self.calendar,
        }
    }

    fn combination(&self) -> Combination {
        let soft = self.soft.given().filter(|soft| soft.value != Percent(0));
        Combination {
            algorithm: RawAlgorithm::of(&self.algorithm),
            settled: cost::settled_field(&self.cost),
            count: ("count", cost::by_status(&self.count)),
            soft: ("soft", soft.map(|soft| soft.span)),
            plans: ("plans", self.plans.span()),
            elastic: ("elastic", self.elastic.span()),
        }
    }

    /// How a shared store keeps the counters.
    fn consistency(&self, around: &Dependencies<'_>, cx: &Context<'_>) -> Consistency {
        if !around.shares_store {
            for (field, span) in [
                ("store_mode", self.store_mode.span()),
                ("on_store_failure", self.on_store_failure.span()),
            ] {
                let Some(span) = span else { continue };
                let message =
                    format!("\"{field}\" has no effect: the counters are in memory alone");
                cx.warning(span, &message, "name a server: store: { redis: { url: ... } }");
            }
        }
        let wanted = self.store_mode.word().unwrap_or(around.usual_mode);
        let on_failure = self.on_store_failure.word().unwrap_or_default();
        let exact = RawAlgorithm::of(&self.algorithm).and_then(RawAlgorithm::always_exact);
        let Some(algorithm) = exact else { return Consistency { mode: wanted, on_failure } };
        if let Some(span) = self.store_mode.span().filter(|_| wanted != StoreMode::Exact) {
            let message = format!("this has no effect: the algorithm {algorithm} is always exact");
            cx.warning(span, &message, "leave it out, or choose another algorithm");
        }
        Consistency { mode: StoreMode::Exact, on_failure }
    }

    /// Set if single keys may have limits of their own.
    fn overridable(
        &self,
        name: &Spanned<String>,
        around: &Dependencies<'_>,
        cx: &Context<'_>,
    ) -> Option<Overridable> {
        let span = self.overrides_span()?;
        if !around.keeps_overrides {
            let message = "overrides cannot be kept anywhere";
            let advice = "name a file, like store: { overrides: { path: overrides.redb } }, or \
                          count in Redis";
            cx.error(span, message, advice);
        }
        let soft = self.soft.value().map_or(0, |soft| soft.0);
        Some(Overridable::new(&name.value, soft))
    }

    /// A client that is asked for a bearer token must be able to correct its request with one.
    fn check_challenge(&self, key: &KeyExpr, client: &ClientSettings, cx: &Context<'_>) {
        if let Some(given) = self.missing_key.given()
            && given.value.0 == MissingKey::Unauthorized
            && !client.takes_token_for(key)
        {
            let message = "\"unauthorized\" asks clients for a bearer token, which would not give \
                           them this key";
            let advice =
                "write deny, or a key that is taken from a token: user, jwt:CLAIM, api_key";
            cx.error(given.span, message, advice);
        }
    }

    /// With `limit: unlimited`, reports fields that have no effect.
    fn check_unlimited(&self, cx: &Context<'_>) {
        let Some(limit) = self.limit.span().filter(|_| self.is_unlimited()) else { return };
        let of_the_limit = [
            ("burst", self.burst.span()),
            ("elastic", self.elastic.span()),
            ("overrides", self.overrides_span()),
        ];
        without_effect(&of_the_limit, "the policy has no limit of its own", cx);
        if self.counted_limit().is_some() || self.plans.is_broken() {
            return;
        }
        let of_a_count = [
            ("algorithm", self.algorithm.span()),
            ("buckets", self.buckets.span()),
            ("cost", self.cost.span()),
            ("count", self.count.span()),
            ("soft", self.soft.span()),
            ("plans", self.plans.span()),
            ("penalty", self.penalty.span()),
            ("response", self.response.span()),
            ("store_mode", self.store_mode.span()),
            ("on_store_failure", self.on_store_failure.span()),
        ];
        without_effect(&of_a_count, "the policy counts nothing", cx);
        let refuses = match self.missing_key.word() {
            Some(MissingKey::Deny | MissingKey::Unauthorized) => true,
            Some(MissingKey::Ip | MissingKey::Skip) | None => self.missing_key.is_broken(),
        };
        if !refuses {
            let message = "this policy neither limits nor refuses any request";
            let advice = "write missing_key: unauthorized or deny, or a limit";
            cx.warning(limit, message, advice);
        }
    }

    fn needed_params(&self) -> Vec<NeededParam> {
        let plan = self.plans.value().and_then(RawPlans::source_key);
        self.key.given().into_iter().chain(plan).flat_map(needed_params).collect()
    }

    /// The limit that decides the window: that of the policy, or of its first plan that has one.
    /// None if the policy counts nothing, or if the limit is broken.
    fn counted_limit(&self) -> Option<Spanned<Limit>> {
        match self.is_unlimited() {
            true => self.plans.value()?.first_limit(),
            false => limit_of(&self.limit),
        }
    }

    fn is_unlimited(&self) -> bool {
        self.limit.value() == Some(&Allowance::Unlimited)
    }

    /// Whether it applies to no request.
    pub(super) fn is_off(&self) -> bool {
        self.mode.word() == Some(None)
    }

    /// Where `overrides: true` is written, if it is.
    pub(super) fn overrides_span(&self) -> Option<TextSpan> {
        self.overrides.given().filter(|given| given.value).map(|given| given.span)
    }
}
