//! Only faults that an endpoint causes itself count against it, and none that a client
//! can cause.

use std::io::Write as _;
use std::thread;
use std::time::Duration;

use super::gateway_with;
use crate::support::frames::{ENHANCE_YOUR_CALM, INTERNAL_ERROR, PROTOCOL_ERROR, reset, too_large};
use crate::support::{Backend, Client, Endpoint, Gateway, Origin, Reserved, Speaks, eventually};

/// A gateway that ejects its only endpoint after two failures in a row.
fn strict(endpoint: &str, route: &str, listener: &str) -> Gateway {
    let upstream = "eject: { consecutive_errors: 2, for: 1m, max_percent: 100% }";
    if listener.is_empty() {
        return gateway_with(&[endpoint.to_owned()], upstream, route, "runtime: { workers: 1 }");
    }
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\", {listener} }}]\n\
         upstreams: {{ app: {{ endpoints: [\"{endpoint}\"], {upstream} }} }}\n\
         routes: [{{ path: \"/*\", upstream: app, {route} }}]\nruntime: {{ workers: 1 }}\n"
    ))
}

fn is_ejected(gateway: &Gateway) -> bool {
    gateway.log().contains("an endpoint is ejected")
}

const HANDSHAKE: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
                         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// An action of a client, and the statuses that it may get; none if it does not wait.
struct Deed {
    name: &'static str,
    route: &'static str,
    listener: &'static str,
    sends: String,
    statuses: &'static [u16],
}

fn deeds() -> Vec<Deed> {
    let deed = |name, sends: &str, statuses| Deed {
        name,
        route: "",
        listener: "",
        sends: sends.to_owned(),
        statuses,
    };
    let post = |fields: &str, body: &str| {
        format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n{fields}\r\n{body}")
    };
    let trailer = |field: &str| {
        let name = field.split(':').next().expect("it has a name");
        post(
            &format!("Trailer: {name}\r\nTE: trailers\r\n"),
            &format!("1\r\na\r\n0\r\n{field}\r\n\r\n"),
        )
    };
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Large: {}\r\n\r\n", "x".repeat(30_000));
    let short = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf";
    vec![
        deed("a handshake", HANDSHAKE, &[502, 200]),
        Deed {
            route: "max_body: 10B",
            ..deed("a body that is too large", &post("", "b\r\n01234567890\r\n0\r\n\r\n"), &[413])
        },
        deed("a body that is none", &post("", "1\r\na\r\nzz\r\n"), &[400]),
        Deed {
            listener: "timeouts: { request_body: 100ms }",
            ..deed("a body that stops", &post("", "1\r\na\r\n"), &[408])
        },
        deed("a body that breaks off", short, &[]),
        deed("a cancel", "GET /never HTTP/1.1\r\nHost: a\r\n\r\n", &[]),
        Deed {
            route: "timeouts: { request: 50ms }",
            ..deed("its time", "GET /never HTTP/1.1\r\nHost: a\r\n\r\n", &[504])
        },
        deed("a trailer Connection", &trailer("Connection: x-sum"), &[200]),
        deed("a trailer Keep-Alive", &trailer("Keep-Alive: 5"), &[200]),
        deed("a trailer TE", &trailer("TE: gzip"), &[200]),
        deed("a large head", &large, &[200, 431]),
    ]
}

/// Each action of a client, several times, with endpoints of both versions. The response
/// timeout is short, so that a request that the gateway loses would count.
#[test]
fn nothing_that_a_client_does_ejects_an_endpoint() {
    for (scheme, speaks) in [("http", Speaks::Http1), ("h2c", Speaks::Http2 { max_streams: 100 })] {
        let backend = Backend::start(speaks);
        let endpoint = format!("{scheme}://{}", backend.address());
        for deed in deeds() {
            let name = format!("{} over {scheme}", deed.name);
            let route = match deed.route {
                "" => "timeouts: { response: 2s }",
                route => route,
            };
            let gateway = strict(&endpoint, route, deed.listener);
            for _ in 0..3 {
                let mut client = gateway.client();
                client.send(deed.sends.as_bytes());
                match deed.statuses {
                    [] => thread::sleep(Duration::from_millis(30)),
                    statuses => {
                        let status = client.response("GET").status;
                        assert!(statuses.contains(&status), "{name}: {status}");
                    }
                }
            }
            thread::sleep(Duration::from_millis(30));
            assert!(!is_ejected(&gateway), "{name}");
            assert_eq!(gateway.client().get("/", &[]).status, 200, "{name}");
        }
    }
}

/// The ways in which an endpoint may reject a request.
#[test]
fn an_endpoint_may_reject_a_request() {
    let large: &[&str] = &[&format!("X-Large: {}", "x".repeat(30_000))];
    let closing = || {
        Origin::serving(|stream, read| {
            while let Some(request) = read() {
                if request.head.len() > 8_000 || !request.fields("upgrade").is_empty() {
                    return;
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
        })
    };
    let origin = closing();
    let gateway = strict(&format!("http://{}", origin.address()), "", "");
    for _ in 0..3 {
        assert_eq!(gateway.client().get("/", large).status, 502);
        let mut client = gateway.client();
        client.send(HANDSHAKE.as_bytes());
        assert_eq!(client.response("GET").status, 502);
    }
    assert!(!is_ejected(&gateway));
    for code in [PROTOCOL_ERROR, ENHANCE_YOUR_CALM] {
        let endpoint = resetting(code);
        let gateway = strict(&endpoint.url(), "", "");
        for _ in 0..3 {
            assert_eq!(gateway.client().get("/", &[]).status, 502, "{code}");
        }
        assert!(!is_ejected(&gateway), "{code}");
    }
}

/// A response can be too large because it repeats parts of the request.
#[test]
fn a_response_that_is_too_large_ejects_no_endpoint() {
    let origin = Origin::answering(|_| {
        let large = "x".repeat(300_000);
        format!("HTTP/1.1 200 OK\r\nX-Large: {large}\r\nContent-Length: 0\r\n\r\n")
    });
    let endpoint = Endpoint::answering(|_, frame| match frame.ends_stream() {
        true => too_large(frame.stream),
        false => Vec::new(),
    });
    for endpoint in [format!("http://{}", origin.address()), endpoint.url()] {
        let gateway = strict(&endpoint, "", "");
        for _ in 0..3 {
            assert_eq!(gateway.client().get("/", &[]).status, 502, "{endpoint}");
        }
        assert!(!is_ejected(&gateway), "{endpoint}");
    }
}

/// An endpoint that resets each stream with this code.
fn resetting(code: u32) -> Endpoint {
    Endpoint::answering(move |_, frame| match frame.ends_stream() {
        true => reset(frame.stream, code),
        false => Vec::new(),
    })
}

fn is_ejected_by(endpoint: &str, what: &str) {
    let gateway = strict(endpoint, "timeouts: { response: 100ms }", "");
    let ask = |client: &mut Client| client.get("/", &[]).status;
    eventually(what, || {
        assert!(ask(&mut gateway.client()) >= 500, "{what}");
        is_ejected(&gateway)
    });
}

/// The opposite case.
#[test]
fn faults_that_an_endpoint_causes_itself_eject_it() {
    let closed = Reserved::new();
    is_ejected_by(&format!("http://{}", closed.address()), "the port is closed");
    for (what, answer) in [
        ("it closes", ""),
        ("it speaks no HTTP", "what?\r\n\r\n"),
        ("it says that it is ill", "HTTP/1.1 503 Ill\r\nContent-Length: 0\r\n\r\n"),
    ] {
        let origin = Origin::serving(move |stream, read| {
            if read().is_some() {
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        is_ejected_by(&format!("http://{}", origin.address()), what);
    }
    let silent = Origin::serving(|_, read| while read().is_some() {});
    is_ejected_by(&format!("http://{}", silent.address()), "it is silent");
    is_ejected_by(&resetting(INTERNAL_ERROR).url(), "it resets streams");
}
