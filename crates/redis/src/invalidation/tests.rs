//! The exchange of marks with a real server.

use tollgate_core::digest::{Counter, Key, Principal};
use tollgate_core::time::Span;

use super::super::outages::Outages;
use super::super::testing::{PATIENCE, Process, run, settings};
use super::super::transport::NETWORK;
use super::*;

fn key(bits: u128) -> Key {
    Key { principal: Principal::from_bits(bits), counter: Counter::from_bits(1) }
}

#[test]
fn another_node_reads_the_announced_marks() {
    run(async {
        let server = Process::start(&[]);
        let settings = settings(server.topology(), PATIENCE);
        let servers = Servers::connect(&settings, &*NETWORK, &Outages::default());
        servers.settled().await;
        let one = Invalidations::default();
        let other = Invalidations::default();
        let clock = Clock::System;
        let tell = async |node: &Invalidations| {
            exchange(node, &servers, "rl", &clock).await.expect("Redis answers");
        };
        tell(&other).await;
        let asked = clock.now();
        assert!(other.is_current(&key(7), asked, asked));
        one.announce(&key(7));
        assert!(one.are_due());
        tell(&one).await;
        tell(&other).await;
        assert!(!one.are_due());
        assert!(!other.is_current(&key(7), asked, asked), "it is out of date");
        assert!(other.is_current(&key(8), asked, asked), "another part is not");
        let later = clock.now().plus(Span::MILLISECOND);
        tell(&other).await;
        assert!(other.is_current(&key(7), later, later), "nothing has changed since");
    });
}

#[test]
fn marks_that_could_not_be_written_are_written_the_next_time() {
    run(async {
        let server = Process::start(&[]);
        let settings = settings(server.topology(), PATIENCE);
        let servers = Servers::connect(&settings, &*NETWORK, &Outages::default());
        servers.settled().await;
        let node = Invalidations::default();
        node.announce(&key(7));
        drop(server);
        assert!(exchange(&node, &servers, "rl", &Clock::System).await.is_err());
        assert!(node.are_due());
    });
}
