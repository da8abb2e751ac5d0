//! The texts of an explanation.

use std::sync::Arc;

use http::HeaderName;
use http::header::{CONTENT_LENGTH, FORWARDED};
use serde_json::Number;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::consistency::StoreMode;
use tollgate_core::decision::{Decision, Report, Skip};
use tollgate_core::policy::{
    AddressOrigin, Cost, Exemption, ForwardedHeader, LimitChoice, LimitOwner, Mode, Policy, Subject,
};
use tollgate_core::request::{RequestView, slashed_path};
use tollgate_core::routes::{Route, Rules};
use tollgate_core::store::Source;
use tollgate_core::time::Span;

use super::document::Explanation;
use crate::patches::Resolved;

/// Why an API key is unknown that a gateway may know.
pub const KEY_NOT_READ: &str = "API keys in the store are not read without a gateway: ask one with \
    --admin";

/// What is assumed of a password.
pub const PASSWORD_NOT_CHECKED: &str = "the password is not checked here: if there is such a user, \
    it is taken for the right one";

pub const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
    }
}

/// A window in seconds. None if there is none.
pub fn seconds(window: Span) -> Option<Number> {
    let us = window.as_micros();
    match us {
        0 => None,
        _ if us.is_multiple_of(1_000_000) => Some(Number::from(us / 1_000_000)),
        _ => {
            let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
            text.parse().ok().and_then(Number::from_f64)
        }
    }
}

/// Where the limit comes from that holds for the client.
pub fn limit_from(
    subject: &Subject<'_, '_>,
    route: &Route,
    patches: &Resolved,
    report: &Report<&Arc<Policy>>,
) -> String {
    match report.owner {
        Some(LimitOwner::Override) => return "override".to_owned(),
        Some(LimitOwner::Key) => return "key".to_owned(),
        Some(LimitOwner::Team) => return "team".to_owned(),
        None => {}
    }
    let changed = patches.changed.get(&*report.policy.name);
    let patch = changed.and_then(|it| it.patch.as_ref()).map(|(change, _)| &change.values);
    match (report.choice, subject.plan_in(report.policy)) {
        (LimitChoice::Plan(_), Some(plan)) => {
            let is_patched = patch.is_some_and(|it| it.plans.contains_key(plan));
            format!("plan {plan}{}", if is_patched { ", patch" } else { "" })
        }
        _ if patch.is_some_and(|it| it.limit.is_some() || it.burst.is_some()) => "patch".to_owned(),
        _ if !route.policies.iter().any(|it| Arc::ptr_eq(it, report.policy)) => {
            "policy, for preflights".to_owned()
        }
        _ => "policy".to_owned(),
    }
}

/// The parts of the request that a key consists of.
pub fn key_from(subject: &Subject<'_, '_>, policy: &Policy) -> String {
    let form = policy.key.form();
    let form = if form.is_empty() { "global".to_owned() } else { form };
    if subject.has_key(policy) { form } else { format!("ip, because there is no usable {form}") }
}

/// That a later route has judged the request, because limits refuse it on its route, which this
/// explanation is of.
pub fn overflows(first: &Explanation, later: &str) -> String {
    let route = first.route.name.as_deref().unwrap_or_default();
    let refusing = first.policies.iter().filter(|it| matches!(&*it.verdict, "refused" | "banned"));
    let names: Vec<&str> = refusing.map(|it| &*it.name).collect();
    let names = names.join(", ");
    format!(
        "{names} of the route {route} refuses the request, which overflows to the route {later}"
    )
}

/// Why a policy does not judge the request.
pub fn skipped(
    request: &RequestView<'_>,
    subject: &Subject<'_, '_>,
    policy: &Policy,
    why: Skip,
) -> String {
    match why {
        Skip::Exempt(Exemption::Preflight) => "exempt: a preflight".to_owned(),
        Skip::Exempt(Exemption::Method) => format!("exempt: method {}", request.method()),
        Skip::Exempt(Exemption::Header(index)) => match policy.exempt.headers.get(index) {
            Some((name, _)) => format!("exempt: header {name}"),
            None => "exempt: a header".to_owned(),
        },
        Skip::Exempt(Exemption::Place) => "exempt: the place of the client's address".to_owned(),
        Skip::Exempt(Exemption::Class) => "exempt: the class of the client".to_owned(),
        Skip::Exempt(Exemption::Address) => "exempt: the client's address".to_owned(),
        Skip::Exempt(Exemption::NoKey) => {
            format!("missing_key: skip, and the request has no {}", policy.key.form())
        }
        Skip::Unlimited if subject.key_limit(policy).is_some() => {
            "unlimited: the API key or its team".to_owned()
        }
        Skip::Unlimited => match subject.plan_in(policy) {
            Some(plan) => format!("unlimited: plan {plan}"),
            None => "unlimited: the policy limits only clients with a plan".to_owned(),
        },
        Skip::Overridden => "unlimited: override".to_owned(),
    }
}

/// How the address of the client is known.
pub fn address(rules: &Rules, request: &RequestView<'_>, origin: AddressOrigin) -> String {
    let (field, shown) = match &rules.clients().settings().forwarded_header {
        ForwardedHeader::XForwardedFor => {
            (HeaderName::from_static("x-forwarded-for"), "X-Forwarded-For".to_owned())
        }
        ForwardedHeader::Forwarded => (FORWARDED, "Forwarded".to_owned()),
        ForwardedHeader::Single(name) => (name.clone(), name.to_string()),
    };
    let is_named = request.headers().contains_key(&field);
    match origin {
        AddressOrigin::UntrustedPeer if is_named => {
            format!("{shown} not believed: peer is not a trusted proxy")
        }
        AddressOrigin::UntrustedPeer => "address of the peer".to_owned(),
        AddressOrigin::HiddenPeer => {
            "address of the peer: a load balancer hides the source of the connection".to_owned()
        }
        AddressOrigin::Unnamed => {
            format!("address of the peer: it is a trusted proxy and names no client in {shown}")
        }
        AddressOrigin::Named => format!("{shown} believed: peer is a trusted proxy"),
        AddressOrigin::Malformed => {
            format!("{shown} believed up to an element that is not an address")
        }
    }
}

/// The ways in which backends may read an ambiguous request.
pub fn readings(request: &RequestView<'_>) -> Vec<String> {
    let mut readings = Vec::new();
    if let Some(path) = slashed_path(request.path()) {
        let written = request.path();
        readings.push(format!("some backends read the path {written} as {path}"));
    }
    match request.overriding_method() {
        Ok(None) => {}
        Ok(Some(other)) => {
            let method = request.method();
            readings.push(format!("some backends read the method {method} as {other}"));
        }
        Err(_) => readings.push("fields name different methods, or no method".to_owned()),
    }
    readings
}

/// What the numbers do not say. `is_running`: a gateway says it, and not a file.
pub fn warnings(
    policies: &[Arc<Policy>],
    request: &RequestView<'_>,
    decision: &Decision<&Arc<Policy>>,
    is_running: bool,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let is_away = |it: &Report<_>| matches!(it.source, Source::Local | Source::Policy);
    if decision.reports.iter().any(is_away) {
        let text = "not all of the store answers: this is what this node would decide alone";
        warnings.push(text.to_owned());
    }
    for report in &decision.reports {
        let policy = report.policy;
        let name = &report.policy.name;
        match policy.consistency.mode {
            StoreMode::Leased if is_running => warnings.push(format!(
                "{name}: units that nodes have leased count as used, and their node still admits \
                 requests by them"
            )),
            StoreMode::WriteBack if is_running => warnings
                .push(format!("{name}: units that nodes have not yet reported are not included")),
            _ => {}
        }
        if report.is_shadow_refused() {
            warnings.push(format!("{name}: refuses nothing, because it is in shadow mode"));
        }
        if matches!(policy.algorithm, Algorithm::Concurrency(_)) && report.refuses() {
            warnings.push(format!("{name}: when a unit in flight ends is an estimate"));
        }
        match &policy.cost {
            Cost::Metered { .. } => {
                warnings.push(format!("{name}: the response settles the cost"));
            }
            Cost::Body { .. } if !request.headers().contains_key(CONTENT_LENGTH) => {
                warnings.push(format!("{name}: the received length of the body settles the cost"));
            }
            _ => {}
        }
    }
    let elastic = policies.iter().filter(|policy| policy.elastic.is_some());
    for policy in elastic.filter(|_| !is_running) {
        let name = &policy.name;
        warnings.push(format!("{name}: whether the upstream has room is not known here"));
    }
    warnings
}
