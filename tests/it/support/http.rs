//! A real client: HTTP/1.1 or HTTP/2, over any transport, with bodies that stream and end
//! with trailers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, mpsc};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::timeout;

use super::PATIENCE;

/// The body of a request.
pub(crate) type Outgoing = BoxBody<Bytes, Infallible>;

/// Runs a client's side of a test on this thread.
pub(crate) fn block_on<T>(test: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build_local(Default::default()).expect("a runtime");
    runtime.block_on(async { timeout(PATIENCE, test).await.expect("nothing takes longer") })
}

/// A body that is complete at once.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Outgoing {
    Full::new(bytes.into()).boxed()
}

/// No body.
pub(crate) fn nothing() -> Outgoing {
    Empty::new().boxed()
}

/// A body of the frames that are sent, until the sender is dropped. It buffers one frame.
pub(crate) fn streamed() -> (mpsc::Sender<Frame<Bytes>>, Outgoing) {
    let (sender, receiver) = mpsc::channel(1);
    let frames = unfold(receiver, |mut receiver| async {
        let frame = receiver.recv().await?;
        Some((Ok(frame), receiver))
    });
    (sender, StreamBody::new(frames).boxed())
}

/// A request to `gateway.test`.
pub(crate) fn request(method: &str, path: &str, body: Outgoing) -> Request<Outgoing> {
    let uri = format!("http://gateway.test{path}");
    Request::builder().method(method).uri(uri).body(body).expect("a good request")
}

/// A complete response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: HeaderMap,
}

impl Answer {
    /// Reads a response to its end.
    pub(crate) async fn read(response: Response<Incoming>) -> hyper::Result<Self> {
        let (head, body) = response.into_parts();
        let body = body.collect().await?;
        let trailers = body.trailers().cloned().unwrap_or_default();
        let status = head.status;
        let version = head.version;
        let headers = head.headers;
        Ok(Self { status, version, headers, body: body.to_bytes(), trailers })
    }
}

/// One connection.
pub(crate) struct Http {
    sender: Sender,
    connection: JoinHandle<hyper::Result<()>>,
}

#[derive(Clone)]
enum Sender {
    Http1(Rc<Mutex<http1::SendRequest<Outgoing>>>),
    Http2(http2::SendRequest<Outgoing>),
}

#[derive(Clone, Copy)]
struct Local;

impl<F: Future + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, task: F) {
        spawn_local(task);
    }
}

impl Http {
    /// HTTP/1.1 over this transport.
    pub(crate) async fn http1<T>(transport: T) -> hyper::Result<Self>
    where
        T: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(transport)).await?;
        let sender = Sender::Http1(Rc::new(Mutex::new(sender)));
        Ok(Self { sender, connection: spawn_local(connection) })
    }

    /// HTTP/2 over this transport.
    pub(crate) async fn http2<T>(transport: T) -> hyper::Result<Self>
    where
        T: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let (sender, connection) = http2::handshake(Local, TokioIo::new(transport)).await?;
        Ok(Self { sender: Sender::Http2(sender), connection: spawn_local(connection) })
    }

    /// HTTP/2 over TCP with prior knowledge.
    pub(crate) async fn prior_knowledge(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the gateway accepts connections");
        Self::http2(stream).await.expect("the gateway speaks HTTP/2")
    }

    /// The head of the response to a request. Its body arrives as it is read. With HTTP/2 the
    /// future does not keep the connection.
    pub(crate) fn send(
        &self,
        mut request: Request<Outgoing>,
    ) -> impl Future<Output = hyper::Result<Response<Incoming>>> + use<> {
        let sender = self.sender.clone();
        async move {
            match sender {
                Sender::Http1(sender) => {
                    let host = request.uri().host().expect("requests name one");
                    let host = host.parse().expect("it was read from a text");
                    request.headers_mut().entry("host").or_insert(host);
                    let path = request.uri().path_and_query().cloned();
                    *request.uri_mut() = path.expect("requests have one").into();
                    let mut sender = sender.lock().await;
                    sender.ready().await?;
                    sender.send_request(request).await
                }
                Sender::Http2(mut sender) => {
                    sender.ready().await?;
                    sender.send_request(request).await
                }
            }
        }
    }

    /// The whole response to a request.
    pub(crate) async fn ask(&self, request: Request<Outgoing>) -> hyper::Result<Answer> {
        Answer::read(self.send(request).await?).await
    }

    /// The whole response to a `GET`, which must arrive.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(request("GET", path, nothing())).await.expect("an answer")
    }

    /// Waits until the connection has ended, and returns the result.
    pub(crate) async fn ended(self) -> hyper::Result<()> {
        // The sender is kept, because the gateway must close the connection.
        let Self { sender: _sender, connection } = self;
        connection.await.expect("it does not panic")
    }
}

/// Waits until `condition` holds, while the connections are driven.
pub(crate) async fn soon(what: &str, mut condition: impl FnMut() -> bool) {
    let until = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(PATIENCE / 2, until).await.is_ok(), "this never happened: {what}");
}
