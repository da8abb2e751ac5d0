//! Asks the nodes of a cluster that the settings name for the map of its slots, and then all nodes
//! of that map.

use std::time::Duration;

use futures_util::future::join_all;
use redis::pipe;
use tokio::time::timeout;
use tollgate_core::store::OutageCause;

use super::report::{ServerKind, ServerReport};
use super::scope::ProbeScope;
use super::server::{self, MAX_SERVERS};
use crate::connect::{self, Peer, Target};
use crate::failure::StoreError;
use crate::remedy::{grant, remedy};
use crate::server::understood;
use crate::settings::{Address, ReadFrom, RedisSettings};
use crate::slots::{Range, SLOTS, text_of_served};
use crate::transport::NETWORK;

/// A master with slots.
struct Node<'r> {
    address: &'r Address,
    /// One of its slots.
    slot: u16,
    /// The number of its slots.
    slots: usize,
    replicas: Vec<&'r Address>,
}

/// The reports of the seeds that are no masters under the same address, of all masters, and of the
/// replicas if they are read.
pub(super) async fn probe(
    settings: &RedisSettings,
    seeds: &[Address],
    scope: ProbeScope,
) -> Vec<ServerReport> {
    let asked = seeds.iter().take(MAX_SERVERS).map(|seed| one(settings, seed, scope.limit));
    let mut reports = Vec::new();
    let mut map = None;
    for (report, ranges) in join_all(asked).await {
        map = map.or(ranges);
        reports.push(report);
    }
    let Some(map) = map else { return reports };
    let nodes = nodes(&map);
    let served: usize = nodes.iter().map(|node| node.slots).sum();
    if served < usize::from(SLOTS)
        && let Some(report) = reports.iter_mut().find(|report| report.outages.is_empty())
    {
        let said = text_of_served(served);
        let remedy = remedy(OutageCause::ClusterDown, settings);
        report.refuse(OutageCause::ClusterDown, &said, remedy);
    }
    reports.retain(|report| {
        let is_master = nodes.iter().any(|node| node.address.to_string() == report.server);
        !(is_master && report.outages.is_empty())
    });
    let masters = nodes.iter().map(|node| async move {
        let target = Target::InCluster(node.address.clone(), node.slot);
        let asked = server::master(settings, node.address, &target, scope).await;
        ServerReport { slots: Some(node.slots), ..asked }
    });
    let are_read = settings.read_from == ReadFrom::Replica;
    let replicas = nodes
        .iter()
        .filter(|_| are_read)
        .flat_map(|node| node.replicas.iter().map(|&address| (address, Some(node.slot))));
    let replicas = replicas
        .take(MAX_SERVERS)
        .map(|(address, slot)| server::replica(settings, address, slot, scope.limit));
    let (masters, replicas) = tokio::join!(join_all(masters), join_all(replicas));
    reports.extend(masters);
    reports.extend(replicas);
    reports
}

/// The masters of a map, in the order of their slots.
fn nodes(map: &[Range]) -> Vec<Node<'_>> {
    let mut nodes: Vec<Node<'_>> = Vec::new();
    for (range, address, replicas) in map {
        let known = nodes.iter().position(|node| node.address == address);
        if known.is_none() && nodes.len() == MAX_SERVERS {
            continue;
        }
        let index = known.unwrap_or_else(|| {
            let slot = *range.start();
            let replicas = replicas.iter().collect();
            nodes.push(Node { address, slot, slots: 0, replicas });
            nodes.len() - 1
        });
        nodes[index].slots += range.len();
    }
    nodes
}

async fn one(
    settings: &RedisSettings,
    seed: &Address,
    limit: Duration,
) -> (ServerReport, Option<Vec<Range>>) {
    let mut report = ServerReport::new(seed, ServerKind::Seed);
    let mut map = None;
    let asked = timeout(limit, ask(settings, seed, &mut report, &mut map)).await;
    match asked {
        // The remedy for all other commands does not have this one.
        Ok(Err(error)) if error.cause() == OutageCause::CommandForbidden => {
            let remedy = grant(settings, "+cluster|slots");
            report.refuse(error.cause(), "CLUSTER SLOTS", remedy);
        }
        asked => server::conclude(&mut report, asked.ok(), settings, seed, limit).await,
    }
    (report, map)
}

async fn ask(
    settings: &RedisSettings,
    seed: &Address,
    report: &mut ServerReport,
    map: &mut Option<Vec<Range>>,
) -> Result<(), StoreError> {
    let mut question = pipe();
    question.cmd("CLUSTER").arg("SLOTS");
    let (_wire, answers) =
        connect::open(&*NETWORK, settings, seed, Peer::Server, &question).await?;
    let ranges = understood(answers, seed)?;
    report.is_connected = true;
    report.names = nodes(&ranges).iter().map(|node| node.address.to_string()).collect();
    *map = Some(ranges);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_of_one_master_are_counted_together() {
        let [a, b, c] = [1, 2, 3].map(|port| Address::tcp("10.0.0.1", port));
        let map = vec![
            (0..=99, a.clone(), vec![c.clone()]),
            (100..=8_191, b.clone(), Vec::new()),
            (8_192..=16_383, a.clone(), vec![c.clone()]),
        ];
        let nodes = nodes(&map);
        let found: Vec<_> = nodes.iter().map(|it| (it.address, it.slot, it.slots)).collect();
        assert_eq!(found, [(&a, 0, 8_292), (&b, 100, 8_092)]);
        assert_eq!(nodes[0].replicas, [&c]);
    }
}
