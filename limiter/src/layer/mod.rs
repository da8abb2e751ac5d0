//! Limits around a service of tower: for axum, tonic and hyper.
//!
//! The layer describes a request to the limiter and carries out the decision. The service that
//! was polled ready is the one that is called. The lease of a request ends with the body of its
//! response.

mod body;
mod future;
mod peer;
mod refuse;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, request};
use http_body::Body;
use tokio::sync::Semaphore;
use tower_layer::Layer;
use tower_service::Service;

pub use body::LimitedBody;
pub use future::ResponseFuture;
pub use refuse::{Refusal, Refuse};

use self::peer::Peers;
use crate::library::{Limiter, MAX_POLICIES, PolicyHandle};

/// The most requests that one layer delays at once, because each holds a connection and memory.
const MAX_DELAYED: usize = 10_000;

/// Puts limits around services.
///
/// ```
/// use axum::Router;
/// use axum::routing::get;
/// use tollgate_limiter::{Key, Limiter, Policy, RateLimitLayer};
///
/// let limiter = Limiter::builder()
///     .policy(Policy::new("per-client", Key::Ip, "100/minute".parse()?))
///     .build()?;
/// let layer = RateLimitLayer::new(&limiter, [limiter.policy("per-client")?]);
/// let app: Router = Router::new().route("/", get(async || "hello")).layer(layer);
/// // axum::serve(socket, app.into_make_service_with_connect_info::<SocketAddr>())
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// It needs the address of the peer for keys such as [`Key::Ip`](crate::Key::Ip). With the
/// feature `axum` it finds the one that axum keeps. It also finds a
/// [`SocketAddr`](std::net::SocketAddr) or an [`IpAddr`] in the extensions of the request. For
/// other servers see [`peer`](Self::peer).
///
/// The inner service finds the decision as an `Arc<`[`Decision`](crate::Decision)`>` in the
/// extensions of the request.
#[derive(Clone, Debug)]
pub struct RateLimitLayer<R = Refusal> {
    limits: Limits,
    refuse: R,
}

/// What the services of a layer share.
#[derive(Clone, Debug)]
struct Limits {
    limiter: Limiter,
    policies: Arc<[PolicyHandle]>,
    peers: Peers,
    /// One permit for each request that may be delayed.
    delays: Arc<Semaphore>,
}

impl Limiter {
    /// A layer that applies all policies of this limiter to each request. For some of them, see
    /// [`RateLimitLayer::new`].
    ///
    /// ```
    /// use tollgate_limiter::{Key, Limiter, Policy};
    ///
    /// let limiter = Limiter::new(Policy::new("per-client", Key::Ip, "100/minute".parse()?))?;
    /// let app: axum::Router = axum::Router::new().layer(limiter.layer());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If there are more than [`MAX_POLICIES`].
    pub fn layer(&self) -> RateLimitLayer {
        RateLimitLayer::new(self, self.policies())
    }
}

impl RateLimitLayer {
    /// Applies these policies to each request, all together. Their order has no effect.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy, RateLimitLayer};
    /// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Ip, "5/s".parse()?)).build()?;
    /// let layer = RateLimitLayer::new(&limiter, [limiter.policy("p")?]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If there are more than [`MAX_POLICIES`].
    pub fn new(limiter: &Limiter, policies: impl IntoIterator<Item = PolicyHandle>) -> Self {
        let policies: Arc<[_]> = policies.into_iter().collect();
        assert!(policies.len() <= MAX_POLICIES, "at most {MAX_POLICIES} policies judge a request");
        let limiter = limiter.clone();
        let delays = Arc::new(Semaphore::new(MAX_DELAYED));
        let limits = Limits { limiter, policies, peers: Peers::default(), delays };
        Self { limits, refuse: Refusal::default() }
    }
}

impl<R> RateLimitLayer<R> {
    /// Answers requests that are not admitted in another way.
    ///
    /// ```
    /// use bytes::Bytes;
    /// # use tollgate_limiter::{Decision, Key, Limiter, Policy, RateLimitLayer};
    /// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Ip, "5/s".parse()?)).build()?;
    /// # let layer = RateLimitLayer::new(&limiter, [limiter.policy("p")?]);
    ///
    /// let layer = layer.refuse(|_head: &http::request::Parts, _decision: &Decision| {
    ///     let mut response = http::Response::new(Bytes::from("slow down\n"));
    ///     *response.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
    ///     response
    /// });
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn refuse<N: Refuse>(self, with: N) -> RateLimitLayer<N> {
        RateLimitLayer { limits: self.limits, refuse: with }
    }

    /// Finds the address of the peer in this way. It must be the other end of the connection,
    /// and never the value of a header field, which clients can forge: for proxies see
    /// [`Client::trusted_proxy`](crate::Client::trusted_proxy).
    ///
    /// ```
    /// use axum::extract::ConnectInfo;
    /// use std::net::SocketAddr;
    /// # use tollgate_limiter::{Key, Limiter, Policy, RateLimitLayer};
    /// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Ip, "5/s".parse()?)).build()?;
    /// # let layer = RateLimitLayer::new(&limiter, [limiter.policy("p")?]);
    ///
    /// let layer = layer.peer(|head| {
    ///     head.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip())
    /// });
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn peer(
        mut self,
        find: impl Fn(&request::Parts) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.limits.peers = Peers::found_by(find);
        self
    }
}

impl<S, R: Clone> Layer<S> for RateLimitLayer<R> {
    type Service = RateLimit<S, R>;

    fn layer(&self, inner: S) -> RateLimit<S, R> {
        RateLimit { inner, limits: Arc::new(self.limits.clone()), refuse: self.refuse.clone() }
    }
}

/// A service with limits around it. [`RateLimitLayer`] makes it.
///
/// ```
/// use tollgate_limiter::{Key, Limiter, Policy, RateLimit, RateLimitLayer};
/// use tower::Layer as _;
/// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Ip, "5/s".parse()?)).build()?;
/// # let layer = RateLimitLayer::new(&limiter, [limiter.policy("p")?]);
///
/// let service: RateLimit<axum::Router> = layer.layer(axum::Router::new());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateLimit<S, R = Refusal> {
    inner: S,
    limits: Arc<Limits>,
    refuse: R,
}

impl<S, B, D, R> Service<Request<B>> for RateLimit<S, R>
where
    S: Service<Request<B>, Response = Response<D>> + Clone,
    D: Body<Data = Bytes>,
    R: Refuse,
{
    type Response = Response<LimitedBody<D>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture<S, B, R> {
        // A clone is not ready: it stays, and the one that is ready is called.
        let next = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, next);
        let Limits { limiter, policies, peers, .. } = &*self.limits;
        let (head, body) = request.into_parts();
        let check = limiter.check_request(policies, &head, peers.find(&head));
        let request = Request::from_parts(head, body);
        ResponseFuture::new(check, (ready, request), Arc::clone(&self.limits), self.refuse.clone())
    }
}
