//! Limits of single keys. A stored limit takes precedence over plans and the policy's
//! own limit.

use std::borrow::Borrow;
use std::sync::Arc;

use smallvec::SmallVec;
use tracing::warn;

use super::claim::{Claim, ClaimList};
use super::moment::Moment;
use crate::algorithm::QuotaError;
use crate::digest::Key;
use crate::policy::{Misfits, Policy};
use crate::store::overrides::{Override, Overrides};

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
                match claim.policy().override_limit(units, window) {
                    Ok(limit) => claim.instead = Some(Box::new(limit)),
                    // The policy was changed.
                    Err(error) => {
                        tell(misfits, claim.policy(), &error);
                        claim.ignores_limit = true;
                    }
                }
                claim.has_limit()
            }
            None => claim.has_limit(),
        };
        if !is_limited {
            claims.remove(index);
        }
    }
}

/// Logs that the policy cannot count a limit of one of its keys, without the key.
#[cold]
fn tell(misfits: &Misfits, policy: &Policy, error: &QuotaError) {
    if misfits.is_new(&policy.name, None) {
        let policy = &policy.name;
        warn!(%policy, %error, "the limit of a key does not fit its policy any more and is \
            ignored; `tollgate override get` shows it: set it again, or unset it");
    }
}

#[cfg(test)]
mod tests;
