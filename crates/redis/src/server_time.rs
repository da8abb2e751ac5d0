//! The time of a server whose scripts cannot ask for it.
//!
//! Some services refuse `TIME` in scripts (ElastiCache Serverless, in reports of 2024). Then the
//! gateway sends `TIME` as a command of its own in front of the script, in the same write, and
//! gives the script its estimate of the server's time. The reply improves the next estimate.
//!
//! The time of a reply lies between the moment at which the command was sent and that at which the
//! reply came. So the error of an estimate is at most half of this time, and its growth with the
//! drift of the clocks. A new estimate replaces an older one that has grown worse.

use std::time::{Duration, Instant};

use redis::{Cmd, Value, cmd};

use super::failure::StoreError;

/// Clocks drift apart by less than one part of this many.
const DRIFT_DIVISOR: u32 = 10_000;

/// An estimate of a server's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerTime {
    /// The server's time at `at`, in microseconds since 1970.
    us: u64,
    at: Instant,
    /// How wrong it was at most.
    error: Duration,
    /// The last time that a script was given.
    given_us: u64,
}

impl ServerTime {
    /// The command that asks for the time.
    pub(super) fn question() -> Cmd {
        cmd("TIME")
    }

    /// The estimate by a reply to a command that was sent at `asked`. The reply came at `answered`.
    ///
    /// # Errors
    /// If the server does not tell its time.
    pub(super) fn read(
        reply: Value,
        asked: Instant,
        answered: Instant,
    ) -> Result<Self, StoreError> {
        let (seconds, us): (String, String) = redis::from_redis_value(reply.extract_error()?)
            .map_err(|_| StoreError::InvalidReply("TIME is not answered by two numbers"))?;
        let number = |text: String| text.parse::<u64>().ok();
        let us = number(seconds)
            .zip(number(us))
            .and_then(|(seconds, us)| seconds.checked_mul(1_000_000)?.checked_add(us));
        let us = us.ok_or(StoreError::InvalidReply("TIME is not answered by two numbers"))?;
        let error = answered.saturating_duration_since(asked) / 2;
        Ok(Self { us, at: asked + error, error, given_us: 0 })
    }

    /// Takes a newer estimate, if it is better than this one is by then.
    pub(super) fn improve(&mut self, newer: Self) {
        let age = newer.at.saturating_duration_since(self.at);
        if newer.error <= self.error + age / DRIFT_DIVISOR {
            *self = Self { given_us: self.given_us, ..newer };
        }
    }

    /// The time at which a script that is sent at `now` arrives, in microseconds since 1970. It is
    /// never earlier than the last one.
    pub(super) fn next_us(&mut self, now: Instant) -> u64 {
        let later = now.saturating_duration_since(self.at) + self.error;
        let us = self.us.saturating_add(u64::try_from(later.as_micros()).unwrap_or(u64::MAX));
        self.given_us = self.given_us.max(us);
        self.given_us
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_core::time::monotonic;

    use super::*;

    fn reply(us: u64) -> Value {
        let text = |number: u64| Value::BulkString(number.to_string().into_bytes());
        Value::Array(vec![text(us / 1_000_000), text(us % 1_000_000)])
    }

    proptest! {
        /// Each reply is late by other times there and back. The server's clock goes too fast or
        /// too slow by up to 50 parts in a million. A time that was given is given again until
        /// the estimate reaches it.
        #[test]
        fn an_estimate_is_wrong_by_less_than_the_shortest_call(
            calls in prop::collection::vec((100..5_000_u64, 100..5_000_u64, 1..2_000_000_u64), 1..20),
            ppm in -50..50_i64,
        ) {
            let start = monotonic();
            let there = |us: u64| {
                let drift = i64::try_from(us).unwrap() * ppm / 1_000_000;
                1_795_246_126_000_000_u64 + us.saturating_add_signed(drift)
            };
            let mut time: Option<ServerTime> = None;
            let mut now: u64 = 0;
            let mut shortest: u64 = u64::MAX;
            let mut last = 0;
            for (to, back, pause) in calls {
                let at = |us| start + Duration::from_micros(us);
                let read = ServerTime::read(reply(there(now + to)), at(now), at(now + to + back));
                let read = read.expect("it is a time");
                match &mut time {
                    Some(time) => time.improve(read),
                    None => time = Some(read),
                }
                shortest = shortest.min(to + back);
                now += to + back + pause;
                let given = time.as_mut().expect("there is one").next_us(at(now));
                prop_assert!(given >= last);
                // Half of the call, as much for the way there, and the drift.
                let allowed = shortest + now / 5_000 + 2;
                prop_assert!(given + allowed >= there(now), "{given} {}", there(now));
                prop_assert!(given <= last.max(there(now) + allowed), "{given} {}", there(now));
                last = given;
            }
        }
    }

    #[test]
    fn what_is_no_time_is_an_error() {
        let now = monotonic();
        let text = |text: &str| Value::BulkString(text.into());
        let too_late = Value::Array(vec![text("18446744073709551615"), text("1")]);
        for reply in [Value::Nil, Value::Okay, Value::Array(vec![Value::Int(1)]), too_late] {
            assert!(ServerTime::read(reply, now, now).is_err());
        }
    }
}
