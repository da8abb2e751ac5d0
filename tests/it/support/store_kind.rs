//! The kinds of stores. Clients observe the same behaviour with all of them, so tests of
//! limits run once with each kind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tollgate_redis::RedisSettings;

use super::redis::{Redis, shared_cluster, shared_server, shared_shards};
use super::{Gateway, Origin};

/// The timeout of decisions. It is long, so that a busy machine does not look like an
/// unavailable Redis.
const PATIENCE: Duration = Duration::from_secs(2);

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// The gateway's own memory.
    Memory,
    /// One Redis server.
    Standalone,
    /// A Redis Cluster: counters of different clients lie in different slots.
    Cluster,
    /// Servers without a common cluster.
    Sharded,
}

impl StoreKind {
    /// A gateway with this configuration, whose counters are in this store under a new
    /// prefix.
    pub(crate) fn start(self, yaml: &str) -> Gateway {
        Gateway::start(&format!("{yaml}{}", self.store()))
    }

    /// See [`Gateway::limiting`].
    pub(crate) fn limiting(self, origin: &Origin, policy: &str) -> Gateway {
        self.limiting_with(origin, policy, "")
    }

    /// See [`Gateway::limiting_with`].
    pub(crate) fn limiting_with(self, origin: &Origin, policy: &str, top: &str) -> Gateway {
        Gateway::limiting_with(origin, policy, &format!("{top}\n{}", self.store()))
    }

    /// The section of the configuration.
    fn store(self) -> String {
        self.redis()
            .map_or_else(String::new, |redis| format!("store: {{ redis: {{ {redis} }} }}\n"))
    }

    /// The fields of `store.redis` with a new prefix. None for the gateway's own memory.
    pub(crate) fn redis(self) -> Option<String> {
        let servers = match self {
            Self::Memory => return None,
            Self::Standalone => format!("url: \"{}\"", shared_server().url()),
            Self::Cluster => format!("url: \"{}\"", shared_cluster().url()),
            Self::Sharded => {
                let urls = shared_shards().each_ref().map(|shard| format!("\"{}\"", shard.url()));
                format!("shards: [{}]", urls.join(", "))
            }
        };
        Some(format!("{servers}, prefix: {}, timeout: {}s", prefix(), PATIENCE.as_secs()))
    }

    /// The same settings for the library.
    pub(crate) fn settings(self) -> Option<RedisSettings> {
        let parsed = match self {
            Self::Memory => return None,
            Self::Standalone => RedisSettings::parse_url(&shared_server().url()),
            Self::Cluster => RedisSettings::parse_url(&shared_cluster().url()),
            Self::Sharded => {
                let urls = shared_shards().each_ref().map(Redis::url);
                RedisSettings::parse_shards(urls.iter().map(String::as_str))
            }
        };
        let mut settings = parsed.expect("the URLs are valid");
        (settings.prefix, settings.timeout) = (prefix(), PATIENCE);
        Some(settings)
    }
}

/// A prefix that no other call returns.
fn prefix() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Makes tests of functions that take a [`StoreKind`]: one for each kind of store.
macro_rules! on_every_store {
    ($($test:ident),+ $(,)?) => {
        on_every_store! { @memory Memory: $($test)+ }
        on_every_store! { @standalone Standalone: $($test)+ }
        on_every_store! { @cluster Cluster: $($test)+ }
        on_every_store! { @sharded Sharded: $($test)+ }
    };
    (@$module:ident $kind:ident: $($test:ident)+) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    super::$test($crate::support::StoreKind::$kind);
                }
            )+
        }
    };
}
pub(crate) use on_every_store;
