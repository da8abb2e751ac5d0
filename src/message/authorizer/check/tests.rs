//! Answers of authorizers over gRPC: what passes, what a refusal has, and what is no answer.

use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;

use super::*;
use crate::grpc::authorization::{HttpStatus, Status};
use crate::grpc::core::{HeaderValue as Line, QueryParameter};
use crate::message::AnswerCacheSettings;

fn settings() -> AuthorizerSettings {
    AuthorizerSettings {
        name: Arc::from("sso"),
        upstream: 0,
        target: PathAndQuery::from_static(PATH),
        is_grpc: true,
        send: None,
        take: vec![HeaderName::from_static("remote-user")],
        timeout: Duration::from_secs(1),
        allows_on_failure: false,
        max_response_bytes: 8,
        cache: Some(AnswerCacheSettings { time: Duration::from_secs(10), max: 9, by: Vec::new() }),
    }
}

fn line(key: &str, value: &str) -> HeaderValueOption {
    let key = key.to_owned();
    let value = value.to_owned();
    HeaderValueOption { header: Some(Line { key, value, raw_value: Vec::new() }), append_action: 0 }
}

fn ok(headers: &[(&str, &str)], told: &[(&str, &str)]) -> OkHttpResponse {
    let lines =
        |lines: &[(&str, &str)]| lines.iter().map(|(key, value)| line(key, value)).collect();
    OkHttpResponse {
        headers: lines(headers),
        response_headers_to_add: lines(told),
        ..OkHttpResponse::default()
    }
}

fn denied(code: Option<i32>, headers: &[(&str, &str)], body: &str) -> DeniedHttpResponse {
    let headers = headers.iter().map(|(key, value)| line(key, value)).collect();
    let status = code.map(|code| HttpStatus { code });
    DeniedHttpResponse { status, headers, body: body.to_owned() }
}

/// The meaning of an answer with this code of its status, if it has a status.
fn answer(code: Option<i32>, response: Option<HttpResponse>) -> Result<Checked, CheckFault> {
    let status = code.map(|code| Status { code, message: String::new() });
    let message = CheckResponse { status, http_response: response }.encode_to_vec();
    checked(&settings(), message.into())
}

/// The status with which an answer refuses, or none if it passes.
fn status(code: Option<i32>, response: Option<HttpResponse>) -> Option<u16> {
    match answer(code, response).expect("an answer").answered {
        Answered::Passed(_) => None,
        Answered::Refused(refused) => Some(refused.response().status().as_u16()),
    }
}

#[test]
fn only_an_answer_that_says_so_lets_a_request_pass() {
    let pass = || Some(HttpResponse::Ok(OkHttpResponse::default()));
    let deny = |code| Some(HttpResponse::Denied(denied(code, &[], "")));
    for (code, response) in [(Some(0), None), (Some(0), pass()), (None, pass())] {
        assert_eq!(status(code, response), None, "{code:?}");
    }
    for code in [None, Some(0), Some(7), Some(-1)] {
        assert_eq!(status(code, deny(None)), Some(403), "{code:?}");
    }
    for code in [Some(7), Some(16), Some(-1)] {
        assert_eq!(status(code, None), Some(403), "{code:?}");
        assert_eq!(status(code, pass()), Some(403), "{code:?}");
    }
    // An empty message is also what another service may answer.
    assert_eq!(answer(None, None), Err(CheckFault::Malformed));
    let malformed = checked(&settings(), Bytes::from_static(&[0x0a, 0x7f, 1]));
    assert_eq!(malformed, Err(CheckFault::Malformed));
}

#[test]
fn a_denial_has_its_status_whatever_it_is() {
    let denial = |code| status(Some(7), Some(HttpResponse::Denied(denied(Some(code), &[], ""))));
    for code in [200, 204, 302, 401, 403, 429, 500, 503, 599] {
        assert_eq!(denial(code), u16::try_from(code).ok(), "{code}");
    }
    for code in [0, -1, 100, 101, 199, 600, 65_936, i32::MAX] {
        assert_eq!(denial(code), Some(403), "{code}");
    }
}

#[test]
fn a_denial_has_the_fields_that_a_client_needs() {
    let headers = [
        ("Location", "https://login.test/"),
        ("set-cookie", "a=1"),
        ("Set-Cookie", "b=2"),
        ("x-internal", "secret"),
        ("content-length", "99"),
        ("retry-after", ""),
    ];
    let refused = |code, body: &str| {
        let denied = denied(Some(code), &headers, body);
        let answer = answer(Some(7), Some(HttpResponse::Denied(denied))).expect("an answer");
        let Answered::Refused(refused) = answer.answered else { panic!("it refuses") };
        refused.response()
    };
    let response = refused(302, "body");
    let lines: Vec<_> =
        response.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(response.headers()["location"], "https://login.test/");
    let cookies: Vec<_> = response.headers().get_all(SET_COOKIE).iter().collect();
    assert_eq!(cookies, ["a=1", "b=2"]);
    assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
    assert_eq!(response.body(), "body");
    assert_eq!(refused(304, "body").body(), "", "such a response has no body");
    let large = denied(Some(403), &[], "nine byte");
    assert_eq!(answer(Some(7), Some(HttpResponse::Denied(large))), Err(CheckFault::TooLarge));
}

#[test]
fn a_request_gets_only_the_fields_of_take() {
    let taken = |ok: OkHttpResponse| {
        let checked = answer(Some(0), Some(HttpResponse::Ok(ok))).expect("an answer");
        let Answered::Passed(taken) = checked.answered else { panic!("it passes") };
        let mut headers = HeaderMap::new();
        headers.insert("remote-user", HeaderValue::from_static("forged"));
        taken.write(&settings(), &mut headers);
        let users = headers.get_all("remote-user").iter().map(|it| it.to_str().unwrap().to_owned());
        (users.collect::<Vec<_>>(), headers.len(), taken.cookies.len(), checked.has_more)
    };
    let user = ("Remote-User", "ann");
    assert_eq!(taken(ok(&[user], &[])), (vec!["ann".into()], 1, 0, false));
    assert_eq!(taken(ok(&[("remote-user", "")], &[])), (vec![], 0, 0, false));
    assert_eq!(taken(ok(&[user, ("x-other", "1")], &[])), (vec!["ann".into()], 1, 0, true));
    assert_eq!(taken(ok(&[], &[("set-cookie", "a=1")])), (vec![], 0, 1, false));
    assert_eq!(taken(ok(&[], &[("x-told", "1")])), (vec![], 0, 0, true));
    let removing = OkHttpResponse { headers_to_remove: vec!["cookie".into()], ..ok(&[], &[]) };
    let parameter = QueryParameter { key: "a".into(), value: "b".into() };
    let setting = OkHttpResponse { query_parameters_to_set: vec![parameter], ..ok(&[], &[]) };
    let losing = OkHttpResponse { query_parameters_to_remove: vec!["a".into()], ..ok(&[], &[]) };
    for changing in [removing, setting, losing] {
        assert_eq!(taken(changing), (vec![], 0, 0, true));
    }
}

#[test]
fn a_field_with_a_line_break_is_no_answer_and_fields_have_a_bound() {
    let pass = |ok| answer(Some(0), Some(HttpResponse::Ok(ok)));
    assert_eq!(pass(ok(&[("remote-user", "a\r\nb: c")], &[])), Err(CheckFault::Malformed));
    assert!(pass(ok(&[("x-other", "a\r\nb: c")], &[])).is_ok(), "it is not taken");
    let lines = |count: usize| ok(&vec![("remote-user", "a"); count], &[]);
    assert!(pass(lines(MAX_RESPONSE_FIELDS)).is_ok());
    assert_eq!(pass(lines(MAX_RESPONSE_FIELDS + 1)), Err(CheckFault::TooLarge));
}

#[test]
fn an_answer_holds_as_one_over_http_does() {
    let passes = |told: &[(&str, &str)]| {
        answer(Some(0), Some(HttpResponse::Ok(ok(&[], told)))).unwrap().reuse
    };
    let denies = |code, headers: &[(&str, &str)]| {
        answer(Some(7), Some(HttpResponse::Denied(denied(code, headers, "")))).unwrap().reuse
    };
    let within = |seconds| Reuse::Within(Duration::from_secs(seconds));
    assert_eq!(passes(&[]), within(10));
    assert_eq!(passes(&[("cache-control", "max-age=3")]), within(3));
    assert_eq!(passes(&[("cache-control", "no-store")]), Reuse::Never);
    assert_eq!(passes(&[("set-cookie", "a=1")]), Reuse::Never);
    assert_eq!(denies(None, &[]), within(10));
    assert_eq!(denies(Some(403), &[("cache-control", "max-age=3")]), within(3));
    assert_eq!(denies(Some(403), &[("set-cookie", "a=1")]), Reuse::Never);
    for code in [200, 401, 404, 503] {
        assert_eq!(denies(Some(code), &[]), Reuse::Waiting, "{code}");
    }
    for code in [302, 429] {
        assert_eq!(denies(Some(code), &[]), Reuse::Never, "{code}");
    }
}

#[test]
fn a_question_describes_the_request() {
    let mut fields = HeaderMap::new();
    for (name, value) in [
        ("x-forwarded-method", "PUT"),
        ("x-original-method", "PUT"),
        ("x-forwarded-uri", "/orders?x=1"),
        ("x-original-url", "https://app.test/orders?x=1"),
        ("x-forwarded-host", "app.test"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-for", "192.0.2.7"),
        ("x-real-ip", "192.0.2.7"),
        ("authorization", "Bearer t"),
        ("x-two", "a"),
        ("x-two", "b"),
    ] {
        fields.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let question = Question { fields, protocol: Some(Version::HTTP_2) };
    let attributes = check_request(&question).attributes.expect("attributes");
    let address = attributes.source.and_then(|it| it.address).and_then(|it| it.socket_address);
    assert_eq!(address.expect("an address").address, "192.0.2.7");
    let http = attributes.request.and_then(|it| it.http).expect("a request");
    let HttpRequest { method, path, host, scheme, protocol, size, headers, .. } = http;
    assert_eq!([&*method, &*path, &*host], ["PUT", "/orders?x=1", "app.test"]);
    assert_eq!((&*scheme, &*protocol, size), ("https", "HTTP/2", -1));
    let sent: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(
        sent,
        [
            ("authorization", "Bearer t"),
            ("x-forwarded-for", "192.0.2.7"),
            ("x-forwarded-host", "app.test"),
            ("x-forwarded-proto", "https"),
            ("x-two", "a,b"),
        ]
    );
}
