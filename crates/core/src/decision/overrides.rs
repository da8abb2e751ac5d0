//! Limits of single keys. A stored limit takes precedence over plans and the policy's
//! own limit.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use smallvec::SmallVec;
use tracing::warn;

use super::claim::{Claim, ClaimList};
use super::moment::Moment;
use crate::algorithm::QuotaError;
use crate::digest::Key;
use crate::policy::Policy;
use crate::store::overrides::{Override, Overrides};

/// Policies that cannot count the stored limit of one of their keys. Each worker logs a
/// policy once, for any number of keys and requests.
#[derive(Debug, Default)]
pub(super) struct Misfits(RefCell<HashSet<Arc<str>>>);

impl Misfits {
    /// Logs the policy, without the key.
    fn tell(&self, policy: &Policy, error: &QuotaError) {
        if self.0.borrow_mut().insert(Arc::clone(&policy.name)) {
            let policy = &policy.name;
            warn!(%policy, %error, "the limit of a key does not fit its policy any more and is \
                ignored; `tollgate override get` shows it: set it again, or unset it");
        }
    }
}

/// Gives each claim the limit of its key, if it has one. Removes
/// claims of keys without a limit.
pub(super) async fn apply<P: Borrow<Arc<Policy>>>(
    overrides: &Overrides,
    misfits: &Misfits,
    claims: &mut ClaimList<P>,
    (now, deadline): Moment,
) {
    let kept_as = |(index, claim): (usize, &Claim<P>)| {
        let counter = claim.policy().overrides?.kept_as;
        Some((index, Key { counter, ..claim.key }))
    };
    let kept: SmallVec<[(usize, Key); 4]> = claims.iter().enumerate().filter_map(kept_as).collect();
    if kept.is_empty() {
        return;
    }
    let keys: SmallVec<[Key; 4]> = kept.iter().map(|(_, key)| *key).collect();
    let found = overrides.look_up(&keys, now, deadline).await;
    // From the end, so that a removal does not move claims that are still to be read.
    for (&(index, _), found) in kept.iter().zip(found).rev() {
        let claim = &mut claims[index];
        let is_limited = match found {
            Some(Override::Unlimited) => false,
            Some(Override::Limited { units, window }) => {
                let instead = claim.policy().override_limit(units, window);
                // If the policy was changed and cannot count the limit, it is ignored.
                let instead = instead.map_err(|error| misfits.tell(claim.policy(), &error));
                claim.instead = instead.ok().map(Box::new);
                claim.has_limit()
            }
            None => claim.has_limit(),
        };
        if !is_limited {
            claims.remove(index);
        }
    }
}

#[cfg(test)]
mod tests;
