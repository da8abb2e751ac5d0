//! Routes with a mirror.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::mpsc;

use super::{endpoint, gateway, metric, saying, yaml};
use crate::support::frames::{DATA, END_STREAM, Frames, Outcome, frame, head};
use crate::support::{Backend, Gateway, Origin, PATIENCE, Speaks, eventually};

const MIRRORED: &str = "tollgate_mirrored_total";

fn start(app: &Origin, shadow: &Origin, mirror: &str) -> Gateway {
    let upstreams = [
        ("app", endpoint(app.address())),
        ("shadow", format!("{}, eject: {{ consecutive_errors: 1 }}", endpoint(shadow.address()))),
    ];
    let route = format!("upstream: app, mirror: {{ upstream: shadow, {mirror} }}");
    gateway(&upstreams, &route, "runtime: { workers: 1 }")
}

fn count(gateway: &Gateway, result: &str) -> f64 {
    metric(gateway, MIRRORED, &["upstream=\"shadow\"", &format!("result=\"{result}\"")])
}

/// Accepts connections, reads requests and never answers.
fn silent() -> (Origin, mpsc::Sender<()>) {
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = Mutex::new(receiver);
    let origin = Origin::serving(move |_, read| {
        read();
        // Until the test ends.
        let _ = receiver.lock().map(|receiver| receiver.recv_timeout(PATIENCE * 3));
    });
    (origin, sender)
}

#[test]
fn a_copy_has_the_head_and_the_body_of_its_request() {
    let app = saying("app");
    let shadow = saying("shadow");
    let gateway = start(&app, &shadow, "methods: [GET, POST]");
    let mut client = gateway.client();
    let body = vec![b'x'; 60_000];
    assert_eq!(client.get("/a?b=c", &["X-A: b"]).text(), "app");
    assert_eq!(client.request("POST", "/p", &[], &body).text(), "app");
    for (path, trailers) in [("/c", ""), ("/t", "x-sum: 1\r\n")] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.send(format!("{head}3\r\nabc\r\n2\r\nde\r\n0\r\n{trailers}\r\n").as_bytes());
        assert_eq!(client.response("POST").text(), "app");
    }
    eventually("all copies are answered", || count(&gateway, "sent") == 4.0);
    let find = |received: Vec<crate::support::Received>, path: &str| {
        received.into_iter().find(|it| it.line().contains(path)).expect("it was received")
    };
    for path in ["/a?b=c", "/p", "/c", "/t"] {
        let original = find(app.received(), path);
        let copy = find(shadow.received(), path);
        assert_eq!((original.line(), &original.body), (copy.line(), &copy.body));
        for name in ["x-a", "host", "x-forwarded-for", "x-request-id", "via"] {
            assert_eq!(original.fields(name), copy.fields(name), "{path} {name}");
        }
    }
    assert_eq!(find(shadow.received(), "/c").fields("content-length"), ["5"]);
    // The log and the metrics of the requests know nothing of it.
    let lines = gateway.access_lines(4);
    assert!(lines.iter().all(|it| it["upstream"] == "app" && it["attempts"] == 1));
}

#[test]
fn copies_go_over_http2_too() {
    let [app, shadow] = [(); 2].map(|()| Backend::start(Speaks::Http2 { max_streams: 10 }));
    let fields = |backend: &Backend| format!("endpoints: [\"h2c://{}\"]", backend.address());
    let upstreams = [("app", fields(&app)), ("shadow", fields(&shadow))];
    let route = "upstream: app, mirror: { upstream: shadow, methods: [GET, POST] }";
    let gateway = gateway(&upstreams, route, "");
    let mut client = gateway.client();
    assert_eq!(client.request("POST", "/", &["X-A: b"], b"some body").text(), "some body");
    assert_eq!(client.get("/get", &[]).status, 200);
    eventually("all copies are answered", || count(&gateway, "sent") == 2.0);
    for path in ["/", "/get"] {
        let find = |backend: &Backend| {
            let mut seen = backend.seen().into_iter();
            seen.rfind(|it| it.uri.ends_with(path)).expect("it was received")
        };
        let original = find(&app);
        let copy = find(&shadow);
        assert_eq!(original.body, copy.body, "{path}");
        for name in ["x-a", "x-forwarded-for", "via", "x-request-id", "content-length"] {
            assert_eq!(original.headers.get(name), copy.headers.get(name), "{path} {name}");
        }
    }
}

/// The upstream over HTTP/1 reads no more than the announced length.
#[test]
fn a_body_whose_stream_ends_in_a_frame_of_its_own_is_copied() {
    let app = saying("app");
    let shadow = saying("shadow");
    let gateway = start(&app, &shadow, "methods: [POST]");
    let mut client = Frames::connect(gateway.address());
    let post = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/p")];
    let open = |stream: u32, length: &'static str| {
        head(stream, &[&post[..], &[("content-length", length)]].concat(), false)
    };
    let body = [open(1, "3"), frame(DATA, 0, 1, b"abc"), frame(DATA, END_STREAM, 1, b"")];
    client.send(&body.concat());
    assert_eq!(client.outcome(1), Outcome::Status(200));
    eventually("the copy is answered", || count(&gateway, "sent") == 1.0);
    assert_eq!(shadow.received()[0].body, b"abc");
    client.send(&[open(3, "0"), frame(DATA, END_STREAM, 3, b"")].concat());
    assert_eq!(client.outcome(3), Outcome::Status(200));
    eventually("the copy without a body is answered", || count(&gateway, "sent") == 2.0);
    assert_eq!(count(&gateway, "skipped_incomplete"), 0.0);
}

/// The mirror's failures are in no response, so the log has their cause.
#[test]
fn the_log_says_why_tls_to_a_mirror_fails() {
    let app = saying("app");
    let shadow = saying("shadow");
    let secure = format!("endpoints: [\"https://{}\"]", shadow.address());
    let upstreams = [("app", endpoint(app.address())), ("shadow", secure)];
    let gateway = gateway(&upstreams, "upstream: app, mirror: { upstream: shadow }", "");
    let mut client = gateway.client();
    assert!((0..3).all(|_| client.get("/", &[]).text() == "app"));
    eventually("the copies have failed", || count(&gateway, "failed") == 3.0);
    let warns = |line: &&str| line.contains("no connection to an endpoint can be opened");
    let is_told = |line: &str| line.contains("shadow") && line.contains("remedy");
    eventually("the log warns", || gateway.log().lines().find(warns).is_some_and(is_told));
}

#[test]
fn only_requests_that_the_mirror_names_are_copied() {
    let app = saying("app");
    let shadow = saying("shadow");
    let gateway = start(&app, &shadow, "max_body: 1KiB");
    let mut client = gateway.client();
    client.request("POST", "/post", &[], b"body");
    client.request("GET", "/large", &[], &[b'x'; 1025]);
    client.send(b"GET /chunked HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..2 {
        client.send(format!("3ff\r\n{}\r\n", "x".repeat(1023)).as_bytes());
    }
    client.send(b"0\r\n\r\n");
    assert_eq!(client.response("GET").status, 200);
    client.request("GET", "/small", &[], &[b'x'; 1024]);
    eventually("the copy is answered", || count(&gateway, "sent") == 1.0);
    assert_eq!(count(&gateway, "skipped_body"), 2.0);
    assert_eq!(app.received().len(), 4);
    let received = shadow.received();
    assert_eq!(received.len(), 1);
    assert!(received[0].line().contains("/small"));
    let none = start(&app, &shadow, "share: 0%");
    assert!((0..50).all(|_| none.client().get("/", &[]).status == 200));
    assert_eq!(shadow.received().len(), 1);
}

/// Acceptance 9 of the contract. The copies in flight stay at the bound, and the stop does not wait
/// for them.
#[test]
fn a_silent_mirror_changes_nothing() {
    let (app, (shadow, _end)) = (saying("app"), silent());
    let mut gateway = start(&app, &shadow, "max_in_flight: 3");
    let mut client = gateway.client();
    assert!((0..200).all(|_| client.get("/", &[]).text() == "app"));
    eventually("copies have arrived", || shadow.received().len() == 3);
    assert_eq!(shadow.connections(), 3);
    assert_eq!(count(&gateway, "skipped_busy"), 197.0);
    let lines = gateway.access_lines(200);
    assert!(lines.iter().all(|it| it["status"] == 200 && it["outcome"] == "admitted"));
    drop(client);
    gateway.terminate();
    // The drain time is 30 s, and the longest time of a copy, too. This waits for less.
    assert_eq!(gateway.wait().code(), Some(0));
}

/// A file that is loaded again and again must not add copies each time.
#[test]
fn the_copies_in_flight_count_over_a_reload() {
    let (app, (shadow, _end)) = (saying("app"), silent());
    let mirrored = |bound: usize, top: &str| {
        let upstreams = [("app", endpoint(app.address())), ("shadow", endpoint(shadow.address()))];
        let mirror = format!("mirror: {{ upstream: shadow, max_in_flight: {bound} }}");
        yaml(&upstreams, &format!("name: a, upstream: app, {mirror}"), top)
    };
    let gateway = Gateway::start(&mirrored(3, "runtime: { workers: 1 }"));
    let ask = |times: usize| {
        let mut client = gateway.client();
        assert!((0..times).all(|_| client.get("/", &[]).text() == "app"));
    };
    ask(10);
    eventually("copies have arrived", || shadow.received().len() == 3);
    gateway.reload(&mirrored(3, "runtime: { workers: 1 }\nproblem_json: false"));
    ask(10);
    eventually("the copies before the reload count", || count(&gateway, "skipped_busy") == 17.0);
    // A larger bound has room for more beside them.
    gateway.reload(&mirrored(5, "runtime: { workers: 1 }"));
    ask(10);
    eventually("two more have a place", || shadow.received().len() == 5);
    assert_eq!(count(&gateway, "skipped_busy"), 25.0);
}

/// The shadow fails and is ejected as an upstream of its own route would be. Here it has none.
#[test]
fn a_mirror_that_fails_is_counted_and_harms_nothing() {
    let app = saying("app");
    let shadow = Origin::serving(|stream, read| {
        read();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    });
    let gateway = start(&app, &shadow, "share: 100%");
    let mut client = gateway.client();
    assert!((0..20).all(|_| client.get("/", &[]).text() == "app"));
    eventually("all copies have failed", || count(&gateway, "failed") == 20.0);
    assert_eq!(shadow.received().len(), 20, "no endpoint was ejected");
    assert_eq!(metric(&gateway, "tollgate_upstream_retries_total", &[]), 0.0);
}

/// An endless answer is read up to a bound.
#[test]
fn the_answer_is_read_up_to_a_bound() {
    let app = saying("app");
    let (told, tells) = mpsc::channel();
    let told = Mutex::new(told);
    let shadow = Origin::serving(move |stream, read| {
        read();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
        let mut chunks = 0;
        while stream.write_all(chunk.as_bytes()).is_ok() {
            chunks += 1;
        }
        let _ = told.lock().map(|told| told.send(chunks));
    });
    let gateway = start(&app, &shadow, "share: 100%");
    assert_eq!(gateway.client().get("/", &[]).text(), "app");
    let chunks: usize = tells.recv_timeout(PATIENCE).expect("the connection is closed");
    assert!(chunks >= 63, "{chunks} chunks of 16 KiB");
    eventually("the copy counts as sent", || count(&gateway, "sent") == 1.0);
}

/// A client that leaves in the middle of its body leaves no copy behind.
#[test]
fn a_body_that_breaks_off_is_not_copied() {
    let app = saying("app");
    let shadow = saying("shadow");
    let gateway = start(&app, &shadow, "methods: [POST], max_in_flight: 1");
    for _ in 0..3 {
        let mut client = gateway.client();
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf");
        drop(client);
    }
    eventually("they are counted", || {
        count(&gateway, "skipped_incomplete") + count(&gateway, "skipped_busy") == 3.0
    });
    eventually("the place is free", || {
        gateway.client().request("POST", "/", &[], b"whole");
        count(&gateway, "sent") >= 1.0
    });
    assert!(shadow.received().iter().all(|it| it.body == b"whole"));
}
