//! `plans` of a policy: other limits for some clients.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::policy::{KeyExpr, Plan, Plans};

use super::algorithm::{same_window, soft, valid};
use super::client::RawClient;
use super::context::Context;
use super::cost::{CostForm, warn_never_passes};
use super::geo;
use super::key::{RawKey, RawKeyList};
use crate::config::field::{Either, Entries, Field, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::{Allowance, KeyWord, Limit, Percent};

/// The most plans of one policy. Each request with a plan is compared with all of them.
const MAX_PLANS: usize = 64;

/// Other limits for some clients.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "plans", default)]
#[schemars(deny_unknown_fields, extend("required" = ["from", "limits"]))]
pub(super) struct RawPlans {
    /// The key that contains the name of the plan of a request.
    #[schemars(example = &"jwt:plan")]
    from: Field<RawKey>,
    /// The limits by plan. A request with any other plan has the limit of the policy.
    #[schemars(example = serde_json::json!({ "pro": "1000/minute", "internal": "unlimited" }))]
    limits: Field<Entries<Allowance>>,
}

/// The parts of a policy that its plans share.
pub(super) struct Shared<'a> {
    /// The algorithm of the policy.
    pub(super) own: Option<&'a Algorithm>,
    /// Whether the policy has no limit of its own.
    pub(super) is_unlimited: bool,
    pub(super) soft: &'a Field<Percent>,
    pub(super) cost: &'a Field<CostForm>,
}

impl RawPlans {
    /// The plans of the section, which is written at `span`.
    pub(super) fn compile(
        &self,
        span: TextSpan,
        shared: &Shared<'_>,
        client: &RawClient,
        cx: &Context<'_>,
    ) -> Option<Plans> {
        let Self { from, limits } = self;
        cx.required(from, span, "the plans have no \"from\"", "like from: jwt:plan");
        let advice = "like limits: { pro: 1000/minute, internal: unlimited }";
        cx.required(limits, span, "the plans have no \"limits\"", advice);
        let from = from.given().and_then(|from| source(from, client, cx));
        let limits = limits.given().map(|limits| {
            if let Some(from) = &from {
                limits.value.0.iter().for_each(|(name, _)| check_location(name, from, cx));
            }
            plan_limits(limits, shared, cx)
        });
        Some(Plans { from: from?, limits: limits? })
    }

    /// The key that contains the name of the plan.
    pub(super) fn source_key(&self) -> Option<&Spanned<RawKey>> {
        self.from.given()
    }

    /// The limit of the first plan that has one.
    pub(super) fn first_limit(&self) -> Option<Spanned<Limit>> {
        self.limits.entries().iter().find_map(|(_, limit)| limit_of(limit))
    }
}

/// The limit, if the field has one.
pub(super) fn limit_of(field: &Field<Allowance>) -> Option<Spanned<Limit>> {
    let given = field.given()?;
    match given.value {
        Allowance::Limited(limit) => Some(given.with(limit)),
        Allowance::Unlimited => None,
    }
}

fn source(raw: &Spanned<RawKey>, client: &RawClient, cx: &Context<'_>) -> Option<KeyExpr> {
    let key = raw.value.compile(raw.span, client, cx)?;
    check_source(raw, client, cx);
    Some(key)
}

/// Behind a trusted proxy, a field of a request may contain what the proxy has found out. Without
/// one, it contains what the client wrote.
fn check_source(raw: &Spanned<RawKey>, client: &RawClient, cx: &Context<'_>) {
    match raw.value.form() {
        Either::Short(KeyWord(KeyExpr::Header(_) | KeyExpr::Cookie(_) | KeyExpr::Query(_)))
            if !client.has_trusted_proxies() =>
        {
            let message = "clients can set this value themselves, and so choose their plan";
            let advice = "use a verified value, like jwt:plan; or name the proxies that set it \
                          in client.trusted_proxies";
            cx.warning(raw.span, message, advice);
        }
        Either::Short(_) => {}
        Either::Long(RawKeyList { first, all }) => {
            if let Some(all) = all.given() {
                let message = "the name of a plan is one value, not several together";
                cx.error(all.span, message, "write one key, or first: [...]");
            }
            first.items().for_each(|key| check_source(key, client, cx));
        }
    }
}

/// If a location chooses the plan, the names of the plans are locations.
fn check_location(name: &Spanned<String>, from: &KeyExpr, cx: &Context<'_>) {
    let is_location = || name.value.parse().is_ok_and(|code| geo::is_of(&code, from));
    if from.is_place() && !is_location() {
        let message = format!("no client has the plan \"{}\"", name.shown());
        cx.error(name.span, &message, geo::form_of(from));
    }
}

fn plan_limits(
    limits: &Spanned<Entries<Allowance>>,
    shared: &Shared<'_>,
    cx: &Context<'_>,
) -> Vec<(Box<str>, Plan)> {
    let Entries(entries) = &limits.value;
    if !(1..=MAX_PLANS).contains(&entries.len()) {
        let message = format!("a policy must have from 1 to {MAX_PLANS} plans");
        cx.error(limits.span, &message, "");
    }
    let plans = entries.iter().filter_map(|(name, limit)| {
        cx.check_name(name, "plan");
        Some((name.value.as_str().into(), plan(name, limit, shared, cx)?))
    });
    plans.collect()
}

fn plan(
    name: &Spanned<String>,
    limit: &Field<Allowance>,
    shared: &Shared<'_>,
    cx: &Context<'_>,
) -> Option<Plan> {
    let given = limit.given()?;
    let Allowance::Limited(limit) = given.value else { return Some(Plan::Unlimited) };
    let whose = format!("the plan \"{}\"", name.shown());
    let own = shared.own?;
    let others = if shared.is_unlimited { "the first plan" } else { "the policy's own" };
    let units = same_window(limit, given.span, own, [&whose, others], cx)?;
    let algorithm = valid(own.with_limit(units), given.span, cx)?;
    let soft = soft(shared.soft, &algorithm, cx);
    warn_never_passes(shared.cost, soft.as_ref().unwrap_or(&algorithm), &whose, cx);
    Some(Plan::Limited { algorithm, soft })
}
