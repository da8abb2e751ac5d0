//! Interim responses are complete, bounded, and never inside another response.

use std::rc::Rc;

use futures_util::task::noop_waker_ref;
use http::{HeaderName, HeaderValue};
use tollgate_core::time::monotonic;

use super::*;
use crate::server::settings::Demand;
use crate::server::state::activity::{Activity, Watched};
use crate::server::state::exchange::{ActiveExchange, Phase};

/// A connection with a simulated HTTP library.
struct Played {
    exchange: Rc<Exchange>,
    under_way: Option<ActiveExchange>,
    queue: InterimQueue,
    writer: InterimWriter,
    /// The bytes that were written.
    wire: Vec<u8>,
}

impl Played {
    fn new() -> Self {
        let queue = InterimQueue::default();
        let writer = queue.writer();
        let activity = Activity::new(monotonic(), Demand::NONE, Watched::default());
        let exchange = Rc::new(Exchange::new(activity, Phase::Opening));
        Self { exchange, under_way: None, queue, writer, wire: Vec::new() }
    }

    fn request(&mut self) -> Interim {
        self.under_way = Some(self.exchange.begin(|| false));
        self.queue.begin(Version::HTTP_11);
        self.queue.open().expect("a client of HTTP/1.1 knows interim responses")
    }

    fn respond(&self) {
        self.queue.close(&self.exchange);
        self.exchange.respond(false);
    }

    /// The service has sent the response to the library completely.
    fn finish(&mut self) {
        self.under_way = None;
    }

    fn write(&mut self, text: &str) {
        let mut cx = Context::from_waker(noop_waker_ref());
        let before = self.writer.poll_before_write(&mut cx, &mut self.wire, &self.exchange);
        assert!(before.is_ready());
        self.wire.extend_from_slice(text.as_bytes());
    }

    fn flush(&mut self) {
        let mut cx = Context::from_waker(noop_waker_ref());
        let flushed = self.writer.poll_on_flush(&mut cx, &mut self.wire, &self.exchange);
        assert!(flushed.is_ready());
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.wire).expect("UTF-8")
    }
}

fn hint(interim: &Interim) {
    let link = (http::header::LINK, HeaderValue::from_static("</a>"));
    interim.send(StatusCode::EARLY_HINTS, &[link].into_iter().collect());
}

const HINT: &str = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";

#[test]
fn an_interim_response_is_written_when_no_other_is() {
    let mut played = Played::new();
    let interim = played.request();
    played.flush();
    hint(&interim);
    played.flush();
    assert_eq!(played.text(), HINT);
    hint(&interim);
    played.respond();
    played.write("final");
    assert_eq!(played.text(), format!("{HINT}{HINT}final"));
}

#[test]
fn an_interim_response_is_never_inside_or_after_the_final_one() {
    let mut played = Played::new();
    let interim = played.request();
    played.flush();
    played.respond();
    played.write("fi");
    hint(&interim);
    played.flush();
    played.write("nal");
    played.flush();
    assert_eq!(played.text(), "final");
}

/// The response to the first request waits in the library when the second one begins.
#[test]
fn an_interim_response_waits_for_the_previous_response() {
    let mut played = Played::new();
    played.request();
    played.flush();
    played.respond();
    played.finish();
    let second = played.request();
    hint(&second);
    played.write("first");
    played.flush();
    assert_eq!(played.text(), format!("first{HINT}"));
}

/// As before, but the final response comes before the interim one could be written.
#[test]
fn an_interim_response_that_could_not_be_written_is_dropped() {
    let mut played = Played::new();
    played.request();
    played.flush();
    played.respond();
    played.finish();
    let second = played.request();
    hint(&second);
    played.respond();
    played.write("firstsecond");
    played.finish();
    played.flush();
    assert_eq!(played.text(), "firstsecond");
}

#[test]
fn an_interim_response_for_an_earlier_request_is_dropped() {
    let mut played = Played::new();
    let first = played.request();
    played.respond();
    played.finish();
    played.request();
    played.flush();
    hint(&first);
    played.flush();
    assert_eq!(played.text(), "");
}

#[test]
fn a_request_has_a_bounded_number_of_interim_responses() {
    let mut played = Played::new();
    for _ in 0..2 {
        played.wire.clear();
        let interim = played.request();
        for _ in 0..100 {
            hint(&interim);
            played.flush();
        }
        assert_eq!(played.text(), HINT.repeat(MAX_RESPONSES));
        played.respond();
        played.finish();
    }
}

#[test]
fn the_bytes_of_interim_responses_are_bounded() {
    let mut played = Played::new();
    let interim = played.request();
    let value = HeaderValue::try_from("x".repeat(6000)).expect("a value");
    let fields = [(http::header::LINK, value)].into_iter().collect();
    for _ in 0..5 {
        interim.send(StatusCode::EARLY_HINTS, &fields);
    }
    let waiting = played.queue.0.queue.borrow().text.len();
    assert!((12_000..=MAX_BYTES).contains(&waiting), "{waiting}");
}

#[test]
fn fields_of_the_connection_or_of_a_body_are_not_written() {
    let fields = [
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("content-length", "3"),
        ("transfer-encoding", "chunked"),
        ("x-a-b", "1"),
    ];
    let fields = fields
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    let text = head(StatusCode::PROCESSING, &fields.into_iter().collect());
    assert_eq!(String::from_utf8_lossy(&text), "HTTP/1.1 102 Processing\r\nx-a-b: 1\r\n\r\n");
}

#[test]
fn only_interim_responses_are_written_and_not_100() {
    let mut played = Played::new();
    let interim = played.request();
    for status in [StatusCode::CONTINUE, StatusCode::SWITCHING_PROTOCOLS, StatusCode::OK] {
        interim.send(status, &HeaderMap::new());
    }
    played.flush();
    assert_eq!(played.text(), "");
}
