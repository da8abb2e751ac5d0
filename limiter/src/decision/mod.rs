//! Deciding: all policies of a route at once, and what clients are told of it.
//!
//! A decision has two halves. [`Claims`] say what each policy asks of the store:
//! keys, limits and costs, all from the request, computed at once. The judgement
//! over them needs the store and nothing of the request, so it can be made on
//! another thread. What the verdicts come to is a pure function again. A judgement
//! has at most three steps, of which all but the first are rare. Before them stand
//! the limits of single keys, where a policy may have such (`overrides`).
//!
//! 1. All policies are asked together, and whether the client is banned by one
//!    of them. If all admit the request, it is counted, otherwise nothing is.
//! 2. If only elastic policies refuse, and the upstream has room, the request is
//!    asked for once more, with what they refused counted beyond their limits.
//! 3. A refusal by a policy with a penalty is counted, and may bring a ban.

mod claim;
mod claims;
mod headers;
mod headroom;
mod judge;
mod lease;
mod limiter;
mod moment;
mod outcome;
mod overrides;
mod report;
mod settings;
#[cfg(test)]
mod tests;

pub use claims::{Claims, MAX_POLICIES};
pub use headers::{HeaderWriter, X_RATELIMIT_SOFT};
pub use headroom::Headroom;
pub use judge::Judge;
pub use lease::{Ending, Lease};
pub use limiter::RateLimiter;
pub use outcome::{Decision, Lacking, Outcome, OwnedDecision};
pub use report::{Report, Reports, Ruling};
pub use settings::{Dialect, HeaderSettings};
