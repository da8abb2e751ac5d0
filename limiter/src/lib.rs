//! Rate limits inside a service: the decisions of the gateway Tollgate, as a library.
//!
//! ```
//! use tollgate_limiter::{Key, Limiter, Policy};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let policy = Policy::new("per-tenant", Key::Custom, "100/minute".parse()?);
//! let (limiter, [per_tenant]) = Limiter::builder().build_with([policy])?;
//! let decision = limiter.check(&per_tenant, "tenant-42").await;
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
//! | `calendar` | fixed windows by the calendar of a time zone |
//! | `redis` | `Store::redis`: counters that processes and gateways share, and limits of single keys |
//! | `jwt` | `Client::jwt`: users by verified tokens |
//! | `keys` | `Client::keys` and `Limiter::authenticate`: known API keys |
//!
//! # Layout
//!
//! This crate is the public face. The decisions are in `tollgate-core`, and the counters that
//! processes share in `tollgate-redis`. Both are published as parts of this crate only, and promise
//! no stable interface. A module may use those below it and none beside it.
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 1 | `shared` | decisions from any thread |
//! | 2 | `library` | what an application writes and reads |
//! | 3 | `layer` | limits around a service |

// On docs.rs, items show the feature that they need.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "tower")]
mod layer;
mod library;
mod shared;

#[cfg(feature = "tower")]
pub use layer::{LimitedBody, RateLimit, RateLimitLayer, Refusal, Refuse, ResponseFuture};
#[cfg(feature = "redis")]
pub use library::RedisUrlError;
#[cfg(feature = "keys")]
pub use library::{
    ApiKey, ApiKeyError, Authentication, Identity, KeyFault, Keys, KnownApiKey, ReplaceableKeys,
};
pub use library::{
    BuildError, Check, Client, Clock, Decision, Dialect, Key, KeyError, Lease, Limit, LimitError,
    Limiter, LimiterBuilder, MAX_POLICIES, Missing, Outcome, ParseKeyError, Plans, Policy,
    PolicyFault, PolicyHandle, Report, Reports, Settle, Store, UnknownPolicy,
};
#[cfg(feature = "jwt")]
pub use library::{Jwt, JwtError};
#[doc(hidden)]
pub use library::{KeySource, Parts};

/// ```
/// # use tollgate_limiter::{Algorithm, Key, Policy};
/// let uploads = Policy::new("uploads", Key::User, "5".parse()?).algorithm(Algorithm::Concurrency);
/// # Ok::<_, tollgate_limiter::LimitError>(())
/// ```
pub use tollgate_core::algorithm::AlgorithmKind as Algorithm;
/// ```
/// # use tollgate_limiter::{Key, OnStoreFailure, Policy};
/// let logins = Policy::new("logins", Key::Ip, "5/minute".parse()?)
///     .on_store_failure(OnStoreFailure::Deny);
/// # Ok::<_, tollgate_limiter::LimitError>(())
/// ```
pub use tollgate_core::consistency::OnFailure as OnStoreFailure;
/// ```
/// # use tollgate_limiter::{Counting, Key, Policy};
/// let reads = Policy::new("reads", Key::ApiKey, "1M/hour".parse()?).counting(Counting::Leased);
/// # Ok::<_, tollgate_limiter::LimitError>(())
/// ```
pub use tollgate_core::consistency::StoreMode as Counting;
/// ```
/// # use tollgate_limiter::{Key, OnMissingKey, Policy};
/// let keyed = Policy::new("keyed", Key::ApiKey, "100/minute".parse()?)
///     .on_missing_key(OnMissingKey::Deny);
/// # Ok::<_, tollgate_limiter::LimitError>(())
/// ```
pub use tollgate_core::policy::MissingKey as OnMissingKey;
pub use tollgate_core::store::{Outage, OutageCause};

/// The examples of the README are compiled and run.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../README.md")]
struct Readme;
