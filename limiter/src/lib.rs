//! Rate limits inside a service: the decisions of the gateway Tollgate, as a library.
//!
//! ```
//! use tollgate_limiter::{Key, Limiter, Policy};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let limiter = Limiter::builder()
//!     .policy(Policy::new("per-user", Key::User, "100/minute".parse()?))
//!     .build()?;
//! let decision = limiter.check(&limiter.policy("per-user")?, "ann", 1)?.await;
//! assert!(decision.is_admitted());
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Limiter`] is the central type. It works on any runtime: decisions by counters in memory are
//! made at once by the caller, and Redis is used on threads of its own. With the feature `tower`
//! there is a layer for axum, tonic and hyper.
//!
//! # Features
//!
//! None is on by default. Without features the crate needs no C, and few other crates.
//!
//! | feature | adds |
//! |---|---|
//! | `tower` | `RateLimitLayer`, for services of tower |
//! | `axum` | `tower`, and the layer finds the peer's address that axum keeps |
//! | `redis` | `Store::redis`: counters that processes and gateways share |
//! | `overrides` | `redis`, and limits of single keys |
//! | `jwt` | `Client::jwt`: users by verified tokens |
//!
//! # Layout
//!
//! A module may use those below it and none beside it. The upper rows are the library. The
//! others are private, except for the gateway, which uses them by the feature `gateway`. They
//! may change in any version.
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 0 | `time` | integer time and clocks |
//! | 1, pure | `request`, `digest`, `algorithm`, `consistency`, `meter`; `pem`; `text`; `drain` | a request as policies see it; keys; how requests are counted, and how exactly on many nodes; what a response says it cost; certificates and keys in files; characters that people can read; stopping |
//! | 2 | `policy`, `store` | which counters a request uses under which limits; storage of counters |
//! | 3 | `decision` | the decision of all policies on a request, its response fields, and the settlement at its end |
//! | 4 | `shared` | decisions from any thread |
//! | 5 | `library` | what an application writes and reads |
//! | 6 | `layer` | limits around a service |

// On docs.rs, items show the feature that they need.
#![cfg_attr(docsrs, feature(doc_cfg))]
// Without these features, types without values replace their types.
#![cfg_attr(
    not(all(feature = "jwt", feature = "overrides")),
    allow(unreachable_code, unused_variables)
)]
// Each module is declared twice, because visibility cannot depend on a feature, and rustfmt does
// not find modules that a macro declares.
// Without the gateway, parts of the private modules have no user.
#![cfg_attr(not(feature = "gateway"), allow(dead_code, unreachable_pub, unused_imports))]

#[cfg(not(feature = "gateway"))]
mod algorithm;
#[cfg(feature = "gateway")]
pub mod algorithm;
#[cfg(not(feature = "gateway"))]
mod consistency;
#[cfg(feature = "gateway")]
pub mod consistency;
#[cfg(not(feature = "gateway"))]
mod decision;
#[cfg(feature = "gateway")]
pub mod decision;
#[cfg(not(feature = "gateway"))]
mod digest;
#[cfg(feature = "gateway")]
pub mod digest;
#[cfg(not(feature = "gateway"))]
mod drain;
#[cfg(feature = "gateway")]
pub mod drain;
#[cfg(feature = "tower")]
mod layer;
mod library;
#[cfg(not(feature = "gateway"))]
mod meter;
#[cfg(feature = "gateway")]
pub mod meter;
#[cfg(all(feature = "jwt", not(feature = "gateway")))]
mod pem;
#[cfg(all(feature = "jwt", feature = "gateway"))]
pub mod pem;
#[cfg(not(feature = "gateway"))]
mod policy;
#[cfg(feature = "gateway")]
pub mod policy;
#[cfg(not(feature = "gateway"))]
mod request;
#[cfg(feature = "gateway")]
pub mod request;
mod shared;
#[cfg(not(feature = "gateway"))]
mod store;
#[cfg(feature = "gateway")]
pub mod store;
#[cfg(not(feature = "gateway"))]
mod text;
#[cfg(feature = "gateway")]
pub mod text;
#[cfg(not(feature = "gateway"))]
mod time;
#[cfg(feature = "gateway")]
pub mod time;

#[cfg(feature = "tower")]
pub use layer::{LimitedBody, RateLimit, RateLimitLayer, Refusal, Refuse, ResponseFuture};
#[cfg(feature = "gateway")]
pub use library::Parts;
#[cfg(feature = "redis")]
pub use library::RedisUrlError;
pub use library::{
    Algorithm, BuildError, Check, Client, Clock, Counting, Decision, Dialect, Key, KeyError, Lease,
    Limit, LimitError, Limiter, LimiterBuilder, MAX_POLICIES, Missing, OnMissingKey,
    OnStoreFailure, Outcome, ParseKeyError, Plans, Policy, PolicyHandle, Report, Reports, Settle,
    Store, UnknownPolicy,
};
#[cfg(feature = "jwt")]
pub use library::{Jwt, JwtError};
pub use store::{Outage, OutageCause};

/// The examples of the README are compiled and run.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../README.md")]
struct Readme;
