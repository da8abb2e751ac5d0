//! The checks of a limiter.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use http::header::ORIGIN;
use http::request;
use tollgate_core::algorithm::MAX_LIMIT;
use tollgate_core::decision::{Claims, Outcome};
use tollgate_core::digest::Principal;
use tollgate_core::policy::{Cost, KeyTexts, Policy};
use tollgate_core::request::RequestView;
use tollgate_core::store::Outage;
use tollgate_core::time::Timestamp;

use super::check::Judging;
use super::handle::Inner;
use super::lookup::{LookedUp, Lookup, Waiting};
use super::{Check, KeyError, Limiter, Missing, PolicyHandle, UnknownPolicy};
use crate::shared::SharedLimiter;

/// The most policies that may judge one request.
///
/// ```
/// assert_eq!(tollgate_limiter::MAX_POLICIES, 16);
/// ```
pub const MAX_POLICIES: usize = tollgate_core::decision::MAX_POLICIES;

/// The address of a peer, which may not be known.
fn address_of(peer: Option<IpAddr>) -> IpAddr {
    peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

/// The outcome of a request that no policy judges, and why it has no key.
type Unjudged = (Outcome<Arc<Policy>>, Option<Missing>);

impl Limiter {
    /// The policy of this name.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy};
    /// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Ip, "5/s".parse()?)).build()?;
    /// let policy = limiter.policy("p")?;
    /// assert!(limiter.policy("q").is_err());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If there is none.
    pub fn policy(&self, name: &str) -> Result<PolicyHandle, UnknownPolicy> {
        let policy = self.0.policies.iter().find(|policy| *policy.name == *name);
        policy.cloned().map(PolicyHandle).ok_or_else(|| UnknownPolicy(name.to_owned()))
    }

    /// All policies, in the order in which they were added.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy};
    /// let limiter = Limiter::new(Policy::new("p", Key::User, "5/s".parse()?))?;
    /// let policy = limiter.policies().next().expect("there is one");
    /// assert_eq!(policy.name(), "p");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn policies(&self) -> impl Iterator<Item = PolicyHandle> {
        self.0.policies.iter().cloned().map(PolicyHandle)
    }

    /// Charges what the policy costs for a value of your own, such as a tenant or a job. It cannot
    /// fail: any value has a counter of its own, and so has each policy. The plans and exemptions
    /// of the policy, which depend on requests, have no effect. Of a cost that depends on the
    /// request or its response, the part that is known before counts: the default or the reserve.
    ///
    /// The policy has the key [`Key::Custom`](crate::Key::Custom). If it has another key, the value
    /// has a counter apart from those of requests: see [`check_text`](Self::check_text).
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let policy = Policy::new("jobs", Key::Custom, "2/minute".parse()?);
    /// let (limiter, [jobs]) = Limiter::builder().build_with([policy])?;
    /// assert!(limiter.check(&jobs, "tenant-42").await.is_admitted());
    /// // With counters in memory, there is nothing to wait for.
    /// let decision = limiter.check(&jobs, "tenant-42").now().expect("it is in memory");
    /// assert!(decision.is_admitted());
    /// assert!(!limiter.check(&jobs, "tenant-42").await.is_admitted());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self, policy: &PolicyHandle, value: impl AsRef<[u8]>) -> Check {
        let units = match policy.0.cost {
            Cost::Fixed(units) => units,
            Cost::Field { default, .. } => default,
            Cost::Body { .. } | Cost::Calls => 1,
            Cost::Metered { reserve, .. } => reserve,
        };
        let claims = Self::claims_of(policy, self.0.clients.custom(value.as_ref()), units);
        // The most that an estimate may be can be above the limit.
        let is_estimate = policy.0.cost.reservation().is_some();
        self.check_claims(if is_estimate { claims.estimated() } else { claims })
    }

    /// Charges `units` for a value of your own. See [`check`](Self::check).
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let policy = Policy::new("tokens", Key::Custom, "100k/minute".parse()?);
    /// let (limiter, [tokens]) = Limiter::builder().build_with([policy])?;
    /// let decision = limiter.check_n(&tokens, "tenant-42", 2000).await;
    /// assert!(decision.is_admitted());
    /// decision.into_lease().settle(1500);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_n(&self, policy: &PolicyHandle, value: impl AsRef<[u8]>, units: u64) -> Check {
        self.check_claims(Self::claims_of(policy, self.0.clients.custom(value.as_ref()), units))
    }

    /// Charges `units` for the counter of requests with this key, without a request. The plans and
    /// exemptions of the policy, which depend on requests, have no effect.
    ///
    /// The key is written as for `tollgate override`: the value alone, or
    /// `user=ann&path=/orders` for a policy whose key has several parts.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let policy = Policy::new("per-client", Key::Ip, "100/minute".parse()?);
    /// let (limiter, [per_client]) = Limiter::builder().build_with([policy])?;
    /// let decision = limiter.check_text(&per_client, "192.0.2.7", 1)?.await;
    /// assert!(decision.is_admitted());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the policy cannot have this key.
    pub fn check_text(
        &self,
        policy: &PolicyHandle,
        key: &str,
        units: u64,
    ) -> Result<Check, KeyError> {
        let clients = &self.0.clients;
        let client = clients.settings();
        let secret = clients.secret();
        let texts = KeyTexts { client, secret, is_route: &|_| false };
        let principal = texts.principal(&policy.0.key, key)?;
        Ok(self.check_claims(Self::claims_of(policy, principal, units)))
    }

    /// The claims of one policy for a client without a request.
    fn claims_of(policy: &PolicyHandle, client: Principal, units: u64) -> Claims<Arc<Policy>> {
        // No limit admits more than the largest limit.
        Claims::of_client(&policy.0, client, units.min(MAX_LIMIT + 1))
    }

    fn check_claims(&self, claims: Claims<Arc<Policy>>) -> Check {
        let check = SharedLimiter::check(self.clone(), claims);
        Check::new(Judging { check, missing: None, is_cross_origin: false })
    }

    /// Judges a request by these policies together: all of them admit it, or none counts it. A
    /// policy that occurs twice counts once.
    ///
    /// `peer` is the address at the other end of the connection. Without it, a request is
    /// admitted only if no policy needs the client's address.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Ip, "5/s".parse()?)).build()?;
    /// let (head, _body) = http::Request::get("http://example.com/").body(())?.into_parts();
    /// let peer = Some([192, 0, 2, 7].into());
    /// let decision = limiter.check_request(&[limiter.policy("p")?], &head, peer).await;
    /// assert!(decision.is_admitted());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If there are more than [`MAX_POLICIES`].
    pub fn check_request(
        &self,
        policies: &[PolicyHandle],
        head: &request::Parts,
        peer: Option<IpAddr>,
    ) -> Check {
        assert!(policies.len() <= MAX_POLICIES, "at most {MAX_POLICIES} policies judge a request");
        match self.look_up_of(head, address_of(peer)) {
            Lookup::Now(key) => Check::new(self.judge_request(policies, head, peer, key)),
            Lookup::Later(key) => {
                let limiter = self.clone();
                let policies = policies.to_vec();
                Check::after(key, Waiting { limiter, policies, head: head.clone(), peer })
            }
        }
    }

    /// Judges a request whose key was looked up.
    pub(super) fn judge_request(
        &self,
        policies: &[PolicyHandle],
        head: &request::Parts,
        peer: Option<IpAddr>,
        key: LookedUp,
    ) -> Judging {
        let is_cross_origin = head.headers.contains_key(ORIGIN);
        let (check, missing) = match self.claims(policies, head, peer, key) {
            Ok(claims) => (SharedLimiter::check(self.clone(), claims), None),
            Err((outcome, missing)) => (SharedLimiter::known(self.clone(), outcome), missing),
        };
        Judging { check, missing, is_cross_origin }
    }

    /// The claims of these policies for a request. Otherwise why there are none.
    fn claims(
        &self,
        policies: &[PolicyHandle],
        head: &request::Parts,
        peer: Option<IpAddr>,
        key: LookedUp,
    ) -> Result<Claims<Arc<Policy>>, Unjudged> {
        let unread = |missing| (Outcome::Admit, Some(missing));
        let address = address_of(peer);
        let view =
            RequestView::of_service(head, address).map_err(|_| unread(Missing::Ambiguous))?;
        // An unknown peer is not a trusted proxy.
        let view = view.with_forwarding(peer.is_some());
        let Inner { clients, reads_time, .. } = &*self.0;
        let now = if *reads_time { self.clock().wall() } else { Timestamp::default() };
        let subject = clients.subject(&view, None, now);
        self.answer_key(&subject, key);
        let first_named = |(index, handle): &(usize, &PolicyHandle)| {
            !policies[..*index].iter().any(|before| before.0.counter == handle.0.counter)
        };
        let once = policies.iter().enumerate().filter(first_named).map(|(_, handle)| &handle.0);
        let claims = Claims::new(once, &subject);
        if peer.is_none() && subject.has_found_client() {
            return Err(unread(Missing::Peer));
        }
        match claims {
            Ok(claims) => Ok(claims.into_owned().settling()),
            Err(outcome) => Err((outcome.into_owned(), None)),
        }
    }

    /// Waits until Redis can be asked, or should not be waited for any longer. A service that
    /// calls it before it accepts requests counts its first requests in Redis, too. With
    /// counters in memory it returns at once.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// # let limiter = tollgate_limiter::Limiter::builder().build()?;
    /// limiter.ready().await;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub async fn ready(&self) {
        self.0.shared.ready().await;
    }

    /// The servers of the store that are not used, each with its cause and the remedy. Meanwhile
    /// policies decide as [`on_store_failure`](crate::Policy::on_store_failure) says. The log
    /// (`tracing`) has the same. With counters in memory there are none.
    ///
    /// ```
    /// # let limiter = tollgate_limiter::Limiter::builder().build()?;
    /// assert!(limiter.outages().is_empty());
    /// # Ok::<_, tollgate_limiter::BuildError>(())
    /// ```
    pub fn outages(&self) -> Vec<Outage> {
        self.0.shared.outages()
    }

    /// Sends the last counts to Redis, before the process ends. For later checks the store is
    /// not available. With counters in memory it has no effect.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// # let limiter = tollgate_limiter::Limiter::builder().build()?;
    /// limiter.close().await;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub async fn close(&self) {
        self.0.shared.close().await;
    }
}
