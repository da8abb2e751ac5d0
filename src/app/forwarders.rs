//! Tells in the log that a peer names clients in a forwarding field and is not trusted: behind such
//! a proxy all clients are one client.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tracing::warn;

use crate::telemetry::Forwarders;

/// The interval of the looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// So many looks are one period: five minutes.
const LOOKS: usize = 300;
/// The most peers that are told of, so that clients cannot fill the log.
const MAX_TOLD: usize = 64;

/// Looks at the peers until the task is dropped. Each of them is told of once.
pub async fn watch(forwarders: Arc<Forwarders>) {
    let mut told = BTreeSet::<IpAddr>::new();
    loop {
        for _ in 0..LOOKS {
            for forwarder in forwarders.all() {
                if told.len() < MAX_TOLD && told.insert(forwarder.peer) {
                    warn!(
                        peer = %forwarder.peer,
                        "{forwarder}, if it is a proxy of yours: a client can forge the field"
                    );
                }
            }
            sleep(INTERVAL).await;
        }
        forwarders.rotate();
    }
}
