//! Growths under a manual clock.

use tollgate_core::time::Clock;

use super::policies::Decided;
use super::*;
use crate::telemetry::metrics::families;
use crate::telemetry::{Metrics, WorkerMetrics};

/// A node whose counters a test moves.
struct Node {
    clock: Clock,
    metrics: Metrics,
    worker: WorkerMetrics,
    history: History,
}

impl Node {
    fn new() -> Self {
        let clock = Clock::manual(Timestamp::from_micros(1_000_000_000));
        let metrics = Metrics::new(20_000);
        let history = History::new(clock.now(), metrics.totals());
        Self { clock, worker: metrics.worker(), metrics, history }
    }

    fn requests(&self, count: u64) {
        let labels = ["GET", "200", "/*", "r", ""];
        let whole = self.worker.histogram(&families::REQUEST_DURATION, &labels);
        (0..count).for_each(|_| whole.observe(1));
    }

    fn refuses(&self, policy: &str, count: u64) {
        self.worker.counter(&families::DECISIONS, &[policy, "", "refused"]).add(count);
    }

    fn busy(&self, worker: &str, us: u64) {
        self.worker.counter(&families::WORKER_BUSY, &[worker]).set(us);
    }

    fn after(&self, span: Span) {
        self.clock.advance(span);
        self.history.add(self.metrics.totals(), self.clock.now(), self.clock.wall());
    }

    fn refused(&self, policy: &str, seconds: u64) -> (u64, u64) {
        let (span, counts) = self.history.policy(policy, Span::from_secs(seconds));
        (span.as_secs_ceil(), counts.by_outcome.refused)
    }
}

fn answered(period: &Period) -> u64 {
    period.counts.by_class.sum()
}

#[test]
fn each_second_has_what_was_counted_in_it() {
    let node = Node::new();
    assert_eq!((node.history.latest(), node.history.last(60)), (None, None));
    for count in [3, 0, 5] {
        node.requests(count);
        node.after(Span::SECOND);
    }
    // The control thread is late: the rate is that of four seconds.
    node.requests(8);
    node.after(Span::from_secs(4));
    let latest = node.history.latest().expect("there are four");
    assert_eq!((answered(&latest), latest.took), (8, Span::from_secs(4)));
    let last = node.history.last(600).expect("there are four");
    assert_eq!((answered(&last), last.took, last.ended), (16, Span::from_secs(7), latest.ended));
    let last = node.history.last(2).expect("there are four");
    assert_eq!((answered(&last), last.took), (13, Span::from_secs(5)));
}

#[test]
fn what_was_counted_before_is_no_growth() {
    let metrics = Metrics::new(100);
    let worker = metrics.worker();
    worker.counter(&families::WORKER_BUSY, &["0"]).set(1_000_000);
    worker.counter(&families::DECISIONS, &["p", "", "refused"]).add(7);
    let at = Timestamp::from_micros(5_000_000);
    let history = History::new(at, metrics.totals());
    history.add(metrics.totals(), at.plus(Span::SECOND), at.plus(Span::SECOND));
    let latest = history.latest().expect("a second");
    assert_eq!((latest.busy_us, answered(&latest)), ((0, 0), 0));
    assert!(history.policy("p", Span::SECOND).1.is_zero());
    assert!(!history.policy_total("p").is_zero());
}

#[test]
fn the_busiest_worker_is_told_apart() {
    let node = Node::new();
    node.busy("0", 10);
    node.busy("1", 20);
    node.after(Span::SECOND);
    // A worker that has just begun has no growth yet.
    assert_eq!(node.history.latest().expect("a second").busy_us, (0, 0));
    node.busy("0", 700_010);
    node.busy("1", 100_020);
    node.after(Span::SECOND);
    let latest = node.history.latest().expect("a second");
    assert_eq!((latest.busy_us, latest.workers), ((800_000, 700_000), 2));
}

#[test]
fn steps_begin_at_multiples_and_have_the_sum_of_their_seconds() {
    let node = Node::new();
    for _ in 0..25 {
        node.requests(2);
        node.after(Span::SECOND);
    }
    let steps = node.history.steps(600, 10, 0);
    let found: Vec<_> =
        steps.node.iter().map(|it| (answered(it), it.took.as_secs_ceil())).collect();
    assert_eq!(found, [(20, 10), (20, 10), (10, 5)]);
    assert_eq!(node.history.steps(7, 10, 0).node.len(), 2);
    assert_eq!(node.history.steps(600, 1, 0).node.len(), 25);
}

#[test]
fn a_policy_has_its_last_minutes_and_its_total() {
    let node = Node::new();
    for second in 0..400 {
        node.refuses("p", if second < 100 { 10 } else { 1 });
        node.after(Span::SECOND);
    }
    assert_eq!(node.refused("p", 60), (60, 60));
    assert_eq!(node.refused("p", 300), (300, 300));
    node.refuses("p", 7);
    node.after(Span::SECOND);
    assert_eq!(node.refused("p", 60), (61, 67), "the step in progress counts, too");
    assert_eq!(node.refused("other", 60), (61, 0));
    assert_eq!(node.history.policy_total("p").by_outcome.refused, 1307);
}

#[test]
fn the_steps_of_policies_are_those_of_the_node() {
    let node = Node::new();
    let counts = |policy: &str, outcome: &str, count: u64| {
        node.worker.counter(&families::DECISIONS, &[policy, "", outcome]).add(count);
    };
    for second in 0..25 {
        counts("admits", "admitted", 9);
        counts("refuses", "refused", 2);
        counts("refuses", "lacking_key", 1);
        if second == 12 {
            counts("tries", "shadow_refused", 5);
            counts("rarely", "banned", 4);
        }
        node.after(Span::SECOND);
    }
    let steps = node.history.steps(600, 10, 3);
    let listed: Vec<&str> = steps.policies.iter().map(|it| &*it.policy).collect();
    assert_eq!(listed, ["refuses", "rarely", "tries"], "the most refused first");
    let of = |decisions, refused, shadow_refused| Decided { decisions, refused, shadow_refused };
    assert_eq!(steps.policies[0].steps, [of(30, 30, 0), of(30, 30, 0), of(15, 15, 0)]);
    assert_eq!(steps.policies[1].steps, [of(0, 0, 0), of(4, 4, 0), of(0, 0, 0)]);
    assert_eq!(steps.policies[2].steps[1], of(5, 0, 5));
    // A policy that has decided nothing in the time is not listed.
    let last = node.history.steps(5, 1, 100);
    let lengths: Vec<_> = last.policies.iter().map(|it| (&*it.policy, it.steps.len())).collect();
    assert_eq!(lengths, [("refuses", 5), ("admits", 5)]);
    assert_eq!(node.history.steps(600, 10, 0).policies, []);
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let node = Node::new();
    for number in 0..2 * MAX_POLICIES {
        node.refuses(&format!("p{number:05}"), 1);
    }
    for _ in 0..SECONDS + 100 {
        node.refuses("p00000", 1);
        node.after(Span::SECOND);
    }
    let kept = |state: &State| (state.seconds.len(), state.marks.len(), state.policies.len());
    let entries = (MAX_POLICIES, SECONDS);
    assert_eq!(kept(&node.history.0.lock()), (SECONDS, 60, entries), "one policy is refused");
    node.refuses("p00999", 3);
    node.refuses("p01000", 3);
    node.after(Span::SECOND);
    assert_eq!((node.refused("p00999", 60).1, node.refused("p01000", 60).1), (3, 0));
}
