//! The course of a request from attempt to attempt: where it has failed, and whether
//! it may be sent once more.
//!
//! What was not sent may go elsewhere at once. What was sent is sent again if the
//! endpoint says that it has processed nothing (RFC 9113, section 8.7), if the
//! connection ended without any answer and the request does no harm twice, or if
//! its route says so. Of the first two kinds there is one repetition for each
//! request, and all of them are paid out of the budget of the upstream.

use http::Request;
use tokio::time::sleep;

use super::RequestBody;
use super::attempt::{Answer, Missed, Reach};
use super::retry;
use super::settings::{Conditions, RetryCause};
use super::upstream::{Tried, Upstream};
use crate::message::Failure;
use crate::time::monotonic;

/// Endpoints that one request tries to connect, at most: each of them may take
/// the whole time for it.
const MAX_TRIED: usize = 8;
/// What a request of a route without `retries` pays in, in percent of a retry.
const PERCENT: u8 = 20;

/// How a request has fared so far.
pub(super) struct Course<'a> {
    upstream: &'a Upstream,
    conditions: Conditions<'a>,
    /// Whether its route lets requests of its method be repeated.
    may_retry: bool,
    /// Where it failed.
    pub(super) tried: Tried,
    /// Whether it was sent again without a word of its route.
    is_repeated: bool,
    retries: u32,
}

impl<'a> Course<'a> {
    pub(super) fn new(
        upstream: &'a Upstream,
        conditions: Conditions<'a>,
        request: &Request<RequestBody>,
    ) -> Self {
        let may_retry = retry::allows(conditions.retries, request.method());
        match conditions.retries {
            Some(settings) if may_retry => upstream.budget().pay_in(settings.budget_percent),
            Some(_) => {}
            None => upstream.budget().pay_in(PERCENT),
        }
        Self {
            upstream,
            conditions,
            may_retry,
            tried: Tried::new(),
            is_repeated: false,
            retries: 0,
        }
    }

    /// Whether its route lets requests of its method be repeated.
    pub(super) fn may_retry(&self) -> bool {
        self.may_retry
    }

    /// Gives up an answer that the route would rather have from elsewhere.
    pub(super) fn second_thoughts(&mut self, answer: Answer) -> Result<Answer, Missed> {
        let Some(cause) = RetryCause::of_status(answer.response.status()) else {
            return Ok(answer);
        };
        let request = self.may_retry.then(|| answer.spare.as_ref()?.request()).flatten();
        match request {
            Some(request) if self.take_retry(cause) => Err(Missed::given_up(request)),
            _ => Ok(answer),
        }
    }

    /// The request for its next attempt, when it is time for it.
    pub(super) async fn again(&mut self, missed: Missed) -> Result<Request<RequestBody>, Failure> {
        let Missed { fault, request, reach, is_idempotent } = missed;
        let request = *request.ok_or(fault.failure())?;
        let is_free = match reach {
            Reach::Unsent => {
                self.tried.len() < MAX_TRIED && !self.upstream.is_exhausted(&self.tried)
            }
            // It has cost the endpoint nothing, and one that ends its connections in
            // order does so with all requests that are on their way.
            Reach::Unprocessed => !std::mem::replace(&mut self.is_repeated, true),
            // An endpoint that stops may accept a connection yet, and close it. A route
            // with `retries` has said what it wants.
            Reach::Unanswered => {
                is_idempotent && self.conditions.retries.is_none() && self.take_repetition()
            }
            Reach::Answered => false,
        };
        if is_free {
            return Ok(request);
        }
        if let Some(cause) = reach.cause()
            && !(self.may_retry && self.take_retry(cause))
        {
            return Err(fault.failure());
        }
        sleep(self.upstream.pause(self.retries)).await;
        Ok(request)
    }

    /// Whether it may be sent once more without a word of its route.
    pub(super) fn take_repetition(&mut self) -> bool {
        !std::mem::replace(&mut self.is_repeated, true) && self.upstream.budget().take(monotonic())
    }

    /// Whether the route allows one more retry, and can afford it.
    fn take_retry(&mut self, cause: RetryCause) -> bool {
        let is_allowed = self
            .conditions
            .retries
            .is_some_and(|settings| retry::covers(settings, cause, self.retries + 1));
        let is_taken = is_allowed && self.upstream.budget().take(monotonic());
        self.retries += u32::from(is_taken);
        is_taken
    }
}
