//! Decisions: all policies of a route are applied together, and the client learns the
//! result in response fields.
//!
//! A decision has two parts. [`Claims`] contain what each policy charges: keys, limits
//! and costs. They are computed from the request without waiting. The judgement over the
//! claims needs the store and does not need the request, so another thread can make it.
//! A pure function combines the verdicts to one decision. If a policy has limits of
//! single keys (`overrides`), these are looked up first. Then a judgement has at most
//! three steps, of which the second and the third are rare:
//!
//! 1. The store is asked for the charges of all policies, and for bans of the client. If
//!    all policies admit the request, all of them count it. Otherwise none does.
//! 2. If only elastic policies refuse, and the upstream has room, the store is asked once
//!    more. What the elastic policies refused is then counted beyond their limits.
//! 3. A refusal by a policy with a penalty is counted, and may lead to a ban.

mod api_fields;
mod charged;
mod claim;
mod claims;
mod count;
mod headers;
mod headroom;
mod joined;
mod judge;
mod known;
mod known_refusal;
mod lease;
mod limiter;
mod lists;
mod moment;
mod outcome;
mod overflow;
mod overrides;
mod passage;
mod peek;
mod reading;
mod report;
mod settings;
#[cfg(test)]
mod tests;
mod uncountable;
mod watch;

pub use api_fields::{ApiFields, FieldApi};
pub use charged::{Charged, ChargedCounter, ChargedLimit, MarkedSettlement};
pub use claims::{Claims, MAX_POLICIES, Skip};
pub use headers::{HeaderWriter, LimitFields, X_RATELIMIT_SOFT, varying};
pub use headroom::Headroom;
pub use joined::OtherLimit;
pub use judge::Judge;
pub use known::KnownClaim;
pub use lease::{Ending, Lease};
pub use limiter::RateLimiter;
pub use outcome::{Decision, Lacking, Outcome, OwnedDecision};
pub use peek::Peeked;
pub use reading::Reading;
pub use report::{REFUSING, Report, Reports, Ruling};
pub use settings::{Dialect, HeaderSettings};
pub use uncountable::Uncountable;
pub use watch::{Movement, Passage};
