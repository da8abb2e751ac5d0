//! A connection between a request and a simulated endpoint.

use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::task::Waker;
use std::time::Duration;

use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::task::{LocalSet, spawn_local, yield_now};
use tollgate_core::time::monotonic;

use super::idle_bound::{KEPT, SURPLUS_TIMEOUT};
use super::pool::REST;
use super::*;
use crate::proxy::endpoint;
use crate::telemetry::UpstreamTraffic;

const AUTHORITY: HeaderValue = HeaderValue::from_static("a.test");

fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, test);
}

/// A connection to an endpoint that answers each request with `response`, and closes the
/// connection after so many of them.
fn connection(response: &str, requests: usize) -> Box<Connection> {
    let (near, far) = duplex(1000);
    spawn_local(answer(far, response.as_bytes().to_vec(), requests));
    Connection::over(Box::new(near))
}

async fn answer(mut stream: DuplexStream, response: Vec<u8>, requests: usize) {
    for _ in 0..requests {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut request).await.is_ok_and(|read| read == 0) {
                return;
            }
        }
        if stream.write_all(&response).await.is_err() {
            return;
        }
    }
}

async fn get(connection: &mut Connection, method: Method) -> Result<Response<()>, SendError> {
    let mut request = Box::new(Request::new(RequestBody::EMPTY));
    *request.method_mut() = method;
    let sent = connection.send(request, &AUTHORITY, SendOptions::default()).await;
    sent.map(|(response, _)| response)
}

async fn read(connection: Box<Connection>) -> Result<(Bytes, Box<Connection>), BrokenBody> {
    let mut body = endpoint::Connection::Http1(connection);
    let read = (&mut body).collect().await?.to_bytes();
    let endpoint::Connection::Http1(connection) = body else { unreachable!() };
    Ok((read, connection))
}

const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

fn pool() -> Pool {
    pool_of(Some(9), 0)
}

/// A pool with this configured bound, or else with so much room above what it may have in any
/// case.
fn pool_of(bound: Option<usize>, room: usize) -> Pool {
    let excess = Excess::new("app", "10.0.0.1:80", &UpstreamTraffic::default());
    Pool::new(IdleBound::new(bound, &IdleRoom::new(room)), IDLE_TIMEOUT, excess)
}

async fn idle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

#[test]
fn a_connection_carries_one_request_after_another() {
    let long = "x".repeat(50_000);
    let known = format!("HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n{long}");
    let chunked =
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nC350\r\n{long}\r\n0\r\n\r\n");
    for (response, method, bytes) in [
        (&*known, Method::GET, 50_000),
        (&*chunked, Method::GET, 50_000),
        ("HTTP/1.1 204 No Content\r\n\r\n", Method::GET, 0),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Method::HEAD, 0),
        (
            "HTTP/1.1 103 x\r\na: b\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx",
            Method::GET,
            1,
        ),
    ] {
        run(async {
            let pool = pool();
            let mut next = Some(connection(response, 9));
            for _ in 0..3 {
                let mut connection = next.take().expect("it can be used again");
                let head = get(&mut connection, method.clone()).await.expect("a response");
                assert!(head.status().is_success(), "the final response");
                let (body, connection) = read(connection).await.expect("a whole body");
                assert_eq!(body.len(), bytes);
                pool.keep(connection);
                idle().await;
                next = pool.reuse(monotonic() + REST);
            }
        });
    }
}

/// Some endpoints send a body that its response must not have.
#[test]
fn a_connection_rests_after_a_response_that_announces_a_body_and_has_none() {
    let long = "Content-Length: 5\r\n";
    for (method, status, fields, rests) in [
        (Method::HEAD, "200 OK", long, true),
        (Method::HEAD, "200 OK", "", true),
        (Method::HEAD, "200 OK", "Transfer-Encoding: chunked\r\n", true),
        (Method::HEAD, "200 OK", "Content-Length: 0\r\n", false),
        (Method::GET, "204 No Content", long, true),
        (Method::GET, "204 No Content", "", false),
        (Method::GET, "304 Not Modified", long, true),
        (Method::GET, "304 Not Modified", "ETag: \"1\"\r\n", false),
        (Method::GET, "200 OK", "Content-Length: 0\r\n", false),
    ] {
        run(async {
            let pool = pool();
            let mut connection = connection(&format!("HTTP/1.1 {status}\r\n{fields}\r\n"), 9);
            get(&mut connection, method.clone()).await.expect("a response");
            pool.keep(connection);
            let now = monotonic();
            let at_once = pool.reuse(now);
            assert_eq!(at_once.is_none(), rests, "{method} {status} {fields}");
            pool.keep(at_once.or_else(|| pool.reuse(now + REST)).expect("it can be used later"));
        });
    }
}

#[test]
fn connections_that_rest_are_bounded_too_and_expire() {
    run(async {
        let pool = pool();
        for _ in 0..12 {
            let mut connection = connection("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 1);
            get(&mut connection, Method::HEAD).await.expect("a response");
            pool.keep(connection);
        }
        assert_eq!(pool.count(), 9);
        pool.close_expired(monotonic() + IDLE_TIMEOUT);
        assert_eq!(pool.count(), 0);
    });
}

/// A connection with a response, on a socket, and its other end. The runtime does not know what
/// the endpoint sends after it.
async fn answered() -> (Box<Connection>, UnixStream) {
    let (near, mut far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    let near = tokio::net::UnixStream::from_std(near).unwrap();
    let mut connection = Connection::over(Box::new(near));
    far.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    // What comes before the request would be no response to it.
    connection.incoming.wire().output.borrow_mut().is_begun = true;
    let sent = get(&mut connection, Method::GET).await;
    assert_eq!(sent.expect("a response").status(), StatusCode::OK);
    (connection, far)
}

/// Regression: a connection was used again in the same turn without a look at its socket. Bytes
/// behind its last response became the response to another client.
#[test]
fn a_socket_is_asked_before_its_connection_is_used_again_in_the_same_turn() {
    for what in ["bytes", "an end"] {
        run(async {
            let (connection, mut far) = answered().await;
            let pool = pool();
            pool.keep(connection);
            let quiet = pool.reuse(monotonic()).expect("nothing has come");
            match what {
                "bytes" => far.write_all(b"HTTP/1.1 200 OK\r\n\r\nevil").unwrap(),
                _ => far.shutdown(Shutdown::Both).unwrap(),
            }
            pool.keep(quiet);
            assert!(pool.reuse(monotonic()).is_none(), "{what}");
            idle().await;
            pool.close_expired(monotonic());
            assert_eq!(pool.count(), 0, "{what}");
        });
    }
}

#[test]
fn an_endpoint_that_has_sent_too_much_is_suspected_for_a_while() {
    run(async {
        let pool = pool();
        let (connection, mut far) = answered().await;
        pool.keep(connection);
        far.write_all(b"x").unwrap();
        idle().await;
        assert!(pool.reuse(monotonic()).is_none());
        let (connection, _far) = answered().await;
        pool.keep(connection);
        let now = monotonic();
        assert!(pool.reuse(now).is_none(), "it rests");
        let connection = pool.reuse(now + REST).expect("it has rested");
        pool.keep(connection);
        assert_eq!(pool.count(), 1);
    });
}

/// Some servers say that they close a connection that was idle for too long.
#[test]
fn a_late_word_of_an_endpoint_makes_no_suspicion() {
    run(async {
        let pool = pool();
        let (connection, mut far) = answered().await;
        pool.keep(connection);
        far.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n").unwrap();
        idle().await;
        assert!(pool.reuse(monotonic() + Duration::from_secs(5)).is_none());
        let (connection, _far) = answered().await;
        pool.keep(connection);
        assert!(pool.reuse(monotonic()).is_some());
    });
}

#[test]
fn a_connection_that_cannot_carry_another_request_is_not_kept() {
    for (response, requests) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 9),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 9),
        // The end of the body is the end of the connection.
        ("HTTP/1.1 200 OK\r\n\r\nabc", 1),
        // The endpoint closes the connection without a word.
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1),
        // What follows the response would be taken for the next one.
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", 9),
    ] {
        run(async {
            let pool = pool();
            let mut connection = connection(response, requests);
            get(&mut connection, Method::GET).await.expect("a response");
            let (_, connection) = read(connection).await.expect("a whole body");
            pool.keep(connection);
            idle().await;
            assert!(pool.reuse(monotonic()).is_none(), "{response}");
        });
    }
}

/// Keeps new connections, and returns the other ends of them.
fn keep(pool: &Pool, count: usize) -> Vec<DuplexStream> {
    let keep = |_| {
        let (near, far) = duplex(1);
        pool.keep(Connection::over(Box::new(near)));
        far
    };
    (0..count).map(keep).collect()
}

/// Regression: of 4,096 clients that were active at once, most opened a new connection for each
/// request, because only 256 connections were kept.
#[test]
fn a_pool_keeps_the_connections_that_were_used_lately() {
    run(async {
        let pool = pool_of(None, 10_000);
        let _far = keep(&pool, 4096);
        assert_eq!(pool.count(), 4096);
        let now = monotonic();
        let all: Vec<_> = std::iter::from_fn(|| pool.reuse(now)).collect();
        assert_eq!((all.len(), pool.count()), (4096, 0));
        all.into_iter().for_each(|connection| pool.keep(connection));
        // Housekeeping closes those that were not needed, some in each call.
        let later = monotonic() + SURPLUS_TIMEOUT;
        pool.close_expired(later);
        assert!((2048..4096).contains(&pool.count()), "{} after one call", pool.count());
        (0..20).for_each(|_| pool.close_expired(later));
        assert_eq!(pool.count(), KEPT);
        pool.close_expired(monotonic() + IDLE_TIMEOUT);
        assert_eq!(pool.count(), 0);
    });
}

#[test]
fn a_pool_keeps_no_more_connections_than_its_worker_has_room_for() {
    for (bound, room, kept) in
        [(None, 100, KEPT + 100), (None, 0, KEPT), (Some(300), 0, 300), (Some(0), 0, 0)]
    {
        run(async {
            let pool = pool_of(bound, room);
            let _far = keep(&pool, 400);
            assert_eq!(pool.count(), kept, "{bound:?} {room}");
        });
    }
}

/// A connection that is too old may be about to be closed by the endpoint.
#[test]
fn connections_that_are_too_old_are_not_used_even_if_many_wait_to_be_closed() {
    run(async {
        let pool = pool_of(Some(1000), 0);
        let _far = keep(&pool, 1000);
        assert!(pool.reuse(monotonic() + IDLE_TIMEOUT).is_none());
        assert!(pool.count() > 0);
    });
}

/// Regression: a task that had used up its budget of the runtime, such as one that looks at many
/// connections, saw nothing of what had come, and used such connections again.
#[test]
fn a_task_without_a_budget_sees_what_has_come() {
    for what in ["bytes", "an end"] {
        run(async {
            let (connection, mut far) = answered().await;
            let pool = pool();
            pool.keep(connection);
            match what {
                "bytes" => far.write_all(b"HTTP/1.1 200 OK\r\n\r\nevil").unwrap(),
                _ => far.shutdown(Shutdown::Both).unwrap(),
            }
            idle().await;
            while tokio::task::coop::has_budget_remaining() {
                let cx = &mut Context::from_waker(Waker::noop());
                let spent = tokio::task::coop::poll_proceed(cx);
                let _ = spent.map(|budget| budget.made_progress());
            }
            assert!(pool.reuse(monotonic()).is_none(), "{what}");
        });
    }
}

#[test]
fn all_connections_that_the_endpoint_closes_are_closed_within_some_calls() {
    run(async {
        let pool = pool_of(Some(5000), 0);
        drop(keep(&pool, 5000));
        (0..40).for_each(|_| pool.close_expired(monotonic()));
        assert_eq!(pool.count(), 0);
    });
}

#[test]
fn an_idle_connection_that_the_endpoint_closes_is_closed() {
    run(async {
        let pool = pool();
        let (near, far) = duplex(1000);
        pool.keep(Connection::over(Box::new(near)));
        pool.close_expired(monotonic());
        assert_eq!(pool.count(), 1);
        drop(far);
        pool.close_expired(monotonic());
        assert_eq!(pool.count(), 0);
    });
}

#[test]
fn a_response_that_breaks_off_is_no_response() {
    for (response, fault) in [
        ("", Fault::Closed),
        ("HTTP/1.1 200 OK\r\nContent-Le", Fault::Closed),
        ("HTTP/1.1 103 Early Hints\r\n\r\n", Fault::Closed),
        ("+PONG\r\n", Fault::Unreadable),
    ] {
        run(async {
            let error = get(&mut connection(response, 1), Method::GET).await.unwrap_err();
            assert_eq!((error.fault, error.is_unsent), (fault, false), "{response}");
        });
    }
    for response in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx",
    ] {
        run(async {
            let mut connection = connection(response, 1);
            get(&mut connection, Method::GET).await.expect("a head");
            assert!(read(connection).await.is_err(), "{response}");
        });
    }
}

#[test]
fn a_request_that_finds_its_connection_closed_is_unsent() {
    run(async {
        let (near, far) = duplex(1000);
        drop(far);
        let mut connection = Connection::over(Box::new(near));
        let error = get(&mut connection, Method::GET).await.unwrap_err();
        assert_eq!((error.fault, error.is_unsent), (Fault::Closed, true));
        assert!(error.request.is_some());
    });
}

/// Otherwise each later request would get the response to the one before it.
#[test]
fn a_response_that_comes_before_its_request_is_none() {
    run(async {
        let (near, mut far) = duplex(1000);
        far.write_all(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        let error = get(&mut Connection::over(Box::new(near)), Method::GET).await.unwrap_err();
        assert_eq!((error.fault, error.is_unsent), (Fault::Closed, true));
        idle().await;
        let mut request = Vec::new();
        assert_eq!(far.read_to_end(&mut request).await.unwrap(), 0, "it is not sent");
    });
}

/// The requests of one turn are written together.
#[test]
fn other_tasks_have_a_turn_before_a_request_is_written() {
    run(async {
        let mut connection = connection("HTTP/1.1 204 No Content\r\n\r\n", 1);
        let other = spawn_local(async {});
        {
            let mut sending = std::pin::pin!(get(&mut connection, Method::GET));
            assert!(futures_util::poll!(&mut sending).is_pending());
            assert!(!other.is_finished());
            assert!(sending.await.is_ok());
        }
        assert!(other.is_finished());
    });
}
