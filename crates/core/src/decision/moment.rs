//! The time of a decision.

use std::time::Instant;

use crate::time::Timestamp;

/// The time of a decision by this node's clock, and the deadline for all answers to it.
pub(super) type Moment = (Timestamp, Option<Instant>);
