//! The effect of a wall clock that jumps on clients, in virtual time.

use super::*;
use crate::time::follower::Follower;

/// The middle of an hour and of a day.
const START_US: u64 = 20_778 * 86_400_000_000 + 43_200_000_000 + 1_800_000_000;
const MINUTE: Span = Span::from_secs(60);
const HOUR: Span = Span::from_secs(3600);

/// A gateway with one client. Its worker does the housekeeping ten times a second.
struct Node {
    store: MemoryStore,
    clock: Follower,
    /// Whether decisions use the wall clock directly.
    by_wall: bool,
    monotonic: Span,
    /// How far the wall clock is ahead of the time that has passed.
    ahead_us: i64,
}

impl Node {
    fn new(by_wall: bool) -> Self {
        let clock = Follower::new(Span::ZERO, at(START_US));
        let store = MemoryStore::new(1000);
        Self { store, clock, by_wall, monotonic: Span::ZERO, ahead_us: 0 }
    }

    fn wall(&self) -> Timestamp {
        at((START_US + self.monotonic.as_micros()).saturating_add_signed(self.ahead_us))
    }

    fn now(&self) -> Timestamp {
        if self.by_wall { self.wall() } else { self.clock.course().at(self.monotonic) }
    }

    fn runs(&mut self, span: Span) {
        for _ in 0..span.as_micros() / 100_000 {
            self.monotonic = Span::from_micros(self.monotonic.as_micros() + 100_000);
            self.clock.look(self.monotonic, self.wall());
            if !self.by_wall {
                self.store.housekeep(self.now());
            }
        }
    }

    fn take(&self, algorithm: &Algorithm, cost: u64) -> Verdict {
        let key = key(1);
        let consistency = Consistency::default();
        self.store.apply(&[Charge { key, algorithm, cost, binding: true, consistency }], self.now())
            [0]
    }

    /// The number of seconds until one more request is admitted.
    fn waits_s(&mut self, algorithm: &Algorithm) -> u64 {
        (0..10_000)
            .find(|_| {
                self.runs(Span::SECOND);
                self.take(algorithm, 1).admitted
            })
            .unwrap_or(u64::MAX)
    }
}

/// The client uses all of its limit while the wall clock is an hour ahead for five seconds.
/// Returns how long it then waits.
fn waits_after_a_jump_s(algorithm: &Algorithm, by_wall: bool) -> u64 {
    let mut node = Node::new(by_wall);
    node.runs(Span::SECOND);
    node.ahead_us = 3_600_000_000;
    node.runs(Span::from_secs(5));
    assert!(node.take(algorithm, algorithm.capacity()).admitted);
    node.ahead_us = 0;
    node.waits_s(algorithm)
}

#[test]
fn a_clock_that_is_briefly_an_hour_ahead_makes_no_client_wait_longer_than_its_window() {
    for algorithm in all(10, MINUTE) {
        let waits_s = waits_after_a_jump_s(&algorithm, false);
        // One window, and a tenth more because the clock runs slower.
        assert!(waits_s <= 70, "{}: {waits_s} s", algorithm.name());
    }
}

#[test]
fn with_the_wall_clock_itself_the_same_clients_wait_for_an_hour() {
    for algorithm in all(10, MINUTE) {
        let waits_s = waits_after_a_jump_s(&algorithm, true);
        assert!(waits_s > 3500, "{}: {waits_s} s", algorithm.name());
    }
}

#[test]
fn after_a_suspension_a_client_waits_for_a_minute_at_most() {
    for algorithm in all(10, HOUR) {
        let mut node = Node::new(false);
        assert!(node.take(&algorithm, algorithm.capacity()).admitted);
        node.ahead_us += 3 * 3_600_000_000;
        assert!(!node.take(&algorithm, 1).admitted);
        let waits_s = node.waits_s(&algorithm);
        assert!(waits_s <= 61, "{}: {waits_s} s", algorithm.name());
    }
}

#[test]
fn a_wall_clock_that_is_set_back_two_hours_makes_a_client_wait_for_a_minute_at_most() {
    for algorithm in all(10, MINUTE) {
        let mut node = Node::new(false);
        node.ahead_us = -7_200_000_000;
        node.runs(Span::from_secs(50));
        assert!(node.take(&algorithm, algorithm.capacity()).admitted);
        let waits_s = node.waits_s(&algorithm);
        assert!(waits_s <= 60, "{}: {waits_s} s", algorithm.name());
        node.runs(Span::from_secs(15));
        assert_eq!(node.now(), node.wall(), "{}", algorithm.name());
    }
}

#[test]
fn units_in_flight_remain_when_the_clock_is_set_back() {
    let algorithm = Algorithm::Concurrency(Concurrency::new(3).unwrap());
    let mut node = Node::new(false);
    assert!(node.take(&algorithm, 2).admitted);
    node.ahead_us = -7_200_000_000;
    node.runs(Span::from_secs(70));
    assert_eq!(node.take(&algorithm, 0).remaining, 1);
}

/// Windows of the epoch and of the calendar end by the wall clock, whatever it did before.
#[test]
fn in_the_long_run_windows_end_by_the_wall_clock() {
    let day = Quota::new(10, Span::DAY).unwrap();
    let zone = FixedWindow::calendar(day, "Europe/Berlin").unwrap();
    for window in [FixedWindow::new(day), zone] {
        for ahead_s in [-20_000, -600, -300, -1, 1, 300, 600, 20_000] {
            let mut node = Node::new(false);
            node.ahead_us = ahead_s * 1_000_000;
            node.runs(Span::from_secs(6100));
            assert_eq!(node.now(), node.wall());
            let algorithm = Algorithm::FixedWindow(window.clone());
            assert!(node.take(&algorithm, 10).admitted);
            let Retry::After(wait) = node.take(&algorithm, 1).retry else {
                panic!("the limit is used up")
            };
            assert_eq!(node.wall().plus(wait), window.end_at(node.wall()), "{ahead_s}");
        }
    }
}
