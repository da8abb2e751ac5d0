//! Decisions on questions, and their leases.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::HeaderName;
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use tollgate_core::decision::{Charged, Claims, Decision, Headroom, Outcome, Report};
use tollgate_core::digest::Key;
use tollgate_core::policy::{AuthFault, Mode, Policy};
use tollgate_core::time::Span;

use super::api_key::named_key;
use super::prepare::{Asking, Prepared, dynamic, prepare};
use super::problem::{Problem, json};
use super::question::{CheckCall, MAX_CHECKS, MAX_TOGETHER, Parts, parts};
use super::reply::{Answered, Replies, Reply};
use super::state::ApiState;
use crate::check::lease::{LeaseToken, LeasedCharge, Place, Seal};
use crate::message::add_wait;

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// A call of `/v1/check`, beside its body.
pub struct Check<'r> {
    pub asking: Asking<'r>,
    pub state: &'r ApiState,
    /// Where the caller has reached this node.
    pub place: &'r str,
    /// Whether a refusal has a status of its own.
    pub prefers_status: bool,
}

/// What a question needs for its lease. It is taken before anything is charged, because it can
/// fail.
struct ToLease<'r> {
    ttl: Span,
    seal: Seal,
    /// None: the question takes no units in flight.
    place: Option<Place<'r>>,
}

/// A question, and what it needs for its lease, if it asks for one.
type Ready<'r> = (Prepared<'r>, Option<ToLease<'r>>);

impl Check<'_> {
    /// Answers the questions of a call.
    ///
    /// # Errors
    /// If one of them has a mistake, or its lease could not be given. Then nothing is counted.
    pub async fn answer(&self, call: CheckCall) -> Result<Answered, Problem> {
        let together = call.together;
        let Parts { all: questions, is_batch } = parts(call, MAX_CHECKS)?;
        let at = |index: usize| if is_batch { format!("/checks/{index}") } else { String::new() };
        if together && !is_batch {
            return Err(Problem::bad_request("\"together\" needs \"checks\"").at("/together"));
        }
        let mut stated = Vec::with_capacity(questions.len());
        for (index, question) in questions.iter().enumerate() {
            if question.together && is_batch {
                let detail = "\"together\" is written beside \"checks\"";
                return Err(Problem::bad_request(detail).at(&format!("{}/together", at(index))));
            }
            let limit = dynamic(self.asking.caller, question);
            stated.push(limit.map_err(|problem| problem.within(&at(index)))?);
        }
        let mut named = Vec::with_capacity(questions.len());
        for (index, question) in questions.iter().enumerate() {
            let key = named_key(self.asking, question).await;
            named.push(key.map_err(|problem| problem.within(&at(index)))?);
        }
        let mut prepared = Vec::with_capacity(questions.len());
        for (index, question) in questions.iter().enumerate() {
            let stated = stated[index].as_ref();
            let named = named[index].as_ref();
            let question = prepare(self.asking, question, stated, named);
            prepared.push(question.map_err(|problem| problem.within(&at(index)))?);
        }
        let mut ready = self.ready(prepared)?;
        if together {
            return self.together(ready).await;
        }
        if is_batch {
            // The futures send their calls in the order of the questions.
            let answers = join_all(ready.into_iter().map(|it| self.one(it))).await;
            let is_final = is_final(answers.iter().map(|(_, decision)| &decision.outcome));
            let answers = answers.into_iter().map(|(reply, _)| reply).collect();
            let response = json(StatusCode::OK, &Replies { answers });
            return Ok(Answered { response, is_final });
        }
        let only = ready.pop().ok_or_else(|| Problem::bad_request("there is no question"))?;
        let (reply, decision) = self.one(only).await;
        let response = self.response(&decision, &reply);
        Ok(Answered { response, is_final: is_final([&decision.outcome]) })
    }

    /// The questions, with what they need for their leases.
    ///
    /// # Errors
    /// If one of the leases could not be given. Then the call has taken nothing.
    fn ready<'r>(&'r self, questions: Vec<Prepared<'r>>) -> Result<Vec<Ready<'r>>, Problem> {
        let needs_place = |it: &Prepared<'_>| it.lease.is_some() && it.holds_units();
        let needed = questions.iter().filter(|it| needs_place(it)).count();
        let held = &self.state.shared.held;
        let max = self.asking.leases.max;
        let mut places = held.reserve(needed, max).ok_or_else(|| {
            Problem::unavailable(format!(
                "this node has too few places for {needed} leases of requests in progress: it \
                 keeps at most {max} (check.http.leases.max)"
            ))
        })?;
        let ready = questions.into_iter().map(|question| {
            let Some(ttl) = question.lease else { return Ok((question, None)) };
            let seal = self.state.seal(self.asking.gateway)?;
            let place = if question.holds_units() { places.pop() } else { None };
            Ok((question, Some(ToLease { ttl, seal, place })))
        });
        ready.collect()
    }

    /// Decides one question.
    async fn one<'r>(
        &self,
        (mut question, to_lease): Ready<'r>,
    ) -> (Reply, Decision<&'r Arc<Policy>>) {
        let mut decision = self.decide(&mut question).await;
        let mut reply = self.reply(&question, &decision, None);
        self.lease(&question, to_lease, &mut decision, None, &mut reply);
        (reply, decision)
    }

    async fn decide<'r>(&self, question: &mut Prepared<'r>) -> Decision<&'r Arc<Policy>> {
        let gateway = self.asking.gateway;
        let uncounted = Outcome::Admit;
        let claims = match std::mem::replace(&mut question.claims, Err(uncounted)) {
            Ok(claims) => claims,
            Err(outcome) => return Decision::uncounted(outcome),
        };
        if question.is_peek {
            return gateway.engine().peek_claims(claims, question.headroom).await;
        }
        let mut claims = claims;
        let shown = |report: &Report<&Arc<Policy>>| question.shown(self.asking, report);
        gateway.judge_claims(&mut claims, question.headroom, shown).await
    }

    /// Decides all questions together: all are admitted, or none is.
    async fn together(&self, ready: Vec<Ready<'_>>) -> Result<Answered, Problem> {
        let (mut questions, to_lease): (Vec<_>, Vec<_>) = ready.into_iter().unzip();
        let is_peek = questions.iter().any(|it| it.is_peek);
        if is_peek && !questions.iter().all(|it| it.is_peek) {
            let detail = "questions that are decided together all count, or none does";
            return Err(Problem::bad_request(detail).at("/checks"));
        }
        let has_leases = questions.iter().any(|it| it.lease.is_some());
        // The room of one upstream says nothing about another.
        let rooms = questions.iter().filter(|it| it.is_elastic()).map(|it| it.headroom);
        let headroom = rooms.reduce(Headroom::and).unwrap_or_default();
        let mut all = Claims::known([]);
        let mut keys = Vec::with_capacity(questions.len());
        let mut outcome = None;
        for (index, question) in questions.iter_mut().enumerate() {
            let claims = match std::mem::replace(&mut question.claims, Err(Outcome::Admit)) {
                Ok(claims) => claims,
                Err(lacking) => {
                    outcome.get_or_insert(lacking);
                    keys.push(Vec::new());
                    continue;
                }
            };
            let own: Vec<Key> = claims.keys().collect();
            if has_leases && own.iter().any(|key| all.keys().any(|other| other == *key)) {
                let detail = "two questions charge one counter, so they cannot have leases";
                return Err(Problem::bad_request(detail).at(&format!("/checks/{index}/lease")));
            }
            keys.push(own);
            all.join(claims).map_err(|_| {
                let detail = "it charges the counter of another question under another limit";
                Problem::bad_request(detail).at(&format!("/checks/{index}"))
            })?;
        }
        if all.keys().count() > MAX_TOGETHER {
            let detail = format!("at most {MAX_TOGETHER} limits are decided together");
            return Err(Problem::bad_request(detail).at("/checks"));
        }
        let mut decision = match (outcome, is_peek) {
            (Some(outcome), _) => Decision::uncounted(outcome),
            (None, true) => self.asking.gateway.engine().peek_claims(all, headroom).await,
            (None, false) => {
                let shown = |report: &Report<&Arc<Policy>>| {
                    let key = key_of(report);
                    let owner = keys.iter().position(|own| own.contains(&key)).unwrap_or(0);
                    questions[owner].shown(self.asking, report)
                };
                self.asking.gateway.judge_claims(&mut all, headroom, shown).await
            }
        };
        let mut answers = Vec::with_capacity(questions.len());
        for ((question, to_lease), own) in questions.iter().zip(to_lease).zip(&keys) {
            let mut reply = self.reply(question, &decision, Some(own));
            self.lease(question, to_lease, &mut decision, Some(own), &mut reply);
            answers.push(reply);
        }
        let response = self.response(&decision, &Replies { answers });
        Ok(Answered { response, is_final: is_final([&decision.outcome]) })
    }

    fn reply(
        &self,
        question: &Prepared<'_>,
        decision: &Decision<&Arc<Policy>>,
        keys: Option<&[Key]>,
    ) -> Reply {
        let reports = decision.reports.iter().filter(|it| is_of(it, keys));
        let reports: Vec<&Report<&Arc<Policy>>> = reports.collect();
        let name = |policy: &Policy| {
            let stated = question.dynamic.as_ref().map(|stated| stated.name.clone());
            stated.unwrap_or_else(|| policy.name.to_string())
        };
        let reply = Reply::new(&decision.outcome, decision.delay, question.is_peek, &reports, name);
        Reply { key_id: question.key_id.clone(), ..reply }
    }

    /// Adds the lease of a question, if it asks for one and is admitted.
    fn lease(
        &self,
        question: &Prepared<'_>,
        to_lease: Option<ToLease<'_>>,
        decision: &mut Decision<&Arc<Policy>>,
        keys: Option<&[Key]>,
        reply: &mut Reply,
    ) {
        let is_admitted = matches!(decision.outcome, Outcome::Admit);
        let Some(ToLease { ttl, seal, place }) = to_lease.filter(|_| is_admitted) else { return };
        let engine = self.asking.gateway.engine();
        let shared = &self.state.shared;
        let taken = decision.lease.taken();
        let is_part = |key| keys.is_none_or(|keys| keys.contains(&key));
        let in_flight = decision.lease.take_in_flight(is_part);
        let until = engine.clock().now().plus(ttl);
        let id = random();
        let held = match place.filter(|_| !in_flight.is_empty()) {
            Some(place) => self.state.hold(engine, in_flight, id, until, place),
            None => 0,
        };
        let reports = decision.reports.iter().filter(|it| is_of(it, keys));
        let charge = |report: &Report<&Arc<Policy>>| {
            let charged = Charged::of(report)?;
            let dynamic = question.dynamic.clone();
            Some(LeasedCharge { charged, is_shadow: report.policy.mode == Mode::Shadow, dynamic })
        };
        let issued = engine.clock().wall();
        let token = LeaseToken {
            id,
            issued,
            expires: issued.plus(ttl),
            taken,
            node: shared.node,
            place: format!("{} at {}", shared.host, self.place),
            held,
            charges: reports.filter_map(charge).collect(),
        };
        reply.lease = Some(seal.seal(&token));
        reply.expires_in_ms = Some(ttl.as_millis_ceil());
    }

    fn status(&self, decision: &Decision<&Arc<Policy>>) -> StatusCode {
        match decision.outcome {
            _ if !self.prefers_status => StatusCode::OK,
            Outcome::Admit => StatusCode::OK,
            ref outcome if is_undecided(outcome) => StatusCode::SERVICE_UNAVAILABLE,
            Outcome::Unauthenticated(refusal) => match refusal.fault {
                AuthFault::TooManyFailures(_) => StatusCode::TOO_MANY_REQUESTS,
                _ => StatusCode::UNAUTHORIZED,
            },
            _ => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// The response to what one decision answers: a question, or several together.
    fn response(
        &self,
        decision: &Decision<&Arc<Policy>>,
        answer: &impl Serialize,
    ) -> Response<Bytes> {
        let mut response = json(self.status(decision), answer);
        if self.prefers_status {
            let fields = response.headers_mut();
            self.asking.gateway.snapshot().headers.write(decision, false, fields);
            if let Outcome::Unauthenticated(refusal) = decision.outcome {
                add_wait(refusal.fault, fields);
            }
            fields.insert(PREFERENCE_APPLIED, HeaderValue::from_static("status"));
        }
        response
    }
}

/// Whether a question could not be decided, because a store or the keys of tokens are away.
fn is_undecided(outcome: &Outcome<&Arc<Policy>>) -> bool {
    match outcome {
        Outcome::Unavailable(_) | Outcome::Unverifiable(..) => true,
        Outcome::Unauthenticated(refusal) => matches!(refusal.fault, AuthFault::KeysAway),
        _ => false,
    }
}

/// Whether the answer to questions with these outcomes is kept for the same call. If one of them
/// could not be decided and none is counted, the same call asks again.
fn is_final<'o>(outcomes: impl IntoIterator<Item = &'o Outcome<&'o Arc<Policy>>> + Clone) -> bool {
    let mut again = outcomes.clone().into_iter();
    again.any(|outcome| matches!(outcome, Outcome::Admit))
        || !outcomes.into_iter().any(is_undecided)
}

fn random() -> u128 {
    u128::from(fastrand::u64(..)) << 64 | u128::from(fastrand::u64(..))
}

fn key_of(report: &Report<&Arc<Policy>>) -> Key {
    Key { principal: report.client, counter: report.policy.counter }
}

fn is_of(report: &Report<&Arc<Policy>>, keys: Option<&[Key]>) -> bool {
    keys.is_none_or(|keys| keys.contains(&key_of(report)))
}
