//! Bodies that pass through the gateway: framing, streaming, and early ends.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use crate::support::http::{Http, block_on, nothing, request};
use crate::support::{Gateway, Origin, PATIENCE, eventually};

/// Reads from `stream` until the received bytes end with `end`. Returns whether they did.
fn read_until(stream: &mut TcpStream, end: &[u8]) -> bool {
    let mut got = Vec::new();
    let mut piece = [0; 4096];
    while !got.ends_with(end) {
        match stream.read(&mut piece) {
            Ok(count) if count > 0 => got.extend(&piece[..count]),
            _ => return false,
        }
    }
    true
}

#[test]
fn responses_without_a_body_have_none() {
    let origin = Origin::answering(|request| {
        let status = request.line().split([' ', '/']).nth(2).unwrap_or_default();
        let length =
            if request.line().starts_with("HEAD") { "Content-Length: 1234\r\n" } else { "" };
        format!("HTTP/1.1 {status} X\r\n{length}ETag: \"e\"\r\n\r\n")
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    for (method, path) in [("GET", "/204"), ("GET", "/304"), ("HEAD", "/200"), ("DELETE", "/204")] {
        let response = client.request(method, path, &[], b"");
        assert_eq!(response.status.to_string(), path[1..]);
        assert_eq!(response.field("ETag"), Some("\"e\""));
        assert_eq!(response.field("Transfer-Encoding"), None, "{method} {path}");
        let length = (method == "HEAD").then_some("1234");
        assert_eq!(response.field("Content-Length"), length, "{method} {path}");
    }
    assert_eq!(client.request("HEAD", "/200", &[], b"").status, 200, "nothing was left over");
    // The connection of the first HEAD rests, since its response has announced a body.
    assert_eq!(origin.connections(), 2);
}

/// Regression: over HTTP/2 a 204 had the length that the backend says, and clients took it for a broken
/// stream (RFC 9110, section 8.6).
#[test]
fn a_204_has_no_length_whatever_its_backend_says() {
    let origin = Origin::answering(|request| {
        let status = request.line().split([' ', '/']).nth(2).unwrap_or_default();
        format!("HTTP/1.1 {status} X\r\nContent-Length: 5\r\nETag: \"e\"\r\n\r\n")
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        for (path, length) in [("/204", None), ("/304", Some("5"))] {
            let answer = http.ask(request("GET", path, nothing())).await.expect("an answer");
            assert_eq!(answer.status.as_str(), &path[1..]);
            assert_eq!(answer.headers["etag"], "\"e\"");
            let told = answer.headers.get("content-length").and_then(|it| it.to_str().ok());
            assert_eq!(told, length, "{path}");
        }
    });
    assert_eq!(gateway.client().get("/204", &[]).field("Content-Length"), None);
}

/// A length in a response to HEAD is that of the body for GET (RFC 9110, section 8.6), so
/// the gateway must not add one.
#[test]
fn a_head_of_unknown_length_gets_no_length() {
    let origin =
        Origin::answering(|_| "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned());
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    let response = client.request("HEAD", "/", &[], b"");
    assert_eq!((response.status, response.field("Content-Length")), (200, None));
    assert_eq!(client.request("HEAD", "/", &[], b"").status, 200);
}

#[test]
fn empty_bodies_are_distinguished_from_no_bodies() {
    let origin = Origin::answering(|_| "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned());
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    let response = client.request("POST", "/", &["Content-Length: 0"], b"");
    assert_eq!((response.status, response.field("Content-Length")), (200, Some("0")));
    assert_eq!(client.get("/", &[]).status, 200);
    let received = origin.received();
    assert_eq!(received[0].fields("content-length"), ["0"]);
    assert!(received[1].fields("content-length").is_empty());
    assert!(received[1].fields("transfer-encoding").is_empty());
}

#[test]
fn a_body_of_chunks_passes_both_ways() {
    let origin = Origin::answering(|request| {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        )
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    for _ in 0..2 {
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.send(b"5;ext=1\r\nhello\r\n6\r\n world\r\n0\r\n\r\n");
        let response = client.response("POST");
        assert_eq!((response.text().as_str(), response.framing), ("hello world", "chunked"));
    }
    assert_eq!(origin.received()[0].fields("transfer-encoding"), ["chunked"]);
    assert!(origin.received()[0].fields("content-length").is_empty());
}

#[test]
fn a_body_passes_whatever_the_method() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    for method in ["GET", "DELETE", "OPTIONS", "QUERY", "x-own"] {
        assert_eq!(client.request(method, "/", &[], b"body").status, 200, "{method}");
        let received = origin.received().pop().expect("it was forwarded");
        assert_eq!(received.line(), format!("{method} / HTTP/1.1"));
        assert_eq!(received.body, b"body", "{method}");
    }
}

#[test]
fn a_body_that_ends_with_its_connection_passes() {
    let origin = Origin::serving(|stream, read| {
        read();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nuntil the end");
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    for _ in 0..2 {
        let response = client.get("/", &[]);
        assert_eq!((response.status, response.text().as_str()), (200, "until the end"));
    }
}

#[test]
fn large_bodies_pass_unchanged() {
    let body: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    let origin = Origin::serving(|stream, read| {
        while let Some(request) = read() {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.body.len());
            let _ =
                stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&request.body));
        }
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let response = gateway.client().request("PUT", "/", &[], &body);
    assert_eq!(response.status, 200);
    assert!(response.body == body, "{} of {} bytes came", response.body.len(), body.len());
}

#[test]
fn an_upload_streams() {
    let (arrived, arrivals) = mpsc::channel();
    let origin = Origin::serving(move |stream, _| {
        for end in [&b"first\r\n"[..], b"0\r\n\r\n"] {
            if !read_until(stream, end) {
                return;
            }
            let _ = arrived.send(());
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(b"5\r\nfirst\r\n");
    arrivals.recv_timeout(PATIENCE).expect("the first piece arrives before the second is sent");
    client.send(b"6\r\nsecond\r\n0\r\n\r\n");
    assert_eq!(client.response("POST").status, 200);
}

#[test]
fn a_download_streams() {
    let (go, may_go) = mpsc::channel();
    let may_go = Mutex::new(may_go);
    let origin = Origin::serving(move |stream, read| {
        read();
        let _ = stream.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
              Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n",
        );
        let _ = may_go.lock().map(|may_go| may_go.recv_timeout(PATIENCE));
        let _ = stream.write_all(b"6\r\nsecond\r\n0\r\n\r\n");
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().status, 200);
    assert_eq!(client.chunk().expect("a chunk").as_deref(), Some(&b"first"[..]));
    go.send(()).expect("the origin waits");
    assert_eq!(client.chunk().expect("a chunk").as_deref(), Some(&b"second"[..]));
    assert_eq!(client.chunk().expect("the end"), None);
}

/// A client decides how small its chunks are. Each would cost a system call, and a chunk of the
/// origin.
#[test]
fn small_chunks_that_arrive_together_are_forwarded_together() {
    const CHUNKS: usize = 2000;
    let origin = Origin::serving(|stream, _| {
        let mut text = Vec::new();
        let mut piece = [0; 4096];
        while !text.ends_with(b"\r\n0\r\n\r\n") {
            match stream.read(&mut piece) {
                Ok(count @ 1..) => text.extend_from_slice(&piece[..count]),
                _ => return,
            }
        }
        let text = String::from_utf8(text).expect("ASCII");
        let (_, chunks) = text.split_once("\r\n\r\n").expect("a head");
        let data: Vec<&str> = chunks.split("\r\n").skip(1).step_by(2).collect();
        let told = format!("{} {}", data.len() - 1, data.concat().len());
        let length = told.len();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{told}");
        let _ = stream.write_all(answer.as_bytes());
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    let chunks = "1\r\nx\r\n".repeat(CHUNKS);
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(format!("{head}{chunks}0\r\n\r\n").as_bytes());
    let told = client.response("POST").text();
    let (sent, bytes) = told.split_once(' ').expect("two numbers");
    assert_eq!(bytes, CHUNKS.to_string(), "all bytes arrive");
    // Each read from the client may end one piece.
    let sent: usize = sent.parse().expect("a number");
    assert!(sent <= CHUNKS / 50, "{sent} chunks for {CHUNKS}");
}

#[test]
fn a_client_that_disconnects_ends_its_request_at_the_origin() {
    let (ended, ends) = mpsc::channel();
    let origin = Origin::serving(move |stream, read| {
        let request = read();
        if request.is_some_and(|request| request.line().contains("/half")) {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
        }
        // Only the end of this connection can still arrive.
        let _ = ended.send(stream.read(&mut [0; 1]).unwrap_or(0));
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    for path in ["/silent", "/half"] {
        let mut client = gateway.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        eventually("the request arrives", || {
            origin.received().iter().any(|request| request.line().contains(path))
        });
        if path == "/half" {
            assert_eq!(client.head().status, 200);
        }
        drop(client);
        let count = ends.recv_timeout(PATIENCE).expect("the origin's connection ends");
        assert_eq!(count, 0, "{path}");
    }
}

#[test]
fn an_early_response_is_relayed_at_once() {
    let origin = Origin::serving(|stream, _| {
        if read_until(stream, b"first\r\n") {
            let _ = stream.write_all(b"HTTP/1.1 413 Enough\r\nContent-Length: 4\r\n\r\nstop");
        }
        let _ = stream.read(&mut [0; 1]);
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
    let response = client.response("POST");
    assert_eq!((response.status, response.text().as_str()), (413, "stop"));
    assert!(client.is_closed(), "what follows would be the rest of the upload");
}

#[test]
fn a_client_that_expects_a_100_gets_it() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.head().status, 100);
    client.send(b"body");
    assert_eq!(client.response("POST").status, 200);
    assert_eq!(origin.received()[0].body, b"body");
    assert_eq!(origin.received()[0].fields("expect"), ["100-continue"]);
    assert_eq!(client.get("/", &[]).status, 200, "the connection goes on");
}

#[test]
fn a_client_that_expects_a_100_and_is_refused_sends_no_body() {
    let origin = Origin::hello();
    let gateway = Gateway::limiting(&origin, "key: ip, limit: 1/day");
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 200);
    let asks = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    client.send(asks.as_bytes());
    let refused = client.response("POST");
    assert_eq!((refused.status, origin.received().len()), (429, 1));
    // The client does not know whether its body is still expected.
    let connection = refused.field("Connection").map(str::to_lowercase);
    assert_eq!(connection.as_deref(), Some("close"));
    assert!(client.is_closed());
}

/// The final response of the origin follows its interim response.
#[test]
fn an_interim_response_is_not_taken_for_the_final_one() {
    let origin = Origin::answering(|_| {
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
            .to_owned()
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut response = client.response("GET");
    if response.status == 103 {
        response = client.response("GET");
    }
    assert_eq!((response.status, response.text().as_str()), (200, "hello"));
}

#[test]
fn trailers_that_were_announced_pass_both_ways() {
    let seen = Arc::new(Mutex::new(String::new()));
    let log = Arc::clone(&seen);
    let origin = Origin::serving(move |stream, _| {
        let mut piece = [0; 4096];
        let mut got = String::new();
        while !got.to_lowercase().contains("x-sum: 1\r\n\r\n") {
            match stream.read(&mut piece) {
                Ok(count) if count > 0 => got.push_str(&String::from_utf8_lossy(&piece[..count])),
                _ => return,
            }
        }
        log.lock().expect("no thread panics with it").push_str(&got);
        let _ = stream.write_all(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
              2\r\nok\r\n0\r\nX-Sum: 2\r\n\r\n",
        );
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(
        b"POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\
          Trailer: X-Sum\r\nConnection: close, TE\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n",
    );
    let answer = String::from_utf8_lossy(&client.rest()).to_lowercase();
    assert!(answer.contains("0\r\nx-sum: 2\r\n\r\n"), "{answer}");
    let seen = seen.lock().expect("no thread panics with it").to_lowercase();
    assert!(seen.contains("trailer: x-sum") && seen.contains("te: trailers"), "{seen}");
}
