//! The claims of a route's policies for one request.

use std::borrow::Borrow;
use std::sync::Arc;

use super::claim::{Claim, ClaimList};
use super::outcome::{RETRY_KEYS, RETRY_STORE};
use super::{Decision, Lacking, Lease, Outcome};
use crate::algorithm::{Retry, Verdict};
use crate::consistency::OnFailure;
use crate::digest::{Key, Principal};
use crate::policy::{Exemption, KeyFor, LastPrincipal, LimitChoice, Mode, Policy, Subject};
use crate::store::{Answer, Source, fresh};
use crate::time::Timestamp;

/// The most policies that may judge one request.
pub const MAX_POLICIES: usize = 16;

/// The claims of a route's policies for one request: one for each policy that judges it.
/// They do not refer to the request. `P` borrows the policies or owns them; claims that own
/// their policies can be sent to another thread.
#[derive(Clone, Debug)]
pub struct Claims<P> {
    pub(super) list: ClaimList<P>,
    /// Policies in shadow mode whose key the request lacks.
    pub(super) lacking: Lacking<P>,
    /// Whether the caller may settle the cost of any policy, and not only of those whose cost
    /// is known after the response.
    pub(super) settles: bool,
}

/// Why a policy does not judge a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// The policy exempts the request.
    Exempt(Exemption),
    /// The plan of the client, or the policy itself, has no limit.
    Unlimited,
    /// The key has an override without a limit.
    Overridden,
}

impl<P> Claims<P> {
    /// A number that is equal for requests with the same first key, and evenly distributed.
    pub fn spread(&self) -> u128 {
        self.list.first().map_or(0, |claim| claim.key.principal.bits())
    }
}

impl<P> Claims<P> {
    /// The same claims, for a caller that may settle the cost of any policy.
    pub fn settling(self) -> Self {
        Self { settles: true, ..self }
    }

    /// The same claims, whose cost is an estimate: at most the limit of the client is charged.
    #[must_use]
    pub fn estimated(mut self) -> Self {
        self.list.iter_mut().for_each(|claim| claim.is_capped = true);
        self
    }
}

impl<P: Borrow<Arc<Policy>> + Clone> Claims<P> {
    /// The decision without a store: policies with `on_failure: allow` admit the request,
    /// and all others refuse it. Nothing is counted.
    pub fn unjudged(self, now: Timestamp) -> Decision<P> {
        let report = |claim: &Claim<P>| {
            let charge = claim.within();
            let admitted = charge.consistency.on_failure == OnFailure::Allow;
            let retry = if admitted { Retry::Now } else { Retry::After(RETRY_STORE) };
            let verdict = Verdict { admitted, retry, ..fresh(&charge, now) };
            claim.report(&Answer::new(verdict, Source::Policy), None, now)
        };
        let reports = self.list.iter().map(report).collect();
        Decision::combine(reports, self.lacking, Lease::default())
    }
}

impl<'r> Claims<&'r Arc<Policy>> {
    /// The claims of `policies` for the subject's request.
    ///
    /// # Errors
    /// The outcome, if the request lacks a key or token that an enforcing policy demands,
    /// or is ambiguous. Then nothing is counted.
    pub fn new(
        policies: impl IntoIterator<Item = &'r Arc<Policy>>,
        subject: &Subject<'_, '_>,
    ) -> Result<Self, Outcome<&'r Arc<Policy>>> {
        Self::noting(policies, subject, |_, _| {})
    }

    /// The same. `skip` is called for each policy that does not judge the request.
    pub(super) fn noting(
        policies: impl IntoIterator<Item = &'r Arc<Policy>>,
        subject: &Subject<'_, '_>,
        mut skip: impl FnMut(&'r Arc<Policy>, Skip),
    ) -> Result<Self, Outcome<&'r Arc<Policy>>> {
        let mut list = ClaimList::new();
        let mut lacking = Lacking::new();
        let mut last = LastPrincipal::default();
        for policy in policies {
            let policy = subject.judging(policy);
            let outcome = match subject.key_after(policy, &mut last) {
                KeyFor::Key(_) if subject.has_ambiguous_cost(policy) => Outcome::Ambiguous(policy),
                KeyFor::Key(key) => match Claim::new(subject, policy, key) {
                    Err(why) => Outcome::Uncountable(policy, why),
                    Ok(Some(claim)) => {
                        list.push(claim);
                        continue;
                    }
                    Ok(None) => {
                        skip(policy, Skip::Unlimited);
                        continue;
                    }
                },
                KeyFor::Exempt(exemption) => {
                    skip(policy, Skip::Exempt(exemption));
                    continue;
                }
                KeyFor::Denied => Outcome::Deny(policy),
                KeyFor::Unverifiable => Outcome::Unverifiable(policy, RETRY_KEYS),
                KeyFor::Ambiguous => Outcome::Ambiguous(policy),
                KeyFor::Unauthorized(fault) => Outcome::Unauthorized(policy, fault),
            };
            match policy.mode {
                Mode::Enforce => return Err(outcome),
                Mode::Shadow => lacking.push(policy),
            }
        }
        Ok(Self { list, lacking, settles: false })
    }

    /// The same claims, which own their policies.
    pub fn into_owned(self) -> Claims<Arc<Policy>> {
        Claims {
            list: self.list.into_iter().map(Claim::into_owned).collect(),
            lacking: self.lacking.into_iter().map(Arc::clone).collect(),
            settles: self.settles,
        }
    }
}

impl Claims<Arc<Policy>> {
    /// The claim of one policy for this client, without a request. Without a limit of the
    /// client, no policy judges it.
    pub fn of_client(policy: &Arc<Policy>, client: Principal, cost: u64) -> Self {
        let limit = if policy.is_unlimited { LimitChoice::Unlimited } else { LimitChoice::Own };
        let mut list = ClaimList::new();
        if limit == LimitChoice::Own || policy.overrides.is_some() {
            let key = Key { principal: client, counter: policy.counter };
            let policy = Arc::clone(policy);
            list.push(Claim::known(policy, key, limit, cost));
        }
        Self { list, lacking: Lacking::new(), settles: true }
    }
}
