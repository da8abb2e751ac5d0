//! The question about a request.

use std::net::IpAddr;

use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, RANGE, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Version};
use tollgate_core::digest::Secret;
use tollgate_core::request::push_address;

use super::{AnswerCacheSettings, AnswerPart, AuthorizerSettings};
use crate::message::{FieldFilter, Forwarding, X_REQUEST_ID, join_cookies, strip_request};

pub const X_FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
pub const X_FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
pub const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
const X_ORIGINAL_URL: HeaderName = HeaderName::from_static("x-original-url");
pub const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The fields in which a question describes its request. The gateway alone writes them: those
/// of clients are not sent.
pub static ORIGINAL_FIELDS: [HeaderName; 4] =
    [X_FORWARDED_METHOD, X_FORWARDED_URI, X_ORIGINAL_METHOD, X_ORIGINAL_URL];

/// Fields that belong to the request and not to a question without content.
const NEVER_SENT: [HeaderName; 9] = [
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    RANGE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The connection.
    pub forwarding: &'a Forwarding,
    /// Whether its peer is a proxy that may speak for its clients.
    pub is_trusted: bool,
    /// The address of the client.
    pub client: IpAddr,
}

/// A question about a request.
#[derive(Clone, Debug)]
pub struct Question {
    /// The fields of a request that asks it.
    pub fields: HeaderMap,
    /// The version of the request, if the question has it: over gRPC.
    pub protocol: Option<Version>,
}

/// The question about a request, which is as the client has sent it. `filter` is that of requests.
pub fn question(
    settings: &AuthorizerSettings,
    head: &Parts,
    origin: Origin<'_>,
    filter: &FieldFilter,
) -> Question {
    let mut fields = sent(settings.send.as_deref(), &head.headers, filter);
    fields.retain_names(|name| !is_never_sent(name));
    let Origin { forwarding, is_trusted, client } = origin;
    if is_trusted {
        for name in head.headers.keys().filter(|name| Forwarding::is_claim(name)) {
            copy(name, &head.headers, &mut fields);
        }
    } else {
        fields.retain_names(|name| !Forwarding::is_claim(name));
    }
    // The host of the request is that of `X-Forwarded-Host`. The question is for another one.
    copy(&HOST, &head.headers, &mut fields);
    if let Some(Ok(host)) = head.uri.authority().map(|it| HeaderValue::from_str(it.as_str())) {
        fields.insert(HOST, host);
    }
    forwarding.write(&mut fields, is_trusted, false);
    fields.remove(HOST);
    describe(head, client, &mut fields);
    for name in [X_REQUEST_ID, TRACEPARENT, TRACESTATE] {
        copy(&name, &head.headers, &mut fields);
    }
    if settings.is_grpc {
        return Question { fields, protocol: Some(head.version) };
    }
    fields.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Question { fields, protocol: None }
}

/// The fields of the request that are selected. All of them: those that the upstream gets, too.
fn sent(names: Option<&[HeaderName]>, headers: &HeaderMap, filter: &FieldFilter) -> HeaderMap {
    let Some(names) = names else {
        let mut all = headers.clone();
        strip_request(&mut all, filter, |_| false);
        join_cookies(&mut all);
        return all;
    };
    let mut fields = HeaderMap::new();
    names.iter().for_each(|name| copy(name, headers, &mut fields));
    join_cookies(&mut fields);
    fields
}

fn is_never_sent(name: &HeaderName) -> bool {
    NEVER_SENT.contains(name) || name.as_str().starts_with("if-")
}

/// Copies all lines of a field.
fn copy(name: &HeaderName, from: &HeaderMap, to: &mut HeaderMap) {
    to.remove(name);
    for value in from.get_all(name) {
        to.append(name, value.clone());
    }
}

/// Writes the method, the target and the address of the client.
fn describe(head: &Parts, client: IpAddr, fields: &mut HeaderMap) {
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let text = |name: &HeaderName| fields.get(name).and_then(|value| value.to_str().ok());
    let host = text(&X_FORWARDED_HOST).unwrap_or_default();
    let url = format!("{}://{host}{target}", text(&X_FORWARDED_PROTO).unwrap_or("http"));
    let mut address = String::new();
    push_address(&mut address, client);
    let method = head.method.as_str();
    for (name, value) in [
        (X_FORWARDED_METHOD, method),
        (X_ORIGINAL_METHOD, method),
        (X_FORWARDED_URI, target),
        (X_ORIGINAL_URL, &*url),
        (X_REAL_IP, &*address),
    ] {
        fields.remove(&name);
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            fields.insert(name, value);
        }
    }
}

/// What must be equal for two requests to have the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuestionKey(u128);

impl QuestionKey {
    /// The key of a question. It is a digest under `secret`, so that no credential is kept.
    pub fn of(cache: &AnswerCacheSettings, question: &Question, secret: &Secret) -> Self {
        let Question { fields, protocol } = question;
        let mut digest = secret.digest();
        if let Some(protocol) = protocol {
            digest.value(format!("{protocol:?}").as_bytes());
        }
        // The fields of a map have no order of their own.
        let mut names: Vec<&HeaderName> = fields.keys().filter(|it| is_of_key(it, cache)).collect();
        names.sort_unstable_by_key(|name| name.as_str());
        for name in names {
            let lines = || fields.get_all(name).iter();
            digest.value(name.as_str().as_bytes());
            digest.value(&lines().count().to_le_bytes());
            lines().for_each(|line| digest.value(line.as_bytes()));
        }
        Self(digest.finish())
    }
}

/// Whether the answer depends on this field: on all that is sent, except the address and what
/// every request has anew.
fn is_of_key(name: &HeaderName, cache: &AnswerCacheSettings) -> bool {
    let has = |part: AnswerPart| cache.by.contains(&part);
    match name.as_str() {
        "x-forwarded-for" | "x-real-ip" | "x-forwarded-port" => false,
        "x-request-id" | "traceparent" | "tracestate" => false,
        // It contains the host and the target, which have fields of their own.
        "x-original-url" | "x-original-method" => false,
        "x-forwarded-method" => has(AnswerPart::Method),
        "x-forwarded-host" => has(AnswerPart::Host),
        "x-forwarded-uri" => has(AnswerPart::Target),
        _ => true,
    }
}

/// Removes fields by their names.
trait RetainNames {
    fn retain_names(&mut self, keep: impl Fn(&HeaderName) -> bool);
}

impl RetainNames for HeaderMap {
    fn retain_names(&mut self, keep: impl Fn(&HeaderName) -> bool) {
        let removed: Vec<HeaderName> = self.keys().filter(|name| !keep(name)).cloned().collect();
        removed.iter().for_each(|name| drop(self.remove(name)));
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;
    use std::time::Duration;

    use http::Request;

    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

    fn settings(send: Option<&[&'static str]>) -> AuthorizerSettings {
        let names = |names: &[&'static str]| {
            names.iter().map(|name| HeaderName::from_static(name)).collect::<Vec<_>>()
        };
        AuthorizerSettings {
            name: Arc::from("sso"),
            upstream: 0,
            target: "/verify".parse().expect("a target"),
            is_grpc: false,
            send: send.map(names),
            take: Vec::new(),
            timeout: Duration::from_secs(1),
            allows_on_failure: false,
            max_response_bytes: 1024,
            cache: None,
        }
    }

    fn request(lines: &[(&'static str, &'static str)]) -> Parts {
        let mut request = Request::new(());
        *request.method_mut() = http::Method::PUT;
        *request.uri_mut() = "/orders?x=1".parse().expect("a target");
        let line =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        request.headers_mut().extend(lines.iter().map(line));
        request.into_parts().0
    }

    fn ask(send: Option<&[&'static str]>, is_trusted: bool, head: &Parts) -> HeaderMap {
        let peer = SocketAddr::new(CLIENT, 1);
        let forwarding = Forwarding::new(peer, SocketAddr::new(CLIENT, 443), true);
        let origin = Origin { forwarding: &forwarding, is_trusted, client: CLIENT };
        question(&settings(send), head, origin, &FieldFilter::default()).fields
    }

    const CLAIMS: [(&str, &str); 8] = [
        ("host", "app.test"),
        ("cookie", "a=1"),
        ("cookie", "b=2"),
        ("x-forwarded-uri", "/public"),
        ("x-forwarded-method", "GET"),
        ("x-original-url", "http://public.test/"),
        ("x-forwarded-for", "203.0.113.9"),
        ("x-real-ip", "203.0.113.9"),
    ];

    #[test]
    fn a_question_describes_the_request_in_the_words_of_the_gateway() {
        for send in [None, Some(&["cookie", "x-forwarded-uri", "x-real-ip"][..])] {
            let fields = ask(send, false, &request(&CLAIMS));
            for (name, value) in [
                ("x-forwarded-method", "PUT"),
                ("x-original-method", "PUT"),
                ("x-forwarded-proto", "https"),
                ("x-forwarded-host", "app.test"),
                ("x-forwarded-uri", "/orders?x=1"),
                ("x-original-url", "https://app.test/orders?x=1"),
                ("x-forwarded-for", "192.0.2.7"),
                ("x-real-ip", "192.0.2.7"),
                ("cookie", "a=1; b=2"),
                ("accept-encoding", "identity"),
            ] {
                let lines: Vec<_> = fields.get_all(name).iter().collect();
                assert_eq!(lines, [value], "{name}");
            }
            assert!(!fields.contains_key(HOST), "the question is for the authorizer");
        }
    }

    #[test]
    fn what_a_trusted_proxy_says_of_its_client_is_passed_on() {
        let lines = [
            ("host", "inner.test"),
            ("x-forwarded-host", "app.test"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-uri", "/public"),
        ];
        let fields = ask(Some(&[]), true, &request(&lines));
        assert_eq!(fields["x-original-url"], "http://app.test/orders?x=1");
        assert_eq!(fields["x-forwarded-uri"], "/orders?x=1");
        assert_eq!(fields.get_all("x-forwarded-for").iter().count(), 2);
    }

    #[test]
    fn only_the_listed_fields_are_sent_and_some_never_are() {
        let lines = [
            ("authorization", "Basic x"),
            ("content-length", "7"),
            ("expect", "100-continue"),
            ("if-none-match", "\"1\""),
            ("range", "bytes=0-1"),
            ("upgrade", "websocket"),
            ("connection", "upgrade, x-hop, authorization"),
            ("x-hop", "1"),
            ("x-other", "1"),
            ("x-request-id", "id-1"),
            ("traceparent", "00-1"),
        ];
        let head = request(&lines);
        let listed = ask(Some(&["authorization", "content-length", "range"]), false, &head);
        let all = ask(None, false, &head);
        for name in ["authorization", "x-request-id", "traceparent"] {
            assert!(listed.contains_key(name) && all.contains_key(name), "{name}");
        }
        assert!(!listed.contains_key("x-other") && all.contains_key("x-other"));
        for name in ["content-length", "expect", "if-none-match", "range", "upgrade", "connection"]
        {
            assert!(!listed.contains_key(name) && !all.contains_key(name), "{name}");
        }
        assert!(!all.contains_key("x-hop"));
    }

    #[test]
    fn a_key_depends_on_what_is_sent_and_not_on_the_address() {
        let secret = Secret::from_bytes([3; 16]);
        let all = vec![AnswerPart::Method, AnswerPart::Host, AnswerPart::Target];
        let cache = |by| AnswerCacheSettings { time: Duration::from_secs(9), max: 9, by };
        let key = |by: &[AnswerPart], head: &Parts| {
            let fields = ask(Some(&["authorization", "cookie"]), false, head);
            let question = Question { fields, protocol: None };
            QuestionKey::of(&cache(by.to_vec()), &question, &secret)
        };
        let base = [("host", "a.test"), ("authorization", "Bearer x")];
        let head = request(&base);
        let with = |line| request(&[base[0], base[1], line]);
        assert_eq!(key(&all, &head), key(&all, &with(("x-request-id", "id-2"))));
        assert_eq!(key(&all, &head), key(&all, &with(("x-other", "2"))));
        assert_ne!(key(&all, &head), key(&all, &with(("cookie", "c=1"))));
        assert_ne!(key(&all, &head), key(&all, &with(("authorization", "Bearer y"))));
        let mut other = request(&base);
        other.method = http::Method::DELETE;
        other.uri = "/other".parse().expect("a target");
        assert_ne!(key(&all, &head), key(&all, &other));
        assert_eq!(key(&[AnswerPart::Host], &head), key(&[AnswerPart::Host], &other));
        let elsewhere = request(&[("host", "b.test"), base[1]]);
        assert_ne!(key(&[AnswerPart::Host], &head), key(&[AnswerPart::Host], &elsewhere));
    }
}
