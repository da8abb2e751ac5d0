//! Decisions while the store is away.
//!
//! Each charge is decided as its consistency settings say. If the node decides locally, the
//! cost must fit into two counters:
//!
//! - the last state that the store reported of the counter, with what this node has admitted
//!   since, until that state ends (see [`Fallback::learn`]);
//! - this node's share of the limit: the limit divided by the number of nodes last known to
//!   be alive, and at least 1. Units that were admitted by the share count until their
//!   window ends, through any number of outages.
//!
//! When the store is back, this node reports the units that were admitted meanwhile and
//! still count, as [debts].
//!
//! The store may have counted a call that was under way when it failed. The fallback decides
//! the charge again. It becomes a debt only if a late reply says that the store refused it.
//!
//! All times are those of the store's clock, as far as this node knows it.

mod count;
mod debts;
mod filter;
mod owe;
mod shared_debts;

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use smallvec::SmallVec;

pub(crate) use self::debts::{Debt, ServerStatus, Since};
use tollgate_core::algorithm::{Algorithm, Op, Retry, State, Verdict};
use tollgate_core::consistency::{Consistency, OnFailure};
use tollgate_core::digest::{Counter, Key};
use tollgate_core::store::{Answer, Charge, Correction, MemoryStore, Source, Units, fresh};
use tollgate_core::time::{Span, Timestamp};

use self::filter::PrincipalFilter;
use self::shared_debts::SharedDebts;
use super::ask::Ask;

/// The maximum number of counters whose last state is known.
const MAX_KNOWN: usize = 1 << 18;
/// The wait that is reported to clients that `Deny` refuses.
const RETRY: Span = Span::SECOND;

/// Decides while the store is away. All workers share it.
#[derive(Debug)]
pub(crate) struct Fallback {
    /// The units that this node has admitted of its shares.
    memory: Arc<MemoryStore>,
    /// The last states that the store reported, with the units that this node has admitted since.
    known: MemoryStore,
    filter: PrincipalFilter,
    debts: SharedDebts,
}

/// A charge that the store has not decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undecided<'a> {
    pub(crate) charge: Charge<'a>,
    /// Whether the store may have counted it.
    pub(crate) is_doubtful: bool,
    /// Whether there was no memory to ask the store, which may be well. Then the request is
    /// refused, whatever its policy says of a store that is away.
    pub(crate) is_overload: bool,
}

impl<'a> Undecided<'a> {
    /// A charge that the store was not asked for.
    pub(crate) const fn without_store(charge: Charge<'a>) -> Self {
        Self { charge, is_doubtful: false, is_overload: false }
    }

    /// How the charge is decided.
    const fn treatment(&self) -> OnFailure {
        match self.is_overload {
            true => OnFailure::Deny,
            false => self.charge.consistency.on_failure,
        }
    }
}

/// A charge that this node decides by two counters.
struct Local<'a> {
    charge: Charge<'a>,
    is_doubtful: bool,
    since: Since,
    /// This node's share of the limit.
    share: Algorithm,
    /// Whether the last state of the counter is known.
    is_known: bool,
    /// The verdicts, when it is judged.
    of_share: Option<Verdict>,
    of_known: Option<Verdict>,
}

impl Local<'_> {
    /// The charge on the share.
    fn share(&self) -> Charge<'_> {
        Charge { algorithm: &self.share, ..self.charge }
    }

    /// The verdict of the share. A cost that only exceeds the share fits again when the store decides.
    fn waiting_for_store(&self, verdict: Verdict) -> Verdict {
        let fits = self.charge.cost <= self.charge.algorithm.capacity();
        let retry = match verdict.retry {
            Retry::Never if fits => Retry::After(RETRY),
            told => told,
        };
        Verdict { retry, ..verdict }
    }

    fn stops_by_share(&self) -> bool {
        self.charge.binding && self.of_share.is_some_and(|verdict| !verdict.admitted)
    }

    fn stops_by_known(&self) -> bool {
        self.charge.binding && self.of_known.is_some_and(|verdict| !verdict.admitted)
    }

    /// Whether it refuses the request.
    fn stops(&self) -> bool {
        self.stops_by_share() || self.stops_by_known()
    }

    /// The verdict of both counters.
    fn verdict(&self) -> Option<Verdict> {
        match (self.of_share, self.of_known) {
            (Some(share), Some(known)) => Some(both(share, known)),
            (share, _) => share,
        }
    }

    fn is_admitted(&self) -> bool {
        self.verdict().is_some_and(|verdict| verdict.admitted)
    }
}

impl Fallback {
    pub(crate) fn new(memory: Arc<MemoryStore>) -> Self {
        // Tests start thousands of nodes.
        let most = if cfg!(test) { MAX_KNOWN >> 6 } else { MAX_KNOWN };
        Self::knowing(memory, MemoryStore::new(most))
    }

    fn knowing(memory: Arc<MemoryStore>, known: MemoryStore) -> Self {
        Self { memory, known, filter: PrincipalFilter::default(), debts: SharedDebts::default() }
    }

    /// A copy with all that this node, one of `nodes`, knows of these charges.
    pub(crate) fn copied_for(&self, charges: &[Charge<'_>], nodes: u64, now: Timestamp) -> Self {
        let store = MemoryStore::of_one_decision;
        let copy = Self::knowing(Arc::new(store()), store());
        for Charge { key, algorithm, .. } in charges {
            if let Some(state) = self.memory.state(*key) {
                copy.memory.put(*key, &share(algorithm, nodes), state, now);
            }
            if self.knows(*key, algorithm, now)
                && let Some(state) = self.known.state(*key)
            {
                copy.filter.insert(key, algorithm, now);
                copy.known.put(*key, algorithm, state, now);
            }
        }
        copy
    }

    /// Decides charges without a reply of the store, on one of `nodes` nodes. If another
    /// charge refuses the request (`refused`), nothing is counted.
    pub(crate) fn judge(
        &self,
        charges: &[Undecided<'_>],
        refused: bool,
        nodes: u64,
        now: Timestamp,
    ) -> SmallVec<[Answer; 4]> {
        let denied = |it: &Undecided<'_>| it.charge.binding && it.treatment() == OnFailure::Deny;
        let refused = refused || charges.iter().any(denied);
        let is_local = |it: &&Undecided<'_>| it.treatment() == OnFailure::Local;
        let local = charges.iter().filter(is_local).map(|it| self.local(it, nodes, now));
        let mut local: SmallVec<[Local<'_>; 4]> = local.collect();
        if !local.is_empty() {
            self.judge_local(&mut local, refused, now);
        }
        if !refused && !local.iter().any(Local::stops) {
            for it in local.iter_mut().filter(|it| it.is_admitted() && !it.is_doubtful) {
                let since = mem::take(&mut it.since);
                self.owe(&it.charge, it.charge.cost, since, now);
            }
        }
        let mut verdicts = local.iter().filter_map(Local::verdict);
        let answer = |it @ Undecided { charge, .. }: &Undecided<'_>| match it.treatment() {
            OnFailure::Local => {
                let verdict = verdicts.next().expect("one verdict for each local charge");
                Answer::new(verdict, Source::Local)
            }
            OnFailure::Allow => by_policy(charge, true, now),
            OnFailure::Deny => by_policy(charge, false, now),
        };
        charges.iter().map(answer).collect()
    }

    /// A charge that this node, one of `nodes`, decides, before it is judged.
    fn local<'a>(&self, undecided: &Undecided<'a>, nodes: u64, now: Timestamp) -> Local<'a> {
        let Undecided { charge, is_doubtful, .. } = *undecided;
        let since = self.since(&charge, nodes, now);
        let share = share(charge.algorithm, nodes);
        let is_known = self.knows(charge.key, charge.algorithm, now);
        Local { charge, is_doubtful, since, share, is_known, of_share: None, of_known: None }
    }

    /// Judges charges by the shares and by the known states. All counters of both kinds count the
    /// request, or none does.
    fn judge_local(&self, local: &mut [Local<'_>], refused: bool, now: Timestamp) {
        for Local { charge, .. } in local.iter().filter(|it| it.is_known) {
            self.filter.insert(&charge.key, charge.algorithm, now);
        }
        self.judge_known(local, refused, now);
        let refused = refused || local.iter().any(Local::stops_by_known);
        let charges: SmallVec<[Charge<'_>; 4]> = local.iter().map(Local::share).collect();
        let verdicts = take_or_look(&self.memory, &charges, refused, now);
        drop(charges);
        for (it, verdict) in local.iter_mut().zip(verdicts) {
            it.of_share = Some(it.waiting_for_store(verdict));
        }
        if !refused && local.iter().any(Local::stops_by_share) {
            for Local { charge, of_known, .. } in local.iter() {
                if of_known.is_some_and(|verdict| verdict.admitted) {
                    let op = Op::Cancel { cost: charge.cost, taken: now };
                    self.known.correct(charge, op, now);
                }
            }
            self.judge_known(local, true, now);
        }
    }

    /// The verdicts of the known states.
    fn judge_known(&self, local: &mut [Local<'_>], refused: bool, now: Timestamp) {
        let known = local.iter().filter(|it| it.is_known).map(|it| it.charge);
        let known: SmallVec<[Charge<'_>; 4]> = known.collect();
        let verdicts = take_or_look(&self.known, &known, refused, now);
        for (it, verdict) in local.iter_mut().filter(|it| it.is_known).zip(verdicts) {
            it.of_known = Some(verdict);
        }
    }

    /// What is known when a debt of this charge begins, on one of `nodes` nodes.
    pub(crate) fn since(&self, charge: &Charge<'_>, nodes: u64, now: Timestamp) -> Since {
        let is_bucket = matches!(charge.algorithm, Algorithm::TokenBucket(_));
        let is_known = is_bucket && self.knows(charge.key, charge.algorithm, now);
        let level = is_known.then(|| self.known.state(charge.key)).flatten();
        Since { level, nodes }
    }

    /// Corrects a charge that this node counted.
    pub(crate) fn correct(&self, correction: &Correction<'_>, nodes: u64, now: Timestamp) {
        let Correction { ref charge, op, .. } = *correction;
        self.change(charge, op, nodes, now);
        match op {
            Op::Settle { reserved, actual, .. } if actual > reserved => {
                let since = self.since(charge, nodes, now);
                let Charge { key, algorithm, .. } = *charge;
                self.debts.with(|it| it.add(key, algorithm, actual - reserved, since, now));
            }
            Op::Settle { reserved, actual, taken } => {
                self.debts.with(|it| it.relieve(charge.key, reserved - actual, taken, now));
            }
            Op::Give { cost, taken } | Op::Cancel { cost, taken } => {
                self.debts.with(|it| it.relieve(charge.key, cost, taken, now));
            }
            Op::Take(_) | Op::Count(_) | Op::Peek => {}
        }
    }

    /// Removes a charge from the share that this node admitted at `taken`, because the store
    /// has counted it.
    pub(crate) fn counted_by_store(
        &self,
        charge: &Charge<'_>,
        taken: Timestamp,
        nodes: u64,
        now: Timestamp,
    ) {
        if consumes(charge.algorithm) {
            let algorithm = share(charge.algorithm, nodes);
            let share = Charge { algorithm: &algorithm, ..*charge };
            self.memory.correct(&share, Op::Give { cost: charge.cost, taken }, now);
        }
    }

    /// Applies a correction to the share of a counter and to its known state.
    pub(crate) fn change(&self, charge: &Charge<'_>, op: Op, nodes: u64, now: Timestamp) {
        let algorithm = share(charge.algorithm, nodes);
        self.memory.correct(&Charge { algorithm: &algorithm, ..*charge }, op, now);
        self.change_known(charge.key, charge.algorithm, op, now);
    }

    /// Applies a correction to the known state of a counter.
    fn change_known(&self, key: Key, algorithm: &Algorithm, op: Op, now: Timestamp) {
        if self.knows(key, algorithm, now) {
            self.filter.insert(&key, algorithm, now);
            let consistency = Consistency::default();
            let known = Charge { key, algorithm, cost: 0, binding: false, consistency };
            self.known.correct(&known, op, now);
        }
    }

    /// Whether a state with so many remaining units tells more than the share of one of `nodes`
    /// nodes: the share has as many units or more.
    pub(crate) fn limits(algorithm: &Algorithm, remaining: u64, nodes: u64) -> bool {
        let of_share = match nodes {
            0 | 1 => algorithm.capacity(),
            _ => share(algorithm, nodes).capacity(),
        };
        remaining < of_share
    }

    /// Stores a counter's state that the store reported, if it [tells more](Self::limits) than the
    /// share (`is_limit`), or an older one is known.
    pub(crate) fn learn(
        &self,
        key: Key,
        algorithm: &Algorithm,
        state: Option<State>,
        is_limit: bool,
        now: Timestamp,
    ) {
        // It is not known when units in flight are given back.
        if matches!(algorithm, Algorithm::Concurrency(_)) {
            return;
        }
        match state {
            Some(state) if is_limit || self.knows(key, algorithm, now) => {
                self.filter.insert_until(&key, algorithm.expires_at(&state));
                self.known.put(key, algorithm, state, now);
            }
            Some(_) => {}
            None => self.forget(key, algorithm, now),
        }
    }

    /// Stores a counter's state that the store reported, which leaves so many units.
    pub(crate) fn note(
        &self,
        key: Key,
        algorithm: &Algorithm,
        state: State,
        remaining: u64,
        now: Timestamp,
    ) {
        if !matches!(algorithm, Algorithm::Concurrency(_)) {
            self.filter.insert_until(&key, algorithm.expires_at(&state));
            self.known.put_known(key, algorithm, state, remaining, now);
        }
    }

    /// The store removes units of a counter: its known state is corrected or forgotten.
    pub(crate) fn take_away(&self, key: Key, algorithm: &Algorithm, ask: Ask, now: Timestamp) {
        let op = match ask {
            Ask::Give { cost, taken } => Op::Give { cost, taken },
            Ask::Cancel { cost, taken } => Op::Cancel { cost, taken },
            _ => return self.forget(key, algorithm, now),
        };
        self.change_known(key, algorithm, op, now);
    }

    /// Removes the known state of a counter, because it is out of date.
    fn forget(&self, key: Key, algorithm: &Algorithm, now: Timestamp) {
        if self.knows(key, algorithm, now) {
            self.known.take_out(key, algorithm, now);
        }
    }

    /// Regular housekeeping. `now` is the clock of this node. If it was set back far, the known
    /// states are forgotten, as in [`MemoryStore::housekeep`].
    pub(crate) fn housekeep(&self, now: Timestamp) {
        self.known.housekeep(now);
    }

    /// Whether a state of any counter of this principal may be known. It takes no lock.
    pub(crate) fn may_know(&self, key: &Key, now: Timestamp) -> bool {
        self.filter.may_contain(key, now)
    }

    /// Whether the last state of a counter is known.
    fn knows(&self, key: Key, algorithm: &Algorithm, now: Timestamp) -> bool {
        self.may_know(&key, now) && self.known.holds(key, algorithm, now)
    }

    /// Up to `most` debts that can be reported, by the `status` of their servers. The outcome
    /// of each must be recorded by [`Self::settled`] or [`Self::not_counted`].
    pub(crate) fn owed(
        &self,
        most: usize,
        now: Timestamp,
        status: impl Fn(&Key) -> ServerStatus,
    ) -> Vec<Debt> {
        self.debts.with(|it| it.take(most, now, status))
    }

    /// The number of counters that have a debt. It takes no lock.
    pub(crate) fn counters_with_debts(&self) -> usize {
        self.debts.counters()
    }

    /// The debts of these counters, which are reported before the store is asked about them. The
    /// outcome of each must be recorded likewise.
    pub(crate) fn owed_of<'c>(
        &self,
        keys: impl IntoIterator<Item = &'c Key>,
        now: Timestamp,
    ) -> Vec<Debt> {
        self.debts.with(|it| keys.into_iter().filter_map(|key| it.take_of(key, now)).collect())
    }

    /// Records that a debt has no reply in time. The reply may come later.
    pub(crate) fn overdue(&self, debt: &mut Debt) {
        self.debts.with(|it| it.overdue(debt));
    }

    /// Records that the store has counted a debt.
    pub(crate) fn settled(&self, debt: Debt) {
        self.debts.with(|it| it.settled(debt));
    }

    /// Records that it will never be known whether the store has counted a debt.
    pub(crate) fn unknown(&self, debt: Debt) {
        self.debts.with(|it| it.unknown(debt));
    }

    /// Adds the units of debts to `sums`.
    pub(crate) fn add_units(&self, sums: &mut HashMap<Counter, Units>) {
        self.debts.with(|debts| {
            for (counter, units) in debts.units() {
                sums.entry(counter).or_default().debts = *units;
            }
        });
    }

    /// Records that the store has certainly not counted a debt. It is reported again.
    pub(crate) fn not_counted(&self, debt: Debt, now: Timestamp) {
        self.debts.with(|it| it.not_counted(debt, now));
    }
}

/// The verdicts on charges of which all are counted or none, or which are not to be counted.
fn take_or_look(
    store: &MemoryStore,
    charges: &[Charge<'_>],
    refused: bool,
    now: Timestamp,
) -> SmallVec<[Verdict; 4]> {
    match refused {
        false => store.apply(charges, now).into_iter().collect(),
        true => charges.iter().map(|charge| store.look(charge, now)).collect(),
    }
}

/// The answer to a charge that this node admits or refuses as its policy says.
fn by_policy(charge: &Charge<'_>, admitted: bool, now: Timestamp) -> Answer {
    let mut verdict = fresh(charge, now);
    if !admitted {
        verdict = Verdict { admitted, retry: Retry::After(RETRY), ..verdict };
    }
    Answer::new(verdict, Source::Policy)
}

/// Whether admitted units stay counted. Units in flight end with their request, whose answer
/// names the counter that counted it. A check for a ban consumes nothing.
pub(crate) const fn consumes(algorithm: &Algorithm) -> bool {
    !matches!(algorithm, Algorithm::Concurrency(_) | Algorithm::Ban(_))
}

/// The verdict on a cost that must fit into two counters.
fn both(one: Verdict, other: Verdict) -> Verdict {
    Verdict {
        admitted: one.admitted && other.admitted,
        limit: one.limit,
        remaining: one.remaining.min(other.remaining),
        retry: one.retry.max(other.retry),
        reset_after: one.reset_after.max(other.reset_after),
        delay: one.delay.max(other.delay),
    }
}

/// The share of a limit that one of `nodes` nodes may admit itself.
fn share(algorithm: &Algorithm, nodes: u64) -> Algorithm {
    let limit = (algorithm.limit() / nodes.max(1)).max(1);
    algorithm.with_limit(limit).unwrap_or_else(|_| algorithm.clone())
}

#[cfg(test)]
mod tests;
