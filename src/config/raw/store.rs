//! `store`, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::List;
use crate::config::field::Field;
use crate::config::scalar::{Percent, Period};

/// Where the counters live.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "store")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawStore {
    /// In the memory of this process. With Redis: what counts while Redis is away.
    #[serde(default)]
    pub(in crate::config) memory: Field<RawMemory>,
    /// In Redis, for several nodes. Default: in memory alone.
    #[serde(default)]
    pub(in crate::config) redis: Field<RawRedis>,
    /// The file for limits of single keys where there is no Redis; with Redis they lie there.
    #[serde(default)]
    pub(in crate::config) overrides: Field<RawOverrides>,
}

/// The file for limits of single keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "overrides")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawOverrides {
    /// Where it is; it is made if it is not there.
    pub(in crate::config) path: Field<String>,
}

/// In the memory of this process.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "memory")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawMemory {
    /// How many counters are kept at once. Default: 1_000_000.
    #[serde(default)]
    pub(in crate::config) max_keys: Field<u64>,
}

/// In Redis. One of `url` and `shards` says where it is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "redis")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawRedis {
    /// One server, a cluster, or the Sentinels that know the master: redis://host:6379/0,
    /// rediss:// for TLS, redis+unix:///path/to/socket, redis+cluster://host1,host2,
    /// redis+sentinel://host1,host2/master.
    #[serde(default)]
    pub(in crate::config) url: Field<String>,
    /// Several servers that do not know of each other; every client belongs to one of them.
    #[serde(default)]
    pub(in crate::config) shards: List<String>,
    /// The ACL user. Default: Redis' own default user.
    #[serde(default)]
    pub(in crate::config) username: Field<String>,
    /// The password of that user.
    #[serde(default)]
    pub(in crate::config) password: Field<String>,
    /// Whom to trust and who we are, where the scheme says TLS. Default: whom the system trusts.
    #[serde(default)]
    pub(in crate::config) tls: Field<RawRedisTls>,
    /// How exact the counters of policies are that do not say so themselves. Default: exact.
    #[serde(default)]
    pub(in crate::config) mode: Field<RawStoreMode>,
    /// The most that a decision waits for Redis: up to 10s. Default: 20ms.
    #[serde(default)]
    pub(in crate::config) timeout: Field<Period>,
    /// How long counters in write_back may wait before Redis is told of them: 10ms to 60s. Default: 1s.
    #[serde(default)]
    pub(in crate::config) interval: Field<Period>,
    /// How many connections each worker opens to each server: 1 to 16. A key always goes over
    /// the same one. Default: 1.
    #[serde(default)]
    pub(in crate::config) connections: Field<u64>,
    /// Where limits of single keys are read, where Sentinels or a cluster know replicas. Counters
    /// are always the master's. Default: master.
    #[serde(default)]
    pub(in crate::config) read_from: Field<RawReadFrom>,
    /// How long units are leased in leased.
    #[serde(default)]
    pub(in crate::config) lease: Field<RawLease>,
    /// What the names of all keys begin with. Default: tollgate.
    #[serde(default)]
    pub(in crate::config) prefix: Field<String>,
    /// For how many clients the keys are laid out. Default: 1_000_000.
    #[serde(default)]
    pub(in crate::config) expected_clients: Field<u64>,
    /// 32 hexadecimal digits under which all nodes digest their keys. Default: made by the first
    /// node and kept in Redis.
    #[serde(default)]
    pub(in crate::config) secret: Field<String>,
}

/// Which servers may answer what need not be the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "read_from", rename_all = "snake_case")]
pub(in crate::config) enum RawReadFrom {
    /// The master.
    Master,
    /// A replica, and the master while there is none that follows it.
    Replica,
}

/// How long a node may spend what it has taken in advance: a share of the window, but no longer
/// than a length of time.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "lease")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawLease {
    /// The share of the window: 1% to 20%. As much of the limit may be admitted above it where
    /// the algorithm is token_bucket. Default: 2%.
    #[serde(default)]
    pub(in crate::config) share: Field<Percent>,
    /// The most that it lasts: 10ms to 60s. Default: 10s.
    #[serde(default)]
    pub(in crate::config) length: Field<Period>,
}

/// Whom to trust, and who we are. Paths of files in PEM.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "tls")]
#[schemars(rename = "tls of redis", deny_unknown_fields)]
pub(in crate::config) struct RawRedisTls {
    /// The authorities that may have signed the servers' certificates. Default: the system's.
    #[serde(default)]
    pub(in crate::config) ca: Field<String>,
    /// Our own certificate, for servers that ask for one.
    #[serde(default)]
    pub(in crate::config) cert: Field<String>,
    /// Its private key.
    #[serde(default)]
    pub(in crate::config) key: Field<String>,
}

/// How exact counters are that several nodes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "store_mode", rename_all = "snake_case")]
pub(in crate::config) enum RawStoreMode {
    /// Every admitted request is counted in the store before it goes on.
    Exact,
    /// Each node takes a little in advance and spends it without asking.
    Leased,
    /// Each node counts for itself, and tells the others now and then.
    WriteBack,
}

/// What becomes of a request while the store is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "on_store_failure", rename_all = "snake_case")]
pub(in crate::config) enum RawOnFailure {
    /// This node judges by what it knows, and by its share of the limit.
    Local,
    /// It is admitted, and not counted.
    Allow,
    /// It is refused with 503.
    Deny,
}
