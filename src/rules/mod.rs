//! Which policies judge a request, and under which keys. Pure: nothing in here
//! does I/O or reads a clock.
//!
//! [`Rules::select`] finds the route, [`Rules::subject`] says who asks, and
//! [`Subject::key`], [`Subject::limit`] and [`Subject::cost`] which counter each
//! policy of the route uses for them, up to which limit, and how much. What a
//! client sends is believed only as far as it can do no harm: forwarding fields
//! and user fields from trusted peers, tokens with a good signature, and values
//! only if no backend could read another one.

mod cidr;
mod client;
mod client_ip;
mod cost;
mod counter;
mod fields;
mod forwarded;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod geo;
mod guarded;
mod host;
mod jwt;
mod key;
mod key_text;
mod override_limit;
mod pairs;
mod params;
mod partition;
mod path;
mod path_match;
mod plan;
mod policy;
mod preflight;
mod route;
mod router;
mod subject;
#[cfg(test)]
mod tests;
mod value;

pub use client::{
    ApiKeySettings, ClientSettings, ForwardedHeader, JwtSettings, TokenKeys, UserSource,
    VerifyingKey,
};
pub use counter::Beside;
#[cfg(test)]
pub(crate) use geo::writer as geo_writer;
pub use geo::{GeoCode, GeoCodeError, GeoDatabase, GeoError};
pub use host::{HostPattern, HostPatternError};
pub use jwt::{KeyError, KeySet, PublishedKeys, RefreshRequest};
pub use key::{KeyExpr, KeyExprError};
pub use key_text::{KeyTextError, KeyTexts};
pub use override_limit::OverrideLimit;
pub use params::Params;
pub use partition::KeyFor;
pub use path::{MAX_SEGMENTS, PathPattern, PathPatternError, Segment};
pub use path_match::PathMatch;
pub use plan::Limit;
pub use policy::{
    Cost, Count, Elastic, Exempt, MissingKey, Mode, Overridable, Penalty, Plan, Plans, Policy,
};
pub use preflight::Preflights;
pub use route::Route;
pub use subject::{Match, Rules, Subject, Unmatched};
