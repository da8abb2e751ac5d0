//! Servers that all tests of this process share, each test with its own prefix. They start
//! when the first test needs them.
//!
//! A static is never dropped. So a shell watches over the servers: it reads from a pipe
//! that closes when this process ends, and then kills them.

use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use super::{Cluster, Options, Redis};

/// The values that keep the servers running while this process lives.
type Watched<T> = OnceLock<(T, Child)>;

/// One server.
pub(crate) fn shared_server() -> &'static Redis {
    static SERVER: Watched<Redis> = OnceLock::new();
    let start = || {
        let server = Redis::start(Options::default());
        let watch = watch([&server]);
        (server, watch)
    };
    &SERVER.get_or_init(start).0
}

/// Three servers without a common cluster.
pub(crate) fn shared_shards() -> &'static [Redis; 3] {
    static SHARDS: Watched<[Redis; 3]> = OnceLock::new();
    let start = || {
        let shards = [(); 3].map(|()| Redis::start(Options::default()));
        let watch = watch(&shards);
        (shards, watch)
    };
    &SHARDS.get_or_init(start).0
}

/// A cluster whose slots are not moved.
pub(crate) fn shared_cluster() -> &'static Cluster {
    static CLUSTER: Watched<Cluster> = OnceLock::new();
    let start = || {
        let cluster = Cluster::start();
        let watch = watch(&cluster.nodes);
        (cluster, watch)
    };
    &CLUSTER.get_or_init(start).0
}

/// Kills the servers, and removes their files, when its standard input closes.
fn watch<'s>(servers: impl IntoIterator<Item = &'s Redis>) -> Child {
    let mut ids = Vec::new();
    let mut directories = Vec::new();
    for server in servers {
        ids.push(server.process_id().to_string());
        directories.push(server.directory().display().to_string());
    }
    Command::new("sh")
        .args(["-c", "cat; kill -KILL $IDS; rm -rf $DIRECTORIES"])
        .envs([("IDS", ids.join(" ")), ("DIRECTORIES", directories.join(" "))])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell")
}
