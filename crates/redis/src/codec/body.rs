//! The format of bodies for the script.
//!
//! A body is the number of its keys, followed by the field, the number of charges, and the
//! charges of each key. A charge is the id of the counter, the head of its state, the code of
//! the operation, whether it binds, its units, the parameters of the kind of counter, and the
//! parameters of the operation. The widths of the numbers are defined in this file and in the
//! `read` of each kind in the script.

use smallvec::SmallVec;
use tollgate_core::algorithm::{Algorithm, FixedWindow};
use tollgate_core::digest::Key;
use tollgate_core::time::{Span, Timestamp};

use super::fields::{lies_apart, order};
use super::wire::{END_US, Kind, put};
use crate::layout::Layout;
use crate::script::Encoded;
use crate::shared::{Ask, Asked};

/// The maximum number of units in a body. No limit is above 2^39, and at most twice that is
/// counted, so larger numbers have the same effect.
const MOST_UNITS: u64 = 1 << 41;
/// The approximate size of a charge.
const CHARGE_BYTES: usize = 32;

/// Encodes the bodies of one worker.
#[derive(Clone, Debug)]
pub struct Encoder {
    layout: Layout,
    node: u32,
}

impl Encoder {
    /// An encoder for this layout. `node` identifies the holder of units in flight: each
    /// worker with a count of its own needs another number.
    pub const fn new(layout: Layout, node: u32) -> Self {
        Self { layout, node }
    }

    /// The layout of principals in Redis.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The holder of units in flight.
    pub const fn node(&self) -> u32 {
        self.node
    }

    /// Encodes one body: all its operations are performed in one step, or none is. `now` is
    /// the store's time, as far as this node knows it. It selects the windows of a calendar
    /// that the body describes. The store's own clock decides which of them is current.
    pub fn encode(&self, asked: &[Asked<'_>], now: Timestamp) -> Encoded {
        let order = order(asked);
        let one_field = |a: &usize, b: &usize| asked[*a].lies_with(&asked[*b]);
        let mut keys = SmallVec::new();
        let mut body = Vec::with_capacity(2 + asked.len() * CHARGE_BYTES);
        body.push(0);
        for group in order.chunk_by(one_field) {
            let Asked { key: Key { principal, .. }, algorithm, .. } = asked[group[0]];
            keys.push(match lies_apart(algorithm) {
                true => self.layout.key_of_long_logs(principal),
                false => self.layout.key(principal),
            });
            body.extend_from_slice(&Layout::field(principal));
            body.push(count(group.len()));
            for &index in group {
                self.charge(&asked[index], now, &mut body);
            }
        }
        body[0] = count(keys.len());
        Encoded { keys, body: body.into() }
    }

    fn charge(&self, asked: &Asked<'_>, now: Timestamp, body: &mut Vec<u8>) {
        let (code, units) = match asked.ask {
            Ask::Peek | Ask::Count(0) => (0, 0),
            Ask::Take(units) => (1, units),
            Ask::Lease { cost, .. } => (2, cost),
            Ask::Give { cost, .. } => (3, cost),
            Ask::Charge(units) | Ask::Count(units) => (4, units),
            Ask::Renew { units, .. } => (5, units),
            Ask::Reset => (6, 0),
            Ask::ResetAll => (7, 0),
            Ask::Cancel { cost, .. } => (8, cost),
        };
        put::<3>(asked.key.counter.stored().into(), body);
        body.extend([asked_head(asked.algorithm), code, u8::from(asked.binding)]);
        put::<6>(units.min(MOST_UNITS), body);
        self.parameters(asked.algorithm, now, body);
        match asked.ask {
            Ask::Lease { ahead, .. } => {
                put::<6>(ahead.extra.min(MOST_UNITS), body);
                put::<6>(ahead.reserve.min(MOST_UNITS), body);
                put::<2>(ahead.share_1024.min(1024).into(), body);
            }
            Ask::Renew { asked, .. } => put::<6>(asked.min(MOST_UNITS), body),
            Ask::Give { taken, .. } | Ask::Cancel { taken, .. } => {
                put::<7>(position(asked.algorithm, taken), body)
            }
            _ => {}
        }
    }

    fn parameters(&self, algorithm: &Algorithm, now: Timestamp, body: &mut Vec<u8>) {
        let window_us = algorithm.window().as_micros();
        match algorithm {
            Algorithm::Ban(ban) => {
                put::<6>(ban.first().as_micros(), body);
                put::<6>(ban.longest().as_micros(), body);
                return;
            }
            _ => put::<6>(algorithm.limit(), body),
        }
        match algorithm {
            Algorithm::SlidingWindow(_) | Algorithm::SlidingLog(_) => put::<6>(window_us, body),
            Algorithm::SubWindows(it) => {
                put::<6>(it.length().as_micros(), body);
                put::<1>(it.buckets().into(), body);
            }
            Algorithm::FixedWindow(it) => {
                let Steps { step_us, start, edge, length } = Steps::of(it, algorithm, now);
                [step_us, start, edge, length]
                    .into_iter()
                    .for_each(|number| put::<6>(number, body));
            }
            Algorithm::TokenBucket(it) => {
                put::<6>(window_us, body);
                put::<6>(it.burst(), body);
            }
            Algorithm::LeakyBucket(it) => {
                put::<6>(window_us, body);
                let capacity = it.capacity_parts();
                let unit = u128::from(window_us);
                for number in [capacity / unit, capacity % unit] {
                    put::<6>(u64::try_from(number).expect("a capacity is below 2^40"), body);
                }
            }
            Algorithm::Concurrency(_) => put::<4>(self.node.into(), body),
            Algorithm::Ban(_) => {}
        }
    }
}

/// The number of charges as a byte. A route has at most 16 policies with four counters each.
fn count(charges: usize) -> u8 {
    u8::try_from(charges).expect("a decision has fewer than 256 charges")
}

const fn kind(algorithm: &Algorithm) -> Kind {
    match algorithm {
        Algorithm::SlidingWindow(_) => Kind::SlidingWindow,
        Algorithm::SubWindows(_) => Kind::SubWindows,
        Algorithm::FixedWindow(_) => Kind::FixedWindow,
        Algorithm::SlidingLog(_) => Kind::SlidingLog,
        Algorithm::TokenBucket(_) => Kind::TokenBucket,
        Algorithm::LeakyBucket(_) => Kind::LeakyBucket,
        Algorithm::Concurrency(_) => Kind::Concurrency,
        Algorithm::Ban(_) => Kind::Ban,
    }
}

/// The kind, and a third of the exponent e: ends of states are stored in units of 2^e
/// microseconds, which are at most one window, so that different windows have different ends.
pub(super) fn head(algorithm: &Algorithm) -> u8 {
    let window = match algorithm {
        Algorithm::SubWindows(it) => it.length(),
        Algorithm::FixedWindow(it) if it.zone().is_some() => Span::SECOND,
        // Units in flight expire on a full second. A ban has no window.
        Algorithm::Concurrency(_) | Algorithm::Ban(_) => Span::SECOND,
        _ => algorithm.window(),
    };
    let third = window.as_micros().max(1).ilog2() / 3;
    kind(algorithm) as u8 * 16 + u8::try_from(third.min(15)).expect("it is at most 15")
}

/// The head in a body. A long log is returned as a short log with the same content.
fn asked_head(algorithm: &Algorithm) -> u8 {
    let head = head(algorithm);
    if lies_apart(algorithm) { head % 16 + Kind::LongLog as u8 * 16 } else { head }
}

/// The windows of a [`FixedWindow`] as the script counts them.
struct Steps {
    /// Windows end at multiples of this.
    step_us: u64,
    /// The start and the end of the current window, in steps.
    start: u64,
    edge: u64,
    /// The length of the next window, in steps.
    length: u64,
}

impl Steps {
    fn of(window: &FixedWindow, algorithm: &Algorithm, now: Timestamp) -> Self {
        let step_us = step_us(window, algorithm);
        if window.zone().is_none() {
            // All windows have the same length, so the script computes them itself.
            return Self { step_us, start: 0, edge: 0, length: 1 };
        }
        let edge = window.end_at(now);
        let next = window.end_at(window.end_at(now));
        let steps = |time: Timestamp| time.as_micros().min(END_US) / step_us;
        let length = steps(next).saturating_sub(steps(edge)).max(1);
        // The number of a calendar window is the second at which it starts.
        let start = steps(Timestamp::default().plus(Span::from_secs(window.window_at(now))));
        Self { step_us, start, edge: steps(edge), length }
    }
}

/// Windows end at multiples of this: their length, or a second in a calendar.
pub(super) fn step_us(window: &FixedWindow, algorithm: &Algorithm) -> u64 {
    window.zone().map_or(algorithm.window(), |_| Span::SECOND).as_micros()
}

/// The position at which a state counts units taken at `time`: the number or the end of the
/// window, or the time itself.
fn position(algorithm: &Algorithm, time: Timestamp) -> u64 {
    let time_us = time.as_micros().min(END_US);
    match algorithm {
        Algorithm::SlidingWindow(it) => it.window_at(Timestamp::from_micros(time_us)),
        Algorithm::SubWindows(it) => time_us / it.length().as_micros(),
        Algorithm::FixedWindow(it) => {
            it.end_at(Timestamp::from_micros(time_us)).as_micros() / step_us(it, algorithm)
        }
        _ => time_us,
    }
}
