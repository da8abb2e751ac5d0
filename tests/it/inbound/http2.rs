//! HTTP/2 from clients: its effect on backends and clients, and the end of connections.

use std::error::Error as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use futures_util::future::join_all;
use h2::Reason;
use http::{HeaderValue, Version};
use http_body_util::BodyExt as _;
use hyper::body::Frame;

use super::{gateway, limiting};
use crate::support::frames::{CANCEL, Frames, GOAWAY, Outcome, PING, frame, get, reset};
use crate::support::http::{Answer, Http, block_on, nothing, request, soon, streamed, whole};
use crate::support::{Backend, Gateway, Origin, Received, Speaks, eventually};
use crate::traffic::{TOKEN, metric};

fn before_origin(origin: &Origin, listener: &str) -> Gateway {
    gateway(listener, &format!("http://{}", origin.address()), "")
}

fn before_backend(backend: &Backend, listener: &str) -> Gateway {
    gateway(listener, &format!("http://{}", backend.address()), "")
}

#[test]
fn a_backend_of_http_1_meets_a_request_of_http_1() {
    let origin = Origin::hello();
    let gateway = before_origin(&origin, "");
    let answer = block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        let mut request = request("POST", "/a?b=c", whole("body"));
        for cookie in ["a=1", "b=2; c=3"] {
            request.headers_mut().append("cookie", HeaderValue::from_static(cookie));
        }
        http.ask(request).await.unwrap()
    });
    assert_eq!((answer.status.as_u16(), answer.version), (200, Version::HTTP_2));
    assert_eq!(answer.body, "hello");
    let received = &origin.received()[0];
    assert_eq!(received.line(), "POST /a?b=c HTTP/1.1");
    assert_eq!(received.body, b"body");
    for (name, value) in [
        ("host", "gateway.test"),
        ("via", "2.0 tollgate"),
        ("cookie", "a=1; b=2; c=3"),
        ("content-length", "4"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "gateway.test"),
    ] {
        assert_eq!(received.fields(name), [value], "{name}");
    }
}

#[test]
fn limits_are_reported_as_in_http_1() {
    let origin = Origin::hello();
    let endpoint = format!("http://{}", origin.address());
    let gateway = limiting("", &endpoint, "key: ip, limit: 1/day", "");
    let (passed, refused) = block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        (http.get("/").await, http.get("/").await)
    });
    assert_eq!(passed.status, 200);
    assert_eq!(passed.headers["x-ratelimit-remaining"], "0");
    assert_eq!(refused.status, 429);
    assert_eq!(refused.headers["content-type"], "application/problem+json");
    assert!(refused.headers.contains_key("retry-after"));
    let problem: serde_json::Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!(problem["status"], 429);
    assert_eq!(gateway.client().get("/", &[]).status, 429, "one client, whatever it speaks");
}

#[test]
fn a_body_is_as_long_as_its_route_allows() {
    let backend = Backend::start(Speaks::Http1);
    let endpoint = format!("http://{}", backend.address());
    let gateway = gateway("", &endpoint, "max_body: 1KiB");
    block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        let ask = async |body| http.ask(request("POST", "/", body)).await.unwrap().status;
        assert_eq!(ask(whole(vec![0; 1024])).await, 200);
        assert_eq!(ask(whole(vec![0; 1025])).await, 413, "its length is known");
        let (sender, body) = streamed();
        let answer = http.send(request("POST", "/", body));
        let send = async {
            // The gateway may stop reading at any piece.
            while sender.send(Frame::data(vec![0; 512].into())).await.is_ok() {}
        };
        let (answer, ()) = tokio::join!(async { Answer::read(answer.await?).await }, send);
        assert_eq!(answer.unwrap().status, 413, "its length is not known");
        assert_eq!(ask(whole(vec![0; 1024])).await, 200, "the connection stays open");
    });
}

#[test]
fn requests_of_one_connection_do_not_wait_for_each_other() {
    let backend = Backend::start(Speaks::Http1);
    let gateway = before_backend(&backend, "");
    block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        let waits = http.send(request("GET", "/never", nothing()));
        let others = (0..100).map(|number| {
            let body = format!("body {number}");
            let answer = http.ask(request("POST", "/slow", whole(body.clone())));
            async move { (answer.await.unwrap().body, body) }
        });
        let answers = async {
            for (answer, body) in join_all(others).await {
                assert_eq!(answer, body);
            }
        };
        tokio::select! {
            _ = waits => panic!("this has no response"),
            () = answers => {}
        }
    });
    assert_eq!(backend.seen().len(), 100);
}

/// The client learns the bound with the first frame of the gateway. Requests that it sent
/// before may be refused, but not lost.
#[test]
fn requests_above_the_stream_limit_wait_or_can_be_sent_again() {
    let backend = Backend::start(Speaks::Http1);
    let gateway = before_backend(&backend, "http2: { max_streams: 4 }");
    let refused = block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        let asked = join_all((0..20).map(|_| {
            let answer = http.ask(request("GET", "/slow", nothing()));
            async {
                match answer.await {
                    Ok(answer) => {
                        assert_eq!(answer.status, 200);
                        0
                    }
                    Err(error) => {
                        let source = error.source().and_then(|it| it.downcast_ref::<h2::Error>());
                        let reason = source.and_then(h2::Error::reason);
                        assert_eq!(reason, Some(Reason::REFUSED_STREAM), "{error:?}");
                        1
                    }
                }
            }
        }));
        let refused: usize = asked.await.into_iter().sum();
        assert_eq!(http.get("/").await.status, 200, "the connection stays open");
        refused
    });
    assert_eq!(backend.seen().len() + refused, 21);
}

#[test]
fn a_request_that_is_cancelled_is_cancelled_at_the_backend_alone() {
    for speaks in [Speaks::Http1, Speaks::Http2 { max_streams: 100 }] {
        let scheme = if matches!(speaks, Speaks::Http1) { "http" } else { "h2c" };
        let backend = Backend::start(speaks);
        let gateway = gateway("", &format!("{scheme}://{}", backend.address()), "");
        block_on(async {
            let http = Http::prior_knowledge(gateway.address()).await;
            let never = http.send(request("GET", "/never", nothing()));
            tokio::select! {
                _ = never => panic!("this has no response"),
                () = soon("the backend has it", || backend.begun() == 1) => {}
            }
            soon("the backend is told", || backend.abandoned() == 1).await;
            assert_eq!(http.get("/").await.status, 200, "the connection stays open");
        });
    }
}

#[test]
fn a_response_that_its_client_cancels_is_cancelled_at_the_backend() {
    let (told, closed) = mpsc::channel();
    let origin = Origin::serving(move |stream, read| {
        read();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfirst");
        // Until the gateway closes the connection.
        let _ = stream.read(&mut [0; 1]);
        told.send(()).unwrap();
    });
    let gateway = before_origin(&origin, "");
    block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        let mut answer = http.send(request("GET", "/", nothing())).await.unwrap();
        assert_eq!(answer.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
        assert!(closed.try_recv().is_err(), "it is under way");
        drop(answer);
        soon("the connection is closed", || closed.try_recv().is_ok()).await;
    });
}

/// As the clients of a proxy cancel that close a page, before the worker has seen their requests.
#[test]
fn as_many_streams_as_may_be_reset_in_a_second_may_be_reset_at_once() {
    let gateway = before_origin(&Origin::hello(), "http2: { max_resets: 60 }");
    let mut client = Frames::connect(gateway.address());
    let cancelled = (0..60).map(|number| 2 * number + 1);
    let cancelled = cancelled.flat_map(|it| [get(it, "/"), reset(it, CANCEL)].concat());
    client.send(&cancelled.chain(get(121, "/")).collect::<Vec<_>>());
    assert_eq!(client.outcome(121), Outcome::Status(200));
}

/// Each of them would take a new connection to the endpoint, and fill its queue.
#[test]
fn requests_whose_streams_are_reset_at_once_are_not_forwarded() {
    let origin = Origin::hello();
    let gateway = before_origin(&origin, "http2: { max_resets: 100 }");
    let mut client = Frames::connect(gateway.address());
    let cancelled = (0..100).map(|number| 2 * number + 1);
    let cancelled = cancelled.flat_map(|it| [get(it, "/cancelled"), reset(it, CANCEL)].concat());
    client.send(&cancelled.chain(get(201, "/")).collect::<Vec<_>>());
    assert_eq!(client.outcome(201), Outcome::Status(200));
    assert_eq!(origin.connections(), 1);
    let received = origin.received();
    assert!(received.iter().all(|it| it.head.starts_with("GET / HTTP/1.1")), "{received:?}");
    assert_eq!(gateway.access_lines(101).len(), 101);
}

#[test]
fn the_metrics_say_that_a_client_has_exceeded_a_bound() {
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\", http2: {{ max_control_frames: 50 }} }}]\n\
         routes: [{{ path: /*, respond: {{ body: ok }} }}]\n\
         admin: {{ address: \"127.0.0.1:0\", tokens: [{{ name: m, role: metrics, token: {TOKEN} }}] }}\n"
    ));
    let mut client = Frames::connect(gateway.address());
    client.send(&frame(PING, 0, 0, &[0; 8]).repeat(60));
    assert!(client.ends());
    let ended = |cause: &str| metric(&gateway, "tollgate_connections_ended_total", &[cause]);
    eventually("the end is counted", || ended("cause=\"excess\"") == 1.0);
    assert_eq!(ended("cause=\"client_error\""), 0.0);
}

#[test]
fn http2_is_not_spoken_if_it_is_disabled() {
    let origin = Origin::hello();
    let gateway = before_origin(&origin, "http2: false");
    let mut client = gateway.client();
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(client.response("PRI").status, 505);
    assert!(client.is_closed());
    assert_eq!(gateway.client().get("/", &[]).status, 200);
}

#[test]
fn at_a_stop_what_is_under_way_is_completed() {
    let backend = Backend::start(Speaks::Http1);
    let mut gateway = before_backend(&backend, "");
    block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        let (sender, body) = streamed();
        sender.send(Frame::data("before".into())).await.unwrap();
        let answer = http.send(request("POST", "/stream", body)).await.unwrap();
        gateway.terminate();
        soon("the gateway begins to stop", || {
            TcpStream::connect_timeout(&gateway.address(), Duration::from_millis(50)).is_err()
        })
        .await;
        sender.send(Frame::data(", after".into())).await.unwrap();
        drop(sender);
        let answer = Answer::read(answer).await.unwrap();
        assert_eq!(answer.body, "before, after");
        http.ended().await.expect("it is told that the connection ends");
    });
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn an_idle_connection_of_http_2_is_closed() {
    let origin = Origin::hello();
    let gateway = before_origin(&origin, "timeouts: { keep_alive: 200ms }");
    block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        assert_eq!(http.get("/").await.status, 200);
        http.ended().await.expect("it is told that the connection ends");
    });
}

/// The library sends the content of a response to HEAD over HTTP/2, which is an error of the protocol.
#[test]
fn what_the_gateway_answers_to_head_has_no_content() {
    let limited = "policies: { p: { key: ip, limit: 1/hour } }";
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ away: {{ endpoints: [\"http://127.0.0.1:1\"] }} }}\n{limited}\n\
         routes:\n- {{ path: /fixed, respond: {{ body: hello }} }}\n\
         - {{ path: /none, respond: {{ status: 204 }} }}\n\
         - {{ path: /limited, policies: [p], respond: {{ body: hello }} }}\n\
         - {{ path: /away, upstream: away }}\n"
    ));
    assert_eq!(gateway.client().get("/limited", &[]).status, 200);
    block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        for (path, status) in
            [("/fixed", 200), ("/none", 204), ("/limited", 429), ("/away", 502), ("/unknown", 404)]
        {
            let get = http.get(path).await;
            let head = http.ask(request("HEAD", path, nothing())).await.expect(path);
            assert_eq!((get.status.as_u16(), head.status.as_u16()), (status, status), "{path}");
            assert_eq!(head.body, "", "{path}");
            let length = |answer: &Answer| answer.headers.get("content-length").cloned();
            assert_eq!(length(&head), length(&get), "{path}");
            let has_content = status != 204;
            assert_eq!(length(&head).is_some(), has_content, "{path}");
        }
    });
}

/// A connection to a client that does not answer is closed all the same.
#[test]
fn an_idle_connection_to_a_silent_client_is_closed() {
    let gateway = before_origin(&Origin::hello(), "timeouts: { keep_alive: 200ms }");
    let mut silent = Frames::connect(gateway.address());
    let mut kinds = Vec::new();
    while let Some(next) = silent.next().expect("it is closed in time") {
        kinds.push(next.kind);
    }
    assert!(kinds.contains(&GOAWAY), "{kinds:?}");
}

/// A client may divide its cookies into fields (RFC 9113, section 8.2.3).
#[test]
fn divided_cookies_are_one_field() {
    let gateway = before_origin(&Origin::hello(), "max_headers: 20");
    block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        for (name, status) in [("cookie", 200), ("x-other", 431)] {
            let mut request = request("GET", "/", nothing());
            for _ in 0..25 {
                request.headers_mut().append(name, HeaderValue::from_static("a=1"));
            }
            assert_eq!(http.ask(request).await.unwrap().status, status, "{name}");
        }
    });
}

#[test]
fn answers_without_a_body_have_none() {
    let origin = Origin::answering(|request: &Received| {
        let status = match request.line() {
            line if line.starts_with("HEAD") => "200 OK\r\nContent-Length: 5",
            line if line.contains("/204") => "204 No Content",
            _ => "304 Not Modified\r\nETag: \"a\"",
        };
        format!("HTTP/1.1 {status}\r\n\r\n")
    });
    let gateway = before_origin(&origin, "");
    block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        for (method, path, status) in
            [("HEAD", "/", 200), ("GET", "/204", 204), ("GET", "/304", 304), ("HEAD", "/", 200)]
        {
            let answer = http.ask(request(method, path, nothing())).await.unwrap();
            assert_eq!((answer.status.as_u16(), &answer.body[..]), (status, &b""[..]), "{path}");
            let length = answer.headers.get("content-length");
            assert_eq!(length.map(HeaderValue::as_bytes), (method == "HEAD").then_some(&b"5"[..]));
        }
    });
    // The connection of the first HEAD rests, since its answer has announced a body.
    assert_eq!(origin.connections(), 2, "each answer ends where the gateway thinks it does");
}
