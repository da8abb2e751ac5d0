//! The trailers that pass in both directions, over both HTTP versions.

use http::{HeaderMap, HeaderValue};

use crate::support::frames::{DATA, Frames, Outcome, frame, head};
use crate::support::http::{Answer, Http, block_on, nothing, request};
use crate::support::{Backend, Endpoint, Gateway, Origin, Speaks};

/// Trailers that have a meaning only for the backend and the client.
const KEPT: [&str; 3] = ["grpc-message", "grpc-status", "x-checksum"];

/// Trailers of requests that are removed: fields of heads, fields that the gateway writes,
/// and fields that the configuration below names, also in the spelling of a CGI.
const OF_REQUESTS: [&str; 28] = [
    "authorization",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "if-match",
    "max-forwards",
    "range",
    "via",
    "x-api-key",
    "x-client",
    "x-cost",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-http-method-override",
    "x-plan",
    "x-real-ip",
    "x-removed",
    "x-request-id",
    "x-set",
    "x-tenant",
    "x-user",
    "x-version",
    "x.removed",
];

/// The same for responses.
const OF_RESPONSES: [&str; 16] = [
    "age",
    "cache-control",
    "content-length",
    "content-type",
    "date",
    "expires",
    "location",
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "set-cookie",
    "vary",
    "x-ratelimit-remaining",
    "x-removed",
    "x-request-id",
    "x-set",
];

/// Fields of one connection, which the HTTP/2 library does not send as trailers.
const OF_CONNECTION: [&str; 6] =
    ["connection", "keep-alive", "proxy-authorization", "te", "transfer-encoding", "upgrade"];

fn gateway(endpoint: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         client:\n\
         \x20 api_key: {{ headers: [x-api-key] }}\n\
         \x20 user: {{ header: x-user }}\n\
         \x20 forwarded_header: x-client\n\
         \x20 trusted_proxies: [192.0.2.0/24]\n\
         upstreams: {{ app: {{ endpoints: [\"{endpoint}\"] }} }}\n\
         policies:\n\
         \x20 tenant:\n\
         \x20   key: {{ first: [\"header:x-tenant\", ip] }}\n\
         \x20   limit: 1000/minute\n\
         \x20   cost: {{ header: x-cost }}\n\
         \x20   plans: {{ from: \"header:x-plan\", limits: {{ pro: 2000/minute }} }}\n\
         routes:\n\
         - path: /*\n\
         \x20 headers: {{ x-version: \"1\" }}\n\
         \x20 upstream: app\n\
         \x20 policies: [tenant]\n\
         \x20 retries: {{ on: [503], methods: [POST] }}\n\
         \x20 request_headers: {{ set: {{ x-set: a }}, remove: [x-removed] }}\n\
         \x20 response_headers: {{ set: {{ x-set: a }}, remove: [x-removed] }}\n"
    ))
}

/// Backends of both versions, and their addresses.
fn backends() -> [(Backend, String); 2] {
    [("http", Speaks::Http1), ("h2c", Speaks::Http2 { max_streams: 100 })].map(
        |(scheme, speaks)| {
            let backend = Backend::start(speaks);
            let endpoint = format!("{scheme}://{}", backend.address());
            (backend, endpoint)
        },
    )
}

fn names(headers: &HeaderMap) -> Vec<&str> {
    let mut names: Vec<&str> = headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    names
}

/// The trailers of the requests that a backend has received.
fn seen(backend: &Backend) -> Vec<Option<HeaderMap>> {
    backend.seen().into_iter().map(|request| request.trailers).collect()
}

/// A chunked body that ends with these trailers.
fn chunked(trailers: &[&str]) -> String {
    let trailers: String = trailers.iter().map(|name| format!("{name}: 1\r\n")).collect();
    format!("2\r\nhi\r\n0\r\n{trailers}\r\n")
}

/// The status of a request over HTTP/1 with these trailers, all of them announced.
fn over_http_1(gateway: &Gateway, path: &str, trailers: &[&str]) -> u16 {
    let mut client = gateway.client();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nX-Version: 1\r\nTE: trailers\r\nConnection: TE\r\n\
         Transfer-Encoding: chunked\r\nTrailer: {}\r\n\r\n",
        trailers.join(", ")
    );
    client.send(format!("{head}{}", chunked(trailers)).as_bytes());
    client.response("POST").status
}

/// The same over HTTP/2, with or without the announcement.
fn over_http_2(gateway: &Gateway, trailers: &[&str], is_announced: bool) -> Outcome {
    let announced = trailers.join(", ");
    let mut fields = vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/"),
        ("x-version", "1"),
        ("te", "trailers"),
    ];
    fields.extend(is_announced.then_some(("trailer", &*announced)));
    let trailers: Vec<(&str, &str)> = trailers.iter().map(|name| (*name, "1")).collect();
    let mut client = Frames::connect(gateway.address());
    let body = frame(DATA, 0, 1, b"hi");
    client.send(&[head(1, &fields, false), body, head(1, &trailers, true)].concat());
    client.outcome(1)
}

#[test]
fn request_trailers_lose_fields_of_heads() {
    for (backend, endpoint) in backends() {
        let gateway = gateway(&endpoint);
        let all = [&KEPT[..], &OF_REQUESTS, &OF_CONNECTION].concat();
        assert_eq!(over_http_1(&gateway, "/", &all), 200, "{endpoint}");
        let all = [&KEPT[..], &OF_REQUESTS].concat();
        assert_eq!(over_http_2(&gateway, &all, true), Outcome::Status(200), "{endpoint}");
        let trailers = seen(&backend);
        assert_eq!(trailers.len(), 2, "{endpoint}");
        for trailers in trailers {
            assert_eq!(names(&trailers.unwrap()), KEPT, "{endpoint}");
        }
    }
}

#[test]
fn a_request_whose_trailers_are_all_removed_passes() {
    for (backend, endpoint) in backends() {
        let gateway = gateway(&endpoint);
        for name in [&OF_REQUESTS[..], &OF_CONNECTION].concat() {
            assert_eq!(over_http_1(&gateway, "/", &[name]), 200, "{name} to {endpoint}");
        }
        let trailers = seen(&backend);
        assert_eq!(trailers.len(), OF_REQUESTS.len() + OF_CONNECTION.len(), "{endpoint}");
        assert!(trailers.iter().all(Option::is_none), "{endpoint}: {trailers:?}");
    }
}

#[test]
fn trailers_that_are_sent_again_lose_fields_of_heads() {
    for (backend, endpoint) in backends() {
        let gateway = gateway(&endpoint);
        let all = [&KEPT[..], &OF_REQUESTS, &OF_CONNECTION].concat();
        assert_eq!(over_http_1(&gateway, "/503", &all), 503, "{endpoint}");
        let trailers = seen(&backend);
        assert!(trailers.len() > 1, "{endpoint}: {trailers:?}");
        for trailers in trailers {
            assert_eq!(names(&trailers.unwrap()), KEPT, "{endpoint}");
        }
    }
}

/// HTTP/1 announces trailers in the head, which has been sent when those of HTTP/2 arrive.
#[test]
fn over_http_1_only_announced_trailers_pass() {
    for ((backend, endpoint), unannounced) in backends().into_iter().zip([None, Some(&KEPT[..])]) {
        let gateway = gateway(&endpoint);
        for is_announced in [true, false] {
            let outcome = over_http_2(&gateway, &KEPT, is_announced);
            assert_eq!(outcome, Outcome::Status(200), "{endpoint}");
        }
        let trailers = seen(&backend);
        let trailers: Vec<_> = trailers.iter().map(|it| it.as_ref().map(names)).collect();
        assert_eq!(trailers[0].as_deref(), Some(&KEPT[..]), "{endpoint}");
        assert_eq!(trailers[1].as_deref(), unannounced, "{endpoint}");
        let bodies: Vec<_> = backend.seen().into_iter().map(|request| request.body).collect();
        assert_eq!(bodies, ["hi", "hi"], "{endpoint}");
    }
}

/// An endpoint of HTTP/2 whose responses end with these trailers.
fn ending_with(trailers: &'static [&'static str], is_announced: bool) -> Endpoint {
    Endpoint::answering(move |_, asked| {
        if !asked.ends_stream() {
            return Vec::new();
        }
        let announced = trailers.join(", ");
        let mut fields = vec![(":status", "200")];
        fields.extend(is_announced.then_some(("trailer", &*announced)));
        let trailers: Vec<(&str, &str)> = trailers.iter().map(|name| (*name, "1")).collect();
        let body = frame(DATA, 0, asked.stream, b"hi");
        [head(asked.stream, &fields, false), body, head(asked.stream, &trailers, true)].concat()
    })
}

/// The body and the names of the trailers that a client of HTTP/1 gets.
fn got_over_http_1(gateway: &Gateway, te: &str) -> (String, Vec<String>) {
    let mut client = gateway.client();
    let head =
        format!("GET / HTTP/1.1\r\nHost: a\r\nX-Version: 1\r\nConnection: close, TE\r\n{te}");
    client.send(format!("{head}\r\n").as_bytes());
    let answer = String::from_utf8_lossy(&client.rest()).to_lowercase();
    let body = answer.split_once("\r\n\r\n").expect("a whole head").1;
    let (body, trailers) = body.split_once("\r\n0\r\n").expect("a body that ends");
    let trailers = trailers.lines().filter_map(|line| line.split_once(':'));
    let mut names: Vec<String> = trailers.map(|(name, _)| name.to_owned()).collect();
    names.sort_unstable();
    (body.to_owned(), names)
}

fn got_over_http_2(gateway: &Gateway) -> Answer {
    block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        let mut asked = request("GET", "/", nothing());
        asked.headers_mut().insert("x-version", HeaderValue::from_static("1"));
        asked.headers_mut().insert("te", HeaderValue::from_static("trailers"));
        http.ask(asked).await.expect("an answer")
    })
}

const TE: &str = "TE: trailers\r\n";

#[test]
fn response_trailers_lose_fields_of_heads() {
    let all = [&KEPT[..], &OF_RESPONSES, &OF_CONNECTION].concat();
    let origin = Origin::answering(move |_| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: ";
        format!("{head}{}\r\n\r\n{}", all.join(", "), chunked(&all))
    });
    let all = [&KEPT[..], &OF_RESPONSES].concat().leak();
    let endpoint = ending_with(all, true);
    for endpoint in [format!("http://{}", origin.address()), endpoint.url()] {
        let gateway = gateway(&endpoint);
        let (body, trailers) = got_over_http_1(&gateway, TE);
        assert_eq!(
            (&*body, &trailers[..]),
            ("2\r\nhi", &KEPT.map(str::to_owned)[..]),
            "{endpoint}"
        );
        let answer = got_over_http_2(&gateway);
        assert_eq!((&answer.body[..], names(&answer.trailers)), (&b"hi"[..], KEPT.to_vec()));
    }
}

#[test]
fn a_response_whose_trailers_are_all_removed_is_complete() {
    let endpoint = ending_with(&OF_RESPONSES, true);
    let gateway = gateway(&endpoint.url());
    assert_eq!(got_over_http_1(&gateway, TE), ("2\r\nhi".to_owned(), vec![]));
    let answer = got_over_http_2(&gateway);
    assert_eq!((&answer.body[..], answer.trailers.len()), (&b"hi"[..], 0));
}

/// A client of HTTP/1 gets announced trailers if it has sent `TE: trailers`.
#[test]
fn trailers_that_a_client_does_not_accept_are_dropped() {
    for is_announced in [true, false] {
        let endpoint = ending_with(&KEPT, is_announced);
        let gateway = gateway(&endpoint.url());
        for te in [TE, ""] {
            let passes = is_announced && te == TE;
            let expected = if passes { KEPT.map(str::to_owned).to_vec() } else { Vec::new() };
            assert_eq!(got_over_http_1(&gateway, te), ("2\r\nhi".to_owned(), expected));
        }
        assert_eq!(names(&got_over_http_2(&gateway).trailers), KEPT);
    }
}
