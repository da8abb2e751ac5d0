//! The parts of our own log that other logs do not have.

use tollgate_core::log_fields::Field;

use super::fields::{Known, KnownKey, Line, Mark, Moment};
use super::json::Value;
use super::text::number;

/// A part that only our own log has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Sample,
    TimeUs,
    SettledUs,
    Outcome,
    DeniedBy,
    Remaining,
    StoreTime,
    Key(KeyPart),
}

/// A part of an element of `keys`. The policy is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyPart {
    Policy,
    Id,
    Cost,
    Plan,
    Limit,
    Window,
    Settled,
    Elastic,
    Preflight,
}

/// The names inside an element of `keys`.
pub(super) const KEY_PARTS: [(&str, KeyPart); 9] = [
    ("policy", KeyPart::Policy),
    ("id", KeyPart::Id),
    ("cost", KeyPart::Cost),
    ("plan", KeyPart::Plan),
    ("limit", KeyPart::Limit),
    ("window_us", KeyPart::Window),
    ("settled", KeyPart::Settled),
    ("elastic", KeyPart::Elastic),
    ("preflight", KeyPart::Preflight),
];

impl Part {
    /// The part in this field.
    pub(super) const fn of(field: Field) -> Option<Self> {
        Some(match field {
            Field::Sample => Self::Sample,
            Field::TimeUs => Self::TimeUs,
            Field::SettledUs => Self::SettledUs,
            Field::Outcome => Self::Outcome,
            Field::DeniedBy => Self::DeniedBy,
            Field::Remaining => Self::Remaining,
            Field::StoreTime => Self::StoreTime,
            _ => return None,
        })
    }
}

/// What has been read of these parts.
#[derive(Debug, Default)]
pub(super) struct KnownReading<'l> {
    known: Known<'l>,
    time_us: Option<u64>,
    sample: Option<u64>,
}

impl<'l> KnownReading<'l> {
    pub(super) fn see(&mut self, part: Part, value: Value<'l>) {
        let known = &mut self.known;
        match part {
            Part::Sample => self.sample = number(value.raw()),
            Part::TimeUs => self.time_us = number(value.raw()),
            Part::SettledUs => known.settled_us = number(value.raw()),
            Part::Outcome => known.outcome = value.plain().unwrap_or_default(),
            Part::DeniedBy => known.is_denied_by_list = true,
            Part::Remaining => known.remaining = number(value.raw()),
            Part::StoreTime => known.is_by_server = true,
            Part::Key(KeyPart::Policy) => {
                let policy = value.plain().unwrap_or_default();
                known.keys.push(KnownKey { policy, ..KnownKey::default() });
            }
            Part::Key(part) => {
                if let Some(key) = known.keys.last_mut() {
                    see_key(key, part, value);
                }
            }
        }
    }

    /// Adds to the line what was read. A log with keys has the exact time of the decision.
    pub(super) fn complete(self, line: &mut Line<'l>) {
        line.sample = self.sample;
        if let Some(us) = self.time_us {
            line.known = Some(Box::new(self.known));
            (line.time, line.mark) = (Moment { us, is_whole_second: false }, Mark::Start);
        }
    }
}

fn see_key<'l>(key: &mut KnownKey<'l>, part: KeyPart, value: Value<'l>) {
    match part {
        KeyPart::Policy => {}
        KeyPart::Id => key.id = value.raw(),
        KeyPart::Cost => key.cost = number(value.raw()).unwrap_or(0),
        KeyPart::Plan => key.plan = value.plain(),
        KeyPart::Limit => key.limit = number(value.raw()),
        KeyPart::Window => key.window_us = number(value.raw()),
        KeyPart::Settled => key.settled = number(value.raw()),
        KeyPart::Elastic => key.is_elastic = value.raw() == b"true",
        KeyPart::Preflight => key.is_preflight = value.raw() == b"true",
    }
}
