//! Questions of other services: claims that are described, judged, and settled by any node.

use std::sync::Arc;

use http::HeaderMap;
use tollgate_core::decision::{
    Claims, Decision, Ending, Headroom, Lease, MarkedSettlement, Outcome, Report,
};
use tollgate_core::digest::Key;
use tollgate_core::policy::{BodyWords, Policy};
use tollgate_core::request::{ContentValues, RequestView};
use tollgate_core::routes::{Destination, Rules};
use tollgate_core::store::{Marked, StoreUnavailable};
use tollgate_core::time::Timestamp;

use super::{Engine, NamedKey, Placed, Undecidable};

/// A request that a question describes, as the policies see it.
#[derive(Debug)]
pub struct Described<'r> {
    /// Where it goes, if the policies of its route judge it.
    pub destination: Option<Destination>,
    /// What the policies charge, or the outcome if the request lacks a key.
    pub claims: Result<Claims<&'r Arc<Policy>>, Outcome<&'r Arc<Policy>>>,
    /// The keys of the request, for operators.
    pub shown: Vec<(Key, String)>,
}

/// The policies that judge a described request.
#[derive(Clone, Copy, Debug)]
pub enum Judges<'r, 'q> {
    /// These.
    Policies(&'q [&'r Arc<Policy>]),
    /// Those of the route with this index.
    Route(usize),
    /// Those of the route that matches.
    Matching,
}

/// Describes a request at `wall`, the wall clock's time. With `key`, its client has this API key.
///
/// # Errors
/// If no route matches, or backends may interpret the request in two ways.
pub fn describe<'r>(
    rules: &'r Rules,
    judges: Judges<'r, '_>,
    request: &RequestView<'_>,
    wall: Timestamp,
    key: Option<&NamedKey<'r>>,
) -> Result<Described<'r>, Undecidable> {
    let (route, subject) = match judges {
        Judges::Policies(_) => (None, rules.clients().subject(request, None, wall)),
        Judges::Route(index) => (Some(index), rules.subject(request, index, wall)),
        Judges::Matching => {
            let Placed { route, subject, .. } = Placed::find(rules, request, wall)?;
            (Some(route), subject)
        }
    };
    let subject = match key {
        Some(key) => key.client(subject),
        None => subject,
    };
    let claims = match (judges, route) {
        (Judges::Policies(policies), _) => Claims::new(policies.iter().copied(), &subject),
        (_, Some(index)) => Claims::new(&rules.route(index).policies, &subject),
        (_, None) => Ok(Claims::known([])),
    };
    let shown = claims.iter().flat_map(|claims| claims.keys().zip(claims.policies()));
    let shown = shown.map(|(key, policy)| (key, subject.shown_key(policy))).collect();
    let random = || fastrand::u64(..);
    let destination = route.map(|route| rules.destination(route, &subject, random));
    Ok(Described { destination, claims, shown })
}

/// What policies find in the body of a request that is described. None: they need no body.
pub fn body_values<'p>(
    policies: impl IntoIterator<Item = &'p Arc<Policy>, IntoIter: Clone>,
    headers: &HeaderMap,
    body: &str,
) -> Option<ContentValues> {
    let words = BodyWords::of_policies(policies.into_iter().map(|policy| &**policy))?;
    if body.is_empty() {
        return Some(words.in_nothing());
    }
    let found = words.begin(headers).map(|mut reading| {
        reading.read(body.as_bytes());
        reading.end(headers)
    });
    Some(found.unwrap_or_else(|values| values))
}

impl Engine {
    /// Judges the claims of questions. `shown` returns the text of a client for operators.
    pub async fn judge_claims<'r>(
        &self,
        claims: &mut Claims<&'r Arc<Policy>>,
        headroom: Headroom,
        shown: impl Fn(&Report<&Arc<Policy>>) -> String,
    ) -> Decision<&'r Arc<Policy>> {
        let timer = &self.deciding.timer;
        let top = &self.deciding.seen.top;
        let begun = timer.begin();
        let limiter = &self.deciding.limiter;
        let mut decision = limiter.decide_claims(claims, headroom, self.clock.now()).await;
        timer.end(begun);
        top.observe_as(&decision, shown, self.clock.wall());
        self.warn(&mut decision);
        decision
    }

    /// What the claims of questions would be told now. Nothing is counted.
    pub async fn peek_claims<'r>(
        &self,
        claims: Claims<&'r Arc<Policy>>,
        headroom: Headroom,
    ) -> Decision<&'r Arc<Policy>> {
        let limiter = &self.deciding.limiter;
        limiter.peek_claims(claims, headroom, self.clock.now()).await.0
    }

    /// Settles what was charged, unless the mark was set before. Reports the shares that the
    /// settlement passes.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn settle_once(
        &self,
        settlement: MarkedSettlement<'_>,
    ) -> Result<Marked, StoreUnavailable> {
        let limiter = &self.deciding.limiter;
        let now = self.clock.now();
        let told = self.telling();
        let marked = limiter.settle_once(settlement, now, told).await?;
        if marked == Marked::Now {
            let MarkedSettlement { charged, policy, actual, .. } = settlement;
            self.deciding.units.settled(policy, charged.cost, actual);
        }
        Ok(marked)
    }

    /// The units in flight of this lease are held until it is given back.
    pub fn hold(&self, lease: &Lease) {
        self.begin(lease);
    }

    /// Gives back the units in flight of a lease that was held.
    pub fn give_back(&self, lease: &Lease) {
        self.end(lease, &Ending::default());
    }
}
