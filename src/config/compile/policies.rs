//! `policies`: one limit each.

use std::sync::Arc;

use super::Compiler;
use super::key::{NeededParam, needed_params};
use crate::algorithm::{
    Algorithm, FixedWindow, MAX_LIMIT, Quota, QuotaError, SlidingWindow, SubWindows, TokenBucket,
};
use crate::config::field::{Entries, Field, Spanned};
use crate::config::node::Span;
use crate::config::raw::{RawAlgorithm, RawClient, RawExempt, RawMissingKey, RawPolicy};
use crate::config::scalar::Rate;
use crate::rules::{Exempt, MissingKey, Policy};

const MAX_BUCKETS: u64 = 100;

/// A policy's name, and the policy unless it is broken.
pub(super) struct Named {
    pub(super) name: String,
    /// What a route's path must offer.
    pub(super) params: Vec<NeededParam>,
    pub(super) compiled: Option<Arc<Policy>>,
}

impl Compiler<'_> {
    pub(super) fn policies(
        &self,
        raw: &Field<Entries<RawPolicy>>,
        client: Option<&RawClient>,
    ) -> Vec<Named> {
        let entries = raw.value().map_or(&[][..], |entries| &entries.0);
        let named = entries.iter().map(|(name, policy)| {
            self.check_name(name, "policy");
            let raw = policy.value();
            let key = raw.and_then(|raw| raw.key.given());
            Named {
                name: name.value.clone(),
                params: key.map(needed_params).unwrap_or_default(),
                compiled: raw.and_then(|raw| self.policy(name, raw, client)).map(Arc::new),
            }
        });
        named.collect()
    }

    fn policy(
        &self,
        name: &Spanned<String>,
        raw: &RawPolicy,
        client: Option<&RawClient>,
    ) -> Option<Policy> {
        let lacks = |field: &str| format!("the policy \"{}\" has no \"{field}\"", name.value);
        let rate = self.required(&raw.limit, name.span, &lacks("limit"), "like limit: 100/minute");
        self.required(&raw.key, name.span, &lacks("key"), "like key: ip");
        let key = raw.key.given().and_then(|key| self.key(key, client, 0));
        let algorithm = self.algorithm(raw, rate);
        let response = raw.response.value().map(|response| self.template(response));
        let exempt = raw.exempt.value().map(|exempt| self.exempt(exempt)).unwrap_or_default();
        Some(Policy {
            missing_key: raw.missing_key.value().map_or_else(MissingKey::default, missing_key),
            exempt,
            response,
            ..Policy::new(&name.value, key?, algorithm?)
        })
    }

    fn algorithm(&self, raw: &RawPolicy, rate: Option<&Rate>) -> Option<Algorithm> {
        let kind = match raw.algorithm {
            Field::Absent => RawAlgorithm::SlidingWindow,
            Field::Broken => return None,
            Field::Given(ref given) => given.value,
        };
        self.check_fields_of(kind, raw);
        let buckets = self.number(&raw.buckets, "buckets", 1..=MAX_BUCKETS);
        let burst = self.number(&raw.burst, "burst", 1..=MAX_LIMIT);
        let Rate(quota) = *rate?;
        algorithm(kind, quota, buckets, burst)
            .map_err(|error| {
                let own = [raw.burst.given(), raw.buckets.given()].into_iter().flatten().next();
                let limit = raw.limit.given().map(|limit| limit.span);
                let place = own.map(|number| number.span).or(limit);
                self.problems.error(place.unwrap_or(Span::FILE), &error.to_string(), "");
            })
            .ok()
    }

    /// A field of another algorithm has no effect, which its author does not know.
    fn check_fields_of(&self, kind: RawAlgorithm, raw: &RawPolicy) {
        if let Some(burst) = raw.burst.given().filter(|_| kind != RawAlgorithm::TokenBucket) {
            let message = "\"burst\" belongs to the algorithm token_bucket";
            self.problems.error(burst.span, message, "leave it out, or choose token_bucket");
        }
        if let Some(buckets) = raw.buckets.given().filter(|_| kind != RawAlgorithm::SlidingWindow) {
            let message = "\"buckets\" belongs to the algorithm sliding_window";
            self.problems.error(buckets.span, message, "leave it out, or choose sliding_window");
        }
    }

    fn exempt(&self, raw: &RawExempt) -> Exempt {
        Exempt {
            ips: raw.ips.items().map(|block| block.value.0).collect(),
            methods: raw.methods.items().map(|method| method.value.0.clone()).collect(),
            headers: self.header_values(&raw.headers),
        }
    }
}

fn algorithm(
    kind: RawAlgorithm,
    quota: Quota,
    buckets: Option<u64>,
    burst: Option<u64>,
) -> Result<Algorithm, QuotaError> {
    let buckets = buckets.map_or(1, |buckets| u32::try_from(buckets).unwrap_or(u32::MAX));
    Ok(match kind {
        RawAlgorithm::SlidingWindow if buckets == 1 => {
            Algorithm::SlidingWindow(SlidingWindow::new(quota))
        }
        RawAlgorithm::SlidingWindow => Algorithm::SubWindows(SubWindows::new(quota, buckets)?),
        RawAlgorithm::FixedWindow => Algorithm::FixedWindow(FixedWindow::new(quota)),
        RawAlgorithm::TokenBucket => {
            Algorithm::TokenBucket(TokenBucket::new(quota, burst.unwrap_or(quota.limit()))?)
        }
    })
}

fn missing_key(raw: &RawMissingKey) -> MissingKey {
    match raw {
        RawMissingKey::Ip => MissingKey::Ip,
        RawMissingKey::Skip => MissingKey::Skip,
        RawMissingKey::Deny => MissingKey::Deny,
    }
}
