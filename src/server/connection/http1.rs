//! A connection that speaks HTTP/1.0 or HTTP/1.1.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tower::{Service, ServiceExt as _};

use super::{End, drive, watched};
use crate::drain::Drain;
use crate::server::ListenerSettings;
use crate::server::activity::{Activity, Observed};
use crate::server::guard::{Guard, REFUSED_METHOD};
use crate::server::interim::InterimQueue;
use crate::server::stream::{Stream, reset};
use crate::server::turns::Turns;

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
    let observed = Observed { stream, activity: Rc::clone(&activity), frames: None };
    let turns = Rc::new(Turns::new(Rc::clone(&activity)));
    let interim = InterimQueue::default();
    let guard = Guard::new(observed, Rc::clone(&turns), settings.head_bounds(), interim.writer());
    let service = watched(in_turn(service, turns, interim), &activity);
    let mut connection = protocol.serve_connection(TokioIo::new(guard), service);
    let end = drive(Pin::new(&mut connection), &activity, &settings.timeouts, &mut drain).await;
    // No answer is owed any more, so nobody has to wait for the rest.
    drop(drain);
    let stream = connection.into_parts().io.into_inner().into_inner().stream;
    match end {
        End::Closed => linger(stream).await,
        End::Broken => reset(&stream),
        End::Overdue => {}
    }
}

/// `service`, which learns what the guard knows, and tells it what it answers.
fn in_turn<S, B>(
    service: S,
    turns: Rc<Turns>,
    interim: InterimQueue,
) -> impl Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + 'static
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + 'static,
    B: 'static,
{
    tower::service_fn(move |mut request: Request<Incoming>| {
        turns.begin();
        introduce(&mut request, &turns, &interim);
        let may_upgrade = request.extensions().get::<OnUpgrade>().is_some();
        let is_tunnel = request.method() == Method::CONNECT;
        let (service, turns, interim) = (service.clone(), Rc::clone(&turns), interim.clone());
        async move {
            let response = service.oneshot(request).await?;
            if may_upgrade {
                let status = response.status();
                let is_open = is_tunnel && status.is_success();
                turns.answer_upgrade(is_open || status == StatusCode::SWITCHING_PROTOCOLS);
            }
            interim.close(&turns);
            turns.answer();
            Ok(response)
        }
    })
}

/// Tells the service what is known of a request besides itself: why it is not
/// the client's own, or how its client hears of interim responses.
fn introduce(request: &mut Request<Incoming>, turns: &Turns, interim: &InterimQueue) {
    if request.method().as_str() == REFUSED_METHOD
        && let Some(malformed) = turns.refused()
    {
        request.extensions_mut().insert(malformed);
    } else if request.version() == Version::HTTP_11 {
        request.extensions_mut().insert(interim.open());
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
