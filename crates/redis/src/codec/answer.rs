//! Replies of the script: whether it refused, its time, and the fields that it read.

use smallvec::SmallVec;
use tollgate_core::algorithm::{Algorithm, Log, Op, Retry, State, Verdict};
use tollgate_core::store::Moved;
use tollgate_core::time::{Span, Timestamp};

use super::body::{head, step_us};
use super::fields::order;
use super::wire::{EPOCH_US, InvalidReply, Reader, shape};
use crate::shared::{Ask, Asked};

/// The reply to one body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The time of the decision, by the server's clock.
    pub at: Timestamp,
    /// Whether the body was refused. Then it changed nothing.
    pub refused: bool,
    /// One for each operation, in their order.
    pub replies: SmallVec<[CounterReply; 4]>,
}

/// The reply to one operation on one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterReply {
    /// The state before the operation.
    pub before: Option<State>,
    /// The verdict, as the memory store would return it. A give-back of units in flight is
    /// computed as if all units were this node's.
    pub verdict: Verdict,
    /// The units that were leased in addition to the cost.
    pub extra: u64,
}

/// Decodes the reply to these operations.
///
/// # Errors
/// If it is not a reply to them.
pub fn decode(asked: &[Asked<'_>], answer: &[u8]) -> Result<Answered, InvalidReply> {
    let mut reader = Reader(answer);
    let refused = match reader.byte()? {
        0 => false,
        1 => true,
        other => return Err(InvalidReply::Outcome(other)),
    };
    let at = Timestamp::from_micros(reader.time_us()?);
    let states = states(reader, asked, at)?;
    Answered::of(asked, refused, at, states)
}

impl Answered {
    /// The reply of a server to these operations. Before them the counters had these `states`. The
    /// algorithms compute the verdicts.
    ///
    /// # Errors
    /// If the states do not refuse what the server has `refused`, or the other way round.
    pub fn of(
        asked: &[Asked<'_>],
        refused: bool,
        at: Timestamp,
        states: impl IntoIterator<Item = Option<State>>,
    ) -> Result<Self, InvalidReply> {
        let mut replies = SmallVec::with_capacity(asked.len());
        let mut refuses = false;
        for (asked, before) in asked.iter().zip(states) {
            let reply = CounterReply::of(asked, before, at);
            refuses |= asked.refuses(&reply.verdict);
            replies.push(reply);
        }
        if refuses != refused {
            return Err(InvalidReply::Disagrees);
        }
        let mut answered = Self { at, refused, replies };
        if refused {
            // Nothing was consumed, so the verdicts must not subtract the costs.
            answered.withdraw(asked);
        }
        Ok(answered)
    }

    /// Changes the verdicts as if nothing was taken.
    pub fn withdraw(&mut self, asked: &[Asked<'_>]) {
        for (reply, asked) in self.replies.iter_mut().zip(asked) {
            reply.withdraw(asked, self.at);
        }
    }

    /// How the operation `asked`, which has this position, has changed its counter.
    pub fn moved(&self, asked: &Asked<'_>, position: usize) -> Moved {
        let CounterReply { before, verdict, .. } = &self.replies[position];
        let (_, peeked) = asked.algorithm.apply(before.as_ref(), Op::Peek, self.at);
        let remaining = [peeked.remaining, verdict.remaining];
        Moved { remaining, reset_after: verdict.reset_after }
    }

    /// The state after the operation `asked`, which has this position.
    pub fn after(&self, asked: &Asked<'_>, position: usize) -> Option<State> {
        self.replies[position].after(asked, self.refused, self.at)
    }
}

impl CounterReply {
    /// The reply of the algorithm, if the state was `before`.
    fn of(asked: &Asked<'_>, before: Option<State>, at: Timestamp) -> Self {
        let (verdict, extra) = find(asked, before.as_ref(), at);
        Self { before, verdict, extra }
    }

    /// Changes the verdict as if nothing was taken: another destination refuses the request, so
    /// the units are given back at once.
    pub(crate) fn withdraw(&mut self, asked: &Asked<'_>, at: Timestamp) {
        if self.verdict.admitted {
            let (_, before) = asked.algorithm.apply(self.before.as_ref(), Op::Peek, at);
            self.verdict = Verdict { admitted: true, retry: Retry::Now, ..before };
            self.extra = 0;
        }
    }

    /// The state after the operation at `at`. If the body was `refused`, it took nothing.
    pub(crate) fn after(&self, asked: &Asked<'_>, refused: bool, at: Timestamp) -> Option<State> {
        let before = self.before.as_ref();
        let op = match asked.ask {
            Ask::Take(cost) if !refused => Op::Take(cost),
            Ask::Lease { cost, .. } if !refused => Op::Take(cost.saturating_add(self.extra)),
            Ask::Count(cost) => Op::Count(cost),
            Ask::Charge(actual) => Op::Settle { reserved: 0, actual, taken: at },
            Ask::Give { cost, taken } => Op::Give { cost, taken },
            Ask::Cancel { cost, taken } => Op::Cancel { cost, taken },
            _ => return before.cloned(),
        };
        asked.algorithm.apply(before, op, at).0.or_else(|| before.cloned())
    }
}

impl Asked<'_> {
    fn refuses(&self, verdict: &Verdict) -> bool {
        let may = matches!(self.ask, Ask::Take(_) | Ask::Lease { .. });
        may && self.binding && !verdict.admitted
    }
}

/// The verdict of the algorithm on the operation, and the units that are leased beside the cost.
fn find(asked: &Asked<'_>, state: Option<&State>, at: Timestamp) -> (Verdict, u64) {
    let apply = |op| asked.algorithm.apply(state, op, at).1;
    let verdict = match asked.ask {
        Ask::Peek | Ask::Renew { .. } => apply(Op::Peek),
        Ask::Take(cost) => apply(Op::Take(cost)),
        Ask::Count(cost) => apply(Op::Count(cost)),
        Ask::Lease { cost, ahead } => {
            let room = apply(Op::Take(0)).remaining;
            let extra = room.checked_sub(cost).map_or(0, |free| ahead.granted(free));
            let verdict = apply(Op::Take(cost.saturating_add(extra)));
            return (verdict, extra);
        }
        Ask::Give { cost, taken } => apply(Op::Give { cost, taken }),
        Ask::Cancel { cost, taken } => apply(Op::Cancel { cost, taken }),
        Ask::Charge(actual) => apply(Op::Settle { reserved: 0, actual, taken: at }),
        Ask::Reset | Ask::ResetAll => asked.algorithm.apply(None, Op::Peek, at).1,
    };
    (verdict, 0)
}

/// The states in a reply, in the order of the operations. The rest of the reply is the values
/// of the fields, each after its length except the last.
fn states(
    mut reader: Reader<'_>,
    asked: &[Asked<'_>],
    at: Timestamp,
) -> Result<SmallVec<[Option<State>; 4]>, InvalidReply> {
    let mut states: SmallVec<[Option<State>; 4]> = asked.iter().map(|_| None).collect();
    let order = order(asked);
    let mut groups = order.chunk_by(|&a, &b| asked[a].lies_with(&asked[b])).peekable();
    while let Some(group) = groups.next() {
        let value = match groups.peek() {
            Some(_) => reader.block()?,
            None => Reader(reader.0),
        };
        for &index in group {
            states[index] = state(Reader(value.0), &asked[index], at)?;
        }
    }
    Ok(states)
}

/// The state of a counter among those of its field, if there is one. See `field.lua`.
fn state(
    mut reader: Reader<'_>,
    asked: &Asked<'_>,
    at: Timestamp,
) -> Result<Option<State>, InvalidReply> {
    let sought = (u64::from(asked.key.counter.stored()), head(asked.algorithm));
    while let (Ok(id), Ok(head)) = (reader.fixed::<3>(), reader.byte()) {
        if (id, head) == sought {
            return read(&mut reader, head, asked.algorithm, at).map(Some);
        }
        // A state that cannot be read counts as missing.
        if skip(&mut reader, head).is_err() {
            break;
        }
    }
    Ok(None)
}

/// When a state ends, in microseconds since 2025.
fn end_us(reader: &mut Reader<'_>, head: u8) -> Result<u64, InvalidReply> {
    let third = head & 0xf;
    let units = if third >= 6 { reader.fixed::<4>() } else { reader.fixed::<6>() }?;
    Ok(u64::try_from(u128::from(units) << (3 * third)).unwrap_or(u64::MAX))
}

/// Skips a state of any kind.
fn skip(reader: &mut Reader<'_>, head: u8) -> Result<(), InvalidReply> {
    let (numbers, has_block) = shape(head >> 4).ok_or(InvalidReply::Short)?;
    end_us(reader, head)?;
    for _ in 1..numbers {
        reader.number()?;
    }
    if has_block { reader.block().map(|_| ()) } else { reader.number().map(|_| ()) }
}

/// The rest of a state with this head.
fn read(
    reader: &mut Reader<'_>,
    head: u8,
    algorithm: &Algorithm,
    at: Timestamp,
) -> Result<State, InvalidReply> {
    let since_us = end_us(reader, head)?;
    let end = Timestamp::from_micros(EPOCH_US).plus(Span::from_micros(since_us));
    Ok(match algorithm {
        Algorithm::SlidingWindow(_) => sliding(reader, windows(end, algorithm.window()))?,
        Algorithm::SubWindows(it) => {
            counts(reader, windows(end, it.length()), u64::from(it.buckets()))?
        }
        Algorithm::FixedWindow(it) => {
            let step_us = step_us(it, algorithm);
            let edge_us = end.as_micros() / step_us * step_us;
            let inside = Timestamp::from_micros(edge_us.saturating_sub(1));
            State::Fixed { window: it.window_at(inside), current: reader.number()? }
        }
        Algorithm::SlidingLog(_) => log(reader, end)?,
        Algorithm::TokenBucket(_) => {
            let as_of = end.minus(Span::from_micros(reader.number()?));
            let units = reader.number()?;
            State::Bucket { as_of, level: level(reader, units, algorithm)? }
        }
        Algorithm::LeakyBucket(_) => {
            let as_of = end.minus(Span::from_micros(reader.number()?));
            let doubled = reader.number()?;
            let level = level(reader, doubled / 2, algorithm)?;
            State::Queue { as_of, level, shared: doubled % 2 == 1 }
        }
        Algorithm::Concurrency(_) => in_flight(reader, at)?,
        Algorithm::Ban(_) => {
            let until = end.minus(Span::from_micros(reader.number()?));
            let bans = u8::try_from(reader.number()?).unwrap_or(u8::MAX);
            State::Ban { until, bans }
        }
    })
}

/// The number of windows that end until then.
const fn windows(end: Timestamp, length: Span) -> u64 {
    end.as_micros() / length.as_micros()
}

/// `last` is the last window in which units count: the window of the state if its current
/// count is 0, otherwise the next one.
fn sliding(reader: &mut Reader<'_>, last: u64) -> Result<State, InvalidReply> {
    let current = reader.number()?;
    let previous = reader.number()?;
    let window = if current > 0 { last.saturating_sub(1) } else { last };
    Ok(State::Sliding { window, current, previous })
}

fn counts(reader: &mut Reader<'_>, last: u64, buckets: u64) -> Result<State, InvalidReply> {
    let later = reader.number()?;
    let mut block = reader.block()?;
    let latest = last.saturating_sub(buckets + 1);
    let places = usize::try_from(buckets + 1).map_err(|_| InvalidReply::Number)?;
    let mut counts = vec![0; places].into_boxed_slice();
    let empty = usize::try_from(later).map_err(|_| InvalidReply::Number)?;
    // The block begins with the newest count.
    for count in counts.iter_mut().rev().skip(empty) {
        if block.is_empty() {
            break;
        }
        *count = u32::try_from(block.number()?).map_err(|_| InvalidReply::Number)?;
    }
    Ok(State::Counts { newest: latest.saturating_add(later), counts })
}

fn log(reader: &mut Reader<'_>, end: Timestamp) -> Result<State, InvalidReply> {
    let newest = end.minus(Span::from_micros(reader.number()?));
    let base = newest.minus(Span::from_micros(reader.number()?));
    let units = reader.number()?;
    let entries = reader.block()?;
    let log = Log::from_packed(base, entries.0).ok_or(InvalidReply::Log)?;
    if log.units() != units || log.newest() != Some(newest) {
        return Err(InvalidReply::Log);
    }
    Ok(State::Log(log))
}

fn level(reader: &mut Reader<'_>, units: u64, algorithm: &Algorithm) -> Result<u128, InvalidReply> {
    let window_us = u128::from(algorithm.window().as_micros());
    Ok(u128::from(units) * window_us + u128::from(reader.number()?))
}

/// The units of all nodes whose records have not expired. If the script left out the
/// records, it reports the sum.
fn in_flight(reader: &mut Reader<'_>, at: Timestamp) -> Result<State, InvalidReply> {
    let _first_end = reader.number()?;
    let told = reader.number()?;
    let mut records = reader.block()?;
    let mut units = 0_u64;
    if records.is_empty() {
        return Ok(State::InFlight { units: told });
    }
    while !records.is_empty() {
        let _node = records.fixed::<4>()?;
        let held = records.fixed::<5>()?;
        let ends_s = records.fixed::<4>()?;
        if Span::from_secs(ends_s) > at.since(Timestamp::default()) {
            units = units.saturating_add(held);
        }
    }
    Ok(State::InFlight { units })
}
