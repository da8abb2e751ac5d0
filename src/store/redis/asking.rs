//! Asking the store, and what is done where it does not say anything.

use std::rc::Rc;

use bytes::Bytes;
use smallvec::SmallVec;

use super::clock::StoreClock;
use super::codec::{Answered, Encoder, Finding, decode};
use super::held::{Held, is_in_flight};
use super::here::Plan;
use super::parts::{self, Outcome, Part, Wanted};
use super::question::{Calls, Question};
use super::{Place, RedisStore};
use crate::store::{Answer, Charge, Decided, Source};
use crate::time::Timestamp;

impl RedisStore {
    /// Asks for all that is to be asked of these charges, in one step or as if it
    /// were one. When the future is dropped, what was sent is settled all the same.
    pub(super) async fn ask_for(
        self: &Rc<Self>,
        encoder: &Rc<Encoder>,
        charges: &[Charge<'_>],
        plan: Option<(&Plan, Timestamp)>,
        now: Timestamp,
    ) -> Decided {
        let wanted = Wanted::all(charges, plan.map(|(plan, _)| plan));
        let parts = Part::split(&wanted, |charge| self.place(encoder, charge));
        if let [part] = &*parts
            && let Some(decided) = self.known_refusal(part.place, &wanted, now)
        {
            return decided;
        }
        let calls = Calls::send(self, encoder, &wanted, &parts, now);
        let mut question = Question { store: self, encoder, charges, plan, now, calls };
        self.hear(encoder, &wanted, &parts, &mut question.calls, now).await
    }

    /// The decision, when all calls have been answered, or have failed.
    pub(super) async fn hear(
        &self,
        encoder: &Encoder,
        wanted: &[Wanted<'_>],
        parts: &[Part<'_>],
        calls: &mut Calls,
        now: Timestamp,
    ) -> Decided {
        let awaited = Held::ask(&self.held, wanted.iter().map(|it| &it.charge));
        let ended = calls.outcomes(self, parts, now).await;
        let mut outcomes: SmallVec<[Outcome; 1]> = SmallVec::new();
        for ((outcome, is_doubtful), part) in ended.into_iter().zip(parts) {
            outcomes.push(outcome);
            if is_doubtful {
                self.doubt(wanted, part);
            }
        }
        let decided = self.settle(encoder, wanted, parts, &mut outcomes, now);
        drop(awaited);
        decided
    }

    pub(super) fn place(&self, encoder: &Encoder, charge: &Charge<'_>) -> Place {
        self.servers.place(&encoder.layout().key(charge.key.principal))
    }

    /// What is known to be refused without asking. By the latest time that it
    /// may be in the store it must be refused; the numbers told are those of
    /// the earliest, so that no wait is too short.
    fn known_refusal(
        &self,
        place: Place,
        wanted: &[Wanted<'_>],
        now: Timestamp,
    ) -> Option<Decided> {
        let (earliest, latest) = self.clocks.borrow().get(&place)?.bounds(now);
        let denied = self.denied.borrow();
        let charges: SmallVec<[Charge<'_>; 4]> = wanted.iter().map(|it| it.charge).collect();
        denied.refuse(&charges, latest)?;
        let verdicts = denied.refuse(&charges, earliest)?;
        let answers = verdicts.into_iter().map(Answer::of_store).collect();
        Some(Decided { at: earliest, answers })
    }

    /// What an answer says. It also tells the store's time.
    pub(super) fn heard(&self, part: &Part<'_>, answer: &Bytes, now: Timestamp) -> Outcome {
        let answered = decode(&part.asked, answer)?;
        let clock = StoreClock::new(answered.at, now, self.clock.now());
        self.clocks.borrow_mut().insert(part.place, clock);
        if self.last_clock.replace(Some(clock)).is_none() {
            self.shared.here.set_clock(now, clock.bounds(now).0);
        }
        Ok(answered)
    }

    /// The store may count units in flight of which it did not tell.
    fn doubt(&self, wanted: &[Wanted<'_>], part: &Part<'_>) {
        let mut held = self.held.borrow_mut();
        let charges = part.indices.iter().map(|&index| &wanted[index].charge);
        charges.filter(|it| is_in_flight(it)).for_each(|it| held.doubt(it.key, it.algorithm));
    }

    /// One decision of what all parts say, and of what is said here in place of
    /// those that say nothing.
    fn settle(
        &self,
        encoder: &Encoder,
        wanted: &[Wanted<'_>],
        parts: &[Part<'_>],
        outcomes: &mut [Outcome],
        now: Timestamp,
    ) -> Decided {
        let refused = outcomes.iter().any(|it| it.as_ref().is_ok_and(|it| it.refused));
        let (unjudged, sent) = parts::unjudged(wanted, parts, outcomes);
        let local = if unjudged.is_empty() {
            SmallVec::new()
        } else {
            let nodes = self.nodes.get();
            self.shared.fallback.judge(&unjudged, sent, refused, nodes, now)
        };
        let refused = refused || parts::refuses(&unjudged, &local);
        let is_whole = parts.len() == 1;
        for (part, outcome) in parts.iter().zip(outcomes.iter_mut()) {
            let Ok(answered) = outcome else { continue };
            if refused && !answered.refused {
                self.post(encoder, part.place, &part.refund(answered), now);
                answered.withdraw(&part.asked);
            } else {
                self.note_leases(wanted, part, answered);
                if is_whole {
                    self.learn(wanted, part, answered);
                } else if !refused {
                    self.forget(part);
                }
            }
        }
        let answers = parts::combine(wanted.len(), parts, outcomes, local);
        if !refused {
            self.hold(wanted, &answers);
        }
        Decided { at: parts::decided_at(outcomes, now), answers }
    }

    /// Tells this node's ledgers what was leased, counted or refused. A ledger of
    /// leases counts in its verdicts what it holds itself.
    fn note_leases(&self, wanted: &[Wanted<'_>], part: &Part<'_>, answered: &mut Answered) {
        let (refused, at) = (answered.refused, answered.at);
        let found = part.indices.iter().zip(&part.asked).zip(&answered.before);
        for (((&index, asked), before), finding) in found.zip(&mut answered.findings) {
            let (charge, admitted) = (&wanted[index].charge, finding.verdict.admitted);
            let became = (admitted && !refused, admitted && refused);
            let here = &self.shared.here;
            if let Some(verdict) = here.asked(charge, asked.ask, before.as_ref(), became, at) {
                finding.verdict = verdict;
            }
        }
    }

    /// Remembers what is in flight now.
    fn hold(&self, wanted: &[Wanted<'_>], answers: &[Answer]) {
        let mut held = self.held.borrow_mut();
        for (Wanted { charge, .. }, answer) in wanted.iter().zip(answers) {
            if answer.verdict.admitted && answer.source == Source::Store {
                held.take(charge);
            }
        }
    }

    /// What was known of these counters is out of date.
    fn forget(&self, part: &Part<'_>) {
        let mut denied = self.denied.borrow_mut();
        part.asked.iter().for_each(|asked| denied.forget(&asked.key));
    }

    /// Remembers who is over a limit now, and brings up to date what is known.
    fn learn(&self, wanted: &[Wanted<'_>], part: &Part<'_>, answered: &Answered) {
        let is_over = |(it, found): (&Wanted<'_>, &Finding)| {
            !found.verdict.admitted || found.verdict.remaining < it.charge.cost
        };
        let mut denied = self.denied.borrow_mut();
        if wanted.iter().zip(&answered.findings).any(is_over)
            || wanted.iter().any(|it| denied.knows(&it.charge.key))
        {
            let charges: SmallVec<[Charge<'_>; 4]> = wanted.iter().map(|it| it.charge).collect();
            denied.learn(&charges, &answered.after(&part.asked), answered.at);
        }
    }
}
