//! The end of leases: settled, released or renewed, by any node.

use std::sync::Arc;

use futures_util::future::join_all;
use http::StatusCode;
use tollgate_core::decision::{ChargedCounter, MarkedSettlement};
use tollgate_core::digest::Counter;
use tollgate_core::meter::{MeterSpec, Usage};
use tollgate_core::policy::{Cost, Policy, Preflights};
use tollgate_core::store::{Mark, Marked, Source};
use tollgate_core::time::{Span, Timestamp};

use super::prepare::Asking;
use super::problem::{Problem, json};
use super::question::{LeaseCall, LeasesCall, MAX_CHECKS, Parts, parts, ttl};
use super::reply::{Answered, LeaseDone, LeaseReply, Replies};
use super::state::ApiState;
use crate::check::lease::{End, GivenBack, LeaseToken, LeasedCharge, Renewal, Renewed, Unsealed};
use crate::snapshot::Snapshot;

/// How far the clocks of nodes may be apart: the mark of a lease lasts longer by this.
const CLOCKS: Span = Span::from_secs(10);

/// What becomes of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Settle,
    Release,
    Renew,
}

/// A call with leases, beside its body.
pub struct Ending<'r> {
    pub asking: Asking<'r>,
    pub state: &'r ApiState,
    pub verb: Verb,
}

/// What one element of a call asks.
#[derive(Clone, Copy, Debug)]
enum Wish<'c> {
    Settle(Spent<'c>),
    Renew(Span),
}

/// What a request has cost.
#[derive(Clone, Copy, Debug)]
enum Spent<'c> {
    /// These units, under each policy.
    Units(u64),
    /// These tokens, of this model. Policies that count no tokens, or know no price of the model,
    /// keep what they have charged.
    Tokens(Usage, Option<&'c str>),
}

impl Spent<'_> {
    /// The units under a policy that has charged `charged` units.
    fn units(&self, policy: &Policy, charged: u64) -> u64 {
        match (self, &policy.cost) {
            (Self::Units(units), _) => *units,
            (
                Self::Tokens(usage, model),
                Cost::Metered { meter: MeterSpec::Usage { tariff, .. }, .. },
            ) => {
                let entry = tariff.prices().and_then(|prices| prices.of_request(*model));
                tariff.units(usage, entry).unwrap_or(charged)
            }
            (Self::Tokens(..), _) => charged,
        }
    }

    /// The units or tokens in total.
    const fn sum(&self) -> u64 {
        match self {
            Self::Units(units) => *units,
            Self::Tokens(usage, _) => usage.all_input().saturating_add(usage.output),
        }
    }

    /// How a lease ends that is settled so. Tokens of other kinds, or of another model, may have
    /// another cost under one of the policies.
    fn end(&self) -> End {
        match self {
            Self::Units(units) => End::Settled(*units),
            Self::Tokens(Usage { input, cache_read, cache_write, output }, model) => {
                // All nodes compute the same digest.
                let digest = Counter::of(|digest| {
                    digest.value(b"tokens of a request");
                    for count in [input, cache_read, cache_write, output] {
                        digest.value(&count.to_be_bytes());
                    }
                    if let Some(model) = model {
                        digest.value(model.as_bytes());
                    }
                });
                End::Used(digest.bits())
            }
        }
    }
}

/// A charge of a lease that can be ended.
struct Open<'t> {
    leased: &'t LeasedCharge,
    policy: Arc<Policy>,
    counter: ChargedCounter,
}

impl Open<'_> {
    /// When the units of this charge of the lease were counted, by the clock of their server.
    fn taken(&self, token: &LeaseToken) -> Timestamp {
        self.leased.charged.at.unwrap_or(token.taken)
    }
}

impl Ending<'_> {
    /// Answers a call. Each lease is ended alone.
    ///
    /// # Errors
    /// If the call has a mistake, or its only lease cannot be ended.
    pub async fn answer(&self, call: LeasesCall) -> Result<Answered, Problem> {
        let Parts { all: calls, is_batch } = parts(call, MAX_CHECKS)?;
        let mut wishes = Vec::with_capacity(calls.len());
        for (index, call) in calls.iter().enumerate() {
            let at = if is_batch { format!("/leases/{index}") } else { String::new() };
            wishes.push(self.wish(call).map_err(|problem| problem.within(&at))?);
        }
        let answers = join_all(wishes.into_iter().map(|(lease, wish)| self.one(lease, wish))).await;
        if is_batch {
            // Those that have failed can be asked for again.
            let may_succeed = |it: &Result<_, Problem>| {
                it.as_ref().is_err_and(|it| it.status == StatusCode::SERVICE_UNAVAILABLE)
            };
            let is_final = !answers.iter().any(may_succeed);
            let reply = |answer: Result<LeaseDone, Problem>| match answer {
                Ok(done) => LeaseReply::Done(done),
                Err(problem) => LeaseReply::Failed(problem.document()),
            };
            let answers = answers.into_iter().map(reply).collect();
            let response = json(StatusCode::OK, &Replies { answers });
            return Ok(Answered { response, is_final });
        }
        let only = answers.into_iter().next();
        let done = only.unwrap_or_else(|| Err(Problem::bad_request("there is no lease")))?;
        Ok(Answered { response: json(StatusCode::OK, &done), is_final: true })
    }

    fn wish<'c>(&self, call: &'c LeaseCall) -> Result<(&'c str, Wish<'c>), Problem> {
        let missing = |field| Problem::bad_request(format!("\"{field}\" is missing"));
        let lease = call.lease.as_deref().ok_or_else(|| missing("lease"))?;
        let surplus = |field: &str, is_there: bool| match is_there {
            true => Err(Problem::bad_request(format!("\"{field}\" has no meaning here"))
                .at(&format!("/{field}"))),
            false => Ok(()),
        };
        let wish = match self.verb {
            Verb::Settle => {
                surplus("ttl", call.ttl.is_some())?;
                surplus("model", call.model.is_some() && call.usage.is_none())?;
                match (call.actual, call.usage) {
                    (Some(units), None) => Wish::Settle(Spent::Units(units)),
                    (None, Some(tokens)) => {
                        Wish::Settle(Spent::Tokens(tokens.into(), call.model.as_deref()))
                    }
                    (None, None) => return Err(missing("actual")),
                    (Some(_), Some(_)) => {
                        let detail = "beside \"usage\" there is \"actual\"";
                        return Err(Problem::bad_request(detail).at("/actual"));
                    }
                }
            }
            Verb::Release => {
                surplus("ttl", call.ttl.is_some())?;
                surplus("actual", call.actual.is_some())?;
                surplus("usage", call.usage.is_some())?;
                surplus("model", call.model.is_some())?;
                Wish::Settle(Spent::Units(0))
            }
            Verb::Renew => {
                surplus("actual", call.actual.is_some())?;
                surplus("usage", call.usage.is_some())?;
                surplus("model", call.model.is_some())?;
                let max: Span = self.asking.leases.max_ttl.into();
                match &call.ttl {
                    Some(text) => Wish::Renew(ttl(text, max)?),
                    None => Wish::Renew(self.asking.leases.ttl.into()),
                }
            }
        };
        Ok((lease, wish))
    }

    /// Ends one lease. A call that has failed can be made again.
    async fn one(&self, text: &str, wish: Wish<'_>) -> Result<LeaseDone, Problem> {
        let at_lease = |problem: Problem| problem.at("/lease");
        let token = self.open(text).map_err(at_lease)?;
        let charges = self.charges(&token).map_err(at_lease)?;
        let done = match wish {
            Wish::Settle(spent) => self.settle(&token, &charges, spent).await,
            Wish::Renew(ttl) => self.renew(token.clone(), &charges, ttl).await,
        };
        done.map_err(at_lease)
    }

    /// The lease, if it has not ended, and this node can end it.
    fn open(&self, text: &str) -> Result<LeaseToken, Problem> {
        let secret = self.asking.gateway.snapshot().rules.clients().secret();
        let token = match self.state.sealer.open(text, secret) {
            Unsealed::Lease(token) => *token,
            Unsealed::Foreign => {
                let detail =
                    "the lease is of another store, or of a node that has lost its counters";
                return Err(Problem::gone(detail));
            }
            Unsealed::Invalid => return Err(Problem::bad_request("this is not a lease")),
        };
        if token.expires <= self.asking.wall {
            return Err(Problem::gone("the lease has ended, and its units stay charged"));
        }
        let is_local = |charge: &LeasedCharge| charge.charged.source == Source::Local;
        let needs_node = token.held != 0 || token.charges.iter().any(is_local);
        if needs_node && token.node != self.state.shared.node {
            let detail = format!("another node holds the lease: {}", token.place);
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, detail));
        }
        Ok(token)
    }

    /// The charges of a lease, with their policies and counters.
    ///
    /// # Errors
    /// If one of them cannot be ended. Then none is.
    fn charges<'t>(&self, token: &'t LeaseToken) -> Result<Vec<Open<'t>>, Problem> {
        let mut all = Vec::with_capacity(token.charges.len());
        for leased in &token.charges {
            let policy = match &leased.dynamic {
                Some(stated) => {
                    self.asking.caller.may_name(&stated.name)?;
                    stated.policy()
                }
                None => self.policy(leased.charged.policy),
            };
            if let (Some(policy), None) = (&policy, &leased.dynamic) {
                self.asking.caller.may_charge(policy)?;
            }
            let counter = policy.as_deref().and_then(|policy| leased.charged.counter(policy));
            match policy.zip(counter) {
                Some((policy, counter)) => all.push(Open { leased, policy, counter }),
                // It was tried, and is not tried any more.
                None if leased.is_shadow => {}
                None => {
                    return Err(Problem::gone(
                        "a policy of the lease has changed or is gone, and its units stay charged",
                    ));
                }
            }
        }
        Ok(all)
    }

    /// The policy with this counter: one of the file, or one that routes have beside those.
    fn policy(&self, counter: Counter) -> Option<Arc<Policy>> {
        let Snapshot { policies, rules, .. } = &**self.asking.gateway.snapshot();
        let all = policies.iter().chain(rules.policies());
        let find = |policy: &Arc<Policy>| match &policy.preflights {
            _ if policy.counter == counter => Some(Arc::clone(policy)),
            Preflights::Bounded(bound) if bound.counter == counter => Some(Arc::clone(bound)),
            _ => None,
        };
        all.into_iter().find_map(find)
    }

    async fn settle(
        &self,
        token: &LeaseToken,
        charges: &[Open<'_>],
        spent: Spent<'_>,
    ) -> Result<LeaseDone, Problem> {
        let end = spent.end();
        let mark = mark(token, end)?;
        let mut most = None;
        for charge in charges {
            let actual = spent.units(&charge.policy, charge.leased.charged.cost);
            most = most.max(Some(actual));
            if let Marked::Before(found) = self.set(charge, token, &mark, actual).await? {
                check_same(found, end)?;
            }
        }
        match self.state.shared.held.give_back(token.held, end.value()) {
            GivenBack::Now(is_done) => {
                // If the owner has ended, so have its units.
                let _ = is_done.await;
            }
            GivenBack::Before(found) => check_same(found, end)?,
            GivenBack::Unknown => {}
        }
        let actual = most.unwrap_or_else(|| spent.sum());
        Ok(LeaseDone { actual: Some(actual), ..LeaseDone::default() })
    }

    async fn renew(
        &self,
        mut token: LeaseToken,
        charges: &[Open<'_>],
        ttl: Span,
    ) -> Result<LeaseDone, Problem> {
        let wall = self.asking.wall;
        if token.charges.is_empty() {
            // It has no mark, so it can be renewed for ever.
            token.issued = wall;
        }
        let mut end_ms = wall.plus(ttl).since(token.issued).as_millis_ceil();
        if end_ms > End::MAX_RENEWED_MS {
            return Err(Problem::bad_request("a lease can be renewed for five days"));
        }
        // What can fail comes before the first mark: a lease with a mark has a replacement.
        let seal = self.state.seal(self.asking.gateway)?;
        let renewal = self.begin_renewal(&token)?;
        let now = self.asking.gateway.engine().clock().now();
        for charge in charges {
            let mark = mark(&token, End::Renewed(end_ms))?;
            let unchanged = charge.leased.charged.cost;
            if let Marked::Before(value) = self.set(charge, &token, &mark, unchanged).await? {
                // The same call was made before: its answer may have been lost.
                end_ms = End::renewed_ms(value).ok_or_else(settled)?;
            }
        }
        let ids = [token.id, token.next_id()];
        token.id = token.next_id();
        token.expires = token.issued.plus(Span::from_millis(end_ms));
        let lasts = token.expires.since(wall);
        if let Some(renewal) = renewal {
            // The mark says which renewal was the first. Without one, the last renewal counts.
            let is_marked = !charges.is_empty();
            let old = if is_marked { &ids[..1] } else { &ids[..] };
            let renewed = renewal.replace(old, token.id, now.plus(lasts));
            self.renewed(renewed, is_marked)?;
        }
        Ok(LeaseDone {
            actual: None,
            lease: Some(seal.seal(&token)),
            expires_in_ms: Some(lasts.as_millis_ceil()),
        })
    }

    /// Begins to renew the units in flight that the lease holds, if it holds any. What fails before
    /// the end of the renewal leaves them as they are.
    fn begin_renewal(&self, token: &LeaseToken) -> Result<Option<Renewal<'_>>, Problem> {
        if token.held == 0 {
            return Ok(None);
        }
        self.state.shared.held.renew(token.held).map(Some).map_err(given_back)
    }

    /// A lease with a mark has a replacement, so it is renewed in any case.
    fn renewed(&self, renewed: Renewed, is_marked: bool) -> Result<(), Problem> {
        match renewed {
            Renewed::Planned => {}
            Renewed::Earlier(look) => self.state.look(look),
            Renewed::Superseded | Renewed::Ended(_) if is_marked => {}
            Renewed::Superseded => return Err(replaced()),
            Renewed::Ended(end) => return Err(given_back(end)),
        }
        Ok(())
    }

    async fn set(
        &self,
        charge: &Open<'_>,
        token: &LeaseToken,
        mark: &Mark,
        actual: u64,
    ) -> Result<Marked, Problem> {
        let engine = self.asking.gateway.engine();
        let settlement = MarkedSettlement {
            charged: &charge.leased.charged,
            policy: &charge.policy,
            counter: &charge.counter,
            mark,
            taken: charge.taken(token),
            actual,
        };
        let set = engine.settle_once(settlement).await;
        set.map_err(|error| {
            Problem::unavailable(format!("{error}; it is safe to make the same call again"))
        })
    }
}

/// Checks that a lease that should end so has not ended otherwise. `found` is the value of its
/// end.
///
/// # Errors
/// If it has.
fn check_same(found: u32, end: End) -> Result<(), Problem> {
    if found == end.value() {
        return Ok(());
    }
    Err(match End::renewed_ms(found) {
        Some(_) => replaced(),
        None => Problem::conflict("the lease was settled with another cost"),
    })
}

fn replaced() -> Problem {
    Problem::conflict("the lease was renewed: use the one that replaces it")
}

/// The units in flight of the lease are not held any more. `end` is how it has ended, if that is
/// known.
fn given_back(end: Option<u32>) -> Problem {
    match end {
        Some(_) => settled(),
        None => Problem::gone("the lease was given back"),
    }
}

fn settled() -> Problem {
    Problem::conflict("the lease was settled")
}

/// The mark of a lease that ends so. It lasts until no node accepts the lease any more.
///
/// # Errors
/// If the lease has no time that a mark can have. No node gives such a lease.
fn mark(token: &LeaseToken, end: End) -> Result<Mark, Problem> {
    let lasts = Span::from_micros(
        token.expires.since(token.issued).as_micros().saturating_add(CLOCKS.as_micros()),
    );
    let mark = Mark::new(token.id, end.value(), lasts);
    mark.map_err(|_| Problem::gone("the lease lasts longer than a lease can"))
}
