//! Bodies over HTTP/2: in both directions at once, with trailers, and no faster than the
//! receiver reads. gRPC needs all of this.

use std::io::{Read as _, Write as _};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Version};
use http_body_util::BodyExt as _;
use hyper::body::Frame;
use tokio::time::timeout;

use super::gateway;
use crate::support::http::{Answer, Http, block_on, request, streamed};
use crate::support::{Backend, Origin, Speaks};

/// Backends of both protocols, and where they are.
fn backends() -> [(Backend, String); 2] {
    [("http", Speaks::Http1), ("h2c", Speaks::Http2 { max_streams: 100 })].map(
        |(scheme, speaks)| {
            let backend = Backend::start(speaks);
            let endpoint = format!("{scheme}://{}", backend.address());
            (backend, endpoint)
        },
    )
}

#[test]
fn trailers_pass_both_ways_whatever_the_backend_speaks() {
    for (backend, endpoint) in backends() {
        let gateway = gateway("", &endpoint, "");
        let answer = block_on(async {
            let http = Http::prior_knowledge(gateway.address()).await;
            let (sender, body) = streamed();
            let mut request = request("POST", "/shop.Orders/StoreKind", body);
            for (name, value) in
                [("te", "trailers"), ("trailer", "x-sum"), ("content-type", "application/grpc")]
            {
                request.headers_mut().insert(name, HeaderValue::from_static(value));
            }
            let send = async {
                sender.send(Frame::data("order".into())).await.unwrap();
                let trailers = [("x-sum".parse().unwrap(), HeaderValue::from_static("42"))];
                sender.send(Frame::trailers(HeaderMap::from_iter(trailers))).await.unwrap();
                drop(sender);
            };
            let answer = async { Answer::read(http.send(request).await?).await };
            tokio::join!(answer, send).0.unwrap()
        });
        assert_eq!((answer.status.as_u16(), &answer.body[..]), (200, &b"order"[..]), "{endpoint}");
        assert_eq!(answer.trailers["x-sum"], "42", "{endpoint}");
        let seen = &backend.seen()[0];
        assert_eq!(seen.trailers.as_ref().unwrap()["x-sum"], "42", "{endpoint}");
        assert_eq!(seen.headers["te"], "trailers", "{endpoint}");
        assert_eq!(seen.headers["content-type"], "application/grpc", "{endpoint}");
    }
}

/// Each message is sent after the previous one was returned.
#[test]
fn both_sides_can_send_at_once() {
    let [_, (_backend, endpoint)] = backends();
    let gateway = gateway("", &endpoint, "");
    block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        let (sender, body) = streamed();
        let mut request = request("POST", "/stream", body);
        request.headers_mut().insert("te", HeaderValue::from_static("trailers"));
        let mut answer = http.send(request).await.unwrap();
        assert_eq!(answer.version(), Version::HTTP_2);
        for number in 0..50 {
            let message = Bytes::from(format!("message {number}"));
            sender.send(Frame::data(message.clone())).await.unwrap();
            let frame = answer.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), message);
        }
        drop(sender);
        let end = Answer::read(answer).await.unwrap();
        assert_eq!((&end.body[..], end.trailers["grpc-status"].as_bytes()), (&b""[..], &b"0"[..]));
    });
}

/// If a backend does not read, the client must wait: windows and the buffers of the kernel
/// hold far less than the body.
#[test]
fn an_upload_goes_no_faster_than_the_backend_reads() {
    const PIECE: usize = 64 * 1024;
    const PIECES: usize = 1024;
    let (go_on, told) = mpsc::channel::<()>();
    let told = Mutex::new(told);
    let origin = Origin::serving(move |stream, read| {
        told.lock().unwrap().recv().unwrap();
        if read().is_some_and(|request| request.body.len() == PIECE * PIECES) {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
        let _ = stream.read(&mut [0; 1]);
    });
    let gateway = gateway("", &format!("http://{}", origin.address()), "");
    block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        let (sender, body) = streamed();
        let answer = http.ask(request("POST", "/", body));
        let send = async {
            let mut sent = 0;
            let piece = || Frame::data(Bytes::from(vec![0; PIECE]));
            let stalled = Duration::from_secs(1);
            while sent < PIECES && timeout(stalled, sender.send(piece())).await.is_ok() {
                sent += 1;
            }
            assert!(sent < PIECES / 2, "the client waits, after {sent} pieces");
            go_on.send(()).unwrap();
            for _ in sent..PIECES {
                sender.send(piece()).await.unwrap();
            }
            drop(sender);
        };
        let (answer, ()) = tokio::join!(answer, send);
        assert_eq!(answer.unwrap().status, 200);
    });
}
