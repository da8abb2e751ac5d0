//! Warns of settings of Redis by which it forgets clients, or uses more memory than it needs.
//!
//! Each server is asked when there is a new connection to it: it may come after this node, its
//! settings may be others after a restart, and another server may have its place. The log has what
//! is new.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::join_all;
use redis::{Pipeline, Value, pipe};
use tracing::{info, warn};

use super::compact::{self, TooSmall};
use super::failure::StoreError;
use super::link::Link;
use super::server::Servers;

/// What is known of the servers of a store, by their names.
#[derive(Debug, Default)]
pub(super) struct MemorySettings(BTreeMap<String, Known>);

#[derive(Debug)]
struct Known {
    /// The number of the connection by which the server has answered.
    connection: u64,
    found: Found,
}

/// What a server has answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// What it does when its memory is full. None if it says so by no command.
    pub(super) policy: Option<String>,
    pub(super) too_small: Vec<TooSmall>,
}

/// A link to a server that has not answered by this connection.
struct Unasked {
    link: Rc<Link>,
    server: String,
    connection: u64,
}

impl MemorySettings {
    /// Asks the servers with a new connection, and logs what differs from their last answers. A
    /// server that does not answer is asked again the next time.
    pub(super) async fn check(&mut self, servers: &Servers) {
        let links = servers.one_link_each();
        let names: Vec<String> = links.iter().map(|link| link.name()).collect();
        self.0.retain(|server, _| names.contains(server));
        let unasked: Vec<Unasked> = links
            .into_iter()
            .zip(names)
            .filter_map(|(link, server)| self.unasked(link, server))
            .collect();
        let answers = join_all(unasked.iter().map(|it| ask(&it.link))).await;
        for (Unasked { server, connection, .. }, answer) in unasked.into_iter().zip(answers) {
            let Ok(found) = answer else { continue };
            if self.0.get(&server).is_none_or(|known| known.found != found) {
                found.log(&server);
            }
            self.0.insert(server, Known { connection, found });
        }
    }

    fn unasked(&self, link: Rc<Link>, server: String) -> Option<Unasked> {
        let connection = link.connection()?;
        let is_known = self.0.get(&server).is_some_and(|known| known.connection == connection);
        (!is_known).then_some(Unasked { link, server, connection })
    }
}

/// Asks for the settings. Servers that do not have `CONFIG` are asked by `INFO`.
async fn ask(link: &Link) -> Result<Found, StoreError> {
    let mut found = Found::of(link.query(&question()).await?);
    if found.policy.is_none() {
        let mut command = pipe();
        command.cmd("INFO").arg("memory");
        found.policy = link.query(&command).await?.into_iter().next().and_then(policy_of_info);
    }
    Ok(found)
}

/// The commands for the settings.
pub(super) fn question() -> Pipeline {
    let mut commands = pipe();
    commands.cmd("CONFIG").arg("GET").arg("maxmemory-policy");
    commands.cmd("CONFIG").arg("GET").arg(compact::SETTINGS);
    commands
}

impl Found {
    /// What the answers to [`question`] say.
    pub(super) fn of(answers: Vec<Value>) -> Self {
        let mut answers = answers.into_iter();
        Self {
            policy: answers.next().and_then(policy_of_config),
            too_small: answers.next().map(compact::too_small).unwrap_or_default(),
        }
    }

    /// With each key that a server evicts it forgets about a hundred clients.
    fn log(&self, server: &str) {
        match self.policy.as_deref() {
            Some("noeviction") => {}
            Some(policy) => warn!(
                %server, %policy,
                "Redis forgets clients when its memory is full; set maxmemory-policy noeviction"
            ),
            None => info!(
                %server,
                "it is not known whether Redis forgets clients when its memory is full: neither \
                 CONFIG GET nor INFO tells its maxmemory-policy; see that it is noeviction"
            ),
        }
        for TooSmall { setting, is, needed } in &self.too_small {
            warn!(
                %server, %setting, is, needed,
                "a client takes up to twice as much memory in Redis; set it to what is needed"
            );
        }
    }
}

/// The value in an answer to `CONFIG GET` of one name.
fn policy_of_config(answer: Value) -> Option<String> {
    let Value::Array(pair) = answer else { return None };
    match pair.into_iter().nth(1)? {
        Value::BulkString(policy) => String::from_utf8(policy).ok(),
        _ => None,
    }
}

/// The value in an answer to `INFO memory`.
pub(super) fn policy_of_info(answer: Value) -> Option<String> {
    let Value::BulkString(text) = answer else { return None };
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("maxmemory_policy:"))?;
    Some(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outages::Outages;
    use crate::settings::Topology;
    use crate::testing::{ECHO, PATIENCE, Process, eventually, run, settings};

    /// The policy that is known of each server.
    fn policies(known: &MemorySettings) -> Vec<&str> {
        known.0.values().filter_map(|it| it.found.policy.as_deref()).collect()
    }

    /// Servers were asked once, when the node started.
    #[test]
    fn servers_are_asked_when_they_come_and_when_they_come_back() {
        run(async {
            let mut shards = [Process::start(&[]), Process::start(&[])];
            let topology = Topology::Shards(shards.iter().map(Process::address).collect());
            shards[1].kill();
            let settings = settings(topology, PATIENCE);
            let servers = Servers::connect(&settings, &*ECHO, &Outages::default());
            servers.settled().await;
            let mut known = MemorySettings::default();
            known.check(&servers).await;
            assert_eq!(policies(&known), ["noeviction"]);
            shards[1].restart();
            eventually("the other one is asked too", async || {
                known.check(&servers).await;
                policies(&known) == ["noeviction"; 2]
            })
            .await;
            for shard in &shards {
                shard.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
            }
            known.check(&servers).await;
            assert_eq!(policies(&known), ["noeviction"; 2], "there is no new connection");
            for shard in &shards {
                shard.command(&["CLIENT", "KILL", "TYPE", "normal"]);
            }
            eventually("both are asked again", async || {
                known.check(&servers).await;
                policies(&known) == ["allkeys-lru"; 2]
            })
            .await;
        });
    }
}
