//! A master, its replica, and three Sentinels that watch them.

use super::{LOOPBACK, Options, Redis};
use crate::support::eventually;

/// The name of the master in the Sentinels.
const NAME: &str = "mymaster";
/// The time of silence after which a Sentinel treats the master as failed.
const DOWN_AFTER_MS: u32 = 500;

/// All five servers.
pub(crate) struct Sentinels {
    pub(crate) master: Redis,
    pub(crate) replica: Redis,
    sentinels: Vec<Redis>,
}

impl Sentinels {
    /// Starts the servers, and waits until the Sentinels know each other and the replica.
    pub(crate) fn start() -> Self {
        Self::start_with(Options::default(), Vec::new())
    }

    /// The same, with these options for the servers, and these lines in the files of the
    /// Sentinels instead of the default ones.
    pub(crate) fn start_with(mut options: Options, lines: Vec<String>) -> Self {
        let password = options.password;
        let mut sentinel = Options { is_sentinel: true, lines, ..options.clone() };
        options.lines.push("repl-diskless-sync-delay 0".to_owned());
        options.lines.extend(password.map(|password| format!("masterauth {password}")));
        let master = Redis::start(options.clone());
        options.lines.push(format!("replicaof {LOOPBACK} {}", master.port()));
        let replica = Redis::start(options);
        // A Sentinel searches for replicas when it starts, and then rarely.
        eventually("the master has its replica", || {
            master.info("slave0").is_some_and(|replica| replica.contains("state=online"))
        });
        sentinel.lines.extend([
            format!("sentinel monitor {NAME} {LOOPBACK} {} 2", master.port()),
            format!("sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}"),
            format!("sentinel failover-timeout {NAME} 5000"),
        ]);
        let auth = password.map(|password| format!("sentinel auth-pass {NAME} {password}"));
        sentinel.lines.extend(auth);
        let sentinels: Vec<Redis> = (0..3).map(|_| Redis::start(sentinel.clone())).collect();
        for sentinel in &sentinels {
            eventually("a Sentinel knows the others", || {
                let known = |what| sentinel.cli(&["SENTINEL", what, NAME]).matches("runid").count();
                (known("SENTINELS"), known("REPLICAS")) == (2, 1)
            });
        }
        Self { master, replica, sentinels }
    }

    /// The URL in the form that users write.
    pub(crate) fn url(&self) -> String {
        let ports = self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port()));
        format!(
            "{}+sentinel://{}/{NAME}",
            self.master.scheme(),
            ports.collect::<Vec<_>>().join(",")
        )
    }

    /// Waits until the Sentinels report the replica as the master, and it is a master.
    pub(crate) fn wait_for_promotion(&self) {
        let port = self.replica.port().to_string();
        for sentinel in &self.sentinels {
            eventually("the replica is promoted", || {
                let named = sentinel.cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
                named.lines().nth(1) == Some(&port)
            });
        }
        eventually("the replica is a master", || {
            self.replica.info("role").as_deref() == Some("master")
        });
    }
}
