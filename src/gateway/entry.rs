//! A request's line in the access log, from its head to the end of its response.

use std::borrow::Cow;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, Uri};

use super::{Client, Gateway, ResponseBody};
use crate::decision::{Outcome, Report};
use crate::engine::Judgement;
use crate::message::{Carried, Failure};
use crate::proxy::BrokenResponse;
use crate::telemetry::Record;
use crate::time::{Span, Timestamp, monotonic};

/// A line that is being gathered; written when dropped, which is when the
/// response has been sent or the client has gone.
#[derive(Debug)]
pub(super) struct Entry {
    gateway: Rc<Gateway>,
    time: Timestamp,
    started: Instant,
    request_id: HeaderValue,
    client: IpAddr,
    method: Method,
    uri: Uri,
    /// 0 until there is a response.
    status: u16,
    bytes: u64,
    /// What a WebSocket carried in place of a body.
    carried: Option<Carried>,
    upstream_us: Option<u64>,
    /// The route's index.
    route: Option<usize>,
    /// The policy that bound, and what remained of it.
    bound: Option<(String, u64)>,
    /// A policy in shadow that would have refused.
    shadow: Option<String>,
    outcome: &'static str,
}

impl Entry {
    /// The line of a request whose head has just come; nothing if no log is kept.
    pub(super) fn begin(
        gateway: &Rc<Gateway>,
        client: &Client,
        head: &Parts,
        time: Timestamp,
        request_id: &HeaderValue,
    ) -> Option<Box<Self>> {
        gateway.log.as_ref()?;
        Some(Box::new(Self {
            gateway: Rc::clone(gateway),
            time,
            started: monotonic(),
            request_id: request_id.clone(),
            client: client.peer,
            method: head.method.clone(),
            uri: head.uri.clone(),
            status: 0,
            bytes: 0,
            carried: None,
            upstream_us: None,
            route: None,
            bound: None,
            shadow: None,
            outcome: "gone",
        }))
    }

    /// What rules and limiter said, before anybody acts on it.
    pub(super) fn judged(&mut self, judgement: &Judgement<'_>) {
        let Judgement { route, client_ip, decision, .. } = judgement;
        self.client = *client_ip;
        self.route = Some(*route);
        self.outcome = match decision.outcome {
            Outcome::Admit if !decision.delay.is_zero() => "delayed",
            // What is out of the ordinary says more than what is not.
            Outcome::Admit => {
                let outcomes = decision.enforced().map(Report::outcome);
                outcomes.max_by_key(|outcome| *outcome != "admitted").unwrap_or("admitted")
            }
            Outcome::Refuse(_) => decision.binding().map_or("refused", Report::outcome),
            Outcome::Unavailable(_) => "failed_closed",
            Outcome::Unverifiable(..) => "unverifiable",
            Outcome::Deny(_) | Outcome::Unauthorized(..) => "denied",
            Outcome::Ambiguous(_) => "ambiguous",
        };
        self.shadow = decision.shadow_refused().next().map(|policy| policy.name.to_string());
        self.bound = decision
            .binding()
            .map(|report| (report.policy.name.to_string(), report.verdict.remaining));
    }

    /// There is an answer, or a reason why there is none.
    pub(super) fn answered(&mut self, answer: &Result<Response<ResponseBody>, Failure>) {
        match answer {
            Ok(response) if response.body().is_local() => {}
            Ok(_) => self.upstream_us = Some(self.elapsed_us()),
            Err(failure) => self.outcome = failure.reason(),
        }
    }

    /// So many bytes of the response's body went out.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.bytes += u64::try_from(bytes).unwrap_or(u64::MAX);
    }

    /// The response ended before its end.
    pub(super) fn broke_off(&mut self, broken: BrokenResponse) {
        self.outcome = broken.reason();
    }

    /// The response begins.
    pub(super) fn begun(&mut self, response: &mut Response<ResponseBody>) {
        self.status = response.status().as_u16();
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let carried = Carried::default();
            response.extensions_mut().insert(carried.clone());
            self.carried = Some(carried);
        }
    }

    fn elapsed_us(&self) -> u64 {
        Span::from(monotonic().duration_since(self.started)).as_micros()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(log) = &self.gateway.log else {
            return;
        };
        // Whatever the limiter said, nobody was there to be answered.
        let outcome = if self.status == 0 { "gone" } else { self.outcome };
        let snapshot = &self.gateway.snapshot;
        let route = self.route.map(|index| snapshot.rules.route(index));
        let path = self.uri.path();
        let path = route.map_or(Cow::Borrowed(path), |route| route.path.masked(path));
        log.write(&Record {
            time: self.time,
            request_id: self.request_id.to_str().unwrap_or_default(),
            client: self.client,
            method: self.method.as_str(),
            path: &path,
            status: self.status,
            bytes: self.bytes + self.carried.as_ref().map_or(0, Carried::bytes),
            duration_us: self.elapsed_us(),
            upstream_us: self.upstream_us,
            route: route.map(|route| &*route.name),
            outcome,
            policy: self.bound.as_ref().map(|(policy, _)| &**policy),
            remaining: self.bound.as_ref().map(|(_, remaining)| *remaining),
            shadow: self.shadow.as_deref(),
        });
    }
}
