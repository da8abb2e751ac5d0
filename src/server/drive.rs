//! Polls a connection of the HTTP library to its end, within its time limits and a
//! drain.

use std::error::Error;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use h2::Reason;
use http_body::Body;
use hyper::body::Incoming;
use hyper::rt::bounds::Http2ServerConnExec;
use hyper::rt::{Read, Write};
use hyper::server::conn::{http1, http2};
use hyper::service::HttpService;
use tollgate_core::time::monotonic;

use super::settings::ListenerTimeouts;
use super::state::progress::{Look, Progress};
use super::ticker::Ticks;

/// How long a client of HTTP/2 may take to answer the message that the connection ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// A connection of the HTTP library.
pub trait Connection: Future<Output = hyper::Result<()>> {
    /// Lets the responses in progress end, and then the connection.
    fn graceful_shutdown(self: Pin<&mut Self>);
}

impl<I, S, B> Connection for http1::Connection<I, S>
where
    I: Read + Write + Unpin,
    S: HttpService<Incoming, ResBody = B, Error: Into<Box<dyn Error + Send + Sync>>>,
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
{
    fn graceful_shutdown(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, S, B, E> Connection for http2::Connection<I, S, E>
where
    I: Read + Write + Unpin,
    S: HttpService<Incoming, ResBody = B, Error: Into<Box<dyn Error + Send + Sync>>>,
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
    E: Http2ServerConnExec<S::Future, B>,
{
    fn graceful_shutdown(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// How the library's part in a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// In order.
    Closed,
    /// By an error of the client: it has left in the middle of a request, or what it has sent
    /// is no HTTP. The library has answered, if it could.
    Failed,
    /// The client has exceeded this bound of HTTP/2.
    Excess(&'static str),
    /// In the middle of a response.
    Broken,
    /// The client exceeded a time limit, and there is no answer to that.
    Overdue,
    /// The time of a drain was over.
    Drained,
}

impl End {
    /// Only the body of the service can fail with a user error.
    fn of(ended: hyper::Result<()>) -> Self {
        match ended {
            Ok(()) => Self::Closed,
            Err(error) if error.is_user() => Self::Broken,
            Err(error) if is_excess(&error) => Self::Excess("a bound of the HTTP library"),
            Err(_) => Self::Failed,
        }
    }

    /// How a connection has ended whose client was told of a time limit.
    fn after_timeout(self) -> Self {
        if self == Self::Closed { Self::Overdue } else { self }
    }

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Failed => "client_error",
            Self::Excess(_) => "excess",
            Self::Broken => "broken_response",
            Self::Overdue => "timeout",
            Self::Drained => "drain",
        }
    }
}

/// Whether the HTTP/2 library has ended the connection because the client sends too much.
fn is_excess(error: &hyper::Error) -> bool {
    let error = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    error.is_some_and(|it| it.is_library() && it.reason() == Some(Reason::ENHANCE_YOUR_CALM))
}

/// Polls the connection until it is pending or has ended.
fn poll_once<C: Connection, P: Progress>(
    mut connection: Pin<&mut C>,
    state: &P,
    cx: &mut Context<'_>,
) -> Poll<End> {
    loop {
        let ended = ready!(connection.as_mut().poll(cx));
        if ended.is_err() || !state.resumes_after_end() {
            return Poll::Ready(End::of(ended));
        }
    }
}

/// The same. A look whether the client leaves, if one was put off, is made when the request has
/// ended or the ticks say so.
fn poll_and_look<C: Connection, P: Progress>(
    mut connection: Pin<&mut C>,
    state: &P,
    ticks: &mut Ticks,
    cx: &mut Context<'_>,
) -> Poll<End> {
    if let Poll::Ready(end) = poll_once(connection.as_mut(), state, cx) {
        return Poll::Ready(end);
    }
    match state.look() {
        Look::Untried | Look::Made => return Poll::Pending,
        Look::PutOff => ready!(ticks.poll_look(cx)),
        Look::Due => ticks.forget_look(),
    }
    state.waits_to_read();
    poll_once(connection, state, cx)
}

/// Polls the connection until it ends, exceeds a time limit, or has been drained. The
/// drain begins when `drained` returns. Either `drained` wakes the task for that, or `ticks` do.
///
/// # Errors
/// What `idle` returns, if the connection can rest without the library. It is not asked during
/// a drain.
pub async fn drive<C: Connection, P: Progress, I>(
    mut connection: Pin<&mut C>,
    state: &P,
    timeouts: &ListenerTimeouts,
    mut ticks: Ticks,
    drained: impl Future<Output = ()>,
    idle: impl Fn() -> Option<I>,
) -> Result<End, I> {
    let mut drained = pin!(drained);
    let mut stopping = false;
    let mut draining = false;
    let mut told = None::<Instant>;
    let driven = poll_fn(|cx| {
        if let Poll::Ready(end) = poll_and_look(connection.as_mut(), state, &mut ticks, cx) {
            return Poll::Ready(Ok(end));
        }
        stopping = stopping || drained.as_mut().poll(cx).is_ready();
        if stopping && ticks.ticker().is_over() {
            return Poll::Ready(Ok(End::Drained));
        }
        // A client in the middle of a head learns of the drain with the response.
        if stopping && !draining && !state.is_reading_head() {
            draining = true;
            connection.as_mut().graceful_shutdown();
            if let Poll::Ready(end) = poll_once(connection.as_mut(), state, cx) {
                return Poll::Ready(Ok(end));
            }
        }
        while ticks.poll_tick(cx).is_ready() {
            state.activity().traffic().flush();
            state.abort_slow_responses();
            if !state.is_overdue(timeouts) {
                if !stopping && let Some(rest) = idle() {
                    return Poll::Ready(Err(rest));
                }
                continue;
            }
            match told {
                None if state.ends_in_order() => {
                    told = Some(monotonic());
                    connection.as_mut().graceful_shutdown();
                }
                Some(since) if monotonic() - since < FAREWELL => continue,
                // The guard now passes a request to the library that can be answered.
                _ if state.give_up_head() => {}
                _ => return Poll::Ready(Ok(End::Overdue)),
            }
            if let Poll::Ready(end) = poll_once(connection.as_mut(), state, cx) {
                return Poll::Ready(Ok(end));
            }
        }
        Poll::Pending
    })
    .await;
    if told.is_some() { driven.map(End::after_timeout) } else { driven }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Response;
    use http_body_util::Empty;
    use hyper::server::conn::http1::Builder;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use std::cell::Cell;
    use std::convert::Infallible;
    use std::future::pending;
    use std::rc::Rc;
    use tokio::io::duplex;
    use tokio::task::{LocalSet, spawn_local};
    use tokio::time::sleep;
    use tollgate_core::drain;

    use super::*;
    use crate::server::settings::Demand;
    use crate::server::state::activity::{Activity, Watched};
    use crate::server::state::streams::Streams;
    use crate::server::ticker::Ticker;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_not_woken_before_its_first_tick() {
        let timeouts = ListenerTimeouts::default();
        let period = Activity::interval(&timeouts);
        let moment = Duration::from_millis(20);
        let (_stop, drain) = drain::channel();
        let test = async {
            let (_client, stream) = duplex(1024);
            let ticks = Ticker::new(period, drain).ticks();
            let polls = Rc::<Cell<u32>>::default();
            let counted = Rc::clone(&polls);
            spawn_local(async move {
                let service = service_fn(|_| async {
                    Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
                });
                let connection = Builder::new().serve_connection(TokioIo::new(stream), service);
                let activity = Activity::new(monotonic(), Demand::NONE, Watched::default());
                let streams = Streams::new(activity);
                let connection = pin!(connection);
                let idle = || None::<()>;
                let driven = drive(connection, &streams, &timeouts, ticks, pending(), idle);
                let mut driven = pin!(driven);
                poll_fn(|cx| {
                    counted.set(counted.get() + 1);
                    driven.as_mut().poll(cx)
                })
                .await
            });
            let step = period / 16;
            sleep(period - step - moment).await;
            assert_eq!(polls.get(), 1);
            sleep(step + 2 * moment).await;
            assert_eq!(polls.get(), 2, "it was woken by a tick");
        };
        LocalSet::new().run_until(test).await;
    }
}
