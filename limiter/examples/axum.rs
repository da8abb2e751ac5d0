//! Limits in an axum application on a multi-threaded runtime, by counters in memory:
//! ten requests a minute for each address.
//!
//!     cargo run --package tollgate-limiter --example axum
//!     for n in $(seq 12); do curl --silent --output /dev/null --write-out '%{http_code}\n' 127.0.0.1:3000; done

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Response, StatusCode};
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use axum::routing::get;
use tollgate_limiter::algorithm::{Algorithm, Quota, SlidingWindow};
use tollgate_limiter::decision::{
    Claims, Dialect, Ending, HeaderSettings, HeaderWriter, Headroom, Outcome, OwnedDecision,
};
use tollgate_limiter::digest::{Secret, SharedSecret};
use tollgate_limiter::policy::{ClientSettings, Clients, KeyExpr, Policy};
use tollgate_limiter::request::RequestView;
use tollgate_limiter::shared::SharedLimiter;
use tollgate_limiter::store::MemoryStore;
use tollgate_limiter::time::{Clock, Span};

const CLIENTS_IN_MEMORY: usize = 100_000;

/// What all requests share.
#[derive(Clone)]
struct Limits {
    limiter: SharedLimiter,
    policies: Arc<[Arc<Policy>]>,
    clients: Arc<Clients>,
    headers: Arc<HeaderWriter>,
    clock: Clock,
}

impl Limits {
    fn new() -> Result<Self, Box<dyn Error>> {
        let quota = Quota::new(10, Span::from_secs(60))?;
        let algorithm = Algorithm::SlidingWindow(SlidingWindow::new(quota));
        let policy = Policy::new("per-client", KeyExpr::Ip, algorithm);
        let settings = ClientSettings::default();
        let secret = Arc::new(SharedSecret::new(Secret::random()));
        let dialects = vec![Dialect::XRatelimit, Dialect::RetryAfter];
        let memory = Arc::new(MemoryStore::new(CLIENTS_IN_MEMORY));
        Ok(Self {
            clients: Arc::new(Clients::new(settings, policy.keys(), secret)),
            policies: Arc::new([Arc::new(policy)]),
            limiter: SharedLimiter::in_memory(memory, Clock::System),
            headers: Arc::new(HeaderWriter::new(&HeaderSettings { dialects, expose_cors: false })),
            clock: Clock::System,
        })
    }

    /// The claims of a request own all they need, so the request can go on.
    fn claims(
        &self,
        request: Request,
        peer: IpAddr,
    ) -> Result<(Claims<Arc<Policy>>, Request), StatusCode> {
        let (head, body) = request.into_parts();
        let view = RequestView::of(&head, peer).map_err(|_| StatusCode::BAD_REQUEST)?;
        let subject = self.clients.subject(&view, None, self.clock.wall());
        let claims = Claims::new(&self.policies, &subject).map_err(|_| StatusCode::FORBIDDEN)?;
        let claims = claims.into_owned();
        Ok((claims, Request::from_parts(head, body)))
    }

    fn refusal(&self, decision: &OwnedDecision) -> axum::response::Response {
        let mut response = Response::new(axum::body::Body::from("too many requests\n"));
        *response.status_mut() = match decision.outcome {
            Outcome::Refuse(_) => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        self.headers.write(decision, false, response.headers_mut());
        response
    }
}

async fn limit(
    State(limits): State<Limits>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> axum::response::Response {
    let (claims, request) = match limits.claims(request, peer.ip()) {
        Ok(claimed) => claimed,
        Err(status) => return status.into_response(),
    };
    let decision = limits.limiter.check(claims, Headroom::default()).await;
    if !matches!(decision.outcome, Outcome::Admit) {
        return limits.refusal(&decision);
    }
    let mut response = next.run(request).await;
    limits.headers.write(&decision, false, response.headers_mut());
    let ending = Ending { status: Some(response.status()), ..Ending::default() };
    limits.limiter.end(decision.lease, &ending);
    response
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let limits = Limits::new()?;
    let app = Router::new()
        .route("/", get(async || "hello\n"))
        .layer(middleware::from_fn_with_state(limits, limit));
    let socket = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(socket, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
