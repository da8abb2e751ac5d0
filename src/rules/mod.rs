//! Which policies judge a request, and under which keys. Pure.

mod client;
mod key;
mod policy;
mod route;

pub use client::{
    ApiKeySettings, ClientSettings, ForwardedHeader, JwtSettings, UserSource, VerifyingKey,
};
pub use key::KeyExpr;
pub use policy::{Exempt, MissingKey, Policy};
pub use route::{HostPattern, PathPattern, Route, Segment};

mod subject;
pub use subject::{KeyFor, Match, Params, Rules, Subject};
