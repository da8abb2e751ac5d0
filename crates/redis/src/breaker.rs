//! A circuit breaker (M. Nygard, "Release It!", chapter 5): it decides whether calls to a
//! server that has failed are worth waiting for.
//!
//! While it is closed, decisions go to the server. After [`FAILURES_TO_OPEN`] failures in a
//! row it opens: decisions fail at once, and probes in the background find out when the
//! server is back. Then it is half open: decisions go to the server again. The first success
//! closes it, and the first failure opens it for longer than before.
//!
//! It reads no clock and sends nothing. Its owner does both.

use std::time::{Duration, Instant};

use fastrand::Rng;

/// Failures in a row after which the breaker opens.
pub(super) const FAILURES_TO_OPEN: u8 = 3;
/// From the opening to the first probe.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two probes, before the jitter.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The breaker of one server.
#[derive(Debug)]
pub(super) struct Breaker {
    state: State,
    /// The next pause: it doubles until a decision succeeds.
    pause: Duration,
    opened: u64,
    /// The last change that was reported, so that none is reported twice.
    told: Option<Change>,
    /// Spreads the probes of many nodes, which all lost the server at once.
    jitter: Rng,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed {
        failures: u8,
    },
    Open {
        probe_at: Instant,
    },
    /// `losses` connections have broken under decisions since a decision was answered.
    HalfOpen {
        losses: u8,
    },
}

/// The position that the breaker reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Decisions go to the server.
    Closed,
    /// Decisions fail at once.
    Open,
    /// Decisions go to the server, but one failure is enough to open.
    HalfOpen,
}

/// A change worth a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Change {
    /// The server is no longer used.
    Opened,
    /// The server is used again.
    Closed,
}

impl Breaker {
    /// A breaker of a server that nothing is known of: half open.
    pub(super) fn new(jitter: Rng) -> Self {
        Self {
            state: State::HalfOpen { losses: 0 },
            pause: FIRST_PAUSE,
            opened: 0,
            told: None,
            jitter,
        }
    }

    /// The position of the breaker.
    pub(super) fn position(&self) -> Position {
        match self.state {
            State::Closed { .. } => Position::Closed,
            State::Open { .. } => Position::Open,
            State::HalfOpen { .. } => Position::HalfOpen,
        }
    }

    /// Whether a decision may go to the server.
    pub(super) fn admits(&self) -> bool {
        self.position() != Position::Open
    }

    /// How often it has opened.
    pub(super) fn times_opened(&self) -> u64 {
        self.opened
    }

    /// When the server may be probed; none while there is nothing to find out.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        match self.state {
            State::Open { probe_at } => Some(probe_at),
            State::Closed { .. } | State::HalfOpen { .. } => None,
        }
    }

    /// A decision was answered. An answer to one that was sent before the
    /// breaker opened says nothing new.
    pub(super) fn succeeded(&mut self) -> Option<Change> {
        match self.state {
            State::Open { .. } => None,
            State::Closed { .. } => {
                self.state = State::Closed { failures: 0 };
                None
            }
            State::HalfOpen { .. } => {
                self.state = State::Closed { failures: 0 };
                self.pause = FIRST_PAUSE;
                self.tell(Change::Closed)
            }
        }
    }

    /// A decision, or an attempt to connect, failed or took too long.
    pub(super) fn failed(&mut self, now: Instant) -> Option<Change> {
        match self.state {
            State::Open { .. } => None,
            State::Closed { failures } if failures + 1 < FAILURES_TO_OPEN => {
                self.state = State::Closed { failures: failures + 1 };
                None
            }
            State::Closed { .. } | State::HalfOpen { .. } => self.open(now),
        }
    }

    /// The server refused a decision, and would refuse it again.
    pub(super) fn refused(&mut self, now: Instant) -> Option<Change> {
        match self.state {
            State::Open { .. } => None,
            State::Closed { .. } | State::HalfOpen { .. } => self.open(now),
        }
    }

    /// The connection broke under a decision. The server may be up all the same:
    /// it is worth another connection at once, until several broke in a row.
    pub(super) fn disconnected(&mut self, now: Instant) -> Option<Change> {
        let losses = match self.state {
            State::Open { .. } => return None,
            State::Closed { .. } => 0,
            State::HalfOpen { losses } => losses,
        };
        if losses + 1 >= FAILURES_TO_OPEN {
            return self.open(now);
        }
        self.state = State::HalfOpen { losses: losses + 1 };
        None
    }

    /// The server closed a connection on which nothing was under way: that is no
    /// failure, but what comes next shows whether it is still there.
    pub(super) fn closed_while_idle(&mut self) {
        if let State::Closed { .. } = self.state {
            self.state = State::HalfOpen { losses: 0 };
        }
    }

    /// A probe of an open breaker has ended.
    pub(super) fn probed(&mut self, answered: bool, now: Instant) {
        if self.admits() {
            return;
        }
        self.state = if answered {
            // The server was away, so one more loss is enough to open the breaker again.
            State::HalfOpen { losses: FAILURES_TO_OPEN - 1 }
        } else {
            State::Open { probe_at: self.next_probe(now) }
        };
    }

    fn open(&mut self, now: Instant) -> Option<Change> {
        self.opened += 1;
        self.state = State::Open { probe_at: self.next_probe(now) };
        self.tell(Change::Opened)
    }

    /// A connection that was replaced, or a probe that led to nothing, is no change.
    fn tell(&mut self, change: Change) -> Option<Change> {
        (self.told.replace(change) != Some(change)).then_some(change)
    }

    /// Up to a quarter later than the pause, so that the longest wait stays
    /// well below two seconds.
    fn next_probe(&mut self, now: Instant) -> Instant {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        now + pause + pause.mul_f64(self.jitter.f64() / 4.0)
    }
}

#[cfg(test)]
mod tests;
