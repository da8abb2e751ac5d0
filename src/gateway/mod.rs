//! The life of a request, on one screen: see [`Gateway::handle`].

mod body;
mod entry;

use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::ORIGIN;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response};
use hyper::body::Incoming;
use smallvec::SmallVec;
use tower::Service;

use crate::algorithm::Retry;
use crate::limiter::{Decision, Outcome, Room};
use crate::message::{
    AnswerStyle, Failure, Forwarding, Refusal, Via, X_REQUEST_ID, request_id, strip_hop_by_hop,
};
use crate::proxy::{Proxy, RequestBody};
use crate::request::RequestView;
use crate::server::Peer;
use crate::snapshot::{Action, Snapshot};
use crate::telemetry::WorkerLog;
use crate::time::{Clock, Timestamp};

pub use body::ResponseBody;
use entry::Entry;

/// One worker's gateway: what it shares with the others, and its own ways to
/// the upstreams.
#[derive(Debug)]
pub struct Gateway {
    snapshot: Arc<Snapshot>,
    proxy: Proxy,
    clock: Clock,
    log: Option<WorkerLog>,
}

/// What all requests of one connection have in common.
#[derive(Debug)]
struct Client {
    peer: IpAddr,
    forwarding: Forwarding,
    /// The longest pause in a request's body.
    body_patience: Duration,
}

/// What rules and limiter say about a request.
#[derive(Debug)]
struct Judgement<'r> {
    /// The route's index.
    route: usize,
    /// Whose request it is.
    client: IpAddr,
    decision: Decision<'r>,
}

impl Gateway {
    /// A gateway for one worker; without `log` nothing is written down.
    pub fn new(
        snapshot: Arc<Snapshot>,
        proxy: Proxy,
        clock: Clock,
        log: Option<WorkerLog>,
    ) -> Self {
        Self { snapshot, proxy, clock, log }
    }

    /// The service for one connection from `peer`, in whose requests' bodies no
    /// pause is longer than `body_patience`.
    pub fn service(
        self: &Rc<Self>,
        peer: Peer,
        body_patience: Duration,
    ) -> impl Service<Request<Incoming>, Response = Response<ResponseBody>, Error = Infallible>
    + Clone
    + use<> {
        let gateway = Rc::clone(self);
        let client = Rc::new(Client {
            peer: peer.address.ip(),
            forwarding: Forwarding::new(peer.address, peer.local),
            body_patience,
        });
        tower::service_fn(move |request| {
            let (gateway, client) = (Rc::clone(&gateway), Rc::clone(&client));
            async move { Ok(gateway.handle(&client, request).await) }
        })
    }

    /// Writes the lines of the access log that wait for others to come.
    pub fn flush_log(&self) {
        if let Some(log) = &self.log {
            log.flush();
        }
    }

    /// The life of a request: name it, judge it, refuse it or act on it, tell
    /// the client about its limits, and write it down when all has been sent.
    async fn handle(
        self: &Rc<Self>,
        client: &Client,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        let now = self.clock.now();
        let (mut head, body) = request.into_parts();
        let id = request_id(&mut head.headers);
        let style = AnswerStyle::choose(self.snapshot.problem_json, &head.headers);
        let cross_origin = head.headers.contains_key(ORIGIN);
        let mut entry = Entry::begin(self, client, &head, now, &id);

        let judgement = self.judge(client, &head, now, entry.as_deref_mut()).await;
        let answer = match &judgement {
            Ok(Judgement { route, decision, .. }) => match decision.outcome {
                Outcome::Admit => self.act(client, *route, head, body, entry.as_deref_mut()).await,
                Outcome::Refuse(retry) => Ok(refuse(style, decision, retry, &id)),
                Outcome::Deny(_) => Err(Failure::KeyMissing),
            },
            Err(failure) => Err(*failure),
        };
        let mut response = answer.unwrap_or_else(|failure| {
            entry.iter_mut().for_each(|entry| entry.failed(failure));
            style.failure(failure, &id).map(ResponseBody::local)
        });
        response.headers_mut().insert(X_REQUEST_ID, id);
        if let Ok(Judgement { decision, .. }) = &judgement {
            self.snapshot.headers.write(decision, cross_origin, response.headers_mut());
        }
        match entry {
            Some(entry) => entry.follow(response),
            None => response,
        }
    }

    /// Which route, for whom, and what the limiter decides.
    async fn judge(
        &self,
        client: &Client,
        head: &Parts,
        now: Timestamp,
        entry: Option<&mut Entry>,
    ) -> Result<Judgement<'_>, Failure> {
        if head.method == Method::CONNECT {
            return Err(Failure::Tunnel);
        }
        let Snapshot { rules, limiter, .. } = &*self.snapshot;
        let view = RequestView::of(head, client.peer)?;
        let matched = rules.select(&view).ok_or(Failure::NoRoute)?;
        let route = matched.index;
        let subject = rules.subject(&view, matched, now);
        let decision = limiter.decide(&subject, Room::default(), now).await;
        let judgement = Judgement { route, client: subject.client_ip(), decision };
        if let Some(entry) = entry {
            entry.judged(&judgement);
        }
        Ok(judgement)
    }

    /// What becomes of an admitted request.
    async fn act(
        &self,
        client: &Client,
        route: usize,
        mut head: Parts,
        body: Incoming,
        entry: Option<&mut Entry>,
    ) -> Result<Response<ResponseBody>, Failure> {
        let route = &self.snapshot.routes[route];
        match &route.action {
            Action::Respond(fixed) => Ok(fixed.response().map(ResponseBody::local)),
            Action::Forward(upstream) => {
                let body = RequestBody::new(body, route.max_body_bytes, client.body_patience)?;
                self.introduce(client, &mut head);
                let request = Request::from_parts(head, body);
                let response = self.proxy.forward(*upstream, request, route.timeouts).await?;
                if let Some(entry) = entry {
                    entry.answered();
                }
                Ok(response.map(ResponseBody::upstream))
            }
        }
    }

    /// Writes into a request who asks, and through whom, for the backend to see.
    fn introduce(&self, client: &Client, head: &mut Parts) {
        strip_hop_by_hop(&mut head.headers);
        let is_trusted = self.snapshot.rules.trusts(client.peer);
        if !is_trusted {
            self.snapshot.rules.strip_claims(&mut head.headers);
        }
        client.forwarding.write(&mut head.headers, is_trusted);
        Via::write(&mut head.headers, head.version);
    }
}

/// The answer to a request that asked for too much.
fn refuse(
    style: AnswerStyle,
    decision: &Decision<'_>,
    retry: Retry,
    id: &HeaderValue,
) -> Response<ResponseBody> {
    let bound = decision.binding();
    // The policy that binds comes first.
    let names: SmallVec<[&str; 4]> = bound
        .map(|report| report.policy)
        .into_iter()
        .chain(
            decision
                .violated()
                .filter(|policy| bound.is_none_or(|report| !std::ptr::eq(report.policy, *policy))),
        )
        .map(|policy| &*policy.name)
        .collect();
    let refusal = Refusal {
        policies: &names,
        limit: bound.map_or(0, |report| report.verdict.limit),
        remaining: bound.map_or(0, |report| report.verdict.remaining),
        wait: match retry {
            Retry::After(wait) => Some(wait),
            Retry::Now | Retry::Never => None,
        },
        template: bound.and_then(|report| report.policy.response.as_ref()),
    };
    style.refusal(&refusal, id).map(ResponseBody::local)
}
