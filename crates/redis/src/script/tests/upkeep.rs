//! What is stored and for how long, and the operations that no other store has.

use tollgate_core::algorithm::{
    Algorithm, Ban, Concurrency, FixedWindow, MONTH, Quota, SlidingWindow, TokenBucket,
};
use tollgate_core::digest::{Counter, Key, Principal};
use tollgate_core::time::Span;

use super::*;
use crate::codec::{Ahead, Ask};
use crate::layout::Layout;

/// 2026-11-21T07:28:46Z.
pub(super) const NOW: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);
const BUCKETS: u64 = 16;

pub(super) fn encoder(node: u32) -> Encoder {
    Encoder::new(Layout::with_buckets("upkeep", BUCKETS), node)
}

pub(super) fn quota(limit: u64, window_s: u64) -> Quota {
    Quota::new(limit, Span::from_secs(window_s)).unwrap()
}

pub(super) fn sliding(limit: u64, window_s: u64) -> Algorithm {
    Algorithm::SlidingWindow(SlidingWindow::new(quota(limit, window_s)))
}

/// A principal in the first bucket, with a field of its own.
pub(super) fn principal(number: u64) -> Principal {
    Principal::from_bits(u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64)
}

pub(super) fn asked(algorithm: &Algorithm, client: u64, counter: u64, ask: Ask) -> Asked<'_> {
    let key = Key { principal: principal(client), counter: Counter::from_bits(counter) };
    Asked { key, algorithm, ask, binding: true }
}

pub(super) fn seconds(s: u64) -> Timestamp {
    NOW.plus(Span::from_secs(s))
}

impl Server {
    pub(super) fn one(&mut self, node: u32, asked: Asked<'_>, now: Timestamp) -> Verdict {
        self.ask(&encoder(node), &[asked], now).replies[0].verdict
    }

    pub(super) fn remaining(
        &mut self,
        algorithm: &Algorithm,
        client: u64,
        counter: u64,
        now: Timestamp,
    ) -> u64 {
        self.one(1, asked(algorithm, client, counter, Ask::Peek), now).remaining
    }

    pub(super) fn number(&mut self, command: &str) -> i64 {
        redis::cmd(command).arg("upkeep:0").query(&mut self.connection).unwrap()
    }

    pub(super) fn value(&mut self, client: u64) -> Vec<u8> {
        let field = Layout::field(principal(client));
        redis::cmd("HGET").arg("upkeep:0").arg(&field).query(&mut self.connection).unwrap()
    }
}

#[test]
fn a_sliding_window_takes_10_bytes_beside_its_field_of_7() {
    let mut server = Server::start();
    let minute = sliding(100, 60);
    let hour = sliding(1000, 3600);
    server.one(1, asked(&minute, 1, 0x33_2211, Ask::Take(5)), NOW);
    // The window after the current one ends at 07:30:00: 3,549,850 units of 2^24 us.
    let state = [0x11, 0x22, 0x33, 0x18, 0x9a, 0x2a, 0x36, 0, 5, 0];
    assert_eq!(server.value(1), state);
    server.one(1, asked(&hour, 1, 2, Ask::Take(1)), NOW);
    assert_eq!((server.value(1).len(), &server.value(1)[10..]), (20, &state[..]));
}

#[test]
fn a_refused_body_writes_nothing() {
    let mut server = Server::start();
    let small = sliding(1, 60);
    let large = sliding(10, 60);
    let asks = [asked(&large, 1, 1, Ask::Take(1)), asked(&small, 2, 2, Ask::Take(2))];
    assert!(server.ask(&encoder(1), &asks, NOW).refused);
    assert_eq!(server.number("EXISTS"), 0);
}

#[test]
fn expired_states_are_removed_when_their_field_is_written() {
    let mut server = Server::start();
    let second = sliding(10, 1);
    let hour = sliding(10, 3600);
    let asks = [asked(&second, 1, 1, Ask::Take(1)), asked(&hour, 1, 2, Ask::Take(1))];
    server.ask(&encoder(1), &asks, NOW);
    let both = server.value(1).len();
    server.one(1, asks[1], seconds(2));
    assert_eq!(server.value(1).len(), both, "a clock may be set back by a second");
    server.one(1, asks[1], seconds(5));
    assert!(server.value(1).len() < both);
    assert_eq!(server.remaining(&hour, 1, 2, seconds(5)), 7);
}

#[test]
fn a_state_without_units_is_removed() {
    let mut server = Server::start();
    let minute = sliding(10, 60);
    server.one(1, asked(&minute, 1, 1, Ask::Take(4)), NOW);
    server.one(1, asked(&minute, 1, 1, Ask::Give { cost: 4, taken: NOW }), NOW);
    assert_eq!(server.number("EXISTS"), 0);
}

#[test]
fn clients_that_never_come_back_do_not_accumulate() {
    let mut server = Server::start();
    let second = sliding(10, 1);
    for client in 0..4000 {
        // Each state counts for two seconds, and so does the grace: about 60 at a time.
        let now = NOW.plus(Span::from_millis(50 * client));
        server.one(1, asked(&second, client, 1, Ask::Take(1)), now);
    }
    let fields = server.number("HLEN");
    assert!((40..250).contains(&fields), "{fields} fields");
}

#[test]
fn one_call_looks_for_expired_states_in_a_part_of_a_large_bucket() {
    let mut server = Server::start();
    let second = sliding(10, 1);
    let all: Vec<_> = (0..2000).map(|client| asked(&second, client, 1, Ask::Take(1))).collect();
    let bodies: Vec<_> = all.iter().map(|it| encoder(1).encode(&[*it], NOW)).collect();
    for bodies in bodies.chunks(100) {
        call(bodies, NOW).exec(&mut server.connection).unwrap();
    }
    let before = server.number("HLEN");
    // Of this number of calls, at least one looks.
    for client in 0..200 {
        server.one(1, asked(&second, 5000 + client, 1, Ask::Take(1)), seconds(60));
        let removed = before + i64::try_from(client).unwrap() + 1 - server.number("HLEN");
        if removed > 0 {
            assert!(removed <= 128, "{removed} fields at once");
            return;
        }
    }
    panic!("no call looked");
}

#[test]
fn a_bucket_lives_for_half_an_hour_after_its_last_state() {
    const MINUTE_MS: i64 = 60_000;
    let mut server = Server::start();
    let minute = sliding(10, 60);
    let day = sliding(10, 86_400);
    server.one(1, asked(&minute, 1, 1, Ask::Take(1)), NOW);
    let short = server.number("PTTL");
    assert!((30 * MINUTE_MS..33 * MINUTE_MS).contains(&short), "{short} ms");
    server.one(1, asked(&day, 2, 2, Ask::Take(1)), NOW);
    let long = server.number("PTTL");
    assert!((24 * 60 * MINUTE_MS..50 * 60 * MINUTE_MS).contains(&long), "{long} ms");
    server.one(1, asked(&minute, 1, 1, Ask::Take(1)), NOW);
    assert!(server.number("PTTL") > 24 * 60 * MINUTE_MS, "the life of a bucket is never shortened");
}

#[test]
fn a_bucket_in_use_always_outlives_its_states_by_five_minutes() {
    const STEP_S: u64 = 20;
    let mut server = Server::start();
    let minute = sliding(1000, 60);
    for s in (0..7200).step_by(STEP_S.try_into().unwrap()) {
        server.one(1, asked(&minute, 1, 1, Ask::Take(1)), seconds(s));
        let lives_ms = server.number("PTTL");
        // The state ends with the next window.
        assert!(lives_ms > 5 * 60_000 + 60_000, "{lives_ms} ms after {s} s");
        // The test's clock moves faster than the server's.
        let left_ms = lives_ms - 1000 * i64::try_from(STEP_S).unwrap();
        let mut expire = redis::cmd("PEXPIRE");
        expire.arg("upkeep:0").arg(left_ms).exec(&mut server.connection).unwrap();
    }
}

#[test]
fn the_units_of_a_node_count_for_15_seconds_unless_it_renews_them() {
    let mut server = Server::start();
    let most = Algorithm::Concurrency(Concurrency::new(5).unwrap());
    let mut left_after = |node, ask, s| {
        server.one(node, asked(&most, 1, 1, ask), seconds(s));
        server.remaining(&most, 1, 1, seconds(s))
    };
    let renew = |units, asked| Ask::Renew { units, asked };
    assert_eq!(left_after(1, Ask::Take(2), 0), 3);
    assert_eq!(left_after(2, Ask::Take(3), 0), 0);
    assert_eq!(left_after(2, renew(3, 0), 10), 0);
    assert_eq!(left_after(3, Ask::Peek, 14), 0);
    assert_eq!(left_after(3, Ask::Peek, 15), 2, "the first node has not renewed its units");
    let give = |cost| Ask::Give { cost, taken: NOW };
    assert_eq!(left_after(1, give(2), 16), 2, "it has no units to give back");
    assert_eq!(left_after(2, renew(1, 0), 16), 4, "the node renews its units");
    assert_eq!(left_after(2, give(1), 17), 5);
    assert_eq!(left_after(2, Ask::Take(3), 18), 2);
    assert_eq!(left_after(2, renew(1, 4), 18), 2, "two of the four requested units are counted");
    assert_eq!(left_after(2, renew(1, 1), 18), 3, "not more than the requested units");
    assert_eq!(left_after(2, renew(3, 1), 18), 2, "the held units are counted in any case");
    assert_eq!(left_after(2, renew(0, 9), 32), 2, "and for another 15 seconds");
    assert_eq!(left_after(3, Ask::Peek, 46), 2);
    assert_eq!(left_after(2, renew(0, 0), 46), 5);
    assert_eq!(server.number("EXISTS"), 0);
}

#[test]
fn a_lease_takes_a_share_of_the_free_units_without_the_reserve() {
    let mut server = Server::start();
    let bucket = Algorithm::TokenBucket(TokenBucket::new(quota(100, 60), 100).unwrap());
    for algorithm in [sliding(100, 60), bucket] {
        let client = algorithm.name().len().try_into().unwrap();
        let ahead = Ahead { extra: 50, reserve: 20, share_1024: 512 };
        let asked = asked(&algorithm, client, 1, Ask::Lease { cost: 2, ahead });
        let extra: Vec<_> =
            (0..8).map(|_| server.ask(&encoder(1), &[asked], NOW).replies[0].extra).collect();
        assert_eq!(extra, [39, 18, 8, 3, 1, 0, 0, 0], "{}", algorithm.name());
        assert_eq!(server.remaining(&algorithm, client, 1, NOW), 100 - 8 * 2 - 69);
    }
}

#[test]
fn a_counter_is_reset_alone_or_with_all_of_its_principal() {
    let mut server = Server::start();
    let minute = sliding(10, 60);
    let take = |counter| asked(&minute, 1, counter, Ask::Take(4));
    server.ask(&encoder(1), &[take(1), take(2), take(3)], NOW);
    server.one(1, asked(&minute, 1, 2, Ask::Reset), NOW);
    let remaining = [1, 2, 3].map(|counter| server.remaining(&minute, 1, counter, NOW));
    assert_eq!(remaining, [6, 10, 6]);
    server.one(1, asked(&minute, 1, 0, Ask::ResetAll), NOW);
    assert_eq!(server.number("EXISTS"), 0);
}

#[test]
fn all_bodies_of_a_call_are_decided_by_one_clock_which_is_the_servers() {
    let mut server = Server::start();
    let minute = sliding(10, 60);
    let asks = [asked(&minute, 1, 1, Ask::Take(1)), asked(&minute, 2, 1, Ask::Take(1))];
    let bodies = asks.map(|ask| encoder(1).encode(&[ask], NOW));
    let answers: Vec<Vec<u8>> =
        call(&bodies, Timestamp::default()).query(&mut server.connection).unwrap();
    let times = [0, 1].map(|i| decode(&asks[i..=i], &answers[i]).unwrap().at);
    assert_eq!(times[0], times[1]);
    let (s, us): (u64, u64) = redis::cmd("TIME").query(&mut server.connection).unwrap();
    let since = Timestamp::from_micros(s * 1_000_000 + us).since(times[0]);
    assert!(since < Span::from_secs(60), "{since} ago");
}

/// By the server's clock, the window of the calling node and the next one are long over.
#[test]
fn a_calendar_is_counted_even_if_the_clocks_are_days_apart() {
    let mut server = Server::start();
    let day = FixedWindow::calendar(Quota::new(3, Span::DAY).unwrap(), "Europe/Berlin").unwrap();
    let day = Algorithm::FixedWindow(day);
    let body = encoder(1).encode(&[asked(&day, 1, 1, Ask::Take(1))], NOW);
    let bodies = vec![body; 4];
    let later = NOW.plus(Span::from_secs(10 * 86_400));
    let answers: Vec<Vec<u8>> = call(&bodies, later).query(&mut server.connection).unwrap();
    assert_eq!(answers.iter().map(|answer| answer[0]).collect::<Vec<_>>(), [0, 0, 0, 1]);
}

/// Takes of three nodes. The clock of the second is `ahead` of the server's. Returns whether
/// they are admitted.
fn with_a_node_ahead(windows: &Algorithm, now: Timestamp, ahead: Span) -> [bool; 4] {
    let mut server = Server::start();
    let clocks = [now, now.plus(ahead), now, now.plus(ahead)];
    clocks.map(|by_node| {
        let asked = [asked(windows, 1, 1, Ask::Take(1))];
        let call = call(&[encoder(1).encode(&asked, by_node)], now);
        let answers: Vec<Vec<u8>> = call.query(&mut server.connection).unwrap();
        let answered = decode(&asked, &answers[0]).expect("it agrees with the calendar");
        answered.replies[0].verdict.admitted
    })
}

#[test]
fn a_node_whose_clock_is_a_day_ahead_counts_in_the_present_window_of_the_server() {
    let calendar = |length, zone| {
        let window = FixedWindow::calendar(Quota::new(3, length).unwrap(), zone).unwrap();
        Algorithm::FixedWindow(window)
    };
    let [hour, week] = [3600, 604_800].map(Span::from_secs);
    // In Berlin the 29th of March 2026 has 23 hours, and the 25th of October 25.
    let changes = [1_774_738_800_000_000, 1_792_879_200_000_000];
    let days = changes.map(Timestamp::from_micros).into_iter().chain([NOW]);
    for midnight in days {
        for minutes in (0..2 * 1440).step_by(97) {
            let now = midnight.plus(Span::from_secs(60 * minutes));
            let taken = with_a_node_ahead(&calendar(Span::DAY, "Europe/Berlin"), now, Span::DAY);
            assert_eq!(taken, [true, true, true, false], "{now}");
        }
        let now = midnight.plus(Span::from_secs(12 * 3600));
        let months = ["Europe/Berlin", "UTC"].map(|zone| calendar(MONTH, zone));
        let others = [calendar(week, "Europe/Berlin"), calendar(hour, "UTC")];
        for windows in months.into_iter().chain(others) {
            assert_eq!(with_a_node_ahead(&windows, now, Span::DAY), [true, true, true, false]);
        }
    }
}

/// On each path through the script: a body with the window alone takes the plain path.
#[test]
fn a_banned_client_is_refused_in_any_order_of_the_policies() {
    let mut server = Server::start();
    let window = sliding(10, 60);
    let ban = Algorithm::Ban(Ban::new(Span::from_secs(60), Span::from_secs(600)).unwrap());
    for counters in [(1, 2), (2, 1)] {
        let client = 10 + counters.0;
        let asks = [
            asked(&window, client, counters.0, Ask::Take(1)),
            asked(&ban, client, counters.1, Ask::Take(1)),
        ];
        for now in [NOW, seconds(1)] {
            let found = server.ask(&encoder(1), &asks, now).replies;
            assert!(found.iter().all(|it| it.verdict.admitted));
        }
        server.one(1, asked(&ban, client, counters.1, Ask::Charge(1)), seconds(2));
        let found = server.ask(&encoder(1), &asks, seconds(3));
        assert!(found.refused && !found.replies[1].verdict.admitted);
        assert_eq!(found.replies[0].verdict.remaining, 8, "the request counts nothing");
        let found = server.ask(&encoder(1), &asks, seconds(62)).replies;
        assert!(found.iter().all(|it| it.verdict.admitted), "the ban is over");
    }
}

#[test]
fn a_value_with_unknown_content_counts_as_empty() {
    let mut server = Server::start();
    let minute = sliding(10, 60);
    let log = [1, 0, 0, 0x48, 1, 0, 0, 0, 1, 1, 1, 0xff, 0xff];
    for value in [&b"x"[..], b"hello, world", &[0xff; 40], &log] {
        let field = Layout::field(principal(1));
        let mut set = redis::cmd("HSET");
        set.arg("upkeep:0").arg(&field).arg(value).exec(&mut server.connection).unwrap();
        assert_eq!(server.one(1, asked(&minute, 1, 1, Ask::Take(1)), NOW).remaining, 9);
        assert_eq!(server.value(1).len(), 10, "and is gone");
    }
}

/// A decision neither reads, writes nor returns the units of the other nodes, however many
/// nodes there are.
#[test]
fn the_units_of_hundreds_of_nodes_are_counted_and_returned_in_a_few_bytes() {
    const NODES: u32 = 300;
    let mut server = Server::start();
    let most = Algorithm::Concurrency(Concurrency::new(10_000).unwrap());
    let take = |cost| asked(&most, 1, 1, Ask::Take(cost));
    // Each node reports in another second, so that they expire one after the other.
    for node in 0..NODES {
        server.one(node * 7919, take(2), seconds(u64::from(node / 30)));
    }
    let mut held = i64::from(2 * NODES);
    assert_eq!(server.remaining(&most, 1, 1, seconds(10)), 10_000 - 600);
    for s in 10..26 {
        let bodies = vec![encoder(7919).encode(&[asked(&most, 1, 1, Ask::Peek)], NOW); 64];
        let answers: Vec<Vec<u8>> =
            call(&bodies, seconds(s)).query(&mut server.connection).unwrap();
        assert!(answers.iter().all(|it| it.len() < 40), "{} bytes", answers[0].len());
        // From the fifteenth second on, the units of thirty nodes expire in each second.
        held = 600 - 60 * i64::try_from(s.saturating_sub(14)).unwrap().clamp(0, 10);
        let remaining = server.remaining(&most, 1, 1, seconds(s));
        assert_eq!(i64::try_from(remaining).unwrap(), 10_000 - held, "after {s} s");
    }
    assert_eq!(held, 0);
}
