//! The errors of limiters.

use std::io;

use tollgate_core::policy::KeyTextError;

/// A limiter that cannot be built.
///
/// ```
/// use tollgate_limiter::{Algorithm, Key, Limiter, Policy};
///
/// let policy = Policy::new("queue", Key::Ip, "5/s".parse()?).algorithm(Algorithm::LeakyBucket);
/// let error = Limiter::builder().policy(policy).build().unwrap_err();
/// assert_eq!(error.to_string(), "the policy \"queue\": a leaky bucket needs max_delay");
/// # Ok::<_, tollgate_limiter::LimitError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A policy contradicts itself, or a value is out of its range.
    #[error("the policy \"{name}\": {problem}")]
    Policy {
        /// The name of the policy.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// Two policies have the same name.
    #[error("there are two policies \"{0}\": give one of them another name")]
    SameName(String),
    /// Redis could not distinguish the counters of two policies.
    #[error(
        "Redis cannot distinguish the counters of the policies \"{0}\" and \"{1}\": give one of \
         them another name"
    )]
    SameCounter(String, String),
    /// The settings that recognise clients are wrong.
    #[error("the client: {0}")]
    Client(String),
    /// A thread for the store cannot be started.
    #[error("cannot start a thread for the store: {0}")]
    Thread(#[from] io::Error),
}

/// A name that no policy of the limiter has.
///
/// ```
/// let limiter = tollgate_limiter::Limiter::builder().build()?;
/// let error = limiter.policy("per-client").unwrap_err();
/// assert_eq!(error.to_string(), "there is no policy \"per-client\"");
/// # Ok::<_, tollgate_limiter::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no policy \"{0}\"")]
pub struct UnknownPolicy(pub(super) String);

/// A text that cannot be the key of a policy.
///
/// ```
/// use tollgate_limiter::{Key, Limiter, Policy};
///
/// let limiter =
///     Limiter::builder().policy(Policy::new("p", Key::Ip, "5/s".parse()?)).build()?;
/// let error = limiter.check(&limiter.policy("p")?, "localhost", 1).unwrap_err();
/// assert!(error.to_string().contains("write an address, like 192.0.2.7"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct KeyError(#[from] KeyTextError);
