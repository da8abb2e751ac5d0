//! A link to a server that misbehaves, and to a real server.

mod fake;
mod late;
mod real;
mod renewal;

use std::time::Duration;

use super::super::deadline::Reply;
use super::super::testing::{ECHO, FakeServer, Manner, Process, asked, eventually, run, settings};
use super::super::testing::{PATIENCE, timed};
use super::*;

impl Link {
    fn begin(&self, key: &str, body: &str, repeat: Repeat) -> PendingReply {
        let deadline = monotonic() + self.shared.timeout;
        self.call(asked(key, body), repeat, deadline, 0, false)
    }

    async fn ask(&self, key: &str, body: &str) -> Reply {
        self.begin(key, body, Repeat::Never).await
    }
}

/// The timeout of the link in tests that wait for it.
const SHORT: Duration = Duration::from_millis(100);

async fn linked(topology: super::super::Topology, timeout: Duration) -> Link {
    let super::super::Topology::Standalone(address) = topology.clone() else {
        panic!("these tests have one server");
    };
    let link =
        Link::new(settings(topology, timeout), &*ECHO, Target::Fixed(address), &Outages::default());
    link.settled().await;
    link
}
