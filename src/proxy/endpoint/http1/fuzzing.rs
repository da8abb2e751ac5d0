//! The fuzz target of this client: the bytes that endpoints send.
//!
//! What it reads, the client of the HTTP library must read in the same way. It may refuse more.

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::{Connection, SendOptions};
use crate::message::fuzzing::pieces;
use crate::message::merge_content_lengths;
use crate::proxy::body::RequestBody;
use crate::proxy::endpoint;

const HOST: HeaderValue = HeaderValue::from_static("a.test");
/// More than the bytes of a request or of an input.
const ROOM: usize = 64 * 1024;

/// What a client has read of a response.
#[derive(Debug, PartialEq)]
struct Read {
    status: StatusCode,
    /// Those that do not belong to the connection. Equal lengths are merged.
    fields: HeaderMap,
    /// The body with its trailers. None if it breaks off.
    body: Option<(Bytes, Option<HeaderMap>)>,
}

/// The response of an endpoint of HTTP/1, which then closes the connection.
pub fn responses(input: &[u8]) {
    let Some((&[seed, flags], bytes)) = input.split_first_chunk() else { return };
    let method = if flags & 1 == 1 { Method::HEAD } else { Method::GET };
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let whole = read(&method, connected([bytes])).await;
        let in_pieces = read(&method, connected(pieces(bytes, seed))).await;
        assert_eq!(in_pieces, whole, "pieces make a difference");
        let Some(mut whole) = whole else { return };
        let reference = reference(&method, connected([bytes])).await;
        let reference = reference.expect("the library reads what this client reads");
        whole.body = whole.body.or(reference.body.clone());
        assert_eq!(whole, reference, "the library reads another response");
    });
}

/// A connection to an endpoint that receives one request and sends these bytes.
fn connected<'a>(bytes: impl IntoIterator<Item = &'a [u8]>) -> DuplexStream {
    let (near, mut far) = duplex(ROOM);
    let bytes: Vec<Vec<u8>> = bytes.into_iter().map(<[u8]>::to_vec).collect();
    spawn_local(async move {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            if far.read_buf(&mut request).await.unwrap_or(0) == 0 {
                return;
            }
        }
        for piece in bytes {
            if far.write_all(&piece).await.is_err() {
                return;
            }
            yield_now().await;
        }
    });
    near
}

/// What this client reads. None if there is no response.
async fn read(method: &Method, stream: DuplexStream) -> Option<Read> {
    let mut connection = Connection::over(Box::new(stream));
    let mut request = Box::new(Request::new(RequestBody::EMPTY));
    *request.method_mut() = method.clone();
    let sent = connection.send(request, &HOST, SendOptions::default()).await;
    let (response, _) = sent.ok()?;
    Some(Read::of(response.map(|()| endpoint::Connection::Http1(connection))).await)
}

/// What the client of the HTTP library reads.
async fn reference(method: &Method, stream: DuplexStream) -> Option<Read> {
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
    spawn_local(connection);
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.method_mut() = method.clone();
    request.headers_mut().insert(http::header::HOST, HOST);
    Some(Read::of(sender.send_request(request).await.ok()?).await)
}

impl Read {
    async fn of<B: Body<Data = Bytes>>(response: Response<B>) -> Self {
        let (mut head, body) = response.into_parts();
        head.headers.remove(CONNECTION);
        let _ = merge_content_lengths(&mut head.headers);
        let body = body.collect().await.ok().map(|body| {
            let trailers = body.trailers().cloned();
            (body.to_bytes(), trailers)
        });
        Self { status: head.status, fields: head.headers, body }
    }
}
