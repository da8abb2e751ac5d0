//! Frames that cost a client nothing, sent as fast as it can: each kind ends its
//! connection (RFC 9113, section 10.5).

use super::{gateway, withstands};
use crate::support::frames::{
    CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Frames, HEADERS,
    Outcome, PING, PRIORITY, RST_STREAM, WINDOW_UPDATE, block, frame, get, head, settings,
};
use crate::support::{Gateway, Origin};

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "a.example"), (":path", "/")];

/// More than the bound of each kind of frame.
const MANY: u32 = 200_000;
/// Time limits that end no connection during a test.
const UNHURRIED: &str = "timeouts: { request_head: 1h, keep_alive: 1h }";
/// The memory of a connection is small, and freed at its end.
const MOST_MIB: usize = 32;

/// A gateway that responds itself, and forwards `/silent` to `origin`.
fn silent(origin: &Origin, listener: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\", {listener} }}]\n\
         upstreams: {{ silent: {{ endpoints: [\"http://{}\"] }} }}\n\
         routes:\n- {{ path: /silent, upstream: silent }}\n- {{ path: /*, respond: {{ body: ok }} }}\n\
         runtime: {{ workers: 1 }}\n",
        origin.address()
    ))
}

/// Sends `first`, then `again` repeatedly, until the connection ends.
fn assert_ends(first: &[u8], again: &[u8]) {
    let origin = Origin::hello();
    let gateway = gateway(&origin, UNHURRIED);
    withstands(&gateway, MOST_MIB, || flood(&gateway, first, |_| again.to_vec()));
}

/// Sends `first`, then what `next` makes of the numbers from 0, until the
/// connection ends. If the machine is busy, the kernel may take all of it before
/// the gateway sees any.
fn flood(gateway: &Gateway, first: &[u8], next: impl Fn(u32) -> Vec<u8>) {
    let mut client = Frames::connect(gateway.address());
    client.send(first);
    let pieces = (0..MANY).step_by(100);
    let mut pieces = pieces.map(|first| (first..first + 100).flat_map(&next).collect::<Vec<_>>());
    // Writes may fail or not: the connection must end.
    let _ = pieces.find(|piece| !client.send(piece));
    assert!(client.ends());
}

#[test]
fn settings_without_end_end_the_connection() {
    assert_ends(&[], &settings(&[]));
    assert_ends(&[], &settings(&[(4, 70_000)]));
}

#[test]
fn pings_without_end_end_the_connection() {
    assert_ends(&[], &frame(PING, 0, 0, &[0; 8]));
    assert_ends(&[], &frame(PING, 1, 0, &[0; 8]));
}

#[test]
fn priorities_without_end_end_the_connection() {
    assert_ends(&[], &frame(PRIORITY, 0, 5, &[0, 0, 0, 3, 1]));
}

#[test]
fn unknown_frames_without_end_end_the_connection() {
    assert_ends(&[], &frame(0xfa, 0, 0, b"grease"));
}

#[test]
fn empty_data_without_end_ends_the_connection() {
    let post = head(1, &[&[(":method", "POST")], &GET[1..]].concat(), false);
    assert_ends(&post, &frame(DATA, 0, 1, b""));
}

#[test]
fn updates_of_windows_without_end_end_the_connection() {
    let nothing = 1_u32.to_be_bytes();
    assert_ends(&[], &frame(WINDOW_UPDATE, 0, 0, &nothing));
    let post = head(1, &[&[(":method", "POST")], &GET[1..]].concat(), false);
    assert_ends(&post, &frame(WINDOW_UPDATE, 0, 1, &nothing));
}

/// CVE-2024-27316 and similar attacks.
#[test]
fn a_head_of_pieces_without_end_ends_the_connection() {
    let first = frame(HEADERS, END_STREAM, 1, &block(&GET));
    assert_ends(&first, &frame(CONTINUATION, 0, 1, &block(&[("x-a", "1")])));
    assert_ends(&first, &frame(CONTINUATION, 0, 1, b""));
}

/// CVE-2023-44487: a stream that is reset at once does not count as open, so the bound on
/// streams does not limit such streams.
#[test]
fn streams_reset_without_end_end_the_connection() {
    let origin = Origin::hello();
    let gateway = gateway(&origin, UNHURRIED);
    let cancel = CANCEL.to_be_bytes();
    withstands(&gateway, MOST_MIB, || {
        flood(&gateway, &[], |number| {
            let stream = number * 2 + 1;
            [get(stream, "/"), frame(RST_STREAM, 0, stream, &cancel)].concat()
        });
    });
}

/// Opens streams whose requests are passed on, and gives each up with what
/// `give_up` makes of its number, until the connection ends.
fn assert_under_way_ends(give_up: impl Fn(u32) -> Vec<u8>) {
    const MOST: usize = 3000;
    let origin = Origin::serving(|_, read| while read().is_some() {});
    let gateway = silent(&origin, "");
    withstands(&gateway, MOST_MIB, || {
        let mut client = Frames::connect(gateway.address());
        let mut given_up = 0;
        for stream in (1..).step_by(4).take(MOST) {
            // When the second is answered, the first is on its way to the origin.
            if !client.send(&[get(stream, "/silent"), get(stream + 2, "/")].concat())
                || client.outcome(stream + 2) != Outcome::Status(200)
                || !client.send(&give_up(stream))
            {
                break;
            }
            given_up += 1;
        }
        assert!(given_up < MOST, "all of them were taken");
        assert!(client.ends());
    });
}

/// The same with requests that were forwarded before the reset.
#[test]
fn streams_reset_while_their_requests_run_end_the_connection() {
    assert_under_way_ends(|stream| frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()));
}

/// CVE-2025-8671: the client makes the gateway reset them.
#[test]
fn streams_that_the_gateway_is_made_to_reset_end_the_connection() {
    assert_under_way_ends(|stream| frame(WINDOW_UPDATE, 0, stream, &[0; 4]));
}

/// Malformed requests are answered with resets, which cost as much.
#[test]
fn malformed_heads_without_end_end_the_connection() {
    let origin = Origin::hello();
    let gateway = gateway(&origin, UNHURRIED);
    let malformed = [&GET[..], &[("connection", "close")]].concat();
    withstands(&gateway, MOST_MIB, || {
        flood(&gateway, &[], |number| head(number * 2 + 1, &malformed, true));
    });
}

/// The HTTP library reports the end of the connection for each, and it is resumed a bounded
/// number of times.
#[test]
fn tunnels_with_a_length_without_end_end_the_connection() {
    let origin = Origin::hello();
    let gateway = gateway(&origin, UNHURRIED);
    let tunnel = [(":method", "CONNECT"), (":authority", "a.example"), ("content-length", "5")];
    withstands(&gateway, MOST_MIB, || {
        flood(&gateway, &[], |number| head(number * 2 + 1, &tunnel, false));
    });
}

/// The HTTP library wrote a line for each.
#[test]
fn answers_to_pings_that_were_never_sent_do_not_fill_the_log() {
    let origin = Origin::hello();
    let gateway = gateway(&origin, UNHURRIED);
    let mut client = Frames::connect(gateway.address());
    let before = gateway.log().lines().count();
    client.send(&frame(PING, 1, 0, &[7; 8]).repeat(900));
    client.send(&get(1, "/"));
    assert_eq!(client.outcome(1), Outcome::Status(200));
    let log = gateway.log();
    assert!(log.lines().count() <= before + 5, "{log}");
}

/// At the most verbose level, which includes the lines of libraries.
#[test]
fn clients_cannot_cause_a_log_line_each_time() {
    let yaml = "listeners: [{ address: \"127.0.0.1:0\", proxy_protocol: true }]\n\
                client: { trusted_proxies: [192.0.2.0/24] }\n\
                routes: [{ path: \"/*\", respond: { body: ok } }]\n\
                runtime: { workers: 1 }\n";
    let gateway = Gateway::start_with_log("debug", yaml);
    for _ in 0..300 {
        assert_eq!(gateway.client().rest(), b"");
    }
    let log = gateway.log();
    let closed = log.matches("a connection is closed").count();
    assert!((1..=20).contains(&closed), "{closed} lines: {log}");
}

/// Streams above the bound are refused and need no memory.
#[test]
fn streams_without_end_are_refused_and_end_the_connection() {
    let origin = Origin::serving(|_, read| while read().is_some() {});
    let gateway = silent(&origin, "http2: { max_streams: 4 }");
    withstands(&gateway, MOST_MIB, || {
        flood(&gateway, &[], |number| get(number * 2 + 1, "/silent"));
    });
}

/// A field that was sent once is repeated in one byte each: a frame of 16 KiB stands for
/// 60 MiB (CVE-2016-6581).
#[test]
fn a_head_that_decompresses_to_megabytes_ends_the_connection() {
    let origin = Origin::hello();
    let gateway = gateway(&origin, UNHURRIED);
    let large = "x".repeat(3900);
    let mut seed = block(&[&GET[..], &[("x-large", &*large)]].concat());
    // The last field: to be remembered (RFC 7541, section 6.2.1).
    let at = seed.len() - large.len() - "x-large".len() - 5;
    assert_eq!(seed[at], 0);
    seed[at] = 0x40;
    let bomb = [block(&GET), vec![0xbe; 16_000]].concat();
    let frames = [
        frame(HEADERS, END_HEADERS | END_STREAM, 1, &seed),
        frame(HEADERS, END_HEADERS | END_STREAM, 3, &bomb),
    ];
    withstands(&gateway, MOST_MIB, || {
        let mut client = Frames::connect(gateway.address());
        client.send(&frames.concat());
        let outcome = client.outcome(3);
        assert_eq!(outcome, Outcome::GoAway(ENHANCE_YOUR_CALM));
        assert!(client.ends());
    });
}
