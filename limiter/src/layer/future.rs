//! The way of one request through the limits.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};
use tollgate_core::decision::Ending;
use tower_service::Service;

use super::{LimitedBody, Limits, Refuse, body};
use crate::library::{Check, Decision, Lease, Missing, Outcome};

pin_project! {
    /// The response of a service under limits. It judges the request, delays it if a leaky
    /// bucket demands it, and calls the inner service.
    ///
    /// ```
    /// # use tollgate_limiter::{RateLimit, ResponseFuture};
    /// # use bytes::Bytes;
    /// use http::{Request, Response};
    /// use http_body::Body;
    /// use tower::Service;
    ///
    /// fn call<S, B, D>(limited: &mut RateLimit<S>, request: Request<B>) -> ResponseFuture<S, B>
    /// where
    ///     S: Service<Request<B>, Response = Response<D>> + Clone,
    ///     D: Body<Data = Bytes>,
    /// {
    ///     limited.call(request)
    /// }
    /// ```
    pub struct ResponseFuture<S, B, R = super::Refusal>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B, S::Future>,
        limits: Arc<Limits>,
        refuse: R,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, B, F> {
        Checking { check: Check, call: Option<(S, Request<B>)> },
        Delayed {
            sleep: Pin<Box<Sleep>>,
            // Held until the delay is over.
            permit: OwnedSemaphorePermit,
            admitted: Option<Admitted<S, B>>,
        },
        Called { #[pin] response: F, decision: Arc<Decision>, lease: Unanswered },
    }
}

impl<S: Service<Request<B>>, B, R> ResponseFuture<S, B, R> {
    pub(super) const fn new(
        check: Check,
        call: (S, Request<B>),
        limits: Arc<Limits>,
        refuse: R,
    ) -> Self {
        Self { state: State::Checking { check, call: Some(call) }, limits, refuse }
    }
}

impl<S, B, D, R> Future for ResponseFuture<S, B, R>
where
    S: Service<Request<B>, Response = Response<D>>,
    D: Body<Data = Bytes>,
    R: Refuse,
{
    type Output = Result<Response<LimitedBody<D>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Checking { check, call } => {
                    let decision = ready!(Pin::new(check).poll(cx));
                    let (service, request) = call.take().expect("the decision comes once");
                    match this.limits.admit(decision) {
                        Admission::Now(decision) => {
                            Admitted::new(service, request, decision).call()
                        }
                        Admission::Delayed(sleep, permit, decision) => {
                            let admitted = Some(Admitted::new(service, request, decision));
                            State::Delayed { sleep, permit, admitted }
                        }
                        Admission::None(decision) => {
                            let (head, _) = request.into_parts();
                            let mut response = this.refuse.refuse(&head, &decision);
                            decision.write_headers(response.headers_mut());
                            return Poll::Ready(Ok(LimitedBody::refusal(response)));
                        }
                    }
                }
                StateProjection::Delayed { sleep, admitted, .. } => {
                    ready!(sleep.as_mut().poll(cx));
                    admitted.take().expect("the delay ends once").call()
                }
                StateProjection::Called { response, decision, lease } => {
                    let answered = ready!(response.poll(cx));
                    let lease = lease.0.take().expect("the response comes once");
                    return Poll::Ready(match answered {
                        Ok(mut response) => {
                            decision.write_headers(response.headers_mut());
                            Ok(LimitedBody::admitted(response, lease))
                        }
                        Err(error) => {
                            body::fail(lease);
                            Err(error)
                        }
                    });
                }
            };
            this.state.set(next);
        }
    }
}

/// An admitted request that its service does not have yet.
struct Admitted<S, B> {
    service: S,
    request: Request<B>,
    decision: Decision,
    lease: Unanswered,
}

impl<S: Service<Request<B>>, B> Admitted<S, B> {
    fn new(service: S, request: Request<B>, mut decision: Decision) -> Self {
        let lease = Unanswered(Some(decision.take_lease()));
        Self { service, request, decision, lease }
    }

    /// Calls the service with the decision as an extension of the request.
    fn call(self) -> State<S, B, S::Future> {
        let Self { mut service, mut request, decision, lease } = self;
        let decision = Arc::new(decision);
        request.extensions_mut().insert(Arc::clone(&decision));
        State::Called { response: service.call(request), decision, lease }
    }
}

/// The lease of a request without a response. Dropping it ends the request: its client has left.
struct Unanswered(Option<Lease>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(lease) = self.0.take() {
            lease.end(&Ending::default());
        }
    }
}

/// When a request goes on.
enum Admission {
    Now(Decision),
    Delayed(Pin<Box<Sleep>>, OwnedSemaphorePermit, Decision),
    None(Decision),
}

impl Limits {
    fn admit(&self, mut decision: Decision) -> Admission {
        if decision.missing() == Some(Missing::Peer) {
            self.peers.warn();
        }
        match decision.outcome() {
            Outcome::Admit { delay } if delay.is_zero() => Admission::Now(decision),
            Outcome::Admit { delay } => match Arc::clone(&self.delays).try_acquire_owned() {
                Ok(permit) => Admission::Delayed(Box::pin(sleep(delay)), permit, decision),
                Err(_) => {
                    decision.crowded_out();
                    Admission::None(decision)
                }
            },
            Outcome::Refuse { .. } | Outcome::Unavailable | Outcome::KeyMissing => {
                Admission::None(decision)
            }
        }
    }
}

impl<S: Service<Request<B>>, B, R> fmt::Debug for ResponseFuture<S, B, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
