//! Asks all Sentinels for the master, and then the servers that they name.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::report::{ServerKind, ServerReport};
use super::scope::ProbeScope;
use super::server::{self, MAX_SERVERS};
use crate::connect::{
    MASTER, REPLICAS, Target, ask_sentinel, healthy_replicas, named_master, of_sentinel,
};
use crate::failure::StoreError;
use crate::settings::{Address, ReadFrom, RedisSettings};
use crate::transport::NETWORK;

/// What one Sentinel names.
#[derive(Debug, Default)]
struct Named {
    master: Option<Address>,
    replicas: Vec<Address>,
}

/// The reports of the Sentinels, of each master that they name, and of the replicas if they are
/// read.
pub(super) async fn probe(
    settings: &RedisSettings,
    sentinels: &[Address],
    master_name: &str,
    scope: ProbeScope,
) -> Vec<ServerReport> {
    let asked = sentinels.iter().take(MAX_SERVERS);
    let asked = asked.map(|sentinel| one(settings, sentinel, master_name, scope.limit));
    let mut reports = Vec::new();
    let mut masters = Vec::new();
    let mut replicas = Vec::new();
    for (report, named) in join_all(asked).await {
        reports.push(report);
        masters.extend(named.master);
        replicas.extend(named.replicas);
    }
    for named in [&mut masters, &mut replicas] {
        named.sort();
        named.dedup();
        named.truncate(MAX_SERVERS);
    }
    let masters = masters.iter().map(|address| async move {
        let target = Target::Fixed(address.clone());
        server::master(settings, address, &target, scope).await
    });
    let replicas = replicas.iter().map(|it| server::replica(settings, it, None, scope.limit));
    let (masters, replicas) = tokio::join!(join_all(masters), join_all(replicas));
    reports.extend(masters);
    reports.extend(replicas);
    reports
}

async fn one(
    settings: &RedisSettings,
    sentinel: &Address,
    master_name: &str,
    limit: Duration,
) -> (ServerReport, Named) {
    let mut report = ServerReport::new(sentinel, ServerKind::Sentinel);
    let mut named = Named::default();
    let asked = timeout(limit, ask(settings, sentinel, master_name, &mut report, &mut named));
    let asked = asked.await.ok();
    let asked = asked.map(|asked| asked.map_err(|error| of_sentinel(error, sentinel)));
    server::conclude(&mut report, asked, settings, sentinel, limit).await;
    (report, named)
}

async fn ask(
    settings: &RedisSettings,
    sentinel: &Address,
    master_name: &str,
    report: &mut ServerReport,
    named: &mut Named,
) -> Result<(), StoreError> {
    let answer = ask_sentinel(&*NETWORK, settings, sentinel, MASTER, master_name).await?;
    let master = named_master(answer, master_name)?;
    report.is_connected = true;
    report.names.push(master.to_string());
    named.master = Some(master);
    if settings.read_from == ReadFrom::Replica {
        let answer = ask_sentinel(&*NETWORK, settings, sentinel, REPLICAS, master_name).await?;
        named.replicas = healthy_replicas(answer, master_name)?;
    }
    Ok(())
}
