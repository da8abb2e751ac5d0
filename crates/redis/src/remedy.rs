//! What an operator can do about each cause for which a server is not used.

use tollgate_core::store::{Outage, OutageCause};

use super::failure::StoreError;
use super::settings::{RedisSettings, Topology};

/// The rules of the ACL for all commands that the gateway needs. They are those of
/// docs/redis.md.
pub(super) const COMMANDS: &str = "+@connection +role +config|get +script|load +eval +evalsha \
                                   +time +get +set +hget +hgetall +hset +hdel +hrandfield \
                                   +expire +pexpire +pttl";

/// The remedy of a cause that this file does not know.
const NO_REMEDY: &str = "see the log of the gateway and of Redis";

/// The remedy for a slot that is moving.
const MOVING: &str = "wait until its slot has moved to the other node; if the move was interrupted, \
                      run redis-cli --cluster fix";

impl StoreError {
    /// What an operator learns of this error at `server`.
    pub(super) fn outage(&self, server: impl Into<String>, settings: &RedisSettings) -> Outage {
        let said = self.said().unwrap_or_default();
        let server = server.into();
        if self.is_of_moving_slot(settings) {
            return Outage::new(&server, OutageCause::Refused, said, MOVING);
        }
        let cause = self.cause();
        Outage::new(&server, cause, said, &remedy(cause, settings))
    }

    /// Whether the slot of the call is moving, or has moved, to another node of a known cluster.
    /// Outside of a known cluster, a redirection shows that the URL is wrong.
    fn is_of_moving_slot(&self, settings: &RedisSettings) -> bool {
        let is_redirected =
            self.is_redirection() && matches!(settings.topology, Topology::Cluster(_));
        is_redirected || self.is_try_again()
    }
}

/// The command that gives the user of the settings these rules of the ACL.
pub(super) fn grant(settings: &RedisSettings, rules: &str) -> String {
    let user = settings.credentials.username.as_deref().unwrap_or("default");
    format!("run ACL SETUSER {user} {rules}")
}

/// What an operator can do. It contains the user and the prefix, and no password.
pub(super) fn remedy(cause: OutageCause, settings: &RedisSettings) -> String {
    let user = settings.credentials.username.as_deref().unwrap_or("default");
    let prefix = &settings.prefix;
    let timeout = settings.timeout.as_millis();
    let plain = match cause {
        OutageCause::KeyForbidden => return grant(settings, &format!("~{prefix}:*")),
        OutageCause::CommandForbidden => return grant(settings, COMMANDS),
        OutageCause::NoAnswer => {
            return format!("see whether it is overloaded, and answers within {timeout} ms");
        }
        OutageCause::PasswordWrong => {
            return format!("compare the password with that of the user {user} in Redis");
        }
        OutageCause::Database => {
            return format!("name another database than {}", settings.database);
        }
        OutageCause::ForeignData => {
            return format!("delete the key under {prefix}:, or choose another prefix");
        }
        OutageCause::MasterUnknown => match &settings.topology {
            Topology::Sentinel { master_name, .. } => {
                return format!("see whether the Sentinels monitor a master named {master_name}");
            }
            _ => "see SENTINEL MASTERS",
        },
        OutageCause::Unreachable => "see whether Redis runs, and whether the address is right",
        OutageCause::Closed if settings.tls.is_none() => {
            "see the log of Redis; if the server expects TLS, write rediss:// instead of redis://"
        }
        OutageCause::Closed => "see the log of Redis",
        OutageCause::Tls => {
            "see whether the server has TLS on this port, its certificate contains the name in the \
             URL, and both sides trust the authority of the other"
        }
        OutageCause::NotRedis => {
            "see whether Redis listens on this port; if it expects TLS, write rediss:// instead of \
             redis://"
        }
        OutageCause::Protected => "give Redis a password, or set protected-mode no",
        OutageCause::TooManyConnections => "raise maxclients of Redis, or use fewer connections",
        OutageCause::PasswordMissing => {
            "give the password, as in redis://user:password@host or in store.redis.password"
        }
        OutageCause::PasswordCommand => "run the program as the user of the gateway",
        OutageCause::PasswordUnknown => "leave out the password, or set requirepass in Redis",
        OutageCause::CommandMissing => {
            "use Redis 6.2 or later or Valkey, without renamed or disabled commands"
        }
        OutageCause::MemoryFull => "raise maxmemory of Redis, or remove data of other programs",
        OutageCause::TooFewReplicas => {
            "bring the replicas back, or set min-replicas-to-write 0 in Redis"
        }
        OutageCause::CannotPersist => {
            "see the log of Redis and the space on its disk, or set stop-writes-on-bgsave-error no"
        }
        OutageCause::ReadOnly => "name the master, or the Sentinels that know it",
        OutageCause::Loading => "wait until Redis has loaded its data",
        OutageCause::MasterDown => "bring the master back, or promote a replica",
        OutageCause::Busy => "end the script of the other program with SCRIPT KILL",
        OutageCause::ClusterDown => "see CLUSTER INFO, and the nodes that are down",
        OutageCause::ClusterNode => "write redis+cluster:// instead of redis://",
        OutageCause::NoCluster => "write redis:// instead of redis+cluster://",
        OutageCause::Sentinel => "write redis+sentinel://host:26379/name-of-master",
        OutageCause::NoSentinel => "write redis:// for a server, or the port of a Sentinel (26379)",
        OutageCause::SentinelPassword => {
            "give the user and the password of the Sentinels in store.redis.sentinel"
        }
        OutageCause::Refused => "see the log of Redis",
        // The compiler asks for this, because the type belongs to another crate. A test holds that
        // no cause comes here.
        _ => NO_REMEDY,
    };
    plain.to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::failure::Refusal;
    use super::super::settings::{Address, Password};
    use super::*;

    #[test]
    fn each_cause_has_a_remedy_without_a_password() {
        let mut settings = RedisSettings::new(Topology::Standalone(Address::tcp("h", 1)));
        settings.credentials.username = Some("ann".to_owned());
        settings.credentials.password = Some(Password::new("hunter2"));
        for &cause in OutageCause::ALL {
            let error = StoreError::NotConnected(cause, "it said so".to_owned());
            let text = error.outage("h:1", &settings).to_string();
            assert!(text.starts_with(&format!("h:1: {}: it said so; ", cause.text())), "{text}");
            assert!(!text.contains("hunter2") && !text.ends_with("; "), "{text}");
            assert_ne!(remedy(cause, &settings), NO_REMEDY, "{cause:?}");
        }
    }

    #[test]
    fn a_redirection_within_a_cluster_is_not_a_mistake_in_the_url() {
        let to = Address::tcp("h", 2);
        let seeds = vec![Address::tcp("h", 1)];
        for refusal in [Refusal::Moved(to.clone()), Refusal::Ask(to)] {
            let error = StoreError::Refused(refusal, "MOVED 1 h:2".to_owned());
            let of = |topology| error.outage("h:1", &RedisSettings::new(topology));
            let within = of(Topology::Cluster(seeds.clone()));
            assert_eq!((within.cause, &*within.remedy), (OutageCause::Refused, MOVING));
            let outside = of(Topology::Standalone(Address::tcp("h", 1)));
            assert_eq!(outside.cause, OutageCause::ClusterNode);
        }
    }

    #[test]
    fn the_remedy_for_a_right_is_the_command_that_gives_it() {
        let mut settings = RedisSettings::new(Topology::Standalone(Address::tcp("h", 1)));
        settings.credentials.username = Some("ann".to_owned());
        settings.prefix = "limits".to_owned();
        assert_eq!(remedy(OutageCause::KeyForbidden, &settings), "run ACL SETUSER ann ~limits:*");
        let commands = remedy(OutageCause::CommandForbidden, &settings);
        let document = std::fs::read_to_string("../../docs/redis.md").expect("the documentation");
        let rules = commands.strip_prefix("run ACL SETUSER ann ").expect("a command");
        assert!(document.contains(rules), "docs/redis.md has other rules than {rules}");
    }
}
