//! Limits of single keys: what is kept of them somewhere comes before plans and
//! the policy's own limit.

use smallvec::SmallVec;

use super::claim::Claims;
use crate::digest::Key;
use crate::rules::Subject;
use crate::store::overrides::{Override, Overrides};
use crate::time::Timestamp;

/// Gives each claim the limit of its key, if it has one. Those of keys without
/// any limit fall away.
pub(super) async fn apply(
    overrides: &Overrides,
    claims: &mut Claims<'_>,
    subject: &Subject<'_, '_>,
    now: Timestamp,
) {
    let kept_as = |(index, claim): (usize, &super::Claim<'_>)| {
        let counter = claim.policy.overrides?.kept_as;
        Some((index, Key { counter, ..claim.key }))
    };
    let kept: SmallVec<[(usize, Key); 4]> = claims.iter().enumerate().filter_map(kept_as).collect();
    if kept.is_empty() {
        return;
    }
    let keys: SmallVec<[Key; 4]> = kept.iter().map(|(_, key)| *key).collect();
    let found = overrides.look_up(&keys, now).await;
    // From the end, so that what falls away moves no claim that is still to come.
    for (&(index, _), found) in kept.iter().zip(found).rev() {
        let claim = &mut claims[index];
        let is_limited = match found {
            Some(Override::Unlimited) => false,
            Some(Override::Limited { units, window }) => {
                // What the policy cannot count, since it was changed, is no limit of its own.
                claim.instead = claim.policy.override_limit(units, window).ok().map(Box::new);
                claim.instead.is_some() || subject.limit(claim.policy).is_some()
            }
            None => subject.limit(claim.policy).is_some(),
        };
        if !is_limited {
            claims.remove(index);
        }
    }
}

#[cfg(test)]
mod tests;
