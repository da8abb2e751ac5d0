//! The bytes of a client that pass the guard.

use std::task::Waker;

use futures_util::FutureExt as _;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::guarded::{BOUNDS, Guarded, exchange};
use super::*;
use crate::server::state::ClientLink;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn complete_requests_pass_and_nothing_is_kept() {
    let mut guarded = Guarded::new();
    let requests = format!("{GET}POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc{GET}");
    assert_eq!(text(guarded.receive(&requests)), requests);
    assert_eq!(guarded.held(), 0);
    assert!(!guarded.exchange.is_reading_head());
}

#[test]
fn requests_that_arrive_together_pass_one_at_a_time() {
    let mut guarded = Guarded::new();
    let post = "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
    let requests = format!("{GET}{post}{GET}");
    guarded.send(requests);
    for (request, is_more) in [(GET, true), (post, true), (GET, false)] {
        let mut seen = Vec::new();
        assert_eq!(guarded.take_turn(&mut seen), Ok(is_more));
        assert_eq!(text(seen), request);
    }
}

#[test]
fn passed_bytes_are_removed_while_a_part_of_a_head_is_kept() {
    let mut guarded = Guarded::new();
    assert_eq!(text(guarded.receive(&GET[..5])), "");
    let many = [&GET[5..], &GET.repeat(9), &GET[..5]].concat();
    for _ in 0..1000 {
        assert_eq!(text(guarded.receive(&many)), GET.repeat(10));
        assert_eq!(guarded.held(), 5);
    }
    let kept = guarded.guard.held.kept();
    assert!(kept <= 2 * 4096 + many.len(), "{kept} bytes");
}

#[test]
fn a_part_of_a_head_waits_for_the_rest() {
    let mut guarded = Guarded::new();
    assert_eq!(text(guarded.receive(format!("{GET}GET /b HT"))), GET);
    assert_eq!(text(guarded.receive("TP/1.1\r\nHost: a\r\n")), "");
    assert!(guarded.exchange.is_reading_head());
    let expected = "GET /b HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(text(guarded.receive("\r\nGE")), expected);
    assert_eq!(text(guarded.receive(format!("{}{GET}", &GET[2..]))), format!("{GET}{GET}"));
    assert!(!guarded.exchange.is_reading_head());
}

#[test]
fn a_malformed_head_is_replaced_after_earlier_requests_and_nothing_follows() {
    let mut guarded = Guarded::new();
    let seen = guarded.receive(format!("{GET}GET / HTTP/1.1\r\nBad : 1\r\n\r\n{GET}"));
    assert_eq!(text(seen), format!("{GET}{}", text(REFUSED.to_vec())));
    assert_eq!(guarded.exchange.refused(), Some(Malformed::BlankInName));
    assert_eq!(text(guarded.receive(GET)), "");
}

#[test]
fn a_malformed_head_in_pieces_is_replaced() {
    let mut guarded = Guarded::new();
    assert_eq!(text(guarded.receive("GET / HTTP/1.1\r\nHo")), "");
    assert_eq!(guarded.receive("st : a\r\n"), REFUSED);
}

#[test]
fn a_head_that_is_too_late_is_replaced() {
    let mut guarded = Guarded::new();
    assert!(!guarded.exchange.give_up_head(), "nothing has arrived");
    assert_eq!(text(guarded.receive("GET / HT")), "");
    assert!(guarded.exchange.give_up_head());
    assert_eq!(guarded.read(), Ok(REFUSED.to_vec()));
    assert_eq!(guarded.exchange.refused(), Some(Malformed::HeadTooLate));
    assert!(!guarded.exchange.give_up_head());
}

#[test]
fn empty_lines_begin_no_head() {
    let mut guarded = Guarded::new();
    assert_eq!(text(guarded.receive("\r\n\r\n\n")), "");
    assert_eq!((guarded.held(), guarded.exchange.is_reading_head()), (0, false));
    assert_eq!(text(guarded.receive("\r")), "");
    assert_eq!(text(guarded.receive("\n")), "");
    assert_eq!(text(guarded.receive(GET)), GET);
}

#[test]
fn no_more_is_kept_than_a_head_may_have() {
    let mut guarded = Guarded::new();
    guarded.receive("GET / HTTP/1.1\r\nX: ");
    for _ in 0..100 {
        if guarded.receive([b'x'; 1000]) == REFUSED {
            assert_eq!(guarded.exchange.refused(), Some(Malformed::HeadTooLarge));
            return;
        }
        assert!(guarded.held() <= BOUNDS.bytes, "{}", guarded.held());
    }
    panic!("an endless head was never refused");
}

#[test]
fn a_malformed_body_is_an_error_after_its_valid_part() {
    let mut guarded = Guarded::new();
    let good = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    guarded.send(format!("{good}x\r\n\r\n{GET}"));
    assert_eq!(guarded.read(), Err((good.into(), Malformed::BadChunk)));
    assert_eq!(guarded.read(), Err((Vec::new(), Malformed::BadChunk)));
}

const UPGRADE: &str = "GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n";

#[test]
fn bytes_after_a_request_to_change_the_protocol_wait_for_the_response() {
    let mut guarded = Guarded::new();
    assert_eq!(text(guarded.receive(format!("{UPGRADE}\0frames"))), UPGRADE);
    assert_eq!(text(guarded.receive("more")), "");
    guarded.exchange.answer_upgrade(true);
    assert_eq!(text(guarded.receive("\0\r\n\r\n")), "\0framesmore\0\r\n\r\n");
    assert_eq!(text(guarded.receive(" any")), " any");
}

#[test]
fn bytes_that_waited_are_http_if_the_protocol_stays() {
    for (behind, expected) in [(GET, GET.as_bytes()), ("\0frames", REFUSED)] {
        let mut guarded = Guarded::new();
        assert_eq!(text(guarded.receive(format!("{UPGRADE}{behind}"))), UPGRADE);
        guarded.exchange.answer_upgrade(false);
        assert_eq!(guarded.read().as_deref(), Ok(expected));
    }
}

/// Whether the client sees an end after a shutdown behind `request`.
fn is_shut_down(request: &str, granted: Option<bool>) -> bool {
    let (mut client, stream) = duplex(1024);
    let exchange = exchange();
    let link = ClientLink::new(&exchange);
    let mut guard = Guard::new(stream, Rc::clone(&exchange), BOUNDS, &link);
    client.write_all(request.as_bytes()).now_or_never().expect("there is room").expect("a peer");
    guard.read(&mut [0; 100]).now_or_never().expect("a request").expect("a stream");
    granted.into_iter().for_each(|granted| exchange.answer_upgrade(granted));
    guard.shutdown().now_or_never().expect("it does not wait").expect("a peer");
    client.read(&mut [0]).now_or_never().is_some_and(|read| matches!(read, Ok(0)))
}

#[test]
fn a_tunnel_is_shut_down_and_http_is_left_to_the_owner_of_the_stream() {
    assert!(is_shut_down(UPGRADE, Some(true)), "although nothing was read since");
    assert!(!is_shut_down(GET, None));
}

#[test]
fn bytes_that_wait_for_a_response_are_bounded() {
    let mut guarded = Guarded::new();
    guarded.receive(UPGRADE);
    for _ in 0..16 {
        guarded.receive([0; 1000]);
    }
    guarded.guard.stream.0.push_back(vec![0; 1000]);
    let mut room = [0; 100];
    let mut cx = Context::from_waker(Waker::noop());
    let polled = Pin::new(&mut guarded.guard).poll_read(&mut cx, &mut ReadBuf::new(&mut room));
    assert!(matches!(polled, Poll::Ready(Err(_))), "{polled:?}");
    assert!(guarded.held() < MAX_UNDECIDED_BYTES + 4096, "{}", guarded.held());
}

/// Complete requests of all kinds of framing.
fn requests() -> impl Strategy<Value = String> {
    let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let request = select(vec![
        GET.to_owned(),
        "GET /lines HTTP/1.1\nHost: a\n\n".to_owned(),
        "PUT / HTTP/1.1\r\nContent-Length: 5\r\n\r\n\r\n\r\n!".to_owned(),
        format!("{chunked}0\r\n\r\n"),
        format!("{chunked}5;x\r\nGET /\r\n1\r\n\n\r\n0\r\nX: 1\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nX-Long: {}\r\n\r\n", "x".repeat(100)),
    ]);
    vec(request, 1..6).prop_map(|requests| requests.concat())
}

proptest! {
    #[test]
    fn valid_requests_pass_unchanged_in_any_pieces_and_buffers(
        requests in requests(),
        sizes in vec(1_usize..60, 1..40),
        room in prop_oneof![1_usize..40, Just(8192)],
    ) {
        let mut guarded = Guarded { room, ..Guarded::new() };
        let mut rest = requests.as_bytes();
        for size in sizes {
            let (piece, later) = rest.split_at(size.min(rest.len()));
            guarded.send(piece);
            rest = later;
        }
        guarded.send(rest);
        prop_assert_eq!(guarded.read(), Ok(requests.into_bytes()));
        prop_assert_eq!(guarded.held(), 0);
    }

    #[test]
    fn nothing_passes_after_a_malformed_head(
        requests in requests(),
        behind in vec(any::<u8>(), 0..40),
        sizes in vec(1_usize..60, 1..40),
    ) {
        let mut guarded = Guarded::new();
        let sent = [requests.as_bytes(), b"GET / HTTP/1.1\r\n folded\r\n", &behind].concat();
        let mut rest = &sent[..];
        for size in sizes {
            let (piece, later) = rest.split_at(size.min(rest.len()));
            guarded.send(piece);
            rest = later;
        }
        guarded.send(rest);
        prop_assert_eq!(guarded.read(), Ok([requests.as_bytes(), REFUSED].concat()));
    }
}
