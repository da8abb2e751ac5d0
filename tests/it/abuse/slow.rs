//! Clients that send or read slowly: their connections are closed in time, which releases
//! what they held.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use super::{gateway, withstands};
use crate::support::frames::{
    CANCEL, CONTINUATION, DATA, END_STREAM, Frames, HEADERS, INITIAL_WINDOW_SIZE, Outcome, PREFACE,
    WINDOW_UPDATE, block, frame, get, head, settings,
};
use crate::support::{Client, Gateway, Origin, eventually};

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "a.example"), (":path", "/")];
const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":authority", "a.example"), (":path", "/")];

/// The number of clients of each kind.
const CLIENTS: usize = 50;
const MOST_MIB: usize = 32;
const HURRY: &str =
    "timeouts: { handshake: 200ms, request_head: 200ms, request_body: 200ms, keep_alive: 10s }";
/// The pause between two pieces.
const PAUSE: Duration = Duration::from_millis(20);

/// Connections that have sent `first` send `again` from time to time, until all of them are
/// closed.
fn assert_given_up(first: &[u8], again: &[u8]) {
    let origin = Origin::hello();
    let gateway = gateway(&origin, HURRY);
    withstands(&gateway, MOST_MIB, || {
        let mut clients: Vec<Frames> =
            (0..CLIENTS).map(|_| Frames::silent(gateway.address())).collect();
        for client in &mut clients {
            client.send(first);
        }
        eventually("all are given up", || {
            clients.retain_mut(|client| client.send(again));
            thread::sleep(PAUSE);
            clients.is_empty()
        });
    });
}

#[test]
fn heads_that_trickle_are_given_up() {
    assert_given_up(b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: ", b"x");
}

#[test]
fn heads_of_http_2_that_trickle_are_given_up() {
    let fields = block(&[&GET[..], &[("x-long", &*"x".repeat(10_000))]].concat());
    let begun = frame(HEADERS, 0, 1, &fields)[..100].to_vec();
    assert_given_up(&[PREFACE, &settings(&[]), &begun].concat(), b"x");
}

#[test]
fn heads_of_http_2_whose_pieces_trickle_are_given_up() {
    let begun = frame(HEADERS, END_STREAM, 1, &block(&GET));
    let more = frame(CONTINUATION, 0, 1, b"");
    assert_given_up(&[PREFACE, &settings(&[]), &begun].concat(), &more);
}

#[test]
fn a_preface_that_trickles_is_given_up() {
    assert_given_up(b"PRI * HTTP/2.0\r\n", b"\r");
}

/// A head that began in the packet in which another one ended was once charged with the
/// time of the other.
#[test]
fn each_head_has_its_own_time_limit() {
    let origin = Origin::hello();
    let gateway = gateway(&origin, HURRY);
    let mut client = Frames::connect(gateway.address());
    let cut = 20;
    client.send(&get(1, "/")[..cut]);
    for stream in (1..60).step_by(2) {
        thread::sleep(PAUSE);
        let this = get(stream, "/");
        let next = get(stream + 2, "/");
        assert!(client.send(&[&this[cut..], &next[..cut]].concat()));
        assert_eq!(client.outcome(stream), Outcome::Status(200), "{stream}");
    }
}

#[test]
fn bodies_that_stop_are_given_up() {
    let origin = Origin::hello();
    let gateway = gateway(&origin, HURRY);
    withstands(&gateway, MOST_MIB, || {
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhel");
        }
        for client in &mut clients {
            assert_eq!(client.response("POST").status, 408);
            assert!(client.is_closed());
        }
    });
}

#[test]
fn bodies_of_http_2_that_stop_are_given_up() {
    let origin = Origin::hello();
    let gateway = gateway(&origin, HURRY);
    withstands(&gateway, MOST_MIB, || {
        let mut clients: Vec<Frames> =
            (0..CLIENTS).map(|_| Frames::connect(gateway.address())).collect();
        for client in &mut clients {
            client.send(&[head(1, &POST, false), frame(DATA, 0, 1, b"hel")].concat());
        }
        for client in &mut clients {
            assert_eq!(client.outcome(1), Outcome::Status(408));
        }
    });
}

/// An origin that responds to `/endless` without end, to `/silent` never, and to other
/// requests with an empty body.
fn endless() -> Origin {
    Origin::serving(|stream, read| {
        while let Some(request) = read() {
            if request.line().contains("/silent") {
                continue;
            }
            let endless = request.line().contains("/endless");
            let head = if endless { "" } else { "Content-Length: 0\r\n" };
            let _ = write!(stream, "HTTP/1.1 200 OK\r\n{head}\r\n");
            while endless && stream.write_all(&[b'x'; 64 * 1024]).is_ok() {}
        }
    })
}

#[test]
fn clients_that_do_not_read_need_little_memory() {
    let origin = endless();
    let gateway = gateway(&origin, HURRY);
    withstands(&gateway, MOST_MIB, || {
        let mut clients: Vec<Client> = (0..8).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.send(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        for client in &mut clients {
            assert_eq!(client.head().status, 200);
        }
        drop(clients);
    });
}

/// No pause is too long, but the rate is too low.
const LEISURE: &str = "timeouts: { request_body: 1s }, min_rate: 100MB";

#[test]
fn a_response_that_is_read_too_slowly_ends_the_connection() {
    let origin = endless();
    let gateway = gateway(&origin, LEISURE);
    let mut client = TcpStream::connect(gateway.address()).expect("the gateway accepts");
    client.write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is read");
    let mut piece = vec![0; 64 * 1024];
    eventually("the connection ends", || {
        thread::sleep(PAUSE / 2);
        !client.read(&mut piece).is_ok_and(|count| count > 0)
    });
}

#[test]
fn a_stream_that_is_read_too_slowly_is_reset_and_others_continue() {
    let origin = endless();
    let gateway = gateway(&origin, LEISURE);
    let mut client = Frames::with_settings(gateway.address(), &[(INITIAL_WINDOW_SIZE, 1000)]);
    let more = 8000_u32.to_be_bytes();
    client.send(&[get(1, "/endless"), frame(WINDOW_UPDATE, 0, 0, &[0x3f, 0, 0, 0])].concat());
    let mut is_reset = false;
    while !is_reset {
        let next = client.next().expect("in time").expect("the connection goes on");
        is_reset = next.resets(CANCEL);
        if next.kind == DATA {
            thread::sleep(PAUSE / 2);
            client.send(&frame(WINDOW_UPDATE, 0, 1, &more));
        }
    }
    client.send(&get(3, "/"));
    assert_eq!(client.outcome(3), Outcome::Status(200));
}

/// A backend may send large pieces, of which a slow client takes one for a long time.
#[test]
fn a_stream_that_is_read_faster_than_the_minimum_is_not_reset() {
    let origin = endless();
    let gateway = gateway(&origin, "timeouts: { request_body: 3s }, min_rate: 1KB");
    let mut client = Frames::with_settings(gateway.address(), &[(INITIAL_WINDOW_SIZE, 0)]);
    client.send(&[get(1, "/endless"), frame(WINDOW_UPDATE, 0, 0, &[0x3f, 0, 0, 0])].concat());
    assert_eq!(client.outcome(1), Outcome::Status(200));
    let piece = 4_000;
    for _ in 0..32 {
        thread::sleep(Duration::from_millis(250));
        client.send(&frame(WINDOW_UPDATE, 0, 1, &u32::to_be_bytes(piece)));
        let mut read = 0;
        while read < piece {
            let next = client.next().expect("in time").expect("the connection goes on");
            assert!(!next.resets(CANCEL), "it is read at 16 times the minimum");
            if next.kind == DATA {
                read += u32::try_from(next.payload.len()).expect("a frame is small");
            }
        }
    }
}

#[test]
fn a_body_of_known_length_that_trickles_is_given_up() {
    let origin = Origin::hello();
    let gateway = gateway(&origin, "timeouts: { request_body: 300ms }, min_rate: 1KB");
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    let mut frames = Frames::connect(gateway.address());
    frames.send(&head(1, &[&POST[..], &[("content-length", "1000")]].concat(), false));
    for _ in 0..100 {
        client.send(b"x");
        frames.send(&frame(DATA, 0, 1, b"x"));
        thread::sleep(PAUSE / 2);
    }
    assert_eq!(client.response("POST").status, 408);
    assert_eq!(frames.outcome(1), Outcome::Status(408));
}

/// A client may have nothing to send for a while, as in a gRPC call.
#[test]
fn a_body_of_unknown_length_may_trickle() {
    let origin = Origin::hello();
    let gateway = gateway(&origin, "timeouts: { request_body: 300ms }, min_rate: 1KB");
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..50 {
        client.send(b"1\r\nx\r\n");
        thread::sleep(PAUSE / 2);
    }
    client.send(b"0\r\n\r\n");
    assert_eq!(client.response("POST").status, 200);
}

/// A window that is never opened blocks only its stream. Such a stream once kept its
/// connection to the upstream as long as another stream waited for a response.
#[test]
fn streams_without_window_are_reset_and_others_continue() {
    let origin = endless();
    let gateway = gateway(&origin, HURRY);
    withstands(&gateway, MOST_MIB, || {
        let mut client = Frames::with_settings(gateway.address(), &[(INITIAL_WINDOW_SIZE, 0)]);
        client.send(&get(1, "/silent"));
        for stream in (3..103).step_by(2) {
            client.send(&get(stream, "/endless"));
        }
        let mut resets = 0;
        while resets < 50 {
            let frame = client.next().expect("in time").expect("the connection goes on");
            resets += usize::from(frame.resets(CANCEL));
        }
        client.send(&get(103, "/"));
        assert_eq!(client.outcome(103), Outcome::Status(200));
    });
}

#[test]
fn a_stream_without_window_releases_its_permits() {
    let origin = endless();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\", {HURRY} }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"], max_in_flight: 1 }} }}\n\
         policies: {{ p: {{ key: ip, limit: 1, algorithm: concurrency }} }}\n\
         routes:\n- {{ path: /endless, upstream: app }}\n\
         - {{ path: /limited/*, policies: [p], upstream: app }}\n\
         - {{ path: /*, upstream: app }}\n\
         runtime: {{ workers: 1 }}\n",
        origin.address()
    ));
    for (path, probe, refused) in [("/endless", "/", 503), ("/limited/endless", "/limited/", 429)] {
        let mut deaf = Frames::with_settings(gateway.address(), &[(INITIAL_WINDOW_SIZE, 0)]);
        deaf.send(&get(1, path));
        assert_eq!(deaf.outcome(1), Outcome::Status(200));
        assert_eq!(gateway.client().get(probe, &[]).status, refused);
        assert_eq!(deaf.outcome(1), Outcome::Reset(CANCEL));
        eventually("a unit is free", || gateway.client().get(probe, &[]).status == 200);
    }
}
