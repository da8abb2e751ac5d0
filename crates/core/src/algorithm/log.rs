//! The packed form of a log: the admitted units and their times.
//!
//! An entry consists of two numbers of variable length (LEB128: seven bits a byte, the
//! lowest first): the microseconds since the previous entry, and the units. Entries of the
//! same microsecond are merged. At 100 units a minute an entry takes 5 bytes, at one a day
//! 7, and 10 at most. The first entry is relative to a base, so the oldest entries are
//! removed by cutting off the front.

use crate::time::{Span, Timestamp};

/// Units admitted, with their times, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    base: Timestamp,
    newest: Timestamp,
    units: u64,
    packed: Box<[u8]>,
}

/// The units that were admitted at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) at: Timestamp,
    pub(super) units: u64,
}

/// The newer part of a log.
#[derive(Clone, Copy)]
pub(super) struct Tail<'l> {
    base: Timestamp,
    pub(super) newest: Timestamp,
    pub(super) units: u64,
    packed: &'l [u8],
}

impl Log {
    /// A log from its packed entries, which count from `base`. None if they are
    /// not well formed.
    pub fn from_packed(base: Timestamp, packed: &[u8]) -> Option<Self> {
        let mut tail = Tail { base, newest: base, units: u64::MAX, packed };
        while !tail.packed.is_empty() {
            let (entry, rest) = tail.split()?;
            tail = Tail { newest: entry.at, ..rest };
        }
        let units = u64::MAX - tail.units;
        Some(Self { base, newest: tail.newest, units, packed: packed.into() })
    }

    /// The time of the newest entry, if there is one.
    pub fn newest(&self) -> Option<Timestamp> {
        (self.units > 0).then_some(self.newest)
    }

    /// The units that were admitted less than `window` before `now`.
    pub(super) fn since(&self, window: Span, now: Timestamp) -> Tail<'_> {
        let Self { base, newest, units, ref packed } = *self;
        let mut tail = Tail { base, newest, units, packed };
        while let Some((entry, rest)) = tail.split() {
            if entry.at.plus(window) > now {
                break;
            }
            tail = rest;
        }
        if tail.units == 0 { Tail::empty(now) } else { tail }
    }

    /// All units in it.
    pub const fn units(&self) -> u64 {
        self.units
    }

    /// The number of bytes of its entries.
    pub fn packed_len(&self) -> usize {
        self.packed.len()
    }
}

impl<'l> Tail<'l> {
    /// A log without an entry.
    pub(super) const fn empty(now: Timestamp) -> Self {
        Self { base: now, newest: now, units: 0, packed: &[] }
    }

    /// The oldest entry, and the rest.
    fn split(self) -> Option<(Entry, Self)> {
        let (gap_us, rest) = read(self.packed)?;
        let (units, packed) = read(rest)?;
        let at = self.base.plus(Span::from_micros(gap_us));
        let rest = Self { base: at, packed, units: self.units.saturating_sub(units), ..self };
        Some((Entry { at, units }, rest))
    }

    pub(super) fn entries(self) -> impl Iterator<Item = Entry> + use<'l> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let (entry, after) = rest.split()?;
            rest = after;
            Some(entry)
        })
    }

    /// The log with these units added at `newest`, or at `now` if that is later.
    pub(super) fn with(self, units: u64, now: Timestamp) -> Log {
        let now = now.max(self.newest);
        if units == 0 {
            return self.pack(self.entries());
        }
        if self.units > 0 && now == self.newest {
            return self.pack(self.entries().map(|entry| match entry.at {
                at if at == now => Entry { at, units: entry.units.saturating_add(units) },
                _ => entry,
            }));
        }
        let mut packed = Vec::with_capacity(self.packed.len() + MAX_ENTRY_BYTES);
        packed.extend_from_slice(self.packed);
        write(now.since(self.newest).as_micros(), &mut packed);
        write(units, &mut packed);
        let units = self.units.saturating_add(units);
        Log { base: self.base, newest: now, units, packed: packed.into_boxed_slice() }
    }

    /// The log without at most this number of the units that were admitted at `at`.
    pub(super) fn without(self, units: u64, at: Timestamp) -> Log {
        self.pack(self.entries().map(|entry| {
            let given = if entry.at == at { units } else { 0 };
            Entry { units: entry.units.saturating_sub(given), ..entry }
        }))
    }

    fn pack(self, entries: impl Iterator<Item = Entry>) -> Log {
        let mut packed = Vec::with_capacity(self.packed.len() + MAX_ENTRY_BYTES);
        let mut newest = self.base;
        let mut units = 0_u64;
        for entry in entries.filter(|entry| entry.units > 0) {
            write(entry.at.since(newest).as_micros(), &mut packed);
            write(entry.units, &mut packed);
            newest = entry.at;
            units = units.saturating_add(entry.units);
        }
        Log { base: self.base, newest, units, packed: packed.into_boxed_slice() }
    }
}

/// Two numbers of 64 bits; those of a log are smaller.
const MAX_ENTRY_BYTES: usize = 20;

fn write(mut number: u64, packed: &mut Vec<u8>) {
    while number > 0x7f {
        packed.push(0x80 | low_bits(number));
        number >>= 7;
    }
    packed.push(low_bits(number));
}

fn low_bits(number: u64) -> u8 {
    u8::try_from(number & 0x7f).expect("seven bits fit")
}

/// The first number, and the rest.
fn read(packed: &[u8]) -> Option<(u64, &[u8])> {
    let length = packed.iter().take(10).position(|byte| byte & 0x80 == 0)? + 1;
    let (bytes, rest) = packed.split_at(length);
    let number = bytes.iter().rev().fold(0, |high, byte| high << 7 | u64::from(byte & 0x7f));
    Some((number, rest))
}
