//! The behaviour of single algorithms.

use std::thread;
use std::time::{Duration, SystemTime};

use tollgate_core::time::{Span, Timestamp};

use crate::support::{Origin, StoreKind, eventually, on_every_store};

on_every_store!(
    a_queue_delays_early_requests_and_refuses_those_that_would_wait_too_long,
    a_client_that_disconnects_during_a_delay_never_reaches_the_origin,
    a_request_whose_time_ends_during_its_delay_uses_none_of_its_limits,
    a_log_of_requests_admits_exactly_the_limit,
    a_calendar_hour_begins_when_the_clocks_of_its_zone_show_it,
    a_month_ends_when_the_next_one_begins,
);

/// One request in two seconds, and none is delayed for longer than three.
const QUEUE: &str = "key: ip, limit: 1/2s, algorithm: leaky_bucket, max_delay: 3s";

fn a_queue_delays_early_requests_and_refuses_those_that_would_wait_too_long(store: StoreKind) {
    let origin = Origin::hello();
    let gateway = store.limiting(&origin, QUEUE);
    assert_eq!(gateway.client().get("/", &[]).status, 200);
    // One of two simultaneous requests is delayed. The other would wait for too long.
    let mut got = thread::scope(|scope| {
        let ask = || {
            let response = gateway.client().get("/", &[]);
            (response.status, origin.received().len())
        };
        let asking = [scope.spawn(ask), scope.spawn(ask)];
        asking.map(|asking| asking.join().expect("it is answered"))
    });
    got.sort_unstable();
    assert_eq!(got, [(200, 2), (429, 1)], "with each: how many the origin had seen by then");
    let lines = gateway.access_lines(3);
    let mut outcomes: Vec<_> = lines.iter().filter_map(|line| line["outcome"].as_str()).collect();
    // Each worker writes its lines at a different time.
    outcomes.sort_unstable();
    assert_eq!(outcomes, ["admitted", "delayed", "refused"]);
}

fn a_client_that_disconnects_during_a_delay_never_reaches_the_origin(store: StoreKind) {
    let origin = Origin::hello();
    let gateway = store.limiting(&origin, QUEUE);
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 200);
    eventually("a client disconnects during its delay", || {
        let mut leaving = gateway.client();
        leaving.send(b"GET /left HTTP/1.1\r\nHost: gateway.test\r\n\r\n");
        thread::sleep(Duration::from_millis(20));
        drop(leaving);
        gateway.access_lines(1).iter().any(|line| line["outcome"] == "client_closed")
    });
    // The next request is delayed behind the unused slot. Otherwise both would have reached
    // the origin by now.
    eventually("there is a slot again", || client.get("/", &[]).status == 200);
    assert!(origin.received().iter().all(|request| !request.line().contains("left")));
}

fn a_request_whose_time_ends_during_its_delay_uses_none_of_its_limits(store: StoreKind) {
    let gateway = store.start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         policies:\n\
         \x20 queue: { key: ip, limit: 1/3s, algorithm: leaky_bucket, max_delay: 1m }\n\
         \x20 few: { key: ip, limit: 2/day, algorithm: fixed_window }\n\
         routes: [{ path: \"/*\", policies: [queue, few], timeouts: { request: 50ms }, \
                    respond: { body: ok } }]\n",
    );
    let ask = || gateway.client().get("/", &[]).status;
    assert_eq!(ask(), 200);
    // For three seconds, requests would be delayed for too long.
    let mut late = 0;
    eventually("the queue is empty", || {
        let status = ask();
        late += usize::from(status == 504);
        assert!([200, 504].contains(&status), "{status} after {late} requests were late");
        status == 200
    });
    assert!(late > 0);
    assert_eq!(ask(), 429, "two were admitted");
}

fn a_log_of_requests_admits_exactly_the_limit(store: StoreKind) {
    let origin = Origin::hello();
    let gateway = store.limiting(&origin, "key: ip, limit: 3/day, algorithm: sliding_log");
    let mut client = gateway.client();
    let got = [0; 4].map(|_| {
        let response = client.get("/", &[]);
        (response.status, response.number("X-Ratelimit-Remaining"))
    });
    assert_eq!(got, [(200, 2), (200, 1), (200, 0), (429, 0)]);
    let refused = client.get("/", &[]);
    // The first request leaves the log a day after its arrival.
    assert!((86_390..=86_400).contains(&refused.number("Retry-After")), "{refused:#?}");
}

fn a_calendar_hour_begins_when_the_clocks_of_its_zone_show_it(store: StoreKind) {
    let gateway = store.start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         policies:\n  \
           p: { key: ip, limit: 2/hour, algorithm: fixed_window, calendar: Asia/Kolkata }\n\
         routes: [{ path: \"/*\", policies: [p], respond: { body: ok } }]\n",
    );
    let response = gateway.client().get("/", &[]);
    assert_eq!(response.number("X-Ratelimit-Remaining"), 1);
    let reset_s = response.number("X-Ratelimit-Reset");
    // For example `Sat, 21 Nov 2026 09:55:12 GMT`.
    let date = response.field("Date").expect("a response has a date");
    let clock: Vec<u64> =
        date[17..25].split(':').map(|part| part.parse().expect("a number")).collect();
    let end_s = (clock[1] * 60 + clock[2] + reset_s) % 3_600;
    // The offset of India includes half an hour. Rounding may cause a difference of a
    // second.
    assert!((1_797..=1_803).contains(&end_s), "{reset_s} s from {date}");
}

fn a_month_ends_when_the_next_one_begins(store: StoreKind) {
    let gateway = store.start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         policies: { p: { key: ip, limit: 1/month } }\n\
         routes: [{ path: \"/*\", policies: [p], respond: { body: ok } }]\n",
    );
    let mut client = gateway.client();
    let admitted = client.get("/", &[]);
    let before = wall();
    let refused = client.get("/", &[]);
    // If a month ends during the test, both are admitted.
    if refused.status == 200 {
        return;
    }
    assert_eq!([admitted.status, refused.status], [200, 429]);
    let wait = Span::from_secs(refused.number("Retry-After"));
    // A server's clock may differ a little, and the wait is rounded up.
    let end = before.plus(wait).plus(Span::from_secs(60));
    let begins = |time: Timestamp| time.to_string()[8..14] == *"01T00:";
    assert!(begins(end), "{refused:#?} at {before}");
    let policy = refused.field("RateLimit-Policy").expect("it is told");
    let length_s = policy.strip_prefix("\"p\";q=1;w=").and_then(|it| it.parse().ok());
    let length = Span::from_secs(length_s.expect(policy));
    assert!(begins(end.minus(length)), "{policy} until {end}");
    assert!(wait <= length && end.minus(length) < before.plus(Span::from_secs(120)));
}

fn wall() -> Timestamp {
    let since = SystemTime::UNIX_EPOCH.elapsed().expect("it is after 1970");
    Timestamp::default().plus(since.into())
}
