//! Ticks, looks and drains in virtual time.

use std::pin::pin;

use tokio::task::LocalSet;
use tokio::time::{Instant, advance, timeout};
use tollgate_core::drain::{self, Stop};

use super::*;

const PERIOD: Duration = Duration::from_millis(1600);
const STEP: Duration = Duration::from_millis(100);
const MOMENT: Duration = Duration::from_millis(5);

/// The time of the runtime, which is paused.
#[expect(clippy::disallowed_methods, reason = "the clock of the house is not paused")]
fn now() -> Instant {
    Instant::now()
}

/// Runs on a local runtime whose time is paused, with a new ticker.
async fn with_ticker(test: impl AsyncFnOnce(Ticker, Stop)) {
    let (stop, drain) = drain::channel();
    LocalSet::new().run_until(async { test(Ticker::new(PERIOD, drain), stop).await }).await;
}

async fn tick(ticks: &mut Ticks) {
    std::future::poll_fn(|cx| ticks.poll_tick(cx)).await;
}

async fn look(ticks: &mut Ticks) {
    std::future::poll_fn(|cx| ticks.poll_look(cx)).await;
}

/// The tasks that are registered.
fn registered(ticker: &Ticker) -> usize {
    let due: usize = ticker.0.state.due.iter().map(|due| due.borrow().len()).sum();
    due + ticker.0.state.waiting.borrow().len()
}

#[test]
fn a_period_has_sixteen_steps_of_at_least_ten_milliseconds() {
    let steps = |millis| steps_of(Duration::from_millis(millis));
    assert_eq!([1, 19, 20, 159, 160, 2500].map(steps), [1, 1, 2, 15, 16, 16]);
    assert_eq!((steps_of(Duration::ZERO), steps_of(Duration::MAX)), (1, 16));
}

#[tokio::test(start_paused = true)]
async fn ticks_come_once_in_a_period() {
    with_ticker(async |ticker, _stop| {
        for shift in [0, 1, 30, 99, 150] {
            tokio::time::sleep(Duration::from_millis(shift)).await;
            let mut ticks = ticker.ticks();
            let start = now();
            tick(&mut ticks).await;
            let first = start.elapsed();
            assert!(PERIOD - STEP <= first + MOMENT && first <= PERIOD + MOMENT, "{first:?}");
            for _ in 0..3 {
                let start = now();
                tick(&mut ticks).await;
                let next = start.elapsed();
                assert!(PERIOD.abs_diff(next) <= MOMENT + MOMENT, "{next:?}");
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_busy_gets_one_tick_and_keeps_its_step() {
    with_ticker(async |ticker, _stop| {
        let mut ticks = ticker.ticks();
        let start = now();
        tick(&mut ticks).await;
        let first = start.elapsed();
        // Without a wait, so that nothing of this task is polled.
        for _ in 0..70 {
            advance(STEP / 2).await;
            tokio::task::yield_now().await;
        }
        tick(&mut ticks).await;
        let late = start.elapsed();
        tick(&mut ticks).await;
        let waited = start.elapsed() - late;
        assert!(waited > Duration::ZERO && waited <= PERIOD + MOMENT, "{waited:?}");
        // Three periods were missed, and the next tick comes at the end of a period.
        assert!(PERIOD.abs_diff((start.elapsed() - first) / 3) <= STEP, "{first:?} {waited:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_look_comes_soon_and_only_if_it_is_awaited() {
    with_ticker(async |ticker, _stop| {
        let mut ticks = ticker.ticks();
        for _ in 0..40 {
            let start = now();
            look(&mut ticks).await;
            assert!(start.elapsed() <= LOOK + MOMENT);
            assert_eq!(registered(&ticker), 0, "it is awaited once");
        }
        assert!(timeout(Duration::ZERO, look(&mut ticks)).await.is_err());
        assert_eq!(registered(&ticker), 1);
        ticks.forget_look();
        assert_eq!(registered(&ticker), 0);
        // The look that was forgotten does not make the next one come at once.
        tokio::time::sleep(2 * LOOK).await;
        assert!(timeout(Duration::ZERO, look(&mut ticks)).await.is_err());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_connection_leaves_its_places() {
    with_ticker(async |ticker, _stop| {
        let mut all: Vec<Ticks> = (0..100).map(|_| ticker.ticks()).collect();
        for ticks in &mut all {
            assert!(timeout(Duration::ZERO, tick(ticks)).await.is_err());
            assert!(timeout(Duration::ZERO, look(ticks)).await.is_err());
        }
        assert_eq!(registered(&ticker), 200);
        drop(all);
        assert_eq!(registered(&ticker), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn connections_are_woken_when_a_drain_proceeds() {
    with_ticker(async |ticker, stop| {
        let mut ticks = ticker.ticks();
        let mut next = async |is: fn(&Ticker) -> bool| {
            let start = now();
            std::future::poll_fn(|cx| {
                assert!(ticks.poll_tick(cx).is_pending());
                if is(ticks.ticker()) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            start.elapsed()
        };
        let mut stopping = pin!(stop.finish(Duration::from_millis(1200)));
        assert!(timeout(Duration::ZERO, stopping.as_mut()).await.is_err());
        assert!(next(Ticker::is_draining).await <= MOMENT);
        assert!(!ticker.closes_idle() && !ticker.is_over());
        let idle = next(Ticker::closes_idle).await;
        assert!(IDLE_DRAIN <= idle + MOMENT && idle <= IDLE_DRAIN + MOMENT, "{idle:?}");
        assert!(!ticker.is_over());
        assert!(!stopping.await, "the ticker holds its drain");
        assert!(next(Ticker::is_over).await <= MOMENT);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_drain_ends_with_the_last_handle() {
    with_ticker(async |ticker, stop| {
        let ticks = ticker.ticks();
        drop(ticker);
        let mut stopping = pin!(stop.finish(Duration::from_secs(60)));
        assert!(timeout(Duration::from_secs(1), stopping.as_mut()).await.is_err());
        drop(ticks);
        assert!(timeout(MOMENT, stopping).await.expect("it ends at once"));
    })
    .await;
}
