//! Envoy's rate limit service: `envoy.service.ratelimit.v3.RateLimitService`.

mod charge;
mod fields;
mod question;
mod response;

use std::sync::Arc;
use std::time::Instant;

use http::{Request, Response};
use tollgate_core::digest::Principal;
use tollgate_core::policy::{KeyExpr, KeyTextError, Policy};
use tollgate_core::refusal::grpc::Code as GrpcCode;
use tollgate_core::time::monotonic;
use tracing::warn;

use self::charge::Charging;
use super::body::AnswerBody;
use super::framing::{Failed, deadline, read, reply};
pub use super::messages::ratelimit::{
    Code, DescriptorStatus, Entry, RateLimit, RateLimitDescriptor, RateLimitOverride,
    RateLimitRequest, RateLimitResponse,
};
#[cfg(test)]
pub use super::messages::values::Duration as ProtoDuration;
pub use super::messages::values::{Kind, Struct, Value as ProtoValue};
pub use crate::grpc::core::HeaderValue;

pub use self::question::MAX_DESCRIPTORS;
#[cfg(any(test, feature = "fuzzing"))]
pub use self::question::descriptors;
use crate::check::rls::{self, Answer, InUse, Matched, Plan, Policies, Rules};
use crate::gateway::Gateway;
use crate::server::ClientBody;
use crate::snapshot::Snapshot;
use crate::telemetry::RateLimitMetrics;

/// The path of its only method.
pub const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// The largest question, also in JSON.
pub const MAX_BYTES: usize = 256 * 1024;

/// Answers one call.
pub async fn answer(
    gateway: &Gateway,
    in_use: InUse<'_>,
    metrics: &RateLimitMetrics,
    request: Request<ClientBody>,
) -> Result<Response<AnswerBody>, Failed> {
    let begun = monotonic();
    let deadline = deadline(request.headers(), begun);
    let answer = async {
        let deadline = deadline?;
        let question: RateLimitRequest = read(request, MAX_BYTES).await?;
        decide(gateway, in_use, metrics, &question, deadline).await
    };
    let answer = answer.await;
    metrics.called(begun.elapsed(), answer.is_err());
    answer.map(|response| reply(&response))
}

/// The answer to one question. The store has until `deadline`, or until its own.
///
/// # Errors
/// If the question has a mistake, or the domains are not known yet.
pub async fn decide(
    gateway: &Gateway,
    InUse { limits, domains }: InUse<'_>,
    metrics: &RateLimitMetrics,
    question: &RateLimitRequest,
    deadline: Option<Instant>,
) -> Result<RateLimitResponse, Failed> {
    let descriptors = question::descriptors(question)?;
    let snapshot = &**gateway.snapshot();
    let secret = snapshot.rules.clients().secret();
    let domain = &*question.domain;
    let mut switches = limits.switches;
    let plan = match limits.native.get(domain) {
        Some(rules) => {
            (switches.shadow, switches.quota) = (false, false);
            let known = Known { snapshot, metrics, domain };
            let plan = rls::native_plan(rules, &descriptors, &known, secret);
            plan.map_err(|misfit| Failed::invalid(misfit.to_string()))?
        }
        None => {
            let domains = domains.ok_or_else(not_known_yet)?;
            if !domains.contains(domain) {
                metrics.domain_not_found();
            }
            Rules { domains, switches, secret }.plan(domain, &descriptors)
        }
    };
    let is_native = limits.native.contains_key(domain);
    let charging = Charging { gateway, until: deadline, is_native, switches };
    let counted = charging.all(&plan).await?;
    let answer = rls::answer(&plan, &counted, switches, gateway.engine().clock().wall());
    count(metrics, domain, &plan, &answer);
    let metadata = switches.metadata.then(|| response::metadata(question, &plan, &answer));
    Ok(response::response(limits, snapshot, &plan, &answer, metadata))
}

/// Envoy decides by its own settings what becomes of a request without an answer.
fn not_known_yet() -> Failed {
    Failed::new(GrpcCode::Unavailable, "the xDS server has not told any limits yet")
}

/// Counts the descriptors that have a limit.
fn count(metrics: &RateLimitMetrics, domain: &str, plan: &Plan<'_>, answer: &Answer<'_>) {
    for (matched, tally) in plan.matched.iter().zip(&answer.tallies) {
        if let (Matched::Limited(limited), Some(it)) = (matched, tally) {
            let key2 = limited.series.key2.as_deref().unwrap_or("");
            let hits = [it.total, it.over, it.near, it.within, it.shadow];
            metrics.hits(domain, &limited.series.key1, key2, hits);
        }
    }
    if answer.is_shadowed {
        metrics.shadowed();
    }
}

/// The policies of the configuration in use, for the rules of a domain.
struct Known<'p> {
    snapshot: &'p Snapshot,
    metrics: &'p RateLimitMetrics,
    domain: &'p str,
}

impl<'p> Policies<'p> for Known<'p> {
    fn policy(&self, name: &str) -> Option<&'p Arc<Policy>> {
        self.snapshot.policies.iter().find(|policy| &*policy.name == name)
    }

    fn principal<'v>(
        &self,
        policy: &Policy,
        value: impl Fn(&KeyExpr) -> Option<&'v str>,
    ) -> Option<Principal> {
        let principal = self.snapshot.rules.principal_of(&policy.key, value);
        if let Err(error) = &principal
            && self.metrics.counts_alone(self.domain, &policy.name)
        {
            warn!(
                domain = %self.domain,
                policy = %policy.name,
                cause = %cause(error),
                "descriptors of a domain cannot be the key of their policy, and do not share the \
                 counter of the gateway: correct what the proxy sends, or \"key\" of the rule; \
                 further ones are counted in tollgate_ratelimit_descriptors_alone_total"
            );
        }
        principal.ok()
    }
}

/// What is wrong with the values, without the values: they are keys of clients.
fn cause(error: &KeyTextError) -> String {
    match error {
        KeyTextError::Impossible { key, why, .. } => format!("the value of {key}: {why}"),
        KeyTextError::Composed(form) => format!("the key is {form}, and values are absent"),
        KeyTextError::Empty(key) => format!("the value of {key} is empty"),
        KeyTextError::Escape(_) | KeyTextError::Unknown { .. } => "it is not a key".to_owned(),
    }
}
