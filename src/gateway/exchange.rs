//! What is remembered of a request until it has been answered, and how it is
//! answered.

use std::rc::Rc;
use std::sync::Arc;

use http::header::ORIGIN;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response};
use smallvec::SmallVec;

use super::entry::Entry;
use super::{Client, Gateway, ResponseBody};
use crate::algorithm::Retry;
use crate::decision::Decision;
use crate::engine::{Judgement, Settlement};
use crate::message::{AnswerStyle, Failure, Refusal, X_REQUEST_ID, request_id};
use crate::policy::Policy;
use crate::proxy::RequestBody;
use crate::time::Timestamp;

/// What is remembered of a request until it has been answered.
#[derive(Debug)]
pub(super) struct Exchange<'g> {
    gateway: &'g Rc<Gateway>,
    request_id: HeaderValue,
    style: AnswerStyle,
    /// Whether a script of another origin asks.
    is_cross_origin: bool,
    /// The index of the route that it takes, as soon as that is known.
    route: Option<usize>,
    /// Its line in the access log, if there is one.
    entry: Option<Box<Entry>>,
    /// What it owes its counters, if it owes them anything.
    owed: Option<Box<Settlement>>,
}

impl<'g> Exchange<'g> {
    /// Names a request whose head has just come, at this time by the wall clock.
    pub(super) fn begin(
        gateway: &'g Rc<Gateway>,
        client: &Client,
        head: &mut Parts,
        wall: Timestamp,
    ) -> Self {
        let request_id = request_id(&mut head.headers);
        Self {
            gateway,
            style: AnswerStyle::choose(gateway.snapshot.problem_json, &head.method, &head.headers),
            is_cross_origin: head.headers.contains_key(ORIGIN),
            route: None,
            entry: Entry::begin(gateway, client, head, wall, &request_id),
            owed: None,
            request_id,
        }
    }

    /// Notes what rules and limiter say, before anybody acts on it.
    pub(super) fn judged(&mut self, judgement: &mut Judgement<'_>) {
        self.route = Some(judgement.route);
        self.owed =
            Settlement::new(&self.gateway.engine, std::mem::take(&mut judgement.decision.lease));
        if let Some(entry) = &mut self.entry {
            entry.judged(judgement);
        }
    }

    /// Notes that the request goes to an upstream, with this body.
    pub(super) fn forwarded(&mut self, headers: &mut HeaderMap, body: &RequestBody) {
        if let Some(owed) = &mut self.owed {
            let progress = body.progress();
            let received = progress.map(|it| Box::new(move || it.bytes()) as Box<dyn Fn() -> u64>);
            owed.forwarded(headers, received);
        }
    }

    /// The answer to a request that asked for too much.
    pub(super) fn refusal(
        &self,
        decision: &Decision<&Arc<Policy>>,
        retry: Retry,
    ) -> Response<ResponseBody> {
        let binding = decision.binding();
        let mut names: SmallVec<[&str; 4]> =
            decision.violated().map(|policy| &*policy.name).collect();
        // The policy that binds comes first: stable, so the others keep their order.
        names.sort_by_key(|name| binding.is_none_or(|report| *report.policy.name != **name));
        let refusal = Refusal {
            policies: &names,
            limit: binding.map_or(0, |report| report.verdict.limit),
            remaining: binding.map_or(0, |report| report.verdict.remaining),
            wait: match retry {
                Retry::After(wait) => Some(wait),
                Retry::Now | Retry::Never => None,
            },
            template: binding.and_then(|report| report.policy.response.as_ref()),
        };
        self.style.refusal(&refusal, &self.request_id).map(ResponseBody::local)
    }

    /// The response as the client gets it: a failure in words, its limits on
    /// everything that was judged, and its line written when all has been sent.
    pub(super) fn end(
        mut self,
        answer: Result<Response<ResponseBody>, Failure>,
        decision: Option<&Decision<&Arc<Policy>>>,
    ) -> Response<ResponseBody> {
        if let Some(entry) = &mut self.entry {
            entry.answered(&answer);
        }
        let mut response = answer.unwrap_or_else(|failure| {
            self.style.failure(failure, &self.request_id).map(ResponseBody::local)
        });
        if let Some(owed) = &mut self.owed {
            owed.answered(&response);
        }
        let is_local = response.body().is_local();
        let headers = response.headers_mut();
        self.gateway.change(self.route, is_local, headers);
        headers.insert(X_REQUEST_ID, self.request_id);
        if let Some(decision) = decision {
            self.gateway.snapshot.headers.write(decision, self.is_cross_origin, headers);
        }
        if let Some(entry) = &mut self.entry {
            entry.begun(&mut response);
        }
        response.map(|body| body.followed_by(self.entry, self.owed))
    }
}
