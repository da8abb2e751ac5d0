//! A client that does not read, or an upload that is not read, blocks only itself, and no
//! other request on the same connection.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Frame;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::timeout;

use super::gateway;
use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, Frames, HEADERS, INITIAL_WINDOW_SIZE, Outcome, frame, get,
};
use crate::support::http::{Http, block_on, nothing, request, soon, streamed};
use crate::support::{Backend, Client, Endpoint, Origin, PATIENCE, Speaks};

/// More than all buffers and windows between the endpoint and one client.
const LARGE: &str = "/large/16000000";

#[test]
fn clients_that_do_not_read_do_not_block_others() {
    let backend = Backend::start(Speaks::Http2 { max_streams: 100 });
    let gateway = gateway(&[format!("h2c://{}", backend.address())], "", "");
    let idle: Vec<Client> = (0..20)
        .map(|_| {
            let mut client = gateway.client();
            client.send(format!("GET {LARGE} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            assert_eq!(client.head().status, 200);
            client
        })
        .collect();
    // Until all buffers are full.
    thread::sleep(Duration::from_millis(300));
    let mut other = gateway.client();
    assert_eq!(other.get("/", &[]).status, 200);
    assert_eq!(other.get("/large/1000000", &[]).body.len(), 1_000_000);
    assert_eq!(backend.connections(), 1, "they share it");
    drop(idle);
}

/// A frame that waits costs more memory than its bytes, and the HTTP library ends a connection above a
/// bound. The end of the first response comes behind the frames of all others.
#[test]
fn responses_in_small_frames_that_are_not_read_do_not_end_others() {
    const OTHERS: u32 = 60;
    let endpoint = Endpoint::answering(|_, request| {
        let part = |count| frame(DATA, 0, request.stream, &[b'x'; 60]).repeat(count);
        let begin = || frame(HEADERS, END_HEADERS, request.stream, &[0x88]);
        match (request.kind, request.stream) {
            (HEADERS, 1) => [begin(), part(1)].concat(),
            (HEADERS, stream) => {
                let is_last = stream == 2 * OTHERS + 1;
                let end = if is_last { frame(DATA, END_STREAM, 1, b"end") } else { Vec::new() };
                [begin(), part(128 * 1024 / 60), end].concat()
            }
            _ => Vec::new(),
        }
    });
    let gateway = gateway(&[endpoint.url()], "", "");
    let mut reader = gateway.client();
    reader.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(reader.head().status, 200);
    assert_eq!(reader.chunk().expect("a part").map(|part| part.len()), Some(60));
    let mut others = Frames::with_settings(gateway.address(), &[(INITIAL_WINDOW_SIZE, 0)]);
    for number in 0..OTHERS {
        others.send(&get(2 * number + 1, "/"));
        assert_eq!(others.outcome(2 * number + 1), Outcome::Status(200));
    }
    assert_eq!(reader.chunk().expect("its end").as_deref(), Some(&b"end"[..]));
    assert_eq!(reader.chunk().expect("no more"), None);
    assert_eq!(endpoint.connections(), 1, "they share it");
}

/// The pieces of such a body are joined, and wait in the gateway when the window is full.
#[test]
fn an_upstream_that_stops_reading_an_upload_in_small_pieces_is_late() {
    let backend = Backend::start(Speaks::Http2 { max_streams: 100 });
    let endpoints = [format!("h2c://{}", backend.address())];
    let gateway = gateway(&endpoints, "", "timeouts: { response: 100ms }");
    let mut stream = TcpStream::connect(gateway.address()).expect("it accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("it has a timeout");
    let mut sending = stream.try_clone().expect("a second handle");
    let sender = thread::spawn(move || -> io::Result<()> {
        sending
            .write_all(b"POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        let chunk = [b"400\r\n".as_slice(), &[b'x'; 0x400], b"\r\n"].concat();
        loop {
            sending.write_all(&chunk)?;
            // The gateway waits for the next piece.
            thread::sleep(Duration::from_micros(200));
        }
    });
    let mut status = [0; 12];
    stream.read_exact(&mut status).expect("a response");
    assert_eq!(&status, b"HTTP/1.1 504");
    stream.shutdown(Shutdown::Both).expect("it is open");
    drop(sender.join().expect("the sender"));
}

/// With more requests than one connection carries.
#[test]
fn when_a_connection_is_full_another_one_is_opened() {
    let backend = Backend::start(Speaks::Http2 { max_streams: 1000 });
    let gateway = gateway(&[format!("h2c://{}", backend.address())], "", "");
    block_on(async {
        let first = Http::prior_knowledge(gateway.address()).await;
        let second = Http::prior_knowledge(gateway.address()).await;
        // The number of streams is known after the endpoint's settings.
        assert_eq!(first.get("/").await.status, 200);
        let never = || request("GET", "/never", nothing());
        let pending: Vec<_> = (0..60)
            .flat_map(|_| [&first, &second])
            .map(|http| spawn_local(http.send(never())))
            .collect();
        soon("all are there", || backend.begun() == 121).await;
        assert_eq!(first.get("/").await.status, 200);
        assert_eq!(backend.connections(), 2);
        pending.iter().for_each(JoinHandle::abort);
    });
}

/// A proxy in front of the gateway sends the uploads of many clients over one connection.
#[test]
fn uploads_that_are_not_read_do_not_block_others() {
    const PIECE: usize = 64 * 1024;
    let origin = Origin::serving(|stream, read| {
        let mut first = [0; 5];
        if stream.peek(&mut first).is_ok() && &first == b"POST " {
            return thread::sleep(PATIENCE);
        }
        while read().is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let gateway = gateway(&[format!("http://{}", origin.address())], "", "");
    let piece = || Frame::data(Bytes::from(vec![0; PIECE]));
    block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        let mut stalled = Vec::new();
        for _ in 0..6 {
            let (sender, body) = streamed();
            stalled.push((sender.clone(), spawn_local(http.send(request("POST", "/", body)))));
            while timeout(Duration::from_millis(200), sender.send(piece())).await.is_ok() {}
        }
        let (sender, body) = streamed();
        let send = async move {
            for _ in 0..20 {
                sender.send(piece()).await.unwrap();
            }
        };
        let upload = async { tokio::join!(http.ask(request("PUT", "/", body)), send).0 };
        let answer = timeout(PATIENCE / 4, upload).await.expect("other uploads go on");
        assert_eq!(answer.unwrap().status, 200);
    });
}
