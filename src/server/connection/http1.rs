//! A connection that speaks HTTP/1.0 or HTTP/1.1.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::header::{CONNECTION, EXPECT};
use http::{HeaderValue, Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::{HttpService, service_fn};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tower::{Service, ServiceExt as _};

use super::{End, Peer, Protocols, drive, farewell};
use crate::drain::Drain;
use crate::server::ListenerSettings;
use crate::server::activity::{Activity, UntilIdle};
use crate::server::client_body::ClientBody;
use crate::server::guard::{Guard, REFUSED_METHOD};
use crate::server::interim::InterimQueue;
use crate::server::observed::Observed;
use crate::server::stream::{Stream, reset};
use crate::server::tunnel::{Told, Tunnel};
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

/// Serves one connection, on which a head is awaited since `since`, to its end,
/// with what `service` makes for its peer.
pub(super) async fn serve<F, S, B>(
    stream: Stream,
    mut peer: Peer,
    protocols: &Protocols,
    since: Instant,
    mut drain: Drain,
    service: &F,
) where
    F: Fn(Peer, &ListenerSettings) -> S,
    S: Service<Request<ClientBody>, Response = Response<B>, Error = Infallible> + Clone + 'static,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Protocols { settings, http1, .. } = protocols;
    let activity = Rc::new(Activity::new(since, settings.demand()));
    let observed = Observed::new(stream, &activity, None);
    let backchannel = Rc::new(Backchannel::new(Rc::clone(&activity)));
    let (turns, writer) = (Rc::clone(&backchannel.turns), backchannel.interim.writer());
    let guard = Guard::new(observed, turns, settings.head_bounds(), writer);
    peer.interim = Some(backchannel.interim.clone());
    let service = in_turn(service(peer, settings), &backchannel);
    let mut connection = http1.serve_connection(TokioIo::new(guard), service);
    let idle_ends = idle_ends(drain.clone(), &activity);
    let connected = Pin::new(&mut connection);
    let end = drive(connected, &activity, &settings.timeouts, idle_ends, drain.over()).await;
    let parts = connection.into_parts();
    let guard = parts.io.into_inner();
    if let Some(tunnel) = backchannel.granted.take() {
        let patience = settings.timeouts.tunnel;
        let carried = tunnel.carry(guard, parts.read_buf, patience, &mut drain);
        return Box::pin(carried).await;
    }
    // No answer is owed any more, so nobody has to wait for the rest.
    drop(drain);
    let stream = guard.into_inner().stream;
    match end {
        // Nothing can be unread: the library has closed its side, too.
        End::Closed if activity.is_silent() => {}
        End::Closed => Box::pin(linger(stream)).await,
        End::Broken => reset(&stream),
        End::Overdue => {}
    }
}

/// Returns when an idle connection is to be closed.
async fn idle_ends(mut drain: Drain, activity: &Activity) {
    drain.requested().await;
    activity.end();
    farewell(&mut drain).await;
}

/// What the two sides of the HTTP library tell each other past it.
struct Backchannel<B> {
    turns: Rc<Turns>,
    interim: InterimQueue,
    /// The tunnel that the last answer grants.
    granted: RefCell<Option<Tunnel<B>>>,
}

impl<B> Backchannel<B> {
    fn new(activity: Rc<Activity>) -> Self {
        let turns = Rc::new(Turns::new(activity));
        Self { turns, interim: InterimQueue::default(), granted: RefCell::default() }
    }

    /// A request is given to the service, which is told if it is not the client's own.
    fn begin(&self, mut request: Request<Incoming>) -> Request<ClientBody> {
        self.turns.begin(|| request.headers().contains_key(EXPECT));
        self.interim.begin(request.version());
        if request.method().as_str() == REFUSED_METHOD
            && let Some(malformed) = self.turns.refused()
        {
            request.extensions_mut().insert(malformed);
        }
        request.map(|body| ClientBody::of_http1(body, &self.turns))
    }

    /// The service has answered, maybe with a tunnel.
    fn answer(&self, response: Response<B>, may_upgrade: bool) -> Response<Told<B>> {
        let (mut response, tunnel) = Tunnel::of(response);
        if may_upgrade {
            self.turns.answer_upgrade(tunnel.is_some());
        }
        let must_end = self.turns.activity().is_ending() || !self.turns.can_read_body();
        if must_end && tunnel.is_none() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let is_last = response.headers().get(CONNECTION).is_some_and(|it| it == "close");
        self.granted.replace(tunnel);
        self.interim.close(&self.turns);
        self.turns.answer(is_last);
        response
    }
}

/// `service`, with its requests marked while they are under way.
fn in_turn<S, B>(
    service: S,
    backchannel: &Rc<Backchannel<B>>,
) -> impl HttpService<Incoming, ResBody = UntilIdle<Told<B>>, Error = Infallible> + use<S, B>
where
    S: Service<Request<ClientBody>, Response = Response<B>, Error = Infallible> + Clone + 'static,
    B: Body + Unpin + 'static,
{
    let backchannel = Rc::clone(backchannel);
    service_fn(move |request: Request<Incoming>| {
        let under_way = backchannel.turns.activity().begin();
        let request = backchannel.begin(request);
        let may_upgrade = request.extensions().get::<OnUpgrade>().is_some();
        let (service, backchannel) = (service.clone(), Rc::clone(&backchannel));
        async move {
            let response = backchannel.answer(service.oneshot(request).await?, may_upgrade);
            Ok::<_, Infallible>(response.map(|body| UntilIdle::new(body, under_way)))
        }
    })
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
