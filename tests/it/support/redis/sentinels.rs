//! A master, its replica, and three Sentinels that watch them.

use super::{LOOPBACK, Options, Redis};
use crate::support::eventually;

/// By this name the Sentinels know the master.
const NAME: &str = "mymaster";
/// So long may the master be silent until a Sentinel takes it for dead.
const DOWN_AFTER_MS: u32 = 500;

/// All five of them.
pub(crate) struct Sentinels {
    pub(crate) master: Redis,
    pub(crate) replica: Redis,
    sentinels: Vec<Redis>,
}

impl Sentinels {
    /// Starts them, and waits until the Sentinels know each other and the replica.
    pub(crate) fn start() -> Self {
        Self::start_with(Options::default(), Vec::new())
    }

    /// The same of servers that have these options, and Sentinels that have these
    /// lines in place of theirs.
    pub(crate) fn start_with(mut options: Options, lines: Vec<String>) -> Self {
        let password = options.password;
        let mut sentinel = Options { is_sentinel: true, lines, ..options.clone() };
        options.lines.push("repl-diskless-sync-delay 0".to_owned());
        options.lines.extend(password.map(|password| format!("masterauth {password}")));
        let master = Redis::start(options.clone());
        options.lines.push(format!("replicaof {LOOPBACK} {}", master.port()));
        let replica = Redis::start(options);
        // A Sentinel looks for replicas when it starts, and then rarely.
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

    /// The URL as a user would write it.
    pub(crate) fn url(&self) -> String {
        let ports = self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port()));
        format!(
            "{}+sentinel://{}/{NAME}",
            self.master.scheme(),
            ports.collect::<Vec<_>>().join(",")
        )
    }

    /// Waits until the Sentinels name the replica as the master, and it is one.
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
