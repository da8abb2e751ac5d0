//! The errors of limiters.

use std::{fmt, io};

use tollgate_core::policy::KeyTextError;
use tollgate_core::policy::spec::{Field, Remark};

/// A limiter that cannot be built.
///
/// ```
/// use tollgate_limiter::{Algorithm, BuildError, Key, Limiter, Policy};
///
/// let policy = Policy::new("queue", Key::Ip, "5/s".parse()?).algorithm(Algorithm::LeakyBucket);
/// let error = Limiter::builder().policy(policy).build().unwrap_err();
/// let BuildError::Policies(faults) = error else { panic!("the policy is wrong: {error}") };
/// assert_eq!((faults[0].policy(), faults[0].field()), ("queue", "algorithm"));
/// assert_eq!(faults[0].message(), "a leaky_bucket needs \"max_delay\"");
/// # Ok::<_, tollgate_limiter::LimitError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Policies contradict themselves, or values are out of their ranges. All faults of all
    /// policies are here.
    #[error("{}", lines(.0))]
    Policies(Vec<PolicyFault>),
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
    /// Settings of the store are out of their ranges. All of them are here.
    #[error("the store: {0}")]
    Store(String),
    /// A thread for the store cannot be started.
    #[error("cannot start a thread for the store: {0}")]
    Thread(#[from] io::Error),
}

fn lines(faults: &[PolicyFault]) -> String {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// What is wrong with one field of a policy, in the words of a `gateway.yaml`.
///
/// ```
/// use tollgate_limiter::{BuildError, Key, Limiter, Policy};
///
/// let policy = Policy::new("p", Key::Ip, "5/s".parse()?).burst(10);
/// let error = Limiter::new(policy).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "the policy \"p\": \"burst\" belongs to the algorithm token_bucket or leaky_bucket; \
///      leave it out, or choose token_bucket or leaky_bucket"
/// );
/// # Ok::<_, tollgate_limiter::LimitError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFault {
    policy: String,
    field: &'static str,
    remark: Remark,
}

impl PolicyFault {
    pub(super) fn new(policy: &str, field: &Field, remark: Remark) -> Self {
        Self { policy: policy.to_owned(), field: field.path(), remark }
    }

    /// The fault of a text that cannot be read.
    pub(super) fn unread(policy: &str, field: &Field, why: &str) -> Self {
        let remark = Remark { message: why.replace('`', "\""), advice: String::new() };
        Self::new(policy, field, remark)
    }

    /// The name of the policy.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The field, by its path in a policy of a `gateway.yaml`: `burst`, `plans.limits`. The
    /// methods of [`Policy`](crate::Policy) have these names or begin with them.
    pub const fn field(&self) -> &'static str {
        self.field
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.remark.message
    }

    /// What would be right. It may be empty.
    pub fn advice(&self) -> &str {
        &self.remark.advice
    }
}

impl fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the policy \"{}\": {}", self.policy, self.remark.message)?;
        if !self.remark.advice.is_empty() {
            write!(f, "; {}", self.remark.advice)?;
        }
        Ok(())
    }
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
/// let error = limiter.check_text(&limiter.policy("p")?, "localhost", 1).unwrap_err();
/// assert!(error.to_string().contains("write an address, like 192.0.2.7"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct KeyError(#[from] KeyTextError);
