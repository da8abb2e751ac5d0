//! The layer of the library refuses requests as the gateway does.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response};
use proptest::prelude::*;
use tollgate_core::policy::{TokenFault, Unit};
use tollgate_core::request::{Ambiguity, Fields};
use tollgate_core::time::Span;
use tollgate_limiter::{
    Algorithm, Client, Clock, Decision, Jwt, Key, Limiter, Missing, OnMissingKey, OnStoreFailure,
    Outcome, Policy, Refuse as _, Store,
};

use tollgate_core::refusal::{ErrorFormat, Offer};

use super::{Failure, Refusal, failure_response, refusal_response};

const ID: HeaderValue = HeaderValue::from_static("id-1");
const PEER: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7)));
/// `Accept` and `Content-Type` of a request for each format.
const FORMATS: [(&str, &str); 3] =
    [("*/*", "text/plain"), ("text/html", "text/plain"), ("*/*", "application/grpc")];

fn head(fields: &[(&str, &str)]) -> Parts {
    let mut request = Request::post("/");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request").into_parts().0
}

fn limiter(policies: impl IntoIterator<Item = Policy>, client: Client, store: Store) -> Limiter {
    let builder = Limiter::builder().client(client).store(store).clock(Clock::manual());
    policies.into_iter().fold(builder, |it, policy| it.policy(policy)).build().expect("a limiter")
}

/// The decision on the last of so many requests.
fn decide(limiter: &Limiter, policies: &[&str], head: &Parts, peer: Option<IpAddr>) -> Decision {
    let policy = |name: &&str| limiter.policy(name).expect("a policy");
    let policies: Vec<_> = policies.iter().map(policy).collect();
    futures_util::future::FutureExt::now_or_never(limiter.check_request(&policies, head, peer))
        .expect("decided at once")
}

/// What a client sees of a response, without what only the gateway has: the request's id, and
/// the name of its realm.
fn seen(response: &Response<Bytes>) -> (u16, Vec<(String, String)>, String) {
    let text = |value: &HeaderValue| {
        let text = value.to_str().expect("text");
        text.replace(" realm=\"gateway\",", "").replace(" realm=\"gateway\"", "")
    };
    let of_connection = |name: &str| name == "connection";
    let fields = response.headers().iter().filter(|(name, _)| !of_connection(name.as_str()));
    let fields = fields.map(|(name, value)| (name.to_string(), text(value))).collect();
    let body = std::str::from_utf8(response.body()).expect("text");
    (response.status().as_u16(), fields, body.replace(",\"request-id\":\"id-1\"", ""))
}

/// Asserts that the library refuses with the response of the gateway in each format.
fn assert_alike(decision: &Decision, gateway: impl Fn(ErrorFormat) -> Response<Bytes>) {
    for (accept, content_type) in FORMATS {
        let head = head(&[("accept", accept), ("content-type", content_type)]);
        let format = ErrorFormat::choose(Offer::Problem, &head.method, Fields::of(&head.headers));
        let library = tollgate_limiter::Refusal::default().refuse(&head, decision);
        assert_eq!(seen(&library), seen(&gateway(format)), "{decision:?}, {format:?}");
    }
}

fn assert_failure(decision: &Decision, failure: Failure) {
    assert_alike(decision, |format| failure_response(format, failure, None, &ID));
}

#[test]
fn refusals_beyond_a_limit_are_those_of_the_gateway() {
    let fixed = |name: &str, limit: &str| {
        Policy::new(name, Key::Ip, limit.parse().expect("a limit"))
            .algorithm(Algorithm::FixedWindow)
    };
    let policies = [fixed("b\"\\c", "1/minute"), fixed("long", "1/day"), fixed("short", "1/10ms")];
    let head = head(&[]);
    let cases: [(&[&str], &[&str]); 3] = [
        (&["short"], &["short"]),
        (&["b\"\\c"], &["b\"\\c"]),
        (&["short", "b\"\\c", "long"], &["long", "short", "b\"\\c"]),
    ];
    for (judging, names) in cases {
        let limiter = limiter(policies.clone(), Client::new(), Store::default());
        assert!(decide(&limiter, judging, &head, PEER).is_admitted());
        let refused = decide(&limiter, judging, &head, PEER);
        let Outcome::Refuse { retry: Some(retry) } = refused.outcome() else {
            panic!("{refused:?} has no wait")
        };
        assert!(retry > Duration::ZERO);
        assert_refusal(&refused, names, Some(retry.into()));
    }
}

#[test]
fn a_request_that_is_never_admitted_is_refused_as_by_the_gateway() {
    let limit = "5/minute".parse().expect("a limit");
    let limiter =
        limiter([Policy::new("p", Key::Ip, limit).cost(6)], Client::new(), Store::default());
    let refused = decide(&limiter, &["p"], &head(&[]), PEER);
    assert_eq!(refused.outcome(), Outcome::Refuse { retry: None });
    assert_refusal(&refused, &["p"], None);
}

fn assert_refusal(decision: &Decision, policies: &[&str], wait: Option<Span>) {
    let unit = Unit::Requests;
    let refusal =
        Refusal { policies, limit: 1, remaining: 0, unit, wait, message: None, template: None };
    assert_alike(decision, |format| refusal_response(format, &refusal, &ID));
}

#[test]
fn requests_without_a_key_are_refused_as_by_the_gateway() {
    let refusing = |name, key, then| {
        let limit = "5/minute".parse().expect("a limit");
        Policy::new(name, key, limit).on_missing_key(then)
    };
    let jwt = Jwt::hs256(b"a secret of at least thirty-two bytes").expect("a secret");
    let policies = [
        refusing("key", Key::ApiKey, OnMissingKey::Deny),
        refusing("user", Key::User, OnMissingKey::Unauthorized),
    ];
    let limiter = limiter(policies, Client::new().jwt(jwt), Store::default());
    let cases = [
        ("key", head(&[]), Missing::Key, Failure::KeyMissing),
        ("user", head(&[]), Missing::Token, Failure::Unauthorized(TokenFault::Missing)),
        (
            "user",
            head(&[("authorization", "Bearer a.b.c")]),
            Missing::ValidToken,
            Failure::Unauthorized(TokenFault::Invalid),
        ),
    ];
    for (policy, head, missing, failure) in cases {
        let decision = decide(&limiter, &[policy], &head, PEER);
        assert_eq!(decision.missing(), Some(missing));
        assert_failure(&decision, failure);
    }
}

/// The gateway names what is ambiguous. The library keeps only that it is.
#[test]
fn an_ambiguous_request_has_the_status_of_the_gateway() {
    let limit = "5/minute".parse().expect("a limit");
    let limiter = limiter([Policy::new("p", Key::Ip, limit)], Client::new(), Store::default());
    let two_hosts = head(&[("host", "a.test"), ("host", "b.test")]);
    let decision = decide(&limiter, &["p"], &two_hosts, PEER);
    assert_eq!(decision.missing(), Some(Missing::Ambiguous));
    let library = tollgate_limiter::Refusal::default().refuse(&two_hosts, &decision);
    let failure = Failure::Ambiguous(Ambiguity::ManyHosts);
    let gateway = failure_response(ErrorFormat::Problem, failure, None, &ID);
    assert_eq!(library.status(), gateway.status());
    assert_eq!(library.headers()[CONTENT_TYPE], gateway.headers()[CONTENT_TYPE]);
    let call = head(&[("content-type", "application/grpc")]);
    let library = tollgate_limiter::Refusal::default().refuse(&call, &decision);
    let gateway = failure_response(ErrorFormat::Grpc, failure, None, &ID);
    assert_eq!(library.headers()["grpc-status"], gateway.headers()["grpc-status"]);
}

#[test]
fn without_its_store_a_request_is_refused_as_by_the_gateway() {
    let limit = "5/minute".parse().expect("a limit");
    let policy = Policy::new("p", Key::Ip, limit).on_store_failure(OnStoreFailure::Deny);
    // No Redis has this port.
    let store = Store::redis("redis://127.0.0.1:1").expect("a URL");
    let limiter = limiter([policy], Client::new(), store);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let policies = [limiter.policy("p").expect("a policy")];
    let decision = runtime.block_on(limiter.check_request(&policies, &head(&[]), PEER));
    assert_eq!(decision.outcome(), Outcome::Unavailable);
    assert_failure(&decision, Failure::StoreAway);
    runtime.block_on(limiter.close());
}

proptest! {
    #[test]
    fn the_formats_are_chosen_alike(
        method in prop_oneof![Just(Method::POST), Just(Method::GET)],
        accept in proptest::option::of("(text/html|application/[a-z]{0,4}json|application/\\*|\\*/\\*|[a-z/*, ]{0,9})"),
        content_type in proptest::option::of("[Aa]pplication/(grpc|GRPC|grp|json)[+; \tx-]?(web|proto)?"),
    ) {
        let limit = "5/minute".parse().expect("a limit");
        let limiter = limiter([Policy::new("p", Key::Ip, limit)], Client::new(), Store::memory(10));
        let mut head = head(&[]);
        let decision = decide(&limiter, &["p"], &head, None);
        head.method = method;
        let fields = [(ACCEPT, accept), (CONTENT_TYPE, content_type)];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
        head.headers.extend(fields.map(|(name, value)| (name, value.parse().expect("a value"))));
        let library = tollgate_limiter::Refusal::default().refuse(&head, &decision);
        let format = ErrorFormat::choose(Offer::Problem, &head.method, Fields::of(&head.headers));
        let gateway = failure_response(format, Failure::StoreAway, None, &ID);
        prop_assert_eq!(library.headers().get(CONTENT_TYPE), gateway.headers().get(CONTENT_TYPE));
        prop_assert!(!library.headers().contains_key(WWW_AUTHENTICATE));
    }
}
