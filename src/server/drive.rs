//! Polls a connection of the HTTP library to its end, within its time limits and a
//! drain.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper_util::server::graceful::GracefulConnection;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use tollgate_limiter::drain::Drain;
use tollgate_limiter::time::monotonic;

use super::settings::ListenerTimeouts;
use super::state::activity::Activity;

/// How long an idle HTTP/1 connection stays open once a drain has begun.
const IDLE_DRAIN: Duration = Duration::from_secs(1);

/// How the library's part in a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// In order.
    Closed,
    /// By an error of the client: it has left in the middle of a request, or what it has sent
    /// is no HTTP. The library has answered, if it could.
    Failed,
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
            Err(_) => Self::Failed,
        }
    }

    /// Its name in metrics.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Failed => "client_error",
            Self::Broken => "broken_response",
            Self::Overdue => "timeout",
            Self::Drained => "drain",
        }
    }
}

/// Returns when a drain closes idle connections.
///
/// If an idle connection were closed at once, a client that is just sending its next
/// request would get an error. Instead the request is answered, and the response says
/// that the connection closes.
pub(super) async fn idle_drain(drain: &mut Drain) {
    drain.requested().await;
    sleep(IDLE_DRAIN).await;
}

/// Polls the connection until it is pending or has ended.
fn poll_once<C>(mut connection: Pin<&mut C>, activity: &Activity, cx: &mut Context<'_>) -> Poll<End>
where
    C: GracefulConnection<Error = hyper::Error>,
{
    loop {
        let ended = ready!(connection.as_mut().poll(cx));
        if ended.is_err() || !activity.resumes_after_end() {
            return Poll::Ready(End::of(ended));
        }
    }
}

/// Polls the connection until it ends, exceeds a time limit, or has been drained. The
/// drain begins when `drained` returns, and its time is over when `over` returns.
///
/// # Errors
/// What `idle` returns, if the connection can rest without the library. It is not asked during
/// a drain.
pub(super) async fn drive<C, I>(
    mut connection: Pin<&mut C>,
    activity: &Activity,
    timeouts: &ListenerTimeouts,
    drained: impl Future<Output = ()>,
    over: impl Future<Output = ()>,
    idle: impl Fn() -> Option<I>,
) -> Result<End, I>
where
    C: GracefulConnection<Error = hyper::Error>,
{
    let period = Activity::interval(timeouts);
    // Not at once: a timer that is due would wake the worker, and then the connection.
    let mut ticks = interval_at(Instant::from_std(monotonic() + period), period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut drained, mut over) = (pin!(drained), pin!(over));
    let mut stopping = false;
    let mut draining = false;
    poll_fn(|cx| {
        if let Poll::Ready(end) = poll_once(connection.as_mut(), activity, cx) {
            return Poll::Ready(Ok(end));
        }
        stopping = stopping || drained.as_mut().poll(cx).is_ready();
        if stopping && over.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(End::Drained));
        }
        // A client in the middle of a head learns of the drain with the response.
        if stopping && !draining && !activity.is_reading_head() {
            draining = true;
            connection.as_mut().graceful_shutdown();
            if let Poll::Ready(end) = poll_once(connection.as_mut(), activity, cx) {
                return Poll::Ready(Ok(end));
            }
        }
        while ticks.poll_tick(cx).is_ready() {
            activity.traffic().flush();
            activity.abort_slow_responses();
            if !activity.is_overdue(timeouts) {
                if !stopping && let Some(rest) = idle() {
                    return Poll::Ready(Err(rest));
                }
                continue;
            }
            if !activity.give_up_head() {
                return Poll::Ready(Ok(End::Overdue));
            }
            // The guard now passes a request to the library that can be answered.
            if let Poll::Ready(end) = poll_once(connection.as_mut(), activity, cx) {
                return Poll::Ready(Ok(end));
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;
    use std::future::pending;

    use bytes::Bytes;
    use http::Response;
    use http_body_util::Empty;
    use hyper::server::conn::http1::Builder;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::duplex;
    use tokio::time::timeout;

    use super::*;
    use crate::server::settings::Demand;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_not_woken_before_its_first_tick() {
        let (_client, stream) = duplex(1024);
        let service =
            service_fn(|_| async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) });
        let connection = pin!(Builder::new().serve_connection(TokioIo::new(stream), service));
        let timeouts = ListenerTimeouts::default();
        let activity = Activity::new(monotonic(), Demand::NONE);
        let idle = || None::<()>;
        let driven = drive(connection, &activity, &timeouts, pending(), pending(), idle);
        let (mut driven, polls) = (pin!(driven), Cell::new(0));
        let mut counted = pin!(poll_fn(|cx| {
            polls.set(polls.get() + 1);
            driven.as_mut().poll(cx)
        }));
        let (period, moment) = (Activity::interval(&timeouts), Duration::from_millis(5));
        // The time limits of the test poll it too, at their beginning and at their end.
        assert!(timeout(period - moment, counted.as_mut()).await.is_err());
        assert_eq!(polls.get(), 2);
        assert!(timeout(2 * moment, counted.as_mut()).await.is_err());
        assert_eq!(polls.get(), 5, "it was woken by a tick");
    }
}
