//! A connection that speaks HTTP/1.0 or HTTP/1.1.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tower::Service;

use super::{End, drive, farewell, watched};
use crate::drain::Drain;
use crate::server::ListenerSettings;
use crate::server::activity::{Activity, Observed, Phase};
use crate::server::stream::{Stream, reset};

/// Sent to a client whose request's head did not come in time; the HTTP library
/// knows no such answer.
const REQUEST_TIMEOUT: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// How long a client may go on sending what nobody wants any more.
const LINGER: Duration = Duration::from_secs(2);

/// The HTTP library, set up once for all connections of a listener.
pub(super) fn protocol(settings: &ListenerSettings) -> Builder {
    let mut protocol = Builder::new();
    protocol
        .title_case_headers(true)
        .max_headers(settings.max_headers)
        .max_header_size(settings.max_head_bytes)
        .max_buf_size(settings.max_head_bytes.max(64 * 1024))
        .header_read_timeout(None);
    protocol
}

/// Serves one connection, on which a head is awaited since `since`, to its end.
pub(super) async fn serve<S, B>(
    stream: Stream,
    protocol: &Builder,
    settings: &ListenerSettings,
    since: Instant,
    mut drain: Drain,
    service: S,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + 'static,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let activity = Rc::new(Activity::new(since));
    let io = Observed { stream, activity: Rc::clone(&activity), frames: None };
    let service = watched(service, &activity);
    let mut connection = protocol.serve_connection(TokioIo::new(io), service);
    let drained = async {
        drain.requested().await;
        activity.end();
        farewell(&mut drain).await;
    };
    let end = drive(Pin::new(&mut connection), &activity, &settings.timeouts, drained).await;
    // No answer is owed any more, so nobody has to wait for the rest.
    drop(drain);
    let stream = connection.into_parts().io.into_inner().stream;
    match end {
        End::Closed => linger(stream).await,
        End::Broken => reset(&stream),
        End::Overdue(Phase::Head) => answer_timeout(stream).await,
        End::Overdue(_) => {}
    }
}

/// Reads what a client still sends until it has seen that the connection ends.
/// To close with bytes unread would reset the connection, which can take away
/// an answer that is still on its way (RFC 9112, section 9.6).
async fn linger(mut stream: Stream) {
    let discard = async {
        stream.shutdown().await?;
        while stream.read(&mut [0; 8 * 1024]).await? > 0 {}
        Ok(())
    };
    // Whoever keeps sending is reset after all.
    let _: Result<io::Result<()>, _> = timeout(LINGER, discard).await;
}

/// Tells a client that it was too slow, if it reads at all.
async fn answer_timeout(mut stream: Stream) {
    if let Ok(Ok(())) = timeout(LINGER, stream.write_all(REQUEST_TIMEOUT)).await {
        linger(stream).await;
    }
}
