//! Builds a limiter.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use tollgate_core::consistency::StoreMode;
use tollgate_core::decision::{Dialect, HeaderSettings, HeaderWriter};
use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::policy::spec::{ClientFacts, Facts, Written};
use tollgate_core::policy::{self, ClientSettings, Clients};
use tollgate_core::store::overrides::SharedOverrides;
use tollgate_core::store::{MemoryStore, SharedStore};
use tollgate_core::time;

use super::handle::Inner;
use super::key_source::KeySource;
use super::{BuildError, Client, Clock, Limiter, Policy, PolicyHandle, Store};
use crate::shared::{LaneStore, SharedLimiter};

/// Builds a [`Limiter`].
///
/// ```
/// use tollgate_limiter::{Key, Limiter, Policy};
///
/// let limiter = Limiter::builder()
///     .policy(Policy::new("per-client", Key::Ip, "100/minute".parse()?))
///     .build()?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct LimiterBuilder {
    policies: Vec<Policy>,
    client: Client,
    store: Store,
    clock: Clock,
    headers: HeaderSettings,
}

impl LimiterBuilder {
    /// Adds a policy.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy};
    /// let builder = Limiter::builder().policy(Policy::new("p", Key::Ip, "5/s".parse()?));
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policies.push(policy);
        self
    }

    /// Where the counters are. Without it, in memory.
    ///
    /// ```
    /// # use tollgate_limiter::{Limiter, Store};
    /// let builder = Limiter::builder().store(Store::memory(100_000));
    /// ```
    pub fn store(self, store: Store) -> Self {
        Self { store, ..self }
    }

    /// How the client of a request is recognised. Without it, by the address of the peer.
    ///
    /// ```
    /// # use tollgate_limiter::{Client, Limiter};
    /// let builder = Limiter::builder().client(Client::new().trusted_proxy("10.0.0.0/8"));
    /// ```
    pub fn client(self, client: Client) -> Self {
        Self { client, ..self }
    }

    /// The time of decisions, for tests. Without it, the system's.
    ///
    /// ```
    /// # use tollgate_limiter::{Clock, Limiter};
    /// let builder = Limiter::builder().clock(Clock::manual());
    /// ```
    pub fn clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// The families of header fields that tell clients about their limits. Without it, all.
    ///
    /// ```
    /// # use tollgate_limiter::{Dialect, Limiter};
    /// let builder = Limiter::builder().headers([Dialect::Ietf, Dialect::RetryAfter]);
    /// ```
    pub fn headers(mut self, dialects: impl IntoIterator<Item = Dialect>) -> Self {
        self.headers.dialects = dialects.into_iter().collect();
        self
    }

    /// Builds the limiter. With counters in Redis it starts their threads, and does not wait
    /// for a connection: see [`Limiter::ready`].
    ///
    /// ```
    /// let limiter = tollgate_limiter::Limiter::builder().build()?;
    /// # Ok::<_, tollgate_limiter::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// If the settings contradict themselves, or a thread cannot be started.
    pub fn build(self) -> Result<Limiter, BuildError> {
        let (policies, settings) = self.compile()?;
        let Self { client, store, clock, headers, .. } = self;
        let keys = client.key_source();
        Parts { policies, client: settings, keys, store, clock, headers, overrides: None }.build()
    }

    /// Builds the limiter with these policies besides those that were added, and returns a handle
    /// of each.
    ///
    /// ```
    /// use tollgate_limiter::{Key, Limiter, Policy};
    ///
    /// let (limiter, [mails, jobs]) = Limiter::builder().build_with([
    ///     Policy::new("mails", Key::Custom, "100/day".parse()?),
    ///     Policy::new("jobs", Key::Custom, "10/s".parse()?),
    /// ])?;
    /// assert_eq!((mails.name(), jobs.name()), ("mails", "jobs"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`build`](Self::build).
    pub fn build_with<const N: usize>(
        mut self,
        policies: [Policy; N],
    ) -> Result<(Limiter, [PolicyHandle; N]), BuildError> {
        let first = self.policies.len();
        self.policies.extend(policies);
        let limiter = self.build()?;
        let handle = |index: usize| PolicyHandle(Arc::clone(&limiter.0.policies[first + index]));
        let handles = std::array::from_fn(handle);
        Ok((limiter, handles))
    }

    /// The policies as a gateway has them, and how it recognises clients. Not part of the stable
    /// interface.
    ///
    /// # Errors
    /// If the settings contradict themselves.
    #[doc(hidden)]
    pub fn compile(&self) -> Result<(Vec<Arc<policy::Policy>>, ClientSettings), BuildError> {
        let client = self.client.compile().map_err(BuildError::Client)?;
        let is_shared = self.store.is_shared();
        let has = ClientFacts {
            // An application can pass the users itself.
            user: true,
            token: client.reads_tokens(),
            place: false,
            keys: client.keys.is_some(),
            classes: false,
            agents: false,
            trusted_proxy: !client.trusted_proxies.is_empty(),
        };
        let facts = Facts {
            client: &client,
            has,
            shares_store: is_shared,
            keeps_overrides: is_shared,
            usual_mode: StoreMode::default(),
            prices: Written::Absent,
        };
        let mut policies = Vec::new();
        let mut faults = Vec::new();
        for policy in &self.policies {
            match policy.compile(&facts) {
                Ok(policy) => policies.push(Arc::new(policy)),
                Err(found) => faults.extend(found),
            }
        }
        if faults.is_empty() { Ok((policies, client)) } else { Err(BuildError::Policies(faults)) }
    }
}

/// The parts of a limiter, in the form that a gateway has them. Not part of the stable
/// interface.
#[derive(Debug)]
pub struct Parts {
    /// The policies.
    pub policies: Vec<Arc<policy::Policy>>,
    /// How the client of a request is recognised.
    pub client: ClientSettings,
    /// Where API keys are looked up that the settings do not contain.
    pub keys: KeySource,
    /// Where the counters are.
    pub store: Store,
    /// The time of decisions.
    pub clock: Clock,
    /// The header fields about limits.
    pub headers: HeaderSettings,
    /// The limits of single keys in a file, with the secret of their keys. None: those in
    /// Redis, if the store is there and a policy has them.
    pub overrides: Option<(SharedOverrides, Secret)>,
}

impl Parts {
    /// Builds the limiter.
    ///
    /// # Errors
    /// If the parts contradict each other, or a thread cannot be started.
    pub fn build(self) -> Result<Limiter, BuildError> {
        let mut names = HashMap::new();
        for policy in &self.policies {
            if names.insert(&policy.name, ()).is_some() {
                return Err(BuildError::SameName(policy.name.to_string()));
            }
        }
        self.check_counters()?;
        self.store.check().map_err(BuildError::Store)?;
        #[cfg(all(feature = "keys", feature = "redis"))]
        if matches!(self.keys, KeySource::Redis(_)) && !self.store.is_shared() {
            let message = "API keys in Redis need counters in Redis: add Store::redis";
            return Err(BuildError::Client(message.into()));
        }
        Limiter::of_parts(self)
    }

    /// In a state in Redis, a few bytes of its digest identify a counter. No two counters may
    /// have the same.
    fn check_counters(&self) -> Result<(), BuildError> {
        let mut counters = HashMap::new();
        let mut limits = HashMap::new();
        for policy in &self.policies {
            let stored = policy.counters().map(|counter| u64::from(counter.stored()));
            check_distinct(&mut counters, policy, stored)?;
            let kept_as = policy.overrides.iter().map(|it| it.kept_as.bits() >> 32);
            check_distinct(&mut limits, policy, kept_as)?;
        }
        Ok(())
    }
}

fn check_distinct<'p>(
    taken: &mut HashMap<u64, &'p policy::Policy>,
    policy: &'p policy::Policy,
    identifiers: impl Iterator<Item = u64>,
) -> Result<(), BuildError> {
    for identifier in identifiers {
        match taken.entry(identifier) {
            Entry::Vacant(entry) => drop(entry.insert(policy)),
            Entry::Occupied(entry) => {
                let one = entry.get().name.to_string();
                let other = policy.name.to_string();
                return Err(BuildError::SameCounter(one, other));
            }
        }
    }
    Ok(())
}

impl Limiter {
    /// Begins to build a limiter.
    ///
    /// ```
    /// let limiter = tollgate_limiter::Limiter::builder().build()?;
    /// # Ok::<_, tollgate_limiter::BuildError>(())
    /// ```
    pub fn builder() -> LimiterBuilder {
        LimiterBuilder::default()
    }

    /// A limiter with one policy, and counters in memory.
    ///
    /// ```
    /// use tollgate_limiter::{Key, Limiter, Policy};
    ///
    /// let limiter = Limiter::new(Policy::new("per-client", Key::Ip, "100/minute".parse()?))?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the policy contradicts itself.
    pub fn new(policy: Policy) -> Result<Self, BuildError> {
        Self::builder().policy(policy).build()
    }

    fn of_parts(parts: Parts) -> Result<Self, BuildError> {
        let Parts { policies, client, keys: key_source, store, clock, headers, overrides } = parts;
        let (overrides, secret) = match overrides {
            Some((overrides, secret)) => (Some(overrides), secret),
            None => (None, Secret::random()),
        };
        let secret = Arc::new(SharedSecret::new(secret));
        let has_overrides = policies.iter().any(|policy| policy.overrides.is_some());
        let overrides = match overrides {
            None if has_overrides && store.is_shared() => Some(SharedOverrides::in_store()),
            given => given,
        };
        let shared = shared(&store, overrides, &key_source, &secret, clock.time().clone())?;
        let keys = policies.iter().flat_map(|policy| policy.keys());
        let reads_time = client.reads_tokens() || client.keys.is_some();
        let clients = Clients::new(client, keys, secret);
        let headers = HeaderWriter::new(&headers);
        let inner = Inner { shared, clients, policies, headers, key_source, reads_time, clock };
        Ok(Self(Arc::new(inner)))
    }
}

/// The limiter of all threads for this store.
#[cfg_attr(
    not(all(feature = "keys", feature = "redis")),
    allow(unused_variables, reason = "counters in memory have no keys and no common secret")
)]
fn shared(
    store: &Store,
    overrides: Option<SharedOverrides>,
    key_source: &KeySource,
    secret: &Arc<SharedSecret>,
    clock: time::Clock,
) -> Result<SharedLimiter, BuildError> {
    let memory = MemoryStore::new(store.max_keys);
    let sizes = [store.lanes, store.max_pending];
    let of_lane = |store| LaneStore {
        store,
        overrides: overrides.clone(),
        #[cfg(all(feature = "keys", feature = "redis"))]
        keys: key_source.stored(),
        clock: clock.clone(),
    };
    #[cfg(feature = "redis")]
    if let Some(settings) = store.redis.clone() {
        use tollgate_redis::NodeState;
        let node = NodeState::new(settings, Arc::new(memory), Arc::clone(secret));
        let store = SharedStore::Remote(Arc::new(node));
        return Ok(SharedLimiter::on_lanes(of_lane(store), sizes)?);
    }
    if overrides.is_none() {
        return Ok(SharedLimiter::in_memory(memory, clock));
    }
    let store = SharedStore::Memory(Arc::new(memory));
    Ok(SharedLimiter::on_lanes(of_lane(store), sizes)?)
}
