//! Services under limits.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt as _, stream};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use tollgate_core::decision::HeaderSettings;
use tollgate_core::meter::{MeterSpec, Tariff, UsageApi};
use tollgate_core::policy::{self, Cost, Count, Left, Reservation, ReserveSettings};
use tollgate_core::time::monotonic;
use tower::{ServiceExt as _, service_fn};
use tower_layer::Layer as _;
use tower_service::Service;

use super::*;
use crate::library::{Algorithm, Clock, Decision, Key, KeySource, Parts, Policy, Settle, Store};

type Inner = Request<Empty<Bytes>>;

fn policy(limit: &str) -> Policy {
    Policy::new("p", Key::Ip, limit.parse().unwrap())
}

fn layer(policy: Policy) -> (Limiter, RateLimitLayer) {
    let limiter = Limiter::builder().policy(policy).clock(Clock::manual()).build().unwrap();
    let layer = RateLimitLayer::new(&limiter, [limiter.policy("p").unwrap()]);
    (limiter, layer)
}

/// The same with a policy that only a file can have.
fn layer_of_file(
    limit: &str,
    write: impl FnOnce(&mut policy::Policy),
) -> (Limiter, RateLimitLayer) {
    let (mut policies, client) = Limiter::builder().policy(policy(limit)).compile().unwrap();
    write(Arc::make_mut(&mut policies[0]));
    let keys = KeySource::default();
    let store = Store::default();
    let clock = Clock::manual();
    let headers = HeaderSettings::default();
    let parts = Parts { policies, client, keys, store, clock, headers, overrides: None };
    let limiter = parts.build().unwrap();
    let layer = limiter.layer();
    (limiter, layer)
}

/// The units that the client of all requests has used.
async fn used(limiter: &Limiter) -> u64 {
    let policy = limiter.policy("p").unwrap();
    let decision = limiter.check_text(&policy, "192.0.2.7", 0).unwrap().await;
    decision.reports().next().unwrap().used()
}

fn request(fields: &[(&str, &str)]) -> Inner {
    let peer: SocketAddr = "192.0.2.7:1234".parse().unwrap();
    let mut request = Request::post("/").extension(peer);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(Empty::new()).unwrap()
}

async fn hello(_: Inner) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

/// The status, the fields and the body of the response.
async fn ask<S, D, R>(service: &RateLimit<S, R>, request: Inner) -> Response<Bytes>
where
    S: Service<Inner, Response = Response<D>, Error = Infallible> + Clone,
    D: Body<Data = Bytes, Error = Infallible>,
    R: Refuse,
{
    let response = service.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}

#[test]
fn services_and_their_futures_can_be_used_on_any_thread() {
    const fn is_service<S>(_: &S)
    where
        S: Service<Request<axum::body::Body>> + Clone + Send + Sync + 'static,
        S::Future: Send,
    {
    }
    let (_, layer) = layer(policy("1/s"));
    is_service(&layer.layer(axum::Router::new()));
    let _: axum::Router = axum::Router::new().layer(layer);
}

#[tokio::test]
async fn requests_beyond_the_limit_get_a_problem_with_all_fields() {
    let service =
        layer(policy("1/minute").algorithm(Algorithm::FixedWindow)).1.layer(service_fn(hello));
    let admitted = ask(&service, request(&[])).await;
    assert_eq!((admitted.status(), &admitted.body()[..]), (StatusCode::OK, &b"hello"[..]));
    assert_eq!(admitted.headers()["x-ratelimit-remaining"], "0");
    let refused = ask(&service, request(&[])).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "60");
    assert_eq!(refused.headers()["ratelimit"], "\"p\";r=0;t=60");
    assert_eq!(refused.headers()["content-type"], "application/problem+json");
    let problem: serde_json::Value = serde_json::from_slice(refused.body()).unwrap();
    assert_eq!(problem["violated-policies"], serde_json::json!(["p"]));
    assert_eq!(problem["retry-after-ms"], 60_000);
    let text = ask(&service, request(&[("accept", "text/html")])).await;
    assert_eq!(&text.body()[..], b"Quota Exceeded: Try again in 60 seconds.\n");
    // All lines of a field are one list (RFC 9110, section 5.3).
    let both = [("accept", "text/html"), ("accept", "application/json")];
    let problem = ask(&service, request(&both)).await;
    assert_eq!(problem.headers()["content-type"], "application/problem+json");
}

#[tokio::test]
async fn calls_of_grpc_are_refused_trailers_only() {
    let service = layer(policy("1/day")).1.layer(service_fn(hello));
    let call = || request(&[("content-type", "application/grpc")]);
    ask(&service, call()).await;
    let response = service.clone().oneshot(call()).await.unwrap();
    assert!(response.body().is_end_stream(), "the fields are the trailers");
    assert_eq!(
        (response.status(), &response.headers()["grpc-status"]),
        (StatusCode::OK, &"8".parse().unwrap())
    );
    assert!(response.headers().contains_key("grpc-retry-pushback-ms"));
}

/// A service that must be polled ready before each call, and whose clones are not ready.
#[derive(Debug, Default)]
struct Permitted {
    is_ready: bool,
}

impl Clone for Permitted {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Service<Inner> for Permitted {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Inner) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "the service that was polled ready is called");
        std::future::ready(Ok(Response::new(Full::from("hello"))))
    }
}

#[tokio::test]
async fn the_service_that_was_polled_ready_is_called() {
    let mut service = layer(policy("9/s")).1.layer(Permitted::default());
    for _ in 0..3 {
        let response = service.ready().await.unwrap().call(request(&[])).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn without_a_peer_requests_are_answered_with_500_and_the_inner_service_finds_the_decision() {
    let see = async |request: Inner| {
        let decision = request.extensions().get::<Arc<Decision>>().unwrap();
        let remaining = decision.reports().next().unwrap().remaining();
        Ok::<_, Infallible>(Response::new(Full::from(remaining.to_string())))
    };
    let service = layer(policy("9/day")).1.layer(service_fn(see));
    let unknown = ask(&service, Request::new(Empty::new())).await;
    assert_eq!(unknown.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(&ask(&service, request(&[])).await.body()[..], b"8");
    let found = layer(policy("9/day")).1.peer(|_| Some(IpAddr::from([192, 0, 2, 1])));
    let known = ask(&found.layer(service_fn(see)), Request::new(Empty::new())).await;
    assert_eq!(&known.body()[..], b"8");
    let mut of_axum: Inner = Request::new(Empty::new());
    let peer: SocketAddr = "192.0.2.7:1".parse().unwrap();
    of_axum.extensions_mut().insert(axum::extract::ConnectInfo(peer));
    assert_eq!(&ask(&service, of_axum).await.body()[..], b"7");
}

#[tokio::test]
async fn units_in_flight_end_with_the_body() {
    let in_flight = || policy("1").algorithm(Algorithm::Concurrency);
    let service = layer(in_flight()).1.layer(service_fn(hello));
    let open = async || service.clone().oneshot(request(&[])).await.unwrap();
    let first = open().await;
    assert_eq!(open().await.status(), StatusCode::TOO_MANY_REQUESTS);
    drop(first);
    let mut read = open().await;
    assert_eq!(read.status(), StatusCode::OK);
    while read.body_mut().frame().await.is_some() {}
    let third = open().await;
    assert_eq!(third.status(), StatusCode::OK, "the body was read to its end");
    // A client that leaves before its response drops the future.
    drop(third);
    drop(service.clone().oneshot(request(&[])));
    assert_eq!(open().await.status(), StatusCode::OK);
}

#[tokio::test]
async fn the_cost_that_a_response_states_is_settled() {
    let answer = async |request: Inner| {
        let body = format!(
            "{{\"usage\":{{\"total_tokens\":{}}}}}",
            request.headers()["x-cost"].to_str().unwrap()
        );
        Ok::<_, Infallible>(Response::new(Full::from(body)))
    };
    let policy = policy("1000/day").reserve(100, Settle::Json("/usage/total_tokens".into()));
    let (limiter, layer) = layer(policy);
    let service = layer.layer(service_fn(answer));
    let handle = limiter.policy("p").unwrap();
    for (cost, remaining) in [("30", 970), ("400", 570)] {
        ask(&service, request(&[("x-cost", cost)])).await;
        let decision = limiter.check_text(&handle, "192.0.2.7", 0).unwrap().await;
        assert_eq!(decision.reports().next().unwrap().remaining(), remaining);
    }
}

fn tokens(estimate: Option<ReserveSettings>) -> Cost {
    let api = UsageApi::OpenAi;
    let estimate = estimate.map(|settings| Box::new(Reservation::new(api, settings)));
    let meter = MeterSpec::Usage { api, tariff: Tariff::default() };
    Cost::Metered { reserve: 4000, estimate, meter }
}

type Answer = UnsyncBoxBody<Bytes, Infallible>;

/// The answer of a language model, with an end that the request names.
async fn of_model(request: Inner) -> Result<Response<Answer>, Infallible> {
    const STATED: &str = r#"{"usage":{"prompt_tokens":60,"completion_tokens":40}}"#;
    let data = || Ok(Frame::data(Bytes::from(STATED)));
    let trailers = || Ok(Frame::trailers(HeaderMap::new()));
    let end = request.headers()["x-end"].to_str().unwrap();
    let body = match end {
        "whole" => Full::from(STATED).boxed_unsync(),
        "trailers" => StreamBody::new(stream::iter([data(), trailers()])).boxed_unsync(),
        _ => StreamBody::new(stream::iter([data(), data()])).boxed_unsync(),
    };
    let mut response = Response::new(body);
    if end == "length" {
        response.headers_mut().insert("content-length", HeaderValue::from(STATED.len()));
    }
    Ok(response)
}

/// Regression: servers do not ask a complete body for its end, so a complete answer counted as one
/// whose client has left, and kept what was reserved.
#[tokio::test]
async fn a_complete_answer_settles_the_cost_if_its_end_is_not_asked_for() {
    for (end, frames, units) in
        [("whole", 1, 100), ("trailers", 2, 100), ("length", 1, 100), ("open", 1, 4000)]
    {
        let (limiter, layer) = layer_of_file("10000/day", |policy| policy.cost = tokens(None));
        let service = layer.layer(service_fn(of_model));
        let mut response = service.oneshot(request(&[("x-end", end)])).await.unwrap();
        for _ in 0..frames {
            response.body_mut().frame().await.unwrap().unwrap();
        }
        drop(response);
        assert_eq!(used(&limiter).await, units, "{end}");
    }
}

/// Regression: `unsettled: estimate` had no effect.
#[tokio::test]
async fn an_answer_without_tokens_counts_what_is_estimated() {
    let settings = ReserveSettings { estimates_unsettled: true, ..ReserveSettings::default() };
    let cost = tokens(Some(settings));
    let (limiter, layer) = layer_of_file("10000/day", |policy| policy.cost = cost);
    let service = layer.layer(service_fn(hello));
    let response = service.oneshot(request(&[("content-length", "300")])).await.unwrap();
    assert_eq!(used(&limiter).await, 4000, "the most that the policy reserves");
    drop(response);
    assert_eq!(used(&limiter).await, 100, "a token for three bytes of the request");
}

#[tokio::test]
async fn outcomes_that_are_not_counted_are_given_back() {
    let answer = async |request: Inner| {
        let mut response = Response::new(Full::<Bytes>::from(""));
        *response.status_mut() = request.headers()["x-status"].to_str().unwrap().parse().unwrap();
        Ok::<_, Infallible>(response)
    };
    let service = layer(policy("1/day").count_only([StatusCode::UNAUTHORIZED])).1;
    let service = service.layer(service_fn(answer));
    for (status, expected) in [("200", 200), ("200", 200), ("401", 401), ("200", 429)] {
        assert_eq!(ask(&service, request(&[("x-status", status)])).await.status(), expected);
    }
}

/// Regression: a request without a response was not ended, so it stayed charged.
#[tokio::test]
async fn a_request_whose_client_leaves_before_the_response_is_ended() {
    let pending = |_: Inner| std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>();
    for (left, units) in [(Left::Ignored, 0), (Left::Counted, 1)] {
        let statuses = vec![StatusCode::UNAUTHORIZED];
        let count = Count::Statuses { statuses, left };
        let (limiter, layer) = layer_of_file("1/day", |policy| policy.count = count);
        let mut open = Box::pin(layer.layer(service_fn(pending)).oneshot(request(&[])));
        assert!(open.as_mut().now_or_never().is_none());
        assert_eq!(used(&limiter).await, 1);
        drop(open);
        assert_eq!(used(&limiter).await, units, "{left:?}");
    }
}

/// Regression: a service that fails counted as one that finds a wrong password.
#[tokio::test]
async fn a_request_whose_service_fails_has_an_error_as_its_outcome() {
    let fail = async |_: Inner| Err::<Response<Full<Bytes>>, _>("it fails");
    for (counted, units) in [(StatusCode::UNAUTHORIZED, 0), (StatusCode::INTERNAL_SERVER_ERROR, 1)]
    {
        let (limiter, layer) = layer(policy("1/day").count_only([counted]));
        let error = layer.layer(service_fn(fail)).oneshot(request(&[])).await.unwrap_err();
        assert_eq!((error, used(&limiter).await), ("it fails", units));
    }
    // Models do not bill an error.
    let (limiter, layer) = layer_of_file("10000/day", |policy| policy.cost = tokens(None));
    layer.layer(service_fn(fail)).oneshot(request(&[])).await.unwrap_err();
    assert_eq!(used(&limiter).await, 0);
}

#[tokio::test(start_paused = true)]
async fn requests_are_delayed_as_a_leaky_bucket_demands_and_the_delayed_are_bounded() {
    let leaky =
        || policy("1/s").algorithm(Algorithm::LeakyBucket).max_delay(Duration::from_secs(1));
    let service = layer(leaky()).1.layer(service_fn(hello));
    let start = monotonic();
    let passed = || monotonic() - start;
    ask(&service, request(&[])).await;
    assert_eq!(passed(), Duration::ZERO);
    let held = ask(&service, request(&[])).await;
    assert_eq!((held.status(), passed().as_secs()), (StatusCode::OK, 1));
    assert_eq!(ask(&service, request(&[])).await.status(), StatusCode::TOO_MANY_REQUESTS);
    let (_, mut crowded) = layer(leaky());
    let delays = Arc::new(Semaphore::new(0));
    crowded.limits.delays = Arc::clone(&delays);
    let crowded = crowded.layer(service_fn(hello));
    assert_eq!(ask(&crowded, request(&[])).await.status(), StatusCode::OK);
    let full = ask(&crowded, request(&[])).await;
    assert_eq!(full.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(full.headers()["retry-after"], "1");
    delays.add_permits(1);
    let held = ask(&crowded, request(&[])).await;
    assert_eq!(held.status(), StatusCode::OK, "its place in the queue was given back");
}

#[tokio::test]
async fn an_application_may_refuse_in_its_own_way() {
    let short = |_: &request::Parts, decision: &Decision| {
        let mut response = Response::new(Bytes::from(format!("{:?}", decision.outcome())));
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response
    };
    let service = layer(policy("1/day")).1.refuse(short).layer(service_fn(hello));
    ask(&service, request(&[])).await;
    let refused = ask(&service, request(&[])).await;
    assert_eq!(refused.status(), StatusCode::IM_A_TEAPOT);
    assert!(refused.body().starts_with(b"Refuse") && refused.headers().contains_key("retry-after"));
}
