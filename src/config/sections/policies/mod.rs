//! `policies`: limits by name.

pub mod cost;
pub mod counters;
pub mod elastic;
pub mod exempt;
pub mod penalty;
pub mod plans;
pub mod reserve;
pub mod settle;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::algorithm::{
    AlgorithmKind, KIND_MEANINGS, KIND_NAMES, KINDS, MAX_BUCKETS, MAX_LIMIT,
};
use tollgate_core::consistency::{OnFailure, StoreMode};
use tollgate_core::policy::spec::{self, Compiled, Facts, Fault, PolicySpec, algorithms_with};
use tollgate_core::policy::{MissingKey, Mode, Policy};

use crate::config::field::{Entries, Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::{Allowance, Percent, Period};
use crate::config::sections::answers::RawResponse;
use crate::config::sections::client::RawClient;
use crate::config::sections::context::Context;
use crate::config::sections::key::{NeededParam, RawKey, needed_params};
use crate::config::words::{Word, Words, words};
use crate::patches::CANDIDATE;
use cost::{CostForm, CountForm};
use elastic::RawElastic;
use exempt::RawExempt;
use penalty::RawPenalty;
use plans::RawPlans;

/// One limit: what it counts, how much it admits, and what it does beyond that.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "policy", default)]
#[schemars(deny_unknown_fields, extend("required" = ["key", "limit"]))]
pub struct RawPolicy {
    /// What one counter belongs to, such as an address or an API key.
    key: Field<RawKey>,
    /// How much, or `unlimited`.
    #[schemars(example = &"100/minute")]
    limit: Field<Allowance>,
    /// How requests are counted. A limit per month implies fixed_window.
    #[schemars(extend("default" = "sliding_window"))]
    #[schemars(example = &"token_bucket")]
    algorithm: Field<Word<AlgorithmKind>>,
    /// With sliding_window: the number of sub-windows, from 1 to 100. More are more exact.
    #[schemars(extend("default" = 1, "x-algorithms" = algorithms_with(&spec::Field::Buckets)))]
    #[schemars(example = 10)]
    #[schemars(range(min = 1, max = MAX_BUCKETS))]
    buckets: Field<u64>,
    /// With token_bucket: the most units that are admitted at once. With leaky_bucket: the most
    /// requests that are held.
    #[schemars(extend(
        "x-default" = "the count of the limit for token_bucket, and as many as `max_delay` allows \
                       for leaky_bucket",
        "x-algorithms" = algorithms_with(&spec::Field::Burst)
    ))]
    #[schemars(example = 20)]
    #[schemars(range(min = 1, max = MAX_LIMIT))]
    burst: Field<u64>,
    /// With leaky_bucket, which needs it: the longest time that a request is held. A request that
    /// would wait longer is refused.
    #[schemars(extend("x-default" = "none", "x-algorithms" = algorithms_with(&spec::Field::MaxDelay)))]
    #[schemars(example = &"2s")]
    max_delay: Field<Period>,
    /// With fixed_window: the time zone in which hours, days, weeks and months begin.
    #[schemars(extend(
        "x-default" = "windows are not aligned to a calendar, except months: UTC",
        "x-algorithms" = algorithms_with(&spec::Field::Calendar)
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
    /// Up to four shares of the limit. The request that passes one of them is reported: in its response,
    /// the log, the events of the admin API and a metric.
    #[schemars(extend(
        "x-default" = "none",
        "x-algorithms" = algorithms_with(&spec::Field::Warn)
    ))]
    #[schemars(example = serde_json::json!(["80%", "95%"]))]
    warn: List<Percent>,
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

impl Words for AlgorithmKind {
    const NAME: &'static str = "algorithm";
    const WORDS: &'static [&'static str] = KIND_NAMES;
    const VALUES: &'static [Self] = KINDS;
    const DESCRIPTION: &'static str = "How requests are counted.";
    const DESCRIPTIONS: &'static [&'static str] = KIND_MEANINGS;
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
pub struct Dependencies<'a> {
    pub client: &'a RawClient,
    pub facts: Facts<'a>,
}

/// A policy by its name.
pub struct Named {
    pub name: String,
    /// The path parameters that it needs.
    pub params: Vec<NeededParam>,
    /// Whether it is checked like the others, but applies to no request.
    pub is_off: bool,
    /// None if it is broken.
    pub compiled: Option<Arc<Policy>>,
}

/// All policies, in the order of the file.
pub fn compile(
    raw: &Field<Entries<RawPolicy>>,
    around: &Dependencies<'_>,
    cx: &Context<'_>,
) -> Vec<Named> {
    let named = raw.entries().iter().map(|(name, policy)| {
        if policy.value().is_none() {
            cx.check_name(name, "policy");
        }
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
    pub fn compile(
        &self,
        name: &Spanned<String>,
        around: &Dependencies<'_>,
        cx: &Context<'_>,
    ) -> Option<Policy> {
        let Compiled { policy, faults } = self.spec(name, around.client, cx).compile(&around.facts);
        for Fault { field, is_warning, remark } in faults {
            let at = match field {
                spec::Field::Name => name.span,
                _ => self.span_of(&field).unwrap_or(TextSpan::FILE),
            };
            let report = if is_warning { Context::warning } else { Context::error };
            report(cx, at, &remark.message, &remark.advice);
        }
        policy
    }

    /// The policy as it is written, with errors for what cannot be read.
    fn spec(&self, name: &Spanned<String>, client: &RawClient, cx: &Context<'_>) -> PolicySpec {
        PolicySpec {
            name: name.value.clone(),
            key: self.key.read(|key| key.value.compile(key.span, cx)),
            limit: self.limit.written(|Allowance(limit)| *limit),
            algorithm: self.algorithm.written(|Word(kind)| *kind),
            buckets: self.buckets.written(|count| *count),
            burst: self.burst.written(|units| *units),
            max_delay: self.max_delay.written(Period::span),
            calendar: self.calendar.written(String::clone),
            cost: cost::spec(&self.cost, cx),
            count: self.count.written(cost::count_spec),
            mode: self.mode.word().flatten().unwrap_or_default(),
            store_mode: self.store_mode.written(|Word(mode)| *mode),
            on_store_failure: self.on_store_failure.written(|Word(then)| *then),
            soft: self.soft.written(|Percent(percent)| *percent),
            missing_key: self.missing_key.written(|Word(then)| *then),
            exempt: self.exempt.value().map(|it| it.compile(client, cx)).unwrap_or_default(),
            counts_preflights: self.exempt_preflights.copied() == Some(false),
            plans: self.plans.written(|plans| plans.spec(cx)),
            penalty: self.penalty.written(RawPenalty::spec),
            elastic: self.elastic.written(RawElastic::spec),
            warn: self.warn.written(|shares| {
                let share = |it: &Field<Percent>| it.written(|Percent(percent)| *percent);
                shares.iter().map(share).collect()
            }),
            overrides: self.overrides_span().is_some(),
            response: self.response.written(|response| response.compile(cx)),
        }
    }

    /// Where the field is written, if it is.
    fn span_of(&self, field: &spec::Field) -> Option<TextSpan> {
        use spec::Field as At;
        match field {
            At::Name => None,
            At::Key(place) => self.key.given().map(|key| key.span_at(place)),
            At::Limit => self.limit.span(),
            At::Algorithm => self.algorithm.span(),
            At::Buckets => self.buckets.span(),
            At::Burst => self.burst.span(),
            At::MaxDelay => self.max_delay.span(),
            At::Calendar => self.calendar.span(),
            At::Cost => self.cost.span(),
            At::Count => self.count.span(),
            At::Statuses | At::Status(_) => cost::span_of_count(&self.count, field),
            At::StoreMode => self.store_mode.span(),
            At::OnStoreFailure => self.on_store_failure.span(),
            At::Soft => self.soft.span(),
            At::Warn => self.warn.span(),
            At::WarnShare(index) => self.warn.value()?.get(*index)?.span(),
            At::MissingKey => self.missing_key.span(),
            At::Exempt => self.exempt.span(),
            At::Plans => self.plans.span(),
            At::PlansFrom(_) | At::PlanLimits | At::PlanName(_) | At::PlanLimit(_) => {
                self.plans.value()?.span_of(field)
            }
            At::Penalty => self.penalty.span(),
            At::After | At::Ban | At::MaxBan | At::BanDelay => self.penalty.value()?.span_of(field),
            At::Elastic => self.elastic.span(),
            At::ElasticLimit | At::When | At::LatencyBelow | At::InFlightBelow => {
                self.elastic.value()?.span_of(field)
            }
            At::Overrides => self.overrides_span(),
            At::Response => self.response.span(),
            At::CostHeader
            | At::CostDefault
            | At::CostMax
            | At::BodyBytes
            | At::Reserve
            | At::ReserveOutput
            | At::ReserveMaxOutput
            | At::ReserveBytesPerToken
            | At::ReserveImage
            | At::ReserveStored
            | At::ReserveMax
            | At::ReserveModel
            | At::Settle
            | At::Unsettled
            | At::ResponseBytes => cost::span_of(&self.cost, field),
        }
    }

    fn needed_params(&self) -> Vec<NeededParam> {
        let plan = self.plans.value().and_then(RawPlans::source_key);
        self.key.given().into_iter().chain(plan).flat_map(needed_params).collect()
    }

    /// Whether it applies to no request.
    pub fn is_off(&self) -> bool {
        self.mode.word() == Some(None)
    }

    /// The classes that it exempts.
    pub fn exempt_classes(&self) -> impl Iterator<Item = &Spanned<String>> {
        self.exempt.value().into_iter().flat_map(RawExempt::classes)
    }

    /// Where `overrides: true` is written, if it is.
    pub fn overrides_span(&self) -> Option<TextSpan> {
        self.overrides.given().filter(|given| given.value).map(|given| given.span)
    }
}
