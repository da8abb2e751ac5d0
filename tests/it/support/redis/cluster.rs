//! Three masters with a replica each, as one Redis Cluster.

use super::{LOOPBACK, Options, Redis};
use crate::support::eventually;

/// The number of nodes.
const NODES: usize = 6;
/// The time of silence after which the other nodes treat a node as failed.
const NODE_TIMEOUT_MS: u32 = 1000;

/// A cluster that covers all slots.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Redis>,
}

impl Cluster {
    /// Starts the nodes, and waits until all of them report a complete cluster.
    pub(crate) fn start() -> Self {
        Self::start_with(Options::default())
    }

    /// The same, with these options for the nodes.
    pub(crate) fn start_with(mut options: Options) -> Self {
        options.lines.extend([
            "cluster-enabled yes".to_owned(),
            format!("cluster-node-timeout {NODE_TIMEOUT_MS}"),
            "cluster-replica-validity-factor 0".to_owned(),
            "cluster-allow-replica-migration no".to_owned(),
            "repl-diskless-sync-delay 0".to_owned(),
        ]);
        if options.tls.is_some() {
            options.lines.push("tls-cluster yes".to_owned());
        }
        let nodes: Vec<Redis> = (0..NODES).map(|_| Redis::start(options.clone())).collect();
        let addresses: Vec<String> = nodes.iter().map(address).collect();
        let mut create = vec!["--cluster", "create"];
        create.extend(addresses.iter().map(String::as_str));
        create.extend(["--cluster-replicas", "1", "--cluster-yes"]);
        nodes[0].cli(&create);
        let cluster = Self { nodes };
        cluster.wait_until_whole();
        for replica in cluster.nodes.iter().filter(|node| !is_master(node)) {
            eventually("a replica has the data of its master", || {
                replica.info("master_link_status").as_deref() == Some("up")
            });
        }
        cluster
    }

    /// The URL in the form that users write.
    pub(crate) fn url(&self) -> String {
        let [first, second, ..] = &self.nodes[..] else { unreachable!("there are six") };
        format!("{}+cluster://{},{}", first.scheme(), address(first), address(second))
    }

    /// The nodes that are masters now.
    pub(crate) fn masters(&self) -> impl Iterator<Item = &Redis> {
        self.nodes.iter().filter(|node| is_master(node))
    }

    /// Kills the first master, waits until its replica has replaced it, and returns the
    /// index of the killed node.
    pub(crate) fn fail_over(&mut self) -> usize {
        let dead = self.nodes.iter().position(is_master).expect("a cluster has masters");
        let masters = self.masters().count();
        self.nodes[dead].kill();
        eventually("a replica replaces its master", || self.masters().count() == masters);
        self.wait_until_whole();
        dead
    }

    /// Moves this number of slots with their contents from the first master that has slots to the
    /// last master, or from there to the first: all at once if the server can do so (Valkey 9), and
    /// one after the other otherwise.
    pub(crate) fn reshard(&self, slots: usize) {
        let masters: Vec<&Redis> = self.masters().collect();
        let from = masters.iter().find(|node| first_slots(node).is_some());
        let from = from.expect("a master has slots");
        let last = masters[masters.len() - 1];
        let to = if std::ptr::eq(*from, last) { masters[0] } else { last };
        let [from_id, to_id] = [from, to].map(|node| node.cli(&["CLUSTER", "MYID"]));
        if from.cli(&["CLUSTER", "HELP"]).contains("MIGRATESLOTS") {
            return migrate(from, &to_id, slots);
        }
        from.cli(&[
            "--cluster",
            "reshard",
            &address(from),
            "--cluster-from",
            &from_id,
            "--cluster-to",
            &to_id,
            "--cluster-slots",
            &slots.to_string(),
            "--cluster-yes",
        ]);
    }

    /// Begins to move the slot of a key that exists to another master. The key moves, and the slot
    /// does not: so it is while a move is in progress or interrupted.
    pub(crate) fn begin_to_move(&self, key: &str) {
        let first = &self.nodes[0];
        let slot = first.cli(&["CLUSTER", "KEYSLOT", key]);
        let keys = |node: &&Redis| node.cli(&["CLUSTER", "COUNTKEYSINSLOT", &slot]) != "0";
        let from = self.masters().find(keys).expect("a master has the key");
        let to = self.masters().find(|to| !std::ptr::eq(*to, from)).expect("there are others");
        let [from_id, to_id] = [from, to].map(|node| node.cli(&["CLUSTER", "MYID"]));
        to.cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
        from.cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
        let port = to.port().to_string();
        let moved = from.cli(&["MIGRATE", LOOPBACK, &port, key, "0", "5000"]);
        assert_eq!(moved, "OK", "{key}");
    }

    /// Waits until every running node serves all slots.
    pub(crate) fn wait_until_whole(&self) {
        for node in &self.nodes {
            eventually("a node reports a complete cluster", || {
                let info = node.try_cli(&["CLUSTER", "INFO"]);
                info.map_or(true, |info| info.contains("cluster_state:ok"))
            });
        }
    }
}

/// Moves so many of the first slots of a master, or all that follow each other, to another one, and
/// waits until they have moved.
fn migrate(from: &Redis, to_id: &str, slots: usize) {
    let (first, end) = first_slots(from).expect("the master has slots");
    let last = end.min(first + slots - 1);
    let range = [first, last].map(|slot| slot.to_string());
    let command = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &range[0], &range[1], "NODE", to_id];
    let answer = from.cli(&command);
    assert!(answer.contains("OK"), "{answer}");
    eventually("the slots have moved", || first_slots(from).is_none_or(|(slot, _)| slot > last));
}

/// The first slots of this node that follow each other: the first and the last of them.
fn first_slots(node: &Redis) -> Option<(usize, usize)> {
    let nodes = node.cli(&["CLUSTER", "NODES"]);
    let own = nodes.lines().find(|line| line.contains("myself"))?;
    let range = own.split(' ').nth(8)?;
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    Some((first.parse().ok()?, last.parse().ok()?))
}

fn address(node: &Redis) -> String {
    format!("127.0.0.1:{}", node.port())
}

/// Whether the node runs and is a master.
fn is_master(node: &Redis) -> bool {
    node.info("role").as_deref() == Some("master")
}
