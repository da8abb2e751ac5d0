//! Warnings of policies that need the end of a response, where other proxies forward the request
//! and do not tell it.

use tollgate_core::algorithm::Algorithm;
use tollgate_core::policy::{Cost, Count, Policy};
use tollgate_core::request::ContentWord;

use crate::config::field::{Entries, Field};
use crate::config::model::Config;
use crate::config::sections::context::Context;
use crate::config::sections::policies::RawPolicy;
use crate::config::sections::policies::counters::span_of;

/// Warns of policies of routes that other proxies can ask about, and that decide less for them
/// than for the gateway's own clients. There must be no errors.
pub fn warn_unsettled(raw: &Field<Entries<RawPolicy>>, config: &Config, cx: &Context<'_>) {
    let authorizes = config.check.grpc.as_ref().is_some_and(|it| it.services.authorization);
    if config.check.http.is_none() && !authorizes {
        return;
    }
    let is_used = |policy: &Policy| {
        let mut used = config.routes.iter().flat_map(|route| &route.rule.policies);
        used.any(|it| it.name == policy.name)
    };
    for policy in config.policies.iter().filter(|policy| is_used(policy)) {
        let Some((what, advice)) = needed(policy) else { continue };
        let message = format!("where another proxy asks, the policy \"{}\" {what}", policy.name);
        cx.warning(span_of(raw, policy), &message, advice);
    }
}

/// What happens without the end of the response, and what helps. None if it is not needed.
fn needed(policy: &Policy) -> Option<(&'static str, &'static str)> {
    if policy.cost.reservation().is_some() {
        let what = "knows neither the body nor the cost in the response: it reserves by the length";
        return Some((what, "let this gateway forward the requests, or ask with /v1/check"));
    }
    if policy.body_words().any(|word| *word != ContentWord::AskUsage) {
        let what = "has no values of the body: the other proxy does not send it";
        return Some((what, "use another key, or let this gateway forward the requests"));
    }
    if matches!(policy.algorithm, Algorithm::Concurrency(_)) {
        let what = "takes no part: it is not known when a request ends";
        return Some((what, "limit requests in progress in that proxy"));
    }
    match (&policy.count, &policy.cost) {
        (Count::Statuses { .. }, _) => {
            let what = "takes no part: the status of the response is not known";
            Some((what, "write another policy that counts all requests"))
        }
        (Count::All, Cost::Metered { .. }) => {
            let what = "charges its reserve: the cost in the response is not known";
            Some((what, "reserve what a request costs on average"))
        }
        (Count::All, Cost::Fixed(_) | Cost::Field { .. } | Cost::Body { .. } | Cost::Calls) => None,
    }
}
