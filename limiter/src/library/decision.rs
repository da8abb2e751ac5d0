//! The decision on a request.

use std::fmt;
use std::mem;
use std::time::Duration;

use http::HeaderMap;
use tollgate_core::decision::{self, OwnedDecision, Uncountable};
use tollgate_core::policy::TokenFault;

use super::report::wait;
use super::{Lease, Limiter, Reports};

/// What becomes of a request.
///
/// ```
/// # use tollgate_limiter::Outcome;
/// # use std::time::Duration;
/// let refused = Outcome::Refuse { retry: Some(Duration::from_secs(12)) };
/// assert_ne!(refused, Outcome::Admit { delay: Duration::ZERO });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It is admitted.
    Admit {
        /// The time that it must wait before it goes on. Only a leaky bucket delays requests.
        delay: Duration,
    },
    /// It is beyond a limit. Nothing was counted.
    Refuse {
        /// The time after which it fits, if no other request consumes meanwhile. None: it costs
        /// more than the limit can ever admit.
        retry: Option<Duration>,
    },
    /// It cannot be judged now, and a policy refuses such requests.
    Unavailable,
    /// It lacks the key by which a policy counts, or a policy cannot count it: see
    /// [`Decision::missing`].
    KeyMissing,
}

/// Why a request has no key, or cannot be counted by it.
///
/// ```
/// # use tollgate_limiter::{Key, Limiter, Missing, Policy};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Ip, "5/s".parse()?)).build()?;
/// let (head, ()) = http::Request::get("/").body(())?.into_parts();
/// let unknown_peer = limiter.check_request(&[limiter.policy("p")?], &head, None).await;
/// assert_eq!(unknown_peer.missing(), Some(Missing::Peer));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// The request does not have it.
    Key,
    /// The request has no bearer token.
    Token,
    /// The bearer token of the request is not valid, or is longer than 16 KiB.
    ValidToken,
    /// The request can be read in two ways.
    Ambiguous,
    /// The application has passed no address of the peer.
    Peer,
    /// It has a key, but the limit of its API key or team is not in the units of the policy.
    UnfitLimit,
    /// It has a key, but the policy counts money, and the model of the request has no price.
    UnpricedModel,
}

/// The decision on a request. It owns all its data.
///
/// If it is dropped, units in flight are given back, and everything else stays charged. See
/// [`into_lease`](Self::into_lease).
///
/// ```
/// # use tollgate_limiter::{Key, Limiter, Policy};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Custom, "5/s".parse()?)).build()?;
/// let decision = limiter.check(&limiter.policy("p")?, "ann").await;
/// for report in decision.reports() {
///     println!("{report}");
/// }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the request may be refused, and dropping the decision ends the request"]
pub struct Decision {
    judged: OwnedDecision,
    limiter: Limiter,
    missing: Option<Missing>,
    is_cross_origin: bool,
}

impl Decision {
    pub(super) const fn new(
        judged: OwnedDecision,
        limiter: Limiter,
        missing: Option<Missing>,
        is_cross_origin: bool,
    ) -> Self {
        Self { judged, limiter, missing, is_cross_origin }
    }

    /// What becomes of the request.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Outcome, Policy};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Custom, "5/s".parse()?)).build()?;
    /// let too_much = limiter.check_n(&limiter.policy("p")?, "ann", 6).await;
    /// assert_eq!(too_much.outcome(), Outcome::Refuse { retry: None });
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn outcome(&self) -> Outcome {
        use decision::Outcome as Judged;
        if self.missing.is_some() {
            return Outcome::KeyMissing;
        }
        match &self.judged.outcome {
            Judged::Admit => Outcome::Admit { delay: self.judged.delay.into() },
            Judged::Refuse(retry) => Outcome::Refuse { retry: wait(*retry) },
            Judged::Unavailable(_) | Judged::Unverifiable(..) => Outcome::Unavailable,
            Judged::Deny(_)
            | Judged::Ambiguous(_)
            | Judged::Unauthorized(..)
            | Judged::Uncountable(..)
            // Only the gateway has access lists and routes that demand credentials.
            | Judged::Denied(_)
            | Judged::Unauthenticated(_) => Outcome::KeyMissing,
        }
    }

    /// Whether the request is admitted.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Custom, "5/s".parse()?)).build()?;
    /// assert!(limiter.check_n(&limiter.policy("p")?, "ann", 5).await.is_admitted());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_admitted(&self) -> bool {
        matches!(self.outcome(), Outcome::Admit { .. })
    }

    /// Why the request has no key, or cannot be counted by it, if the outcome is
    /// [`Outcome::KeyMissing`].
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Missing, OnMissingKey, Policy};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let policy = Policy::new("p", Key::ApiKey, "5/s".parse()?).on_missing_key(OnMissingKey::Deny);
    /// let limiter = Limiter::builder().policy(policy).build()?;
    /// let (head, ()) = http::Request::get("/").body(())?.into_parts();
    /// let decision = limiter.check_request(&[limiter.policy("p")?], &head, None).await;
    /// assert_eq!(decision.missing(), Some(Missing::Key));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn missing(&self) -> Option<Missing> {
        use decision::Outcome as Judged;
        self.missing.or(match &self.judged.outcome {
            Judged::Deny(_) => Some(Missing::Key),
            Judged::Ambiguous(_) => Some(Missing::Ambiguous),
            Judged::Unauthorized(_, TokenFault::Missing) => Some(Missing::Token),
            Judged::Unauthorized(_, TokenFault::Invalid | TokenFault::TooLong) => {
                Some(Missing::ValidToken)
            }
            Judged::Uncountable(_, Uncountable::KeyLimit) => Some(Missing::UnfitLimit),
            Judged::Uncountable(_, Uncountable::Model) => Some(Missing::UnpricedModel),
            Judged::Admit
            | Judged::Refuse(_)
            | Judged::Unavailable(_)
            | Judged::Unverifiable(..)
            | Judged::Denied(_)
            | Judged::Unauthenticated(_) => None,
        })
    }

    /// The reports of the policies that have judged the request.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Custom, "5/s".parse()?)).build()?;
    /// let decision = limiter.check_n(&limiter.policy("p")?, "ann", 2).await;
    /// let remaining: Vec<u64> = decision.reports().map(|report| report.remaining()).collect();
    /// assert_eq!(remaining, [3]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn reports(&self) -> Reports<'_> {
        Reports::new(&self.judged.reports)
    }

    /// Writes the fields about limits into the header of a response. Fields that tell less
    /// remaining units stay.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Custom, "5/s".parse()?)).build()?;
    /// let mut fields = http::HeaderMap::new();
    /// limiter.check(&limiter.policy("p")?, "ann").await.write_headers(&mut fields);
    /// assert_eq!(fields["x-ratelimit-remaining"], "4");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_headers(&self, fields: &mut HeaderMap) {
        self.limiter.headers().write(&self.judged, self.is_cross_origin, fields);
    }

    /// The lease of the request, by which its cost can be settled.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Custom, "5/s".parse()?)).build()?;
    /// let policy = limiter.policy("p")?;
    /// limiter.check_n(&policy, "ann", 5).await.into_lease().give_back();
    /// assert!(limiter.check_n(&policy, "ann", 5).await.is_admitted());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_lease(mut self) -> Lease {
        self.judged.lease.open_all(&self.judged.reports);
        self.take_lease()
    }

    /// The lease that the end of the response settles. The decision has none afterwards.
    pub(crate) fn take_lease(&mut self) -> Lease {
        Lease::new(mem::take(&mut self.judged.lease), self.limiter.clone())
    }
}

#[cfg(feature = "tower")]
impl Decision {
    /// The same decision for a request that is not admitted, because too many are delayed. It uses
    /// none of its limits.
    pub(crate) fn crowded_out(&mut self) {
        self.judged.lease.open_all(&self.judged.reports);
        self.take_lease().give_back();
        self.judged.outcome = decision::Outcome::Unavailable(tollgate_core::time::Span::SECOND);
    }

    pub(crate) const fn judged(&self) -> &OwnedDecision {
        &self.judged
    }
}

impl Drop for Decision {
    fn drop(&mut self) {
        if !self.judged.lease.is_empty() {
            drop(self.take_lease());
        }
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reports: Vec<String> = self.reports().map(|report| report.to_string()).collect();
        let outcome = self.outcome();
        f.debug_struct("Decision").field("outcome", &outcome).field("reports", &reports).finish()
    }
}
