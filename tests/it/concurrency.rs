//! The number of requests in flight at the same time, however they end.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::support::{Origin, Reserved, StoreKind, eventually, on_every_store};

on_every_store!(
    a_request_is_in_flight_until_its_body_has_ended,
    a_refusal_names_the_mean_time_in_flight,
    the_request_of_a_client_that_disconnects_is_no_longer_in_flight,
    a_request_that_fails_upstream_is_no_longer_in_flight,
    there_are_never_more_in_flight_than_the_limit,
);

const ONE: &str = "key: ip, limit: 1, algorithm: concurrency";

/// An origin that responds to `/`, sends nothing for `/silent`, and sends only the
/// beginning of the body of `/stuck`.
fn unfinished() -> Origin {
    Origin::serving(|stream, read| {
        while let Some(request) = read() {
            let answer = match request.line().split(' ').nth(1) {
                Some("/silent") => "",
                Some("/stuck") => "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
                _ => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    })
}

fn a_request_is_in_flight_until_its_body_has_ended(store: StoreKind) {
    let (end, ends) = mpsc::channel();
    let ends = Mutex::new(ends);
    let origin = Origin::serving(move |stream, read| {
        while read().is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
            let _ = ends.lock().expect("no thread panics with it").recv();
            let _ = stream.write_all(b"lo");
        }
    });
    let gateway = store.limiting(&origin, ONE);
    let mut first = gateway.client();
    first.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(first.head().number("X-Ratelimit-Remaining"), 0);
    let mut second = gateway.client();
    let refused = second.get("/", &[]);
    assert_eq!(refused.status, 429);
    assert!(refused.number("Retry-After") >= 1);
    end.send(()).expect("the origin waits");
    assert_eq!(first.rest(), b"hello");
    drop(end);
    eventually("a unit is free", || second.get("/", &[]).status == 200);
}

/// The duration of the requests of a test that measures it.
const HELD: Duration = Duration::from_millis(2100);

fn a_refusal_names_the_mean_time_in_flight(store: StoreKind) {
    let (end, ends) = mpsc::channel();
    let ends = Mutex::new(ends);
    let origin = Origin::serving(move |stream, read| {
        while read().is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
            let _ = ends.lock().expect("no thread panics with it").recv();
            let _ = stream.write_all(b"lo");
        }
    });
    let gateway = store.limiting(&origin, ONE);
    let begin = || {
        let mut client = gateway.client();
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let status = client.head().status;
        (client, status)
    };
    let (mut first, _) = begin();
    // Before the first measurement the wait is a second.
    assert_eq!(gateway.client().get("/", &[]).number("Retry-After"), 1);
    thread::sleep(HELD);
    end.send(()).expect("the origin waits");
    assert_eq!(first.rest(), b"hello");
    let mut second = None;
    eventually("a unit is free", || {
        let (client, status) = begin();
        second = Some(client);
        status == 200
    });
    let refused = gateway.client().get("/", &[]);
    assert_eq!(refused.status, 429);
    let told = refused.number("Retry-After");
    // On a busy machine the request takes longer.
    assert!((3..=20).contains(&told), "{told}");
    assert_eq!(refused.number("X-Ratelimit-Retry-After"), told);
    drop((end, second));
}

fn the_request_of_a_client_that_disconnects_is_no_longer_in_flight(store: StoreKind) {
    let origin = unfinished();
    let gateway = store.limiting(&origin, ONE);
    let mut client = gateway.client();
    for (count, path) in ["/silent", "/stuck"].into_iter().enumerate() {
        // The store may not know yet that the previous request has ended. One of several
        // further requests is admitted.
        let mut leaving = Vec::new();
        eventually("it is in flight", || {
            leaving.push(gateway.client());
            let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
            leaving.last_mut().expect("one was just pushed").send(head.as_bytes());
            origin.received().iter().filter(|request| request.line().contains("/s")).count() > count
        });
        assert_eq!(client.get("/", &[]).status, 429, "{path}");
        drop(leaving);
        eventually("a unit is free", || client.get("/", &[]).status == 200);
    }
}

fn a_request_that_fails_upstream_is_no_longer_in_flight(store: StoreKind) {
    let closed = Reserved::new();
    let closing = Origin::serving(|_, read| drop(read()));
    for address in [closed.address(), closing.address()] {
        let gateway = store.start(&format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             upstreams: {{ app: {{ endpoints: [\"http://{address}\"] }} }}\n\
             policies: {{ p: {{ {ONE} }} }}\n\
             routes: [{{ path: \"/*\", policies: [p], upstream: app }}]\n"
        ));
        let mut client = gateway.client();
        for _ in 0..3 {
            let failed = client.get("/", &[]);
            assert!((502..=504).contains(&failed.status), "{failed:#?}");
            assert_eq!(failed.number("X-Ratelimit-Remaining"), 0);
        }
    }
}

fn there_are_never_more_in_flight_than_the_limit(store: StoreKind) {
    const CLIENTS: usize = 8;
    const LIMIT: usize = 3;
    let now = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let current = Arc::clone(&now);
    let highest = Arc::clone(&most);
    let origin = Origin::answering(move |_| {
        highest.fetch_max(current.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(5));
        current.fetch_sub(1, Ordering::SeqCst);
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_owned()
    });
    let policy = format!("key: ip, limit: {LIMIT}, algorithm: concurrency");
    let gateway = store.limiting(&origin, &policy);
    let admitted: usize = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = gateway.client();
                    (0..30).filter(|_| client.get("/", &[]).status == 200).count()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("no client fails")).sum()
    });
    assert_eq!(origin.received().len(), admitted);
    assert!((1..=LIMIT).contains(&most.load(Ordering::SeqCst)), "{most:?} were in flight");
    // All units are free again: as many requests as the limit are admitted at the same
    // time.
    let mut client = gateway.client();
    eventually("all have ended", || {
        client.get("/", &[]).field("X-Ratelimit-Remaining") == Some("2")
    });
}
