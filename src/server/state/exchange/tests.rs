//! The transitions of an exchange.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use tollgate_core::time::monotonic;

use super::*;
use crate::server::settings::Demand;
use crate::server::state::Place;
use crate::server::state::activity::Watched;
use crate::server::state::tracked_body::TrackedBody;

fn exchange(phase: Phase) -> Rc<Exchange> {
    let activity = Activity::new(monotonic(), Demand::NONE, Watched::default());
    Rc::new(Exchange::new(activity, phase))
}

/// A listener for few clients closes the connection that has waited longest.
#[test]
fn a_place_waits_since_the_end_of_the_last_request() {
    let now = monotonic();
    let secs = Duration::from_secs;
    let epoch = now - secs(9);
    let since = now - secs(5);
    let place = Arc::new(Place::new(epoch, since));
    let watched = Watched { place: Some(Arc::clone(&place)), ..Watched::default() };
    let exchange = Exchange::new(Activity::new(since, Demand::NONE, watched), Phase::Idle);
    let active = Rc::new(exchange).begin(|| false);
    assert_eq!(place.waiting(), None);
    let body = TrackedBody::new(Full::new(Bytes::from_static(b"page")), active);
    assert_eq!(place.waiting(), Some(4_000_000), "the client may not read the response");
    drop(body);
    assert!(place.waiting().is_some_and(|waiting| waiting >= 9_000_000));
}

/// Otherwise a client could keep a connection without requests, by one empty line after another.
#[test]
fn a_part_of_an_empty_line_is_not_forgotten_while_the_library_waits() {
    let exchange = exchange(Phase::Idle);
    exchange.awaits_head(true);
    assert!(!exchange.is_reading_head());
    exchange.head_begins();
    exchange.awaits_head(false);
    exchange.awaits_head(true);
    assert!(exchange.is_reading_head());
    assert!(exchange.idle().is_none());
    assert!(exchange.give_up_head() && exchange.is_late() && !exchange.give_up_head());
}

/// The library may read the head of the next request while it waits for the response to this one.
#[test]
fn the_body_of_the_next_request_does_not_close_the_connection() {
    let exchange = exchange(Phase::Opening);
    exchange.request_ends();
    let active = exchange.begin(|| true);
    exchange.body_arrives(2, Some(u64::MAX));
    assert!(exchange.can_read_body());
    exchange.respond(false);
    drop(active);
    let _next = exchange.begin(|| false);
    assert!(!exchange.can_read_body(), "it is too long to be discarded");
}

#[test]
fn a_body_that_the_client_holds_back_is_not_awaited_until_the_service_asks_for_it() {
    let exchange = exchange(Phase::Opening);
    exchange.body_arrives(1, Some(10));
    let _active = exchange.begin(|| true);
    assert!(!exchange.can_read_body());
    exchange.reads_body(1);
    assert!(exchange.can_read_body());
}

#[test]
fn after_the_last_response_the_connection_is_not_idle() {
    for (is_last, phase) in [(false, Phase::Idle), (true, Phase::Closing)] {
        let exchange = exchange(Phase::Opening);
        let active = exchange.begin(|| false);
        exchange.respond(is_last);
        assert_eq!(exchange.is_closed_by_client(), !is_last);
        drop(active);
        assert_eq!(exchange.phase.get(), phase);
    }
}

/// A part of an earlier response may be dropped late.
#[test]
fn the_end_of_an_earlier_request_does_not_end_the_current_one() {
    let exchange = exchange(Phase::Opening);
    let first = exchange.begin(|| false);
    exchange.respond(false);
    let _second = exchange.begin(|| false);
    drop(first);
    assert_eq!(exchange.phase.get(), Phase::Serving { holds_body: false });
}

/// A client may read a large response for longer than a connection may be idle.
#[test]
fn the_time_until_the_next_request_begins_when_the_response_is_written() {
    let timeouts = ListenerTimeouts { keep_alive: Duration::ZERO, ..ListenerTimeouts::default() };
    let exchange = exchange(Phase::Opening);
    let active = exchange.begin(|| false);
    exchange.respond(false);
    assert!(exchange.is_responding());
    drop(active);
    assert!(exchange.is_responding() && !exchange.is_overdue(&timeouts));
    exchange.on_write();
    assert!(exchange.is_responding() && !exchange.is_overdue(&timeouts));
    exchange.on_flush();
    assert!(!exchange.is_responding() && exchange.is_overdue(&timeouts));
}
