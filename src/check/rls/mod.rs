//! The rules of a rate limit service: which limits the descriptors of a request have, and what a
//! request is told after they were counted. Pure: this module does no I/O and reads no clock.
//!
//! The rules are those of a configuration directory of envoyproxy/ratelimit, read by
//! `config::ratelimit`. A request names a domain and lists descriptors. A descriptor is a list
//! of entries, each with a key and a value. The rules of a domain form a tree, and each entry of
//! a descriptor leads one level down. The descriptor has the limit of the node that its last
//! entry leads to, if that node has one. The meaning of each word is that of version 2026-07 of
//! <https://github.com/envoyproxy/ratelimit>; where it differs, the module concerned says so.
//!
//! | module | contents |
//! |---|---|
//! | `unit` | the windows of limits |
//! | `wildcard` | values with `*` |
//! | `written` | a descriptor in a configuration, and its mistakes |
//! | `tree` | the rules of a domain, and the search in them |
//! | `series` | the labels of a descriptor in metrics |
//! | `descriptor` | what a request asks |
//! | `native` | domains of the gateway's own policies |
//! | `plan` | the counters that a request uses, each one once |
//! | `answer` | the codes of descriptors and of the request |
//! | `settings` | what the configuration says |
//! | `tally` | what metrics count |

mod answer;
mod descriptor;
mod native;
mod plan;
mod series;
mod settings;
mod tally;
#[cfg(test)]
mod tests;
mod tree;
mod unit;
mod written;

pub use answer::{Answer, Status, answer};
pub use descriptor::{Descriptor, Entry, Hits, Override};
pub use native::{EntryMatch, NativeRule, Policies, plan as native_plan};
pub use plan::{Counted, Matched, Plan, Rules, Slot, Switches};
pub use series::Series;
pub use settings::{Dialect, InUse, RateLimits};
pub use tally::Tally;
pub use tree::{Amount, Domains, Duplicate, Level, Node, Rule};
pub use unit::Unit;
pub use written::{Findings, Place, Written, WrittenLimit};
