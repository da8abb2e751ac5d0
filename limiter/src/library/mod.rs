//! The library for applications: limits inside a service, on any runtime.
//!
//! Everything here is a promise to the users of the crate. It is a thin layer: policies are
//! written as an application reads them and compiled to those that gateways use, and the
//! decisions are those of [`SharedLimiter`](crate::shared::SharedLimiter).

mod builder;
mod check;
mod client;
mod clock;
mod compile;
mod decision;
mod error;
mod handle;
#[cfg(feature = "keys")]
mod identity;
#[cfg(feature = "jwt")]
mod jwt;
mod key;
mod key_source;
#[cfg(feature = "keys")]
mod keys;
mod lease;
mod limit;
mod limiter;
mod lookup;
mod policy;
mod report;
mod store;
#[cfg(test)]
mod tests;
mod until_ready;
mod values;
mod words;

pub use builder::LimiterBuilder;
pub use builder::Parts;
pub use check::Check;
pub use client::Client;
pub use clock::Clock;
pub use decision::{Decision, Missing, Outcome};
pub use error::{BuildError, KeyError, PolicyFault, UnknownPolicy};
pub use handle::{Limiter, PolicyHandle};
#[cfg(feature = "keys")]
pub use identity::{Authentication, Identity, KeyFault, KnownApiKey};
#[cfg(feature = "jwt")]
pub use jwt::{Jwt, JwtError};
pub use key::{Key, ParseKeyError};
pub use key_source::KeySource;
#[cfg(feature = "keys")]
pub use keys::{ApiKey, ApiKeyError, Keys, ReplaceableKeys};
pub use lease::Lease;
pub use limit::{Limit, LimitError};
pub use limiter::MAX_POLICIES;
pub use policy::Policy;
pub use report::{Report, Reports};
#[cfg(feature = "redis")]
pub use store::RedisUrlError;
pub use store::Store;
pub use words::{Plans, Settle};

pub(crate) use tollgate_core::algorithm::AlgorithmKind as Algorithm;
pub(crate) use tollgate_core::consistency::{OnFailure as OnStoreFailure, StoreMode as Counting};
pub use tollgate_core::decision::Dialect;
pub(crate) use tollgate_core::policy::MissingKey as OnMissingKey;
