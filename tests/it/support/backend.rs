//! A backend that is a real server: HTTP/1.1, HTTP/2, or the protocol that ALPN selects. It
//! can stop gracefully and start again on the same port.

use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, TRAILER};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;

use super::{Reserved, reserved};

/// The protocol of a backend.
#[derive(Clone)]
pub(crate) enum Speaks {
    Http1,
    /// HTTP/2 with this number of concurrent streams on each connection.
    Http2 {
        max_streams: u32,
    },
    /// The protocol that ALPN selects, with this configuration.
    Tls(Arc<rustls::ServerConfig>),
}

/// A request as it was received.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) version: Version,
    pub(crate) uri: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    /// Requests whose head has arrived.
    begun: AtomicUsize,
    /// Requests that ended before their response.
    abandoned: AtomicUsize,
    seen: Mutex<Vec<Seen>>,
}

/// A backend. `/slow` takes a moment, `/never` does not end, `/large/N` has N bytes, and a
/// path that begins with `/503` gets that status. `/stream` returns its body while it
/// arrives, and then the trailer `grpc-status`. Other requests get their own body and
/// trailers.
pub(crate) struct Backend {
    reserved: Reserved,
    speaks: Speaks,
    counts: Arc<Counts>,
    running: Option<(watch::Sender<bool>, JoinHandle<()>)>,
}

impl Backend {
    pub(crate) fn start(speaks: Speaks) -> Self {
        let mut backend =
            Self { reserved: Reserved::new(), speaks, counts: Arc::default(), running: None };
        backend.restart();
        backend
    }

    fn run(&mut self, listener: TcpListener) {
        let (stop, stopped) = watch::channel(false);
        let speaks = self.speaks.clone();
        let counts = Arc::clone(&self.counts);
        let thread = thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().build_local(Default::default()).expect("a runtime");
            runtime.block_on(accept(listener, speaks, counts, stopped));
        });
        self.running = Some((stop, thread));
    }

    /// Stops accepting, responds to all requests that have arrived, and closes all
    /// connections.
    pub(crate) fn stop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            stop.send_replace(true);
            thread.join().expect("it does not panic");
        }
    }

    /// Starts again on the same port.
    pub(crate) fn restart(&mut self) {
        self.run(self.reserved.listen());
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.reserved.address()
    }

    pub(crate) fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn begun(&self) -> usize {
        self.counts.begun.load(Ordering::SeqCst)
    }

    pub(crate) fn abandoned(&self) -> usize {
        self.counts.abandoned.load(Ordering::SeqCst)
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.counts.seen.lock().expect("no thread panics with it").clone()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if let Some((stop, _)) = &self.running {
            stop.send_replace(true);
        }
    }
}

async fn accept(
    listener: TcpListener,
    speaks: Speaks,
    counts: Arc<Counts>,
    mut stopped: watch::Receiver<bool>,
) {
    listener.set_nonblocking(true).expect("an option");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    let mut connections = Vec::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|stop| *stop) => break,
        };
        let Ok((stream, _)) = accepted else { continue };
        counts.connections.fetch_add(1, Ordering::SeqCst);
        let speaks = speaks.clone();
        let counts = Arc::clone(&counts);
        let stopped = stopped.clone();
        connections.push(spawn_local(async move {
            match speaks {
                Speaks::Http1 => serve_http1(stream, counts, stopped).await,
                Speaks::Http2 { max_streams } => {
                    serve_http2(stream, max_streams, counts, stopped).await;
                }
                Speaks::Tls(config) => {
                    let Ok(stream) = TlsAcceptor::from(config).accept(stream).await else { return };
                    match stream.get_ref().1.alpn_protocol() {
                        Some(b"h2") => serve_http2(stream, 100, counts, stopped).await,
                        _ => serve_http1(stream, counts, stopped).await,
                    }
                }
            }
        }));
    }
    reserved::close(listener.into_std().expect("a listener"));
    for connection in connections {
        let _ = tokio::time::timeout(Duration::from_secs(2), connection).await;
    }
}

async fn serve_http1<T>(stream: T, counts: Arc<Counts>, mut stopped: watch::Receiver<bool>)
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let service = service_fn(move |request| answer(request, Arc::clone(&counts)));
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopped.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

#[derive(Clone, Copy)]
struct Local;

impl<F: Future + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, task: F) {
        spawn_local(task);
    }
}

async fn serve_http2<T>(
    stream: T,
    max_streams: u32,
    counts: Arc<Counts>,
    mut stopped: watch::Receiver<bool>,
) where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let service = service_fn(move |request| answer(request, Arc::clone(&counts)));
    let mut builder = http2::Builder::new(Local);
    builder.max_concurrent_streams(max_streams);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopped.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Counts a request that is dropped before its response.
struct Pending(Option<Arc<Counts>>);

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(counts) = &self.0 {
            counts.abandoned.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    counts: Arc<Counts>,
) -> hyper::Result<Response<BoxBody<Bytes, hyper::Error>>> {
    let mut pending = Pending(Some(Arc::clone(&counts)));
    counts.begun.fetch_add(1, Ordering::SeqCst);
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    if path == "/never" {
        std::future::pending::<()>().await;
    }
    if path == "/stream" {
        let trailers = HeaderMap::from_iter([(
            HeaderName::from_static("grpc-status"),
            HeaderValue::from_static("0"),
        )]);
        let end = async move {
            let mut pending = pending;
            pending.0 = None;
            Some(Ok(trailers))
        };
        return Ok(Response::new(BodyExt::boxed(body.with_trailers(end))));
    }
    let collected = body.collect().await?;
    let trailers = collected.trailers().cloned();
    let body = collected.to_bytes();
    if path == "/slow" {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let announced = head.headers.get(TRAILER).cloned();
    let seen = Seen {
        version: head.version,
        uri: head.uri.to_string(),
        headers: head.headers,
        body: body.clone(),
        trailers: trailers.clone(),
    };
    counts.seen.lock().expect("no thread panics with it").push(seen);
    pending.0 = None;
    let large = path.strip_prefix("/large/").and_then(|bytes| bytes.parse().ok());
    let body = large.map_or(body, |bytes| Bytes::from(vec![b'x'; bytes]));
    let mut response = Response::new(match trailers {
        None => BodyExt::boxed(Full::new(body).map_err(|never| match never {})),
        Some(trailers) => {
            let frames = [Frame::data(body), Frame::trailers(trailers)].map(Ok);
            BodyExt::boxed(StreamBody::new(futures_util::stream::iter(frames)))
        }
    });
    let fields = path.strip_prefix("/fields/").and_then(|count| count.parse().ok());
    for number in 0..fields.unwrap_or(0) {
        let name = HeaderName::try_from(format!("x-field-{number}")).expect("a name");
        response.headers_mut().insert(name, HeaderValue::from_static("1"));
    }
    if path.starts_with("/503") {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    if let Some(announced) = announced {
        response.headers_mut().insert(TRAILER, announced);
    }
    Ok(response)
}
