//! The stream of events: figures, refusals and warnings of budgets once a second, and the state when
//! it changes.
//!
//! Guarantees: what a stream sends is made when the client has room for it, from the newest
//! figures. Nothing is queued for a client that reads slowly: it loses figures, refusals and
//! warnings, and is told how many. A stream ends when its credential is no longer valid, and when the node drains.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use http_body::Frame;
use http_body_util::StreamBody;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Interval, interval};

use super::answer::EventBody;
use super::call::Call;
use super::node::Phase;
use super::problem::Problem;
use super::refusals::ShownRefusal;
use crate::telemetry::{BudgetWarning, BudgetWarnings, RefusalRings};

/// The most streams at a time.
const MAX_STREAMS: usize = 16;
/// The most refusals that a stream sends in a second.
const MAX_REFUSALS: usize = 100;
/// The most warnings of budgets that a stream sends in a second.
const MAX_WARNINGS: usize = 100;
/// The longest time in which a stream sends nothing.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// A comment, which clients ignore.
const HEARTBEAT_TEXT: &str = ": still here\n\n";

/// How much a client was not sent, because it was slow or because not all of a flood is kept: the
/// event `lost`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Lost {
    summaries: u64,
    refusals: u64,
    budgets: u64,
}

/// The refusals of the last second: the event `refusals`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NewRefusals {
    items: Vec<ShownRefusal>,
}

/// The shares of limits that clients have passed in the last second: the event `budgets`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NewWarnings {
    items: Vec<ShownWarning>,
}

/// A share of a limit that a client has passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShownWarning {
    time: String,
    policy: String,
    /// The id of the client's key, as in the access log.
    id: String,
    /// The share of the limit, in percent.
    share: u8,
    /// The units that were counted.
    used: u64,
    limit: u64,
    /// What a unit is, if it is money: millionths of the dollar are `usd-6`.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
}

/// Why a stream ends: the event `end`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct End {
    because: String,
}

/// What all streams send.
#[derive(Debug)]
pub struct Events {
    ticks: watch::Sender<Tick>,
    streams: Arc<Semaphore>,
}

/// The figures and the state at one second.
#[derive(Clone, Debug, Default)]
struct Tick {
    number: u64,
    summary: Arc<str>,
    state: Arc<str>,
    is_draining: bool,
}

/// What a client wants to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Topics {
    summary: bool,
    state: bool,
    refusals: bool,
    budgets: bool,
}

/// One stream.
struct Subscription {
    topics: Topics,
    ticks: watch::Receiver<Tick>,
    /// The number of the last tick that was sent or passed over. None: there was none.
    seen: Option<u64>,
    /// The state that was sent last.
    state: Arc<str>,
    refusals: Arc<RefusalRings>,
    /// The sequence of the next refusal to send.
    next_refusal: u64,
    budgets: Arc<BudgetWarnings>,
    /// The sequence of the next warning to send.
    next_warning: u64,
    has_ended: bool,
    heartbeat: Interval,
    may_read: MayRead,
    _permit: OwnedSemaphorePermit,
}

/// Tells whether the credential of a client is still valid. It is asked once a second.
pub type MayRead = Box<dyn Fn() -> bool>;

impl Events {
    pub fn new() -> Self {
        let ticks = watch::channel(Tick::default()).0;
        let streams = Semaphore::new(MAX_STREAMS);
        Self { ticks, streams: Arc::new(streams) }
    }

    /// Sends the figures and the state of this second. To be called once a second.
    pub fn publish(&self, summary: &impl Serialize, state: &impl Serialize, phase: Phase) {
        let summary = event("summary", summary);
        let state = event("state", state);
        self.ticks.send_modify(|tick| {
            let number = tick.number + 1;
            *tick = Tick { number, summary, state, is_draining: phase == Phase::Draining };
        });
    }

    /// A stream for this client.
    ///
    /// # Errors
    /// 503, if there are too many streams.
    pub fn stream(
        &self,
        call: &Call,
        refusals: &Arc<RefusalRings>,
        budgets: &Arc<BudgetWarnings>,
        may_read: MayRead,
    ) -> Result<EventBody, Problem> {
        let topics = Topics::of(&call.words("topics"));
        let permit = Arc::clone(&self.streams).try_acquire_owned().map_err(|_| {
            Problem::unavailable(format!("there are {MAX_STREAMS} streams of events; close one"))
        })?;
        let mut subscription = Subscription {
            topics,
            ticks: self.ticks.subscribe(),
            seen: None,
            state: Arc::default(),
            refusals: Arc::clone(refusals),
            next_refusal: refusals.next_sequence(),
            budgets: Arc::clone(budgets),
            next_warning: budgets.next_sequence(),
            has_ended: false,
            heartbeat: interval(HEARTBEAT),
            may_read,
            _permit: permit,
        };
        subscription.heartbeat.reset();
        // The last figures are sent at once, if there are any.
        if subscription.ticks.borrow().number > 0 {
            subscription.ticks.mark_changed();
        }
        let frames = unfold(subscription, |mut subscription| async {
            let text = subscription.next().await?;
            Some((Ok(Frame::data(Bytes::from(text))), subscription))
        });
        Ok(StreamBody::new(Box::pin(frames)))
    }
}

impl Topics {
    fn of(names: &[&str]) -> Self {
        let has = |topic: &str| names.contains(&topic);
        Self {
            summary: has("summary"),
            state: has("state"),
            refusals: has("refusals"),
            budgets: has("budgets"),
        }
    }
}

impl ShownWarning {
    fn of(warning: &BudgetWarning) -> Self {
        let BudgetWarning { time, policy, id, share, used, limit, unit } = warning;
        Self {
            time: time.to_string(),
            policy: policy.to_string(),
            id: id.to_string(),
            share: *share,
            used: *used,
            limit: *limit,
            unit: unit.map(|unit| unit.to_string()),
        }
    }
}

impl Subscription {
    /// The next events. None: the stream has ended.
    async fn next(&mut self) -> Option<String> {
        while !self.has_ended {
            let text = tokio::select! {
                biased;
                changed = self.ticks.changed() => {
                    changed.ok()?;
                    self.events()
                }
                _ = self.heartbeat.tick() => HEARTBEAT_TEXT.to_owned(),
            };
            if !text.is_empty() {
                self.heartbeat.reset();
                return Some(text);
            }
        }
        None
    }

    /// What there is to send of the newest tick.
    fn events(&mut self) -> String {
        let tick = self.ticks.borrow_and_update().clone();
        let passed = self.seen.map_or(0, |seen| tick.number.saturating_sub(seen + 1));
        self.seen = Some(tick.number);
        let mut text = String::new();
        if !(self.may_read)() {
            return self.end("the credential is no longer valid", text);
        }
        let passed = if self.topics.summary { passed } else { 0 };
        let (refusals, lost) = self.new_refusals();
        let (warnings, untold) = self.new_warnings();
        if passed > 0 || lost > 0 || untold > 0 {
            let lost = Lost { summaries: passed, refusals: lost, budgets: untold };
            text += &event("lost", &lost);
        }
        if self.topics.state && self.state != tick.state {
            text += &tick.state;
            self.state = Arc::clone(&tick.state);
        }
        if self.topics.summary {
            text += &tick.summary;
        }
        if !refusals.is_empty() {
            text += &event("refusals", &NewRefusals { items: refusals });
        }
        if !warnings.is_empty() {
            text += &event("budgets", &NewWarnings { items: warnings });
        }
        if tick.is_draining {
            return self.end("this node finishes its last requests", text);
        }
        text
    }

    /// The refusals since the last look, and how many were lost.
    fn new_refusals(&mut self) -> (Vec<ShownRefusal>, u64) {
        if !self.topics.refusals {
            return (Vec::new(), 0);
        }
        let (refusals, next, lost) = self.refusals.since(self.next_refusal, MAX_REFUSALS);
        // What does not fit into this second is not sent later: a flood would never end.
        let end = self.refusals.next_sequence().max(next);
        self.next_refusal = end;
        (refusals.iter().map(ShownRefusal::of).collect(), lost + (end - next))
    }

    /// The warnings since the last look, and how many were lost.
    fn new_warnings(&mut self) -> (Vec<ShownWarning>, u64) {
        if !self.topics.budgets {
            return (Vec::new(), 0);
        }
        let (warnings, next, lost) = self.budgets.since(self.next_warning, MAX_WARNINGS);
        self.next_warning = next;
        (warnings.iter().map(ShownWarning::of).collect(), lost)
    }

    fn end(&mut self, because: &str, text: String) -> String {
        self.has_ended = true;
        text + &event("end", &End { because: because.to_owned() })
    }
}

/// An event, as `text/event-stream` writes it.
fn event(name: &str, data: &impl Serialize) -> Arc<str> {
    let data = serde_json::to_string(data).expect("an event has texts as its keys");
    format!("event: {name}\ndata: {data}\n\n").into()
}

#[cfg(test)]
mod tests;
